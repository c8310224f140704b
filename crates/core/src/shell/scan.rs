//! Reads a command line before it runs: which commands it holds, what they are called in rules, which places it names,
//! and whether it can be followed at all (spec/tools.md 11.7).
//!
//! A line that cannot be followed is *opaque*: it is judged as a whole and no narrow allow covers it. Everything the
//! scanner does not know is opaque.

mod analyse;
mod check;
mod code;
pub(crate) mod programs;
mod walk;
pub(crate) mod word;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser};

/// The longest line that is followed, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// How deep commands may stand inside each other.
pub const MAX_NESTING: usize = 32;
/// The most commands of a line: more are not read one by one by anybody.
const MAX_COMMANDS: usize = 1000;
/// How long a line may be read: the parser needs time in the square of the length for some hostile lines.
const MAX_PARSE_TIME: Duration = Duration::from_millis(250);

/// The shell that will run the line, as far as its language matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// bash, ksh.
    #[default]
    Bash,
    /// zsh.
    Zsh,
    /// sh, dash: no more than POSIX has.
    Posix,
}

/// What was found in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The line, trimmed.
    pub line: String,
    /// The commands, in the order in which they stand. A line without commands is one itself.
    pub commands: Vec<Command>,
    /// Why the line cannot be followed; absent: it can.
    pub opaque: Option<String>,
    /// The places it names.
    pub places: Vec<Place>,
    /// Whether it goes to or writes to a place that only the running line knows.
    pub has_unknown_place: bool,
}

/// A command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its text: what rules are compared with.
    pub text: String,
    /// The pattern that "always" saves.
    pub save: Option<String>,
    /// Whether another command runs it.
    pub is_inner: bool,
    /// The text with [`HOLE`] for what only the running line knows.
    pub(crate) form: String,
    /// Other forms that name the same command.
    pub(crate) spellings: Vec<Spelling>,
}

/// Another form of a command: denials hold for it too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub(crate) form: String,
    /// Whether the command certainly is this one.
    pub(crate) is_sure: bool,
}

/// A place that a line names, before links are resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The path as it was written, without quotes; may start with `~`.
    pub path: String,
    /// What it is used for.
    pub usage: Usage,
}

/// What a place is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// The line goes there.
    Enter,
    /// It is written to by a redirection.
    Write,
    /// It is read from by a redirection.
    Read,
    /// It is an operand of a program that works on files or directories.
    Operand,
}

impl Scan {
    /// Returns what a permission is asked for: the commands' texts, or the whole line when it is opaque. Never empty.
    pub fn resources(&self) -> Vec<String> {
        if self.opaque.is_some() {
            return vec![self.line.clone()];
        }
        let mut texts: Vec<String> = Vec::new();
        for command in &self.commands {
            if !texts.contains(&command.text) {
                texts.push(command.text.clone());
            }
        }
        texts
    }

    /// Returns the patterns that "always" saves, without repetition.
    pub fn saves(&self) -> Vec<String> {
        let mut saves: Vec<String> = Vec::new();
        for save in self.commands.iter().filter_map(|command| command.save.as_ref()) {
            if !saves.contains(save) {
                saves.push(save.clone());
            }
        }
        saves
    }
}

/// Reads a line. Never fails: what cannot be followed is opaque. Takes microseconds for usual lines and up to
/// [`MAX_PARSE_TIME`] for hostile ones.
pub fn scan(line: &str, dialect: Dialect) -> Scan {
    let mut scan = read(line, dialect, 0);
    if scan.commands.is_empty() && scan.opaque.is_none() {
        scan.commands.push(whole(&scan.line));
    }
    if scan.opaque.is_some() {
        for command in &mut scan.commands {
            command.save = None;
        }
    }
    scan
}

/// The line as one command, for lines without any.
fn whole(line: &str) -> Command {
    Command { text: line.to_owned(), save: None, is_inner: false, form: line.to_owned(), spellings: Vec::new() }
}

/// Reads a line that stands `nesting` commands deep inside others.
fn read(line: &str, dialect: Dialect, nesting: usize) -> Scan {
    let mut scan = Scan { line: line.trim().to_owned(), ..Scan::default() };
    let reason = if line.len() > MAX_BYTES {
        format!("it is longer than {MAX_BYTES} bytes")
    } else if nesting > MAX_NESTING {
        "commands stand too deep inside each other".to_owned()
    } else {
        match parse(line) {
            None => "it could not be read".to_owned(),
            Some(tree) => {
                walk::walk(&mut scan, line, &tree, dialect, nesting);
                return scan;
            }
        }
    };
    scan.opaque = Some(reason);
    scan
}

fn parse(line: &str) -> Option<tree_sitter::Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let started = Instant::now();
    let mut bound = |_: &tree_sitter::ParseState| {
        if started.elapsed() > MAX_PARSE_TIME { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut bound);
    let bytes = line.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}
