//! The environment of commands: abide's own without its secrets, and nothing in it that waits for a person.

use std::collections::BTreeMap;

/// Variables with secrets of abide itself.
pub const SECRET_VARIABLES: &[&str] = &[
    "ABIDE_AUTH_CONTENT",
    "ABIDE_PASSWORD",
    "ABIDE_SERVER_PASSWORD",
    "OPENCODE_AUTH_CONTENT",
    "OPENCODE_PASSWORD",
    "OPENCODE_SERVER_PASSWORD",
];

/// What every command finds set.
const FIXED: &[(&str, &str)] = &[
    ("ABIDE_TERMINAL", "1"),
    ("TERM", "xterm-256color"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    // Questions that nobody can answer fail at once.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Returns the environment of a command, made from abide's own and without its secrets.
pub fn command_environment(base: &BTreeMap<String, String>, secrets: &[String]) -> BTreeMap<String, String> {
    let is_secret = |name: &str| SECRET_VARIABLES.contains(&name) || secrets.iter().any(|secret| secret == name);
    let kept = base.iter().filter(|(name, _)| !is_secret(name)).map(|(name, value)| (name.clone(), value.clone()));
    let fixed = FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    kept.chain(fixed).collect()
}
