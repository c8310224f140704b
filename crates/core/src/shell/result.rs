//! What the model and the log get to know of a command that ended.

use std::path::Path;

use abide_schema::JsonObject;
use abide_schema::tool::Content;
use schemars::JsonSchema;
use serde::Serialize;

use super::process::{Ended, How, Tail};

/// The facts of a command that ended, as the contract names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShellOutput {
    /// The exit code; absent when it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether it was stopped after its time limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timeout: bool,
    /// Whether earlier output is left out.
    pub truncated: bool,
}

impl ShellOutput {
    pub(crate) fn new(ended: &Ended, truncated: bool) -> Self {
        let output = Self { truncated, ..Self::default() };
        match ended.how {
            How::Exited(code) => Self { exit: Some(code), ..output },
            How::Signaled(signal) => Self { signal: Some(signal_name(signal)), ..output },
            How::TimedOut => Self { timeout: true, ..output },
            How::TooMuchOutput => output,
        }
    }

    /// Returns it as the object that events carry.
    pub(crate) fn to_object(&self) -> JsonObject {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(object)) => object,
            Ok(_) | Err(_) => JsonObject::new(),
        }
    }
}

/// Returns what the model is told about output: its end, and where all of it is when that is not all.
pub(crate) fn output_text(tail: &Tail, spool: &Path) -> String {
    if tail.text.is_empty() && tail.bytes_cut == 0 {
        return "(no output)".to_owned();
    }
    if tail.bytes_cut == 0 {
        return tail.text.clone();
    }
    let (text, file, n_bytes) = (tail.text.trim_end_matches('\n'), spool.display(), tail.bytes_cut);
    format!("{text}\n\n[earlier output cut; complete output in {file}] {n_bytes} bytes are left out here.")
}

/// Returns the line that says how a command ended.
pub(crate) fn closing_line(ended: &Ended, limit_ms: Option<u64>, max_output_bytes: u64) -> String {
    let mut line = match ended.how {
        How::Exited(code) => format!("The command exited with code {code}."),
        How::Signaled(signal) => format!("The command was ended by signal {}.", signal_name(signal)),
        How::TimedOut => format!(
            "The command was stopped after its limit of {} ms; use a larger timeout if it needs longer.",
            limit_ms.unwrap_or_default()
        ),
        How::TooMuchOutput => {
            format!("The command was stopped because it wrote more than {max_output_bytes} bytes.")
        }
    };
    if !ended.left.is_empty() {
        line.push_str("\nStill running: ");
        line.push_str(&ended.left.join("; "));
    }
    line
}

/// Returns what the model is told: the output, then how it ended.
pub(crate) fn content(output: String, closing: String) -> Vec<Content> {
    vec![Content::text(output), Content::text(closing)]
}

/// Returns the usual name of a signal, else its number.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return signal.to_string(),
    };
    name.to_owned()
}
