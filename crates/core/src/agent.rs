//! The agents of a location: the built-in ones, changed and joined by configuration (spec/config.md section 11).

use std::sync::Arc;

use abide_schema::AgentId;
use abide_schema::agent::{AgentInfo, AgentMode};
use abide_schema::config::{AgentConfig, Diagnostic, DiagnosticKind, Severity};
use abide_schema::model::ProviderRequest;
use abide_schema::permission::Effect;

use crate::config::{Config, Directories, OriginKind, merge_headers, merge_json};
use crate::permission::{BuiltinAgent, DefaultPaths, agent_rules, base_rules, matches};

/// The base prompt: what every agent without a system prompt of its own is told.
pub const BASE_PROMPT: &str = include_str!("agent/prompts/base.md");
const PLAN_PROMPT: &str = include_str!("agent/prompts/plan.md");
const EXPLORE_PROMPT: &str = include_str!("agent/prompts/explore.md");
const COMPACTION_PROMPT: &str = include_str!("agent/prompts/compaction.md");
const TITLE_PROMPT: &str = include_str!("agent/prompts/title.md");
const SUMMARY_PROMPT: &str = include_str!("agent/prompts/summary.md");

/// The agent that works when nothing else is said.
const DEFAULT_AGENT: &str = "build";

/// The agents of a location, in the order in which they were defined. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agents {
    list: Arc<[Arc<AgentInfo>]>,
    default: Option<Arc<AgentInfo>>,
}

impl Agents {
    /// Puts the agents together. What is wrong is added to `diagnostics`.
    pub fn assemble(config: &Config, directories: &Directories, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let temp = directories.tmp.parent().unwrap_or(&directories.tmp).to_owned();
        let paths = DefaultPaths { data: &directories.data, temp: &temp };
        let shared = config.permissions();
        let denials = config.managed_denials();
        report_overridden(config, diagnostics);
        let mut configured = config.agents();
        let mut list = Vec::new();
        let mut add = |mut agent: AgentInfo, own: Option<AgentConfig>| {
            let own = own.unwrap_or_default();
            if own.disabled == Some(true) {
                return;
            }
            agent.permissions.extend(shared.iter().cloned());
            apply(&mut agent, own);
            agent.permissions.extend(denials.iter().cloned());
            list.push(Arc::new(agent));
        };
        for agent in builtin(&paths) {
            let own = configured.shift_remove(&agent.id);
            add(agent, own);
        }
        for (id, own) in configured {
            let agent = AgentInfo { permissions: base_rules(&paths), ..blank(id) };
            add(agent, Some(own));
        }
        let default = pick_default(config, &list, diagnostics);
        Self { list: list.into(), default }
    }

    /// Returns all agents, hidden ones included.
    pub fn list(&self) -> &[Arc<AgentInfo>] {
        &self.list
    }

    /// Finds an agent.
    pub fn get(&self, id: &AgentId) -> Option<&Arc<AgentInfo>> {
        self.list.iter().find(|agent| agent.id == *id)
    }

    /// Returns the agent of new sessions.
    pub fn default_agent(&self) -> Option<&Arc<AgentInfo>> {
        self.default.as_ref()
    }

    /// Returns the names of the agents that a person may choose, for messages.
    pub fn known(&self) -> String {
        let names: Vec<&str> = self.list.iter().filter(|agent| !agent.hidden).map(|agent| agent.id.as_str()).collect();
        names.join(", ")
    }
}

/// Says whether a person may choose an agent for a session.
pub fn is_selectable(agent: &AgentInfo) -> bool {
    !agent.hidden && agent.mode != AgentMode::Subagent
}

fn pick_default(config: &Config, list: &[Arc<AgentInfo>], diagnostics: &mut Vec<Diagnostic>) -> Option<Arc<AgentInfo>> {
    let selectable = |id: &AgentId| list.iter().find(|agent| agent.id == *id && is_selectable(agent)).cloned();
    if let Some((id, document)) = config.latest_document(|document| document.default_agent.as_ref()) {
        if let Some(agent) = selectable(id) {
            return Some(agent);
        }
        let why = match list.iter().find(|agent| agent.id == *id) {
            None => "does not exist",
            Some(agent) if agent.hidden => "is hidden",
            Some(_) => "only works below other agents",
        };
        let mut diagnostic =
            Diagnostic::new(Severity::Warning, DiagnosticKind::Invalid, format!("the default agent {id} {why}"))
                .at("/default_agent")
                .hint("name a primary agent; until then another one is used");
        diagnostic.path.clone_from(&document.origin.path);
        diagnostics.push(diagnostic);
    }
    selectable(&DEFAULT_AGENT.into()).or_else(|| list.iter().find(|agent| is_selectable(agent)).cloned())
}

/// Says where a project allows what its user denied for all projects.
fn report_overridden(config: &Config, diagnostics: &mut Vec<Diagnostic>) {
    let of = |kind: OriginKind, effect: Effect| {
        config.documents.iter().filter(move |document| document.origin.kind == kind).flat_map(move |document| {
            document.info.permissions.iter().filter(move |rule| rule.effect == effect).map(move |rule| (rule, document))
        })
    };
    for (denied, _) in of(OriginKind::Global, Effect::Deny) {
        let allowed = of(OriginKind::Project, Effect::Allow)
            .find(|(rule, _)| matches(&denied.action, &rule.action) && matches(&denied.resource, &rule.resource));
        if let Some((rule, document)) = allowed {
            let message = format!(
                "the project allows {} {:?}, which overrides your own rule that denies {} {:?}",
                rule.action, rule.resource, denied.action, denied.resource
            );
            let mut diagnostic = Diagnostic::new(Severity::Warning, DiagnosticKind::Conflict, message)
                .at("/permissions")
                .hint("remove one of the two rules if this is not meant");
            diagnostic.path.clone_from(&document.origin.path);
            diagnostics.push(diagnostic);
        }
    }
}

/// An agent that nothing is known of.
fn blank(id: AgentId) -> AgentInfo {
    AgentInfo {
        id,
        model: None,
        request: ProviderRequest::default(),
        system: None,
        description: None,
        mode: AgentMode::All,
        hidden: false,
        color: None,
        steps: None,
        permissions: Vec::new(),
    }
}

fn builtin(paths: &DefaultPaths<'_>) -> Vec<AgentInfo> {
    let agent = |id: &str, mode: AgentMode, rules: BuiltinAgent, description: &str, system: Option<String>| AgentInfo {
        mode,
        hidden: rules == BuiltinAgent::Hidden,
        description: Some(description.to_owned()).filter(|text| !text.is_empty()),
        system,
        permissions: agent_rules(rules, paths),
        ..blank(id.into())
    };
    let text = |prompt: &str| Some(prompt.trim_end().to_owned());
    vec![
        agent(
            "build",
            AgentMode::Primary,
            BuiltinAgent::Build,
            "Works on the code: reads, edits, runs commands.",
            None,
        ),
        agent(
            "plan",
            AgentMode::Primary,
            BuiltinAgent::Plan,
            "Reads and plans without changing anything.",
            Some(format!("{}\n\n{}", BASE_PROMPT.trim_end(), PLAN_PROMPT.trim_end())),
        ),
        agent(
            "general",
            AgentMode::Subagent,
            BuiltinAgent::General,
            "Takes over a task of several steps on its own, for example research; several may work at once.",
            None,
        ),
        agent(
            "explore",
            AgentMode::Subagent,
            BuiltinAgent::Explore,
            "Searches the code without changing it: where something is, how it works, what depends on it.",
            text(EXPLORE_PROMPT),
        ),
        agent("compaction", AgentMode::Primary, BuiltinAgent::Hidden, "", text(COMPACTION_PROMPT)),
        agent("title", AgentMode::Primary, BuiltinAgent::Hidden, "", text(TITLE_PROMPT)),
        agent("summary", AgentMode::Primary, BuiltinAgent::Hidden, "", text(SUMMARY_PROMPT)),
    ]
}

/// Lays configuration over an agent.
fn apply(agent: &mut AgentInfo, own: AgentConfig) {
    if let Some(model) = own.model {
        agent.model = Some(model.0);
    }
    if let Some(request) = own.request {
        merge_headers(&mut agent.request.headers, &request.headers);
        merge_json(&mut agent.request.body, &request.body);
    }
    if let Some(system) = own.system {
        agent.system = Some(system).filter(|text| !text.trim().is_empty());
    }
    if let Some(description) = own.description {
        agent.description = Some(description);
    }
    if let Some(mode) = own.mode {
        agent.mode = mode;
    }
    if let Some(hidden) = own.hidden {
        agent.hidden = hidden;
    }
    if let Some(color) = own.color {
        agent.color = Some(color);
    }
    if let Some(steps) = own.steps {
        agent.steps = Some(steps);
    }
    agent.permissions.extend(own.permissions);
}

#[cfg(test)]
mod tests;
