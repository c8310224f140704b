//! Markdown files with front matter: agents, commands, skills.

use abide_schema::JsonObject;
use serde_json::Value;

/// A markdown file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Markdown {
    /// The front matter; `None` when the file has none.
    pub(crate) front: Option<JsonObject>,
    /// The rest, trimmed.
    pub(crate) body: String,
}

/// Reads a file's text.
///
/// # Errors
/// Why the front matter cannot be read, not even leniently.
pub(crate) fn parse(text: &str) -> Result<Markdown, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((front, body)) = split(text) else {
        return Ok(Markdown { front: None, body: text.trim().to_owned() });
    };
    let body = body.trim().to_owned();
    let front = match yaml(front) {
        Ok(front) => front,
        Err(error) => yaml(&lenient(front)).map_err(|_| error)?,
    };
    Ok(Markdown { front: Some(front), body })
}

/// Splits at the lines `---` around the front matter.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let rest = rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((rest.get(..start)?, rest.get(start + line.len()..)?));
        }
        start += line.len();
    }
    None
}

fn yaml(text: &str) -> Result<JsonObject, String> {
    match serde_saphyr::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(JsonObject::new()),
        Ok(other) => Err(format!("the front matter must be a list of `key: value` lines, got {other}")),
        Err(error) if text.trim().is_empty() => {
            drop(error);
            Ok(JsonObject::new())
        }
        Err(error) => {
            let message = error.to_string();
            Err(format!("the front matter is not YAML: {}", message.lines().next().unwrap_or("unknown error")))
        }
    }
}

/// Turns each `key: value` line at the left margin whose value has a colon and no quotes into a block.
fn lenient(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        match line.split_once(": ") {
            Some((key, value))
                if !line.starts_with([' ', '\t', '#', '-'])
                    && value.contains(':')
                    && !value.trim_start().starts_with(['"', '\'', '|', '>', '[', '{', '&', '*']) =>
            {
                out.push_str(key);
                out.push_str(": |-\n  ");
                out.push_str(value.trim());
            }
            Some(_) | None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}
