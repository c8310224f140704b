//! `abide db`: the database.

use serde_json::json;

use crate::args::{DbCommand, Format, Global};
use crate::error::{CliError, Exit};
use crate::instance::Instance;
use crate::output;

pub(crate) async fn run(global: Global, command: DbCommand) -> Result<Exit, CliError> {
    let instance = Instance::open(&global).await?;
    let result = with(&instance, command).await;
    instance.close().await;
    result
}

async fn with(instance: &Instance, command: DbCommand) -> Result<Exit, CliError> {
    let store = instance.app.store().clone();
    match command {
        DbCommand::Path => {
            output::line(&instance.app.db_path().to_string_lossy());
            Ok(Exit::Done)
        }
        DbCommand::Verify { format } => {
            let mut found = Vec::new();
            let damage = store.check().await?;
            let logs = store.logs().await?;
            for session in &logs {
                for difference in store.verify(session).await? {
                    found.push((session.clone(), difference));
                }
            }
            match format.format {
                Format::Json => {
                    let differences: Vec<_> = found
                        .iter()
                        .map(|(session, difference)| json!({ "sessionID": session, "difference": difference }))
                        .collect();
                    let document = json!({ "sessions": logs.len(), "differences": differences, "damage": damage });
                    output::line(&serde_json::to_string_pretty(&document)?);
                }
                Format::Text => {
                    for line in &damage {
                        output::line(&format!("{}: {line}", instance.app.db_path().display()));
                    }
                    for (session, difference) in &found {
                        output::line(&format!("{session}: {difference}"));
                    }
                    output::line(&format!("{} sessions, {} differences", logs.len(), found.len()));
                }
            }
            if !damage.is_empty() {
                Err(CliError::failed("the database file is damaged")
                    .hint("copy the file away; `abide session log` shows what can still be read"))
            } else if found.is_empty() {
                Ok(Exit::Done)
            } else {
                Err(CliError::failed("the projections differ from the logs")
                    .hint("`abide db rebuild` makes them anew; the logs are the truth"))
            }
        }
        DbCommand::Rebuild => {
            let logs = store.logs().await?;
            for session in &logs {
                store.rebuild(session).await?;
            }
            output::line(&format!("{} sessions rebuilt", logs.len()));
            Ok(Exit::Done)
        }
    }
}
