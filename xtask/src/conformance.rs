//! The published SDK against the built server.

use std::process::Command;

use crate::sh;

/// Runs them; with `--expect` only the checks that tests/conformance/expected-failures.txt lists may fail.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let abide = sh::abide()?;
    let folder = sh::root().join("tests/conformance");
    if !folder.join("node_modules/@opencode-ai/sdk").exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(&folder);
        sh::run(&mut npm)?;
    }
    let mut node = Command::new("node");
    node.arg("run.mjs").args(arguments).env("ABIDE", abide).current_dir(&folder);
    sh::run(&mut node)
}
