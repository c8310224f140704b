//! Running other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Runs cargo in the workspace.
pub(crate) fn cargo(arguments: &[&str], more: &[String]) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).args(more).current_dir(root());
    run(&mut command)
}

/// Runs a command; its exit status decides.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let status = command.status().map_err(|error| format!("{shown} cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown} ended with {status}")) }
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("{shown} cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown} ended with {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{shown} printed no UTF-8: {error}"))
}

/// Says whether a program answers.
pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Builds the binary (debug) and returns its path.
pub(crate) fn abide() -> Result<PathBuf, String> {
    cargo(&["build", "--quiet", "--package", "abide"], &[])?;
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(root())
        .no_deps()
        .exec()
        .map_err(|error| error.to_string())?;
    Ok(metadata.target_directory.join("debug").join("abide").into_std_path_buf())
}
