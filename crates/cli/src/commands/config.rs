//! `abide config show`.

use abide_schema::location::LocationRef;
use serde_json::json;

use crate::args::{ConfigCommand, Format, Global};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

pub(crate) async fn run(global: Global, command: ConfigCommand) -> Result<Exit, CliError> {
    let ConfigCommand::Show { origin, format } = command;
    let instance = Instance::open(&global).await?;
    let result = show(&global, &instance, origin, format.format).await;
    instance.close().await;
    result
}

async fn show(global: &Global, instance: &Instance, origin: bool, format: Format) -> Result<Exit, CliError> {
    let directory = instance::directory(global)?;
    let location = instance.location(&LocationRef::new(directory.to_string_lossy())).await?;
    let state = location.state();
    for diagnostic in state.diagnostics.iter() {
        output::note(&diagnostic.to_string());
    }
    if !origin {
        output::line(&serde_json::to_string_pretty(&state.config.effective_document())?);
        return Ok(Exit::Done);
    }
    let values = state.config.effective();
    match format {
        Format::Json => {
            let values: Vec<_> = values
                .iter()
                .map(|entry| {
                    json!({
                        "pointer": entry.pointer,
                        "value": entry.value,
                        "origin": entry.origin.to_string(),
                        "line": entry.place.map(|(line, _)| line),
                        "column": entry.place.map(|(_, column)| column),
                    })
                })
                .collect();
            output::line(&serde_json::to_string_pretty(&values)?);
        }
        Format::Text => {
            for entry in &values {
                let place = entry.place.map_or_else(String::new, |(line, column)| format!(":{line}:{column}"));
                output::line(&format!("{} = {}  ({}{place})", entry.pointer, entry.value, entry.origin));
            }
        }
    }
    Ok(Exit::Done)
}
