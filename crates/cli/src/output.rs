//! The one place that prints.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::error::{CliError, Exit};

/// Writes to stdout. A closed pipe is no failure: whoever reads has enough.
pub(crate) fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // A reader that went away is served well by silence.
    let _closed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Writes a line to stderr.
pub(crate) fn note(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Nothing is left to tell anybody when stderr is gone.
    let _closed = writeln!(stderr, "{text}");
}

/// Writes to stderr without a line end.
pub(crate) fn note_part(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _closed = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// Says whether a person can answer on this terminal.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Dims text on a terminal.
pub(crate) fn dim(text: &str) -> String {
    if std::io::stderr().is_terminal() { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Prints a failure with its hints.
pub(crate) fn fail(error: &CliError) -> ExitCode {
    note(&format!("error: {error}"));
    for hint in &error.hints {
        note(&format!("  hint: {hint}"));
    }
    error.exit.into()
}

/// Prints what clap says: help and version to stdout, complaints to stderr.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        note(text.trim_end());
        Exit::Usage.into()
    } else {
        out(&text);
        Exit::Done.into()
    }
}

/// Prints the help.
pub(crate) fn help() -> Exit {
    out(&Cli::command().render_help().to_string());
    Exit::Done
}
