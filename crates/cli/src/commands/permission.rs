//! `abide permission explain`.

use std::sync::Arc;

use abide_core::session::place::Place as _;
use abide_core::shell::explain::explain;
use abide_core::shell::scan::Dialect;

use abide_schema::AgentId;
use abide_schema::location::LocationRef;
use abide_schema::permission::{Effect, Rule};

use crate::args::{Format, Global, PermissionCommand};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

pub(crate) async fn run(global: Global, command: PermissionCommand) -> Result<Exit, CliError> {
    let PermissionCommand::Explain { line, agent, format } = command;
    let instance = Instance::open(&global).await?;
    let result = show(&global, &instance, &line, agent.as_deref(), format.format).await;
    instance.close().await;
    result
}

async fn show(
    global: &Global,
    instance: &Instance,
    line: &str,
    agent: Option<&str>,
    format: Format,
) -> Result<Exit, CliError> {
    let directory = instance::directory(global)?;
    let location = instance.location(&LocationRef::new(directory.to_string_lossy())).await?;
    let agent = agent.map(AgentId::new);
    let agent = location.agent(agent.as_ref()).map_err(|error| CliError::usage(error.to_string()))?;
    let saved = instance.app.store().saved_permissions(Some(&location.info().project.id)).await?;
    let saved: Vec<Rule> = saved.into_iter().map(|rule| Rule::new(rule.action, rule.resource, Effect::Allow)).collect();
    let (access, secret_files) = (Arc::clone(location.access()), location.secret_files().clone());
    let (text, rules) = (line.to_owned(), agent.permissions.clone());
    let found =
        tokio::task::spawn_blocking(move || explain(&text, Dialect::Bash, &access, &secret_files, &rules, &saved));
    let failed = |error: &dyn std::error::Error| CliError::failed(error.to_string());
    let found = found.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    if format == Format::Json {
        output::line(&serde_json::to_string_pretty(&found)?);
        return Ok(Exit::Done);
    }
    output::line(&format!("{}: {}", word(found.effect), found.line));
    for part in found.opaque.iter().chain(&found.commands) {
        output::line(&format!(
            "  {:<5} {}{}",
            word(part.effect),
            if part.is_inner { "(inner) " } else { "" },
            part.text
        ));
        output::line(&format!("        {}: {}", rule(part.rule.as_ref()), part.why));
    }
    for place in &found.places {
        output::line(&format!("  place {} ({})", place.path, place.usage));
    }
    for part in &found.outside {
        output::line(&format!("  {:<5} outside the project: {}", word(part.effect), part.resource));
        output::line(&format!("        {}: {}", rule(part.rule.as_ref()), part.why));
    }
    for part in &found.secrets {
        output::line(&format!("  {:<5} usually holds secrets: {}", word(part.effect), part.resource));
        output::line(&format!("        {}: {}", rule(part.rule.as_ref()), part.why));
    }
    if !found.saves.is_empty() {
        output::line(&format!("  \"always\" would save: {}", found.saves.join(", ")));
    }
    Ok(Exit::Done)
}

fn rule(rule: Option<&Rule>) -> String {
    rule.map_or_else(
        || "no rule matches".to_owned(),
        |rule| format!("rule {} {:?} {}", rule.action, rule.resource, word(rule.effect)),
    )
}

const fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Deny => "deny",
        Effect::Ask => "ask",
    }
}
