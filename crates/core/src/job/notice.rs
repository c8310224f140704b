//! What a session is told when a job of its ended.

use abide_schema::tool::{Content, joined_text};
use abide_schema::{JsonObject, MessageId};

use super::JobOutcome;
use crate::store::{JobRecord, JobWork};

/// The notice of a job: a synthetic message of its session.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Its id.
    pub id: MessageId,
    /// What the model reads.
    pub text: String,
    /// One line for people.
    pub description: String,
    /// Facts for programs.
    pub metadata: JsonObject,
}

/// Makes the notice of a job that ended.
pub fn notice(record: &JobRecord, outcome: &JobOutcome) -> Notice {
    let body = joined_text(&outcome.content);
    let mut metadata = outcome.facts.clone();
    metadata.insert("jobID".to_owned(), record.id.as_str().into());
    metadata.insert("state".to_owned(), outcome.state.as_str().into());
    let (text, description) = match &record.work {
        JobWork::Shell { shell_id, process, .. } => {
            metadata.insert("source".to_owned(), "shell".into());
            metadata.insert("shellID".to_owned(), shell_id.as_str().into());
            let attributes = [("id", shell_id.as_str()), ("state", &outcome.state), ("command", &process.command)];
            (element("shell", &attributes, &body), process.command.clone())
        }
        JobWork::Subagent { child, description, .. } => {
            metadata.insert("source".to_owned(), "subagent".into());
            metadata.insert("sessionID".to_owned(), child.as_str().into());
            let attributes =
                [("sessionID", child.as_str()), ("state", &outcome.state), ("description", description.as_str())];
            (element("subagent", &attributes, &body), description.clone())
        }
    };
    Notice { id: record.notification.clone(), text, description, metadata }
}

/// Makes what a call returns in the place of the result of a child that ended.
pub fn subagent_content(child: &str, state: &str, text: &str) -> Content {
    Content::text(element("subagent", &[("sessionID", child), ("state", state)], text))
}

/// Writes an element with escaped attributes around a text.
fn element(name: &str, attributes: &[(&str, &str)], body: &str) -> String {
    let mut out = format!("<{name}");
    for (key, value) in attributes {
        out.push(' ');
        out.push_str(key);
        out.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\n' => out.push_str("&#10;"),
                '\r' => out.push_str("&#13;"),
                '\t' => out.push_str("&#9;"),
                other => out.push(other),
            }
        }
        out.push('"');
    }
    out.push_str(">\n");
    out.push_str(body.trim_end_matches('\n'));
    out.push_str("\n</");
    out.push_str(name);
    out.push('>');
    out
}
