//! `abide protocol`: the HTTP contract.

use std::fmt::Write as _;

use abide_protocol::route::Served;
use abide_protocol::routes::ROUTES;
use serde_json::json;

use crate::args::{ListFormat, ProtocolCommand};
use crate::error::{CliError, Exit};
use crate::output;

pub(crate) fn run(command: ProtocolCommand) -> Result<Exit, CliError> {
    match command {
        ProtocolCommand::Openapi => {
            output::line(&serde_json::to_string_pretty(&abide_protocol::openapi::document())?);
        }
        ProtocolCommand::Routes { format } => output::out(&routes(format)?),
    }
    Ok(Exit::Done)
}

fn routes(format: ListFormat) -> Result<String, CliError> {
    let mut text = String::new();
    match format {
        ListFormat::Json => {
            let routes: Vec<_> = ROUTES
                .iter()
                .map(|route| {
                    json!({ "method": route.method.as_str(), "path": route.path, "id": route.id, "served": route.served == Served::Yes })
                })
                .collect();
            text = serde_json::to_string_pretty(&routes)?;
            text.push('\n');
        }
        ListFormat::Text => {
            for route in ROUTES {
                let note = if route.served == Served::Yes { "" } else { "  (not served yet)" };
                // Writing to a String cannot fail.
                let _infallible = writeln!(text, "{:<6} {:<52} {}{note}", route.method.as_str(), route.path, route.id);
            }
        }
        ListFormat::Markdown => {
            text.push_str(
                "# Routes\n\nMade from the code by `cargo xtask gen`.\n\n| route | operation | served | errors |\n\
                 | --- | --- | --- | --- |\n",
            );
            for route in ROUTES {
                let errors: Vec<String> =
                    route.all_errors().iter().map(|tag| format!("{} {}", tag.status(), tag.as_str())).collect();
                let _infallible = writeln!(
                    text,
                    "| `{} {}` | {} | {} | {} |",
                    route.method.as_str(),
                    route.path,
                    route.id,
                    if route.served == Served::Yes { "yes" } else { "not yet" },
                    errors.join(", ")
                );
            }
        }
    }
    Ok(text)
}
