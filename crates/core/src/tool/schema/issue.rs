//! Issues of a value, and the text about them.

use std::fmt::Write as _;

use serde_json::Value;

/// How many issues are told one by one.
const MAX_ISSUES: usize = 5;
/// How much of the arguments is repeated, in bytes: the model has them in its history.
const MAX_ARGUMENT_BYTES: usize = 4 * 1024;

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where: `items[2].name`, `[0]`, or `root`.
    pub path: String,
    /// What.
    pub problem: String,
}

impl Issue {
    /// Makes an issue; an empty path means the whole value.
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        let path = path.into();
        Self { path: if path.is_empty() { "root".to_owned() } else { path }, problem: problem.into() }
    }
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// Returns what the model is told about invalid arguments.
pub fn invalid_input(tool: &str, issues: &[Issue], arguments: &Value) -> String {
    let mut text = format!("The arguments for tool \"{tool}\" are not valid:\n");
    for issue in issues.iter().take(MAX_ISSUES) {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "- {issue}");
    }
    match issues.len().saturating_sub(MAX_ISSUES) {
        0 => {}
        1 => text.push_str("- ...and 1 more issue\n"),
        more => {
            let _infallible = writeln!(text, "- ...and {more} more issues");
        }
    }
    let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let _infallible = write!(
        text,
        "\nArguments provided:\n{}\n\nPlease update the arguments and call the tool again.",
        cut(&arguments, MAX_ARGUMENT_BYTES)
    );
    text
}

fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    format!("{kept}\n[{} bytes cut]", text.len() - kept.len())
}
