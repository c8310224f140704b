//! `abide doctor`: what works on this machine, and what to do about the rest.

use abide_core::session::place::Place as _;
use abide_schema::location::LocationRef;
use serde_json::json;

use crate::args::{Format, FormatArgs, Global};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

/// One finding.
struct Finding {
    what: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Warning,
    Bad,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "failed",
        }
    }
}

pub(crate) async fn run(global: Global, args: FormatArgs) -> Result<Exit, CliError> {
    let mut findings = Vec::new();
    program("git", &["--version"], "snapshots and diffs need it", &mut findings).await;
    match Instance::open(&global).await {
        Err(error) => findings.push(Finding { what: "database", state: State::Bad, detail: error.to_string() }),
        Ok(instance) => {
            let path = instance.app.db_path().display().to_string();
            findings.push(Finding { what: "database", state: State::Good, detail: path });
            inspect(&global, &instance, &mut findings).await;
            instance.close().await;
        }
    }
    let failed = findings.iter().any(|finding| finding.state == State::Bad);
    match args.format {
        Format::Json => {
            let findings: Vec<_> = findings
                .iter()
                .map(|finding| json!({ "what": finding.what, "state": finding.state.word(), "detail": finding.detail }))
                .collect();
            output::line(&serde_json::to_string_pretty(&findings)?);
        }
        Format::Text => {
            for finding in &findings {
                output::line(&format!("{:<8} {:<14} {}", finding.state.word(), finding.what, finding.detail));
            }
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

async fn program(name: &'static str, arguments: &[&str], why: &str, findings: &mut Vec<Finding>) {
    let output = tokio::process::Command::new(name).args(arguments).stdin(std::process::Stdio::null()).output().await;
    findings.push(match output {
        Ok(output) if output.status.success() => Finding {
            what: name,
            state: State::Good,
            detail: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        },
        Ok(_) | Err(_) => Finding { what: name, state: State::Warning, detail: format!("not found; {why}") },
    });
}

async fn inspect(global: &Global, instance: &Instance, findings: &mut Vec<Finding>) {
    match instance.app.sessions().explain_recovery().await {
        Ok(report) if report.is_empty() => {
            findings.push(Finding {
                what: "recovery",
                state: State::Good,
                detail: "nothing is left to settle".to_owned(),
            });
        }
        Ok(report) => findings.push(Finding {
            what: "recovery",
            state: State::Warning,
            detail: format!("{} sessions of dead processes; `abide session recover` settles them", report.len()),
        }),
        Err(error) => findings.push(Finding { what: "recovery", state: State::Bad, detail: error.to_string() }),
    }
    let directory = match instance::directory(global) {
        Ok(directory) => directory.to_string_lossy().into_owned(),
        Err(error) => {
            findings.push(Finding { what: "directory", state: State::Bad, detail: error.to_string() });
            return;
        }
    };
    let location = match instance.location(&LocationRef::new(directory)).await {
        Ok(location) => location,
        Err(error) => {
            findings.push(Finding { what: "directory", state: State::Bad, detail: error.to_string() });
            return;
        }
    };
    let project = &location.info().project;
    findings.push(Finding {
        what: "project",
        state: State::Good,
        detail: format!("{} ({})", project.directory, project.id),
    });
    let state = location.state();
    if state.diagnostics.is_empty() {
        findings.push(Finding { what: "configuration", state: State::Good, detail: "no complaints".to_owned() });
    }
    for diagnostic in state.diagnostics.iter() {
        findings.push(Finding { what: "configuration", state: State::Warning, detail: diagnostic.to_string() });
    }
    let model = match location.agent(None) {
        Ok(agent) => location.model(None, &agent).await.map(|model| model.model.to_string()),
        Err(error) => Err(error),
    };
    findings.push(match model {
        Ok(model) => Finding { what: "model", state: State::Good, detail: model },
        Err(error) => Finding { what: "model", state: State::Warning, detail: error.to_string() },
    });
}
