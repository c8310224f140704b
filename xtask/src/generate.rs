//! Documents that are made from the code.

use std::process::Command;

use crate::sh;

/// File and the command line of abide that prints it.
const DOCUMENTS: &[(&str, &[&str])] = &[
    ("docs/openapi.json", &["protocol", "openapi"]),
    ("docs/routes.md", &["protocol", "routes", "--format", "markdown"]),
    ("docs/events.md", &["schema", "list", "--format", "markdown"]),
    ("docs/cli.md", &["__docs"]),
];

/// Writes the documents, or with `check` says which differ.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let abide = sh::abide()?;
    let mut stale = Vec::new();
    for (file, arguments) in DOCUMENTS {
        let text = sh::output(Command::new(&abide).args(*arguments).current_dir(sh::root()))?;
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
