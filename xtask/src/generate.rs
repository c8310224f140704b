//! Documents that are made from the code.

use std::process::Command;

use crate::sh;

/// File and the command line of abide that prints it.
const DOCUMENTS: &[(&str, &[&str])] = &[
    ("docs/openapi.json", &["protocol", "openapi"]),
    ("docs/routes.md", &["protocol", "routes", "--format", "markdown"]),
    ("docs/events.md", &["schema", "list", "--format", "markdown"]),
    ("docs/cli.md", &["__docs"]),
    ("docs/tools.md", &["__tools"]),
];

/// Writes the documents, or with `check` says which differ.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let abide = sh::abide()?;
    let mut stale = Vec::new();
    // Neither the user's settings nor the user's shell belong into a document.
    let home = sh::root().join("target/gen");
    std::fs::create_dir_all(&home).map_err(|error| format!("{} cannot be made: {error}", home.display()))?;
    for (file, arguments) in DOCUMENTS {
        let mut command = Command::new(&abide);
        command.args(*arguments).current_dir(&home);
        command.env("HOME", &home).env("ABIDE_DATA_DIR", home.join("data")).env("SHELL", "/bin/bash");
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(name);
        }
        let text = sh::output(&mut command)?;
        let path = sh::root().join(file);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            stale.push(*file);
        } else {
            std::fs::write(&path, text).map_err(|error| format!("{file} cannot be written: {error}"))?;
            println!("wrote {file}");
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(format!("stale, run `cargo xtask gen`: {}", stale.join(", "))) }
}
