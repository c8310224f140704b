//! The tool `grep`: finds lines by a regular expression (spec/tools.md 11.6).

mod search_files;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::files::FileTools;
use super::glob::{
    DEFAULT_LIMIT, MAX_LIMIT, SEARCH_TIME, TOO_LONG, check_directory, compile, cut_note, named, unreadable_note,
};
use crate::fs::access::{Kind, Wanted, display};
use crate::fs::browse::{Entry, EntryKind};
use crate::permission::AssertInput;
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use search_files::{FileMatches, Job, Report};

/// The most bytes of all matching lines together.
const MAX_TEXT_BYTES: usize = 512 * 1024;

/// How many files with matches may wait for their permission.
const QUEUE: usize = 16;

/// The largest compiled expression.
const MAX_REGEX_BYTES: usize = 10 * 1024 * 1024;

/// The tool.
#[derive(Debug)]
pub struct Grep {
    files: FileTools,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepInput {
    /// The regular expression, tried on each line.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The file or directory to search, the working directory when absent. A file is searched even when it is ignored.
    #[serde(default)]
    path: Option<String>,
    /// A glob that the files must match, for example `*.rs`.
    #[serde(default)]
    include: Option<String>,
    /// Whether the pattern is plain text.
    #[serde(default)]
    literal: bool,
    /// Whether case counts; it does when absent.
    #[serde(default)]
    case_sensitive: Option<bool>,
    /// The most matching lines, 100 when absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrepOutput {
    /// The matching lines.
    matches: Vec<GrepMatch>,
    /// Whether there are more.
    truncated: bool,
}

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrepMatch {
    entry: Entry,
    /// Its number, from 1.
    line: u64,
    /// Where it begins, in bytes.
    offset: u64,
    /// The line, cut when it is long.
    text: String,
    submatches: Vec<Submatch>,
}

/// A part of a line that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Submatch {
    text: String,
    /// Where it begins in the line, in bytes.
    start: usize,
    /// Where it ends.
    end: usize,
}

impl Grep {
    /// Makes the tool.
    pub fn new(files: FileTools) -> Self {
        Self { files }
    }
}

impl TypedTool for Grep {
    type Input = GrepInput;
    type Output = GrepOutput;

    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> String {
        "Finds lines in files by a regular expression (Rust syntax: no lookaround, no backreferences) or, with literal, by \
         plain text. Hidden files are searched; what .gitignore names and binary files are not. At most 100 lines come \
         unless limit says more."
            .to_owned()
    }

    fn limits(&self) -> Vec<String> {
        vec![
            format!(
                "{DEFAULT_LIMIT} lines, at most {MAX_LIMIT} by `limit`; {MAX_TEXT_BYTES} bytes; {} seconds",
                SEARCH_TIME.as_secs()
            ),
            "lines are cut at 2000 characters; files that may not be read without a question are left out and counted"
                .to_owned(),
        ]
    }

    async fn execute(&self, ctx: ToolContext, input: GrepInput) -> Result<ToolReturn<GrepOutput>, ToolFailure> {
        let matcher = regex(&input)?;
        let include = input.include.as_deref().filter(|include| !include.is_empty()).map(compile).transpose()?;
        let files = &self.files;
        let path = named(input.path.as_deref()).unwrap_or(".");
        let limit = input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        // Whether it is a directory decides what is asked for outside.
        let target = files.resolve(&ctx, path, Wanted::File).await?;
        let asked = AssertInput::new("grep", input.pattern.clone())
            .saving("*")
            .with_metadata("root", target.real.to_string_lossy())
            .with_metadata("path", path)
            .with_metadata("include", input.include.clone())
            .with_metadata("limit", limit);
        files.permissions.assert(&ctx, asked).await?;
        files.access.recheck(&target).await.map_err(super::files::access_failure)?;
        if target.kind != Kind::File {
            check_directory(&target)?;
        }

        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let job = Job {
            root: target.real.clone(),
            matcher,
            include,
            // One more, to know whether there are others.
            limit: usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1),
            stop: ctx.scope.token(),
            time: SEARCH_TIME,
        };
        let search = tokio::task::spawn_blocking(move || job.run(&sender));
        let mut results = Results { limit: usize::try_from(limit).unwrap_or(usize::MAX), ..Results::default() };
        while let Some(file) = receiver.recv().await {
            let name = files.access.relative(&file.path).unwrap_or_else(|| display(&file.path));
            // Lines are shown only of files that may be read without a question.
            if !files.may_read(&ctx, std::slice::from_ref(&name)).await {
                results.n_left_out += 1;
                continue;
            }
            if !results.add(&name, file) {
                break;
            }
        }
        // The search ends when nobody listens any more.
        drop(receiver);
        let report: Report = search.await.map_err(|error| caused(format!("Could not search {path}"), &error))?;
        if report.is_out_of_time {
            return Err(ToolFailure::new(TOO_LONG));
        }
        Ok(results.into_return(limit, report.n_unreadable))
    }
}

/// The lines that are shown.
#[derive(Default)]
struct Results {
    limit: usize,
    text: String,
    n_bytes: usize,
    matches: Vec<GrepMatch>,
    is_cut: bool,
    n_left_out: usize,
}

impl Results {
    /// Takes the lines of one more file; says whether there is room for others.
    fn add(&mut self, name: &str, file: FileMatches) -> bool {
        if self.matches.len() == self.limit {
            self.is_cut = true;
            return false;
        }
        // Writing to a string does not fail.
        let _ok = write!(self.text, "\n\n{}:", file.path.display());
        for found in file.lines {
            if self.matches.len() == self.limit || self.n_bytes > MAX_TEXT_BYTES {
                self.is_cut = true;
                return false;
            }
            self.n_bytes += found.text.len() + found.submatches.iter().map(|part| part.text.len() + 40).sum::<usize>();
            let _ok = write!(self.text, "\n  Line {}: {}", found.number, found.text);
            let entry = Entry { path: name.to_owned(), kind: EntryKind::File };
            self.matches.push(GrepMatch {
                entry,
                line: found.number,
                offset: found.offset,
                text: found.text,
                submatches: found.submatches,
            });
        }
        true
    }

    fn into_return(self, limit: u32, n_unreadable: usize) -> ToolReturn<GrepOutput> {
        let n = self.matches.len();
        let mut text = match n {
            0 => "No matches found".to_owned(),
            1 => format!("Found 1 match{}", self.text.replacen("\n\n", "\n", 1)),
            n => format!("Found {n} matches{}", self.text.replacen("\n\n", "\n", 1)),
        };
        if self.is_cut {
            text.push_str(&cut_note(if n < self.limit { u32::try_from(n).unwrap_or(limit) } else { limit }));
        }
        if self.n_left_out > 0 {
            let (files, them) = if self.n_left_out == 1 { ("1 file", "it") } else { ("files", "them") };
            let count = if self.n_left_out == 1 { String::new() } else { format!("{} ", self.n_left_out) };
            let _ok = write!(
                text,
                "\n\n({count}{files} with matches left out: reading {them} is not allowed without asking)"
            );
        }
        if let Some(note) = unreadable_note(n_unreadable) {
            text.push_str(&note);
        }
        let output = GrepOutput { matches: self.matches, truncated: self.is_cut };
        ToolReturn::new(output).with_text(text).with_metadata("matches", n)
    }
}

fn regex(input: &GrepInput) -> Result<RegexMatcher, ToolFailure> {
    if input.pattern.is_empty() {
        return Err(ToolFailure::new("pattern is empty"));
    }
    let built = RegexMatcherBuilder::new()
        .case_insensitive(!input.case_sensitive.unwrap_or(true))
        .fixed_strings(input.literal)
        .crlf(true)
        .size_limit(MAX_REGEX_BYTES)
        .build(&input.pattern);
    built.map_err(|error| {
        let lookaround = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|part| input.pattern.contains(part));
        let backreference = input.pattern.as_bytes().windows(2).any(|pair| matches!(pair, [b'\\', b'1'..=b'9']));
        let hint = if lookaround || backreference {
            " (lookaround and backreferences are not supported; search for something simpler)"
        } else {
            ""
        };
        ToolFailure::new(format!("Invalid regular expression: {error}{hint}"))
    })
}
