//! `abide schema`: event definitions.

use std::fmt::Write as _;

use abide_schema::event::{EVENTS, EventDef, Visibility, definition};
use serde_json::json;

use crate::args::{ListFormat, SchemaCommand};
use crate::error::{CliError, Exit};
use crate::output;

pub(crate) fn run(command: SchemaCommand) -> Result<Exit, CliError> {
    match command {
        SchemaCommand::List { format } => output::out(&list(format)?),
        SchemaCommand::Print { name } => {
            let def = definition(&name).ok_or_else(|| {
                CliError::usage(format!("there is no event {name:?}")).hint("`abide schema list` lists them")
            })?;
            output::line(&serde_json::to_string_pretty(&schema_of(def))?);
        }
    }
    Ok(Exit::Done)
}

fn schema_of(def: &EventDef) -> serde_json::Value {
    let mut generator = schemars::SchemaGenerator::default();
    let mut schema = (def.schema)(&mut generator).to_value();
    if let Some(map) = schema.as_object_mut() {
        map.insert("title".to_owned(), def.name.into());
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            map.insert("$defs".to_owned(), serde_json::Value::Object(definitions));
        }
    }
    schema
}

const fn word(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Contract => "contract",
        Visibility::Counted => "instance stream",
        Visibility::Extension => "addition",
        Visibility::Internal => "internal",
    }
}

fn list(format: ListFormat) -> Result<String, CliError> {
    let mut text = String::new();
    match format {
        ListFormat::Json => {
            let events: Vec<_> = EVENTS
                .iter()
                .map(|def| json!({ "name": def.name, "version": def.version, "visibility": def.visibility }))
                .collect();
            text = serde_json::to_string_pretty(&events)?;
            text.push('\n');
        }
        ListFormat::Text => {
            for def in EVENTS {
                // Writing to a String cannot fail.
                let _infallible = writeln!(text, "{:<42} {} {}", def.name, def.version, word(def.visibility));
            }
        }
        ListFormat::Markdown => {
            text.push_str(
                "# Durable events\n\nMade from the code by `cargo xtask gen`.\n\n| event | version | visible | data |\n\
                 | --- | --- | --- | --- |\n",
            );
            for def in EVENTS {
                let schema = schema_of(def);
                let required: Vec<&str> = schema
                    .get("required")
                    .and_then(|required| required.as_array())
                    .into_iter()
                    .flatten()
                    .filter_map(|name| name.as_str())
                    .collect();
                let fields: Vec<String> = schema
                    .get("properties")
                    .and_then(|properties| properties.as_object())
                    .into_iter()
                    .flat_map(|properties| properties.keys())
                    .filter(|name| !matches!(name.as_str(), "timestamp" | "sessionID"))
                    .map(|name| if required.contains(&name.as_str()) { name.clone() } else { format!("{name}?") })
                    .collect();
                let _infallible = writeln!(
                    text,
                    "| `{}` | {} | {} | {} |",
                    def.name,
                    def.version,
                    word(def.visibility),
                    fields.join(", ")
                );
            }
            text.push_str("\nAll data has `timestamp` and `sessionID`; `?` marks optional fields.\n");
        }
    }
    Ok(text)
}
