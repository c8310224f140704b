//! Automation of the workspace: `cargo xtask <command>`.

mod conformance;
mod generate;
mod sh;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "cargo xtask <command>

  test [filter]      all tests (with cargo-nextest when it is installed)
  ci                 formatting, lints, tidy, tests, SDK conformance: what .ci/run does
  tidy               crate edges, file sizes, forbidden words, generated files
  gen [--check]      writes the generated documents, or says which are stale
  recordings         recorded exchanges of real providers (needs ABIDE_SHARED or ../shared)
  conformance [ARGS] the published SDK against the built server (needs node and npm)
  sim [--seed N] [--count N]   the session engine in a simulated world
  bench              the figures of docs/performance.md
  examples           builds and runs the example of each library crate
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let result = match command.as_str() {
        "test" => test(&rest),
        "ci" => ci(),
        "tidy" => tidy::run(),
        "gen" => generate::run(rest.iter().any(|argument| argument == "--check")),
        "recordings" => sh::cargo(&["run", "--quiet", "--package", "abide-tests", "--bin", "recordings"], &rest),
        "conformance" => conformance::run(&rest),
        "sim" => sh::cargo(&["run", "--quiet", "--release", "--package", "abide-tests", "--bin", "sim", "--"], &rest),
        "bench" => {
            sh::cargo(&["run", "--quiet", "--release", "--package", "abide-tests", "--bin", "bench", "--"], &rest)
        }
        "examples" => examples(),
        "" | "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command {other:?}\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// All tests. The binary is built first: end-to-end tests drive it.
fn test(rest: &[String]) -> Result<(), String> {
    sh::cargo(&["build", "--workspace", "--bins", "--examples"], &[])?;
    if sh::works("cargo", &["nextest", "--version"]) {
        sh::cargo(&["nextest", "run", "--workspace", "--no-fail-fast"], rest)
    } else {
        sh::cargo(&["test", "--workspace", "--no-fail-fast"], rest)
    }
}

fn examples() -> Result<(), String> {
    for (package, example) in [
        ("abide-schema", "reduce"),
        ("abide-protocol", "routes"),
        ("abide-codemode", "catalogue"),
        ("abide-plugin", "tool"),
        ("abide-core", "embedded"),
    ] {
        sh::cargo(&["run", "--quiet", "--package", package, "--example", example], &[])?;
    }
    Ok(())
}

fn ci() -> Result<(), String> {
    let step = |name: &str, result: Result<(), String>| {
        println!("ci: {name}: {}", if result.is_ok() { "ok" } else { "failed" });
        result
    };
    step("formatting", sh::cargo(&["fmt", "--all", "--check"], &[]))?;
    step("lints", sh::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], &[]))?;
    step("tests", test(&[]))?;
    step("tidy", tidy::run())?;
    step("examples", examples())?;
    if sh::works("node", &["--version"]) && sh::works("npm", &["--version"]) {
        step("conformance", conformance::run(&["--expect".to_owned()]))?;
    } else {
        println!("ci: conformance: left out, node and npm are needed");
    }
    Ok(())
}
