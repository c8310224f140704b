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
  record [--prefix P] [--provider P] [--tags T] [TEST]   records exchanges of real providers (needs their keys)
  conformance [ARGS] the published SDK against the built server (needs node and npm)
  sim [--seed N] [--count N]   the session engine in a simulated world
  crash [--seed N] [--count N] [--point NAME]   kills the real binary at each fault point and at random moments
  fuzz [--target T] [--minutes N] [--seed N]   hostile input for the parsers of provider streams
  bench [GROUP ...]  the figures of docs/performance.md; the group parsers is the bench of abide-ai
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
        "record" => record(&rest),
        "conformance" => conformance::run(&rest),
        "sim" => sh::cargo(&["run", "--quiet", "--release", "--package", "abide-tests", "--bin", "sim", "--"], &rest),
        // A debug build: the release build has no fault points.
        "crash" => sh::cargo(&["build", "--package", "abide"], &[])
            .and_then(|()| sh::cargo(&["run", "--quiet", "--package", "abide-tests", "--bin", "crash", "--"], &rest)),
        "bench" => bench(&rest),
        "fuzz" => sh::cargo(
            &["run", "--quiet", "--package", "abide-ai", "--features", "testing", "--example", "fuzz", "--"],
            &rest,
        ),
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

/// The figures of the binary, and those of the parsers.
fn bench(rest: &[String]) -> Result<(), String> {
    let groups: Vec<String> = rest.iter().filter(|group| *group != "parsers").cloned().collect();
    let wants_parsers = rest.is_empty() || groups.len() < rest.len();
    if rest.is_empty() || !groups.is_empty() {
        sh::cargo(&["run", "--quiet", "--release", "--package", "abide-tests", "--bin", "bench", "--"], &groups)?;
    }
    if wants_parsers {
        sh::cargo(&["bench", "--quiet", "--package", "abide-ai", "--bench", "deltas"], &[])?;
    }
    Ok(())
}

/// Records the cases that the filters choose; those whose key is missing say so and are skipped.
fn record(rest: &[String]) -> Result<(), String> {
    let is_true = |value: std::ffi::OsString| !value.is_empty() && value != "0" && value != "false";
    if std::env::var_os("CI").is_some_and(is_true) {
        return Err("nothing is recorded where CI is set; unset it to record".to_owned());
    }
    let mut command = std::process::Command::new("cargo");
    command.args(["test", "--quiet", "--package", "abide-ai", "--test", "it", "recorded::", "--"]);
    command.args(["--nocapture", "--test-threads", "1"]).env("RECORD", "true").current_dir(sh::root());
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let variable = match word.as_str() {
            "--prefix" => "RECORDED_PREFIX",
            "--provider" => "RECORDED_PROVIDER",
            "--tags" => "RECORDED_TAGS",
            option if option.starts_with('-') => {
                return Err(format!("unknown option {option}; there are --prefix, --provider and --tags"));
            }
            test => {
                command.env("RECORDED_TEST", test);
                continue;
            }
        };
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        command.env(variable, value);
    }
    sh::run(&mut command)
}

fn examples() -> Result<(), String> {
    for (package, example) in [
        ("abide-schema", "reduce"),
        ("abide-ai", "guide"),
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
