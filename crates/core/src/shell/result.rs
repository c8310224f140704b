//! What the model and the log get to know of a command that ended.

use std::path::Path;

use abide_schema::JsonObject;
use abide_schema::tool::Content;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::process::{Ended, How, Tail};
use crate::job::{JobOutcome, JobStatus};

/// The facts of a command that ended, as the contract names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ShellOutput {
    /// `running` when it goes on in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Its id, when it goes on in the background.
    #[serde(rename = "shellID", skip_serializing_if = "Option::is_none")]
    pub shell_id: Option<String>,
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
            How::TooMuchOutput | How::Stopped => output,
        }
    }

    /// Makes the output of a command that goes on in the background.
    pub(crate) fn running(shell_id: &str) -> Self {
        Self { status: Some("running".to_owned()), shell_id: Some(shell_id.to_owned()), ..Self::default() }
    }

    /// Reads it from the object that events carry.
    pub(crate) fn from_object(object: JsonObject) -> Self {
        serde_json::from_value(serde_json::Value::Object(object)).unwrap_or_default()
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
        How::Stopped => "The user stopped the command; do not start it again unless asked.".to_owned(),
    };
    if !ended.left.is_empty() {
        line.push_str("\nStill running: ");
        line.push_str(&ended.left.join("; "));
    }
    line
}

/// What programs write that wanted an answer from a person and found no terminal.
const UNANSWERED: &[&str] = &[
    "a terminal is required",
    "terminal prompts disabled",
    "no tty present",
    "no askpass program",
    "could not read password",
    "could not read username",
    "host key verification failed",
    "permission denied (publickey",
    "must be run from a terminal",
    "not a tty",
    "inappropriate ioctl for device",
];

/// Says whether a command failed because it wanted to ask something.
fn wanted_to_ask(output: &str) -> bool {
    const MAX_BYTES: usize = 4096;
    let end = output.get(output.ceil_char_boundary(output.len().saturating_sub(MAX_BYTES))..).unwrap_or_default();
    let end = end.to_lowercase();
    UNANSWERED.iter().any(|words| end.contains(words))
}

/// Returns what the model is told: the output, then how it ended; and, when it failed because it wanted to ask a
/// person, that nobody can answer.
pub(crate) fn content(output: String, mut closing: String, has_failed: bool) -> Vec<Content> {
    if has_failed && wanted_to_ask(&output) {
        closing.push_str(
            "\nIt wanted a password or another answer: commands have no terminal and nobody can answer. Give it as an \
             option or a file, or ask the user to do this step.",
        );
    }
    vec![Content::text(output), Content::text(closing)]
}

impl Ended {
    /// Says whether it ended by itself with another code than 0.
    pub(crate) const fn has_failed(&self) -> bool {
        matches!(self.how, How::Exited(code) if code != 0)
    }
}

/// Returns what the model is told about a command that goes on in the background.
pub(crate) fn running_text(shell_id: &str, spool: &Path) -> String {
    format!(
        "The command runs in the background as {shell_id}; its output goes to {}. A notice comes when it ends: do not \
         wait for it or ask for its state; go on with other work, or end your turn.",
        spool.display()
    )
}

/// Makes the outcome of a job whose command ended.
pub(crate) fn outcome(
    ended: &Ended,
    tail: &Tail,
    spool: &Path,
    limit_ms: Option<u64>,
    max_output_bytes: u64,
) -> JobOutcome {
    let is_truncated = tail.bytes_cut > 0;
    let (status, state) = match ended.how {
        How::Exited(_) | How::Signaled(_) => (JobStatus::Completed, "completed"),
        How::TimedOut => (JobStatus::Completed, "timeout"),
        How::TooMuchOutput => (JobStatus::Completed, "stopped"),
        How::Stopped => (JobStatus::Cancelled, "stopped"),
    };
    JobOutcome {
        status,
        state: state.to_owned(),
        content: content(output_text(tail, spool), closing_line(ended, limit_ms, max_output_bytes), ended.has_failed()),
        facts: ShellOutput::new(ended, is_truncated).to_object(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, has_failed: bool, is_told: bool) {
        let told = content(output.to_owned(), "The command exited with code 1.".to_owned(), has_failed);
        let closing = told.last().and_then(Content::as_text).unwrap_or_default();
        assert_eq!(closing.contains("nobody can answer"), is_told, "{output}");
    }

    #[test]
    fn who_wanted_to_ask_is_told_that_nobody_answers() {
        check("sudo: a terminal is required to read the password; either use the -S option", true, true);
        check("fatal: could not read Username for 'https://x': terminal prompts disabled", true, true);
        check("Host key verification failed.", true, true);
        check("sudo: a terminal is required to read the password", false, false);
        check("error: test failed", true, false);
        check("", true, false);
    }
}
