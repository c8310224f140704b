//! The tool `glob`: finds files by their names (spec/tools.md 11.5).

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::files::{FileTools, blocking};
use crate::fs::access::{Kind, Target, Wanted, relative_to};
use crate::fs::browse::{Entry, EntryKind};
use crate::fs::search;
use crate::permission::AssertInput;
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

/// How many results come when nothing is said.
pub(super) const DEFAULT_LIMIT: u32 = 100;

/// The most results.
pub(super) const MAX_LIMIT: u32 = 10_000;

/// How long a search may take.
pub(super) const SEARCH_TIME: Duration = Duration::from_secs(30);

pub(super) const TOO_LONG: &str = "The search took longer than 30 seconds; narrow the path or pattern.";

/// The tool.
#[derive(Debug)]
pub struct Glob {
    files: FileTools,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GlobInput {
    /// The pattern, for example `**/*.rs` or `src/{a,b}/*.ts`. Without `/` it is tried on file names at any depth.
    pattern: String,
    /// The directory to search, the working directory when absent.
    #[serde(default)]
    path: Option<String>,
    /// Whether hidden files are found too.
    #[serde(default)]
    hidden: bool,
    /// The most results, 100 when absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GlobOutput {
    /// The files, relative to the working directory.
    entries: Vec<Entry>,
    /// Whether there are more.
    truncated: bool,
}

impl Glob {
    /// Makes the tool.
    pub fn new(files: FileTools) -> Self {
        Self { files }
    }
}

impl TypedTool for Glob {
    type Input = GlobInput;
    type Output = GlobOutput;

    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> String {
        "Finds files by a pattern of their paths. What .gitignore names is left out, hidden files too unless asked for. \
         At most 100 results come unless limit says more."
            .to_owned()
    }

    fn limits(&self) -> Vec<String> {
        vec![format!("{DEFAULT_LIMIT} results, at most {MAX_LIMIT} by `limit`; {} seconds", SEARCH_TIME.as_secs())]
    }

    async fn execute(&self, ctx: ToolContext, input: GlobInput) -> Result<ToolReturn<GlobOutput>, ToolFailure> {
        let files = &self.files;
        let path = named(input.path.as_deref()).unwrap_or(".");
        let limit = input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let target = files.resolve(&ctx, path, Wanted::Directory).await?;
        let asked = AssertInput::new("glob", input.pattern.clone())
            .saving("*")
            .with_metadata("root", target.real.to_string_lossy())
            .with_metadata("path", path)
            .with_metadata("hidden", input.hidden)
            .with_metadata("limit", limit);
        files.permissions.assert(&ctx, asked).await?;
        files.access.recheck(&target).await.map_err(super::files::access_failure)?;
        check_directory(&target)?;
        let matcher = matcher(&input.pattern, &target)?;

        let walk = Walk {
            root: target.real.clone(),
            hidden: input.hidden,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            stop: ctx.scope.token(),
        };
        let found = blocking(move || Ok(walk.find(&matcher))).await;
        let found = found.map_err(|error| caused(format!("Could not search {path}"), &error))?;
        if found.is_out_of_time {
            return Err(ToolFailure::new(TOO_LONG));
        }
        let mut text = found.paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join("\n");
        if found.paths.is_empty() {
            "No files found".clone_into(&mut text);
        }
        if found.is_cut {
            text.push_str(&cut_note(limit));
        }
        if let Some(note) = unreadable_note(found.n_unreadable) {
            text.push_str(&note);
        }
        let root = files.access.real_directory();
        let entries: Vec<Entry> =
            found.paths.iter().map(|path| Entry { path: relative_to(path, root), kind: EntryKind::File }).collect();
        let count = entries.len();
        // What is found is bounded by the limit; long results are bounded by the boundary.
        Ok(ToolReturn::new(GlobOutput { entries, truncated: found.is_cut })
            .with_text(text)
            .with_metadata("count", count))
    }
}

/// Takes an absent path for what models write instead of leaving it out.
pub(super) fn named(path: Option<&str>) -> Option<&str> {
    path.filter(|path| !matches!(*path, "" | "undefined" | "null"))
}

pub(super) fn check_directory(target: &Target) -> Result<(), ToolFailure> {
    match target.kind {
        Kind::Directory => Ok(()),
        Kind::Missing => Err(ToolFailure::new(format!("No such search path: {}", target.requested))),
        Kind::File | Kind::Other => {
            Err(ToolFailure::new(format!("Search path {} is not a directory", target.requested)))
        }
    }
}

pub(super) fn cut_note(limit: u32) -> String {
    format!("\n\n(only the first {limit} results are listed; narrow the path or pattern for others)")
}

/// Says how much could not be searched.
pub(super) fn unreadable_note(n: usize) -> Option<String> {
    match n {
        0 => None,
        1 => Some("\n\n(1 file or directory could not be read)".to_owned()),
        n => Some(format!("\n\n({n} files or directories could not be read)")),
    }
}

/// Makes the matcher of a pattern for paths relative to the search root.
fn matcher(pattern: &str, target: &Target) -> Result<GlobMatcher, ToolFailure> {
    let mut pattern = pattern;
    // An absolute pattern below the root means the rest of it.
    for root in [&target.absolute, &target.real] {
        let rest = root.to_str().and_then(|root| pattern.strip_prefix(root)).and_then(|rest| rest.strip_prefix('/'));
        pattern = rest.unwrap_or(pattern);
    }
    compile(pattern.strip_prefix("./").unwrap_or(pattern))
}

/// Compiles a pattern: `*` stays within a name, and without `/` it is tried at any depth.
pub(super) fn compile(pattern: &str) -> Result<GlobMatcher, ToolFailure> {
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).backslash_escape(true).build();
    Ok(glob
        .map_err(|error| ToolFailure::new(format!("Invalid glob pattern {pattern:?}: {}", error.kind())))?
        .compile_matcher())
}

struct Walk {
    root: PathBuf,
    hidden: bool,
    limit: usize,
    stop: CancellationToken,
}

#[derive(Default)]
struct Found {
    paths: Vec<PathBuf>,
    is_cut: bool,
    is_out_of_time: bool,
    n_unreadable: usize,
}

impl Walk {
    fn find(&self, matcher: &GlobMatcher) -> Found {
        let deadline = Instant::now().checked_add(SEARCH_TIME);
        let mut found = Found::default();
        for entry in search::walk(&self.root, self.hidden).build() {
            if self.stop.is_cancelled() || deadline.is_some_and(|deadline| Instant::now() > deadline) {
                found.is_out_of_time = true;
                break;
            }
            let Ok(entry) = entry else {
                found.n_unreadable += 1;
                continue;
            };
            let relative = entry.path().strip_prefix(&self.root).unwrap_or(Path::new(""));
            if !search::is_file(&entry) || !matcher.is_match(relative) {
                continue;
            }
            if found.paths.len() == self.limit {
                found.is_cut = true;
                break;
            }
            found.paths.push(entry.into_path());
        }
        found
    }
}
