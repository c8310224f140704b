//! What files are to become again, and the changes that lead there. Blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use abide_schema::json::sha256_hex;
use abide_schema::message::{AssistantContent, FileDiff, Message, RevertCoverage};
use abide_schema::project::MessageRow;

use crate::config::real;
use crate::fs::blobs::Blobs;
use crate::fs::diff;
use crate::fs::disk::{self, Found};
use crate::fs::journal::Change;
use crate::snapshot::Past;
use crate::store::{FileOp, Mutation};

/// Where the former state of a file is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// It did not exist.
    Missing,
    /// In a snapshot.
    Tree(String),
    /// Among the before-images.
    Image {
        /// The content's hash.
        hash: String,
        /// The mode.
        mode: Option<u32>,
    },
}

/// What a file was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Was {
    Missing,
    File {
        content: Vec<u8>,
        mode: Mode,
    },
    Link {
        target: Vec<u8>,
    },
    /// Its content is not kept any more.
    Lost,
}

/// What is known of a file's mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exact(u32),
    Executable(bool),
    Unknown,
}

impl Mode {
    /// Returns the mode for a file that has `now`.
    const fn over(self, now: u32) -> u32 {
        match self {
            Self::Exact(mode) => mode,
            Self::Executable(true) => now | ((now & 0o444) >> 2),
            Self::Executable(false) => now & !0o111,
            Self::Unknown => now,
        }
    }

    /// Returns the mode for a new file; `None`: as the process's mask has it.
    const fn anew(self) -> Option<u32> {
        match self {
            Self::Exact(mode) => Some(mode),
            Self::Executable(true) => Some(0o755),
            Self::Executable(false) | Self::Unknown => None,
        }
    }
}

impl From<Past> for Was {
    fn from(past: Past) -> Self {
        match past {
            Past::Missing => Self::Missing,
            Past::File { content, is_executable } => Self::File { content, mode: Mode::Executable(is_executable) },
            Past::Link { target } => Self::Link { target },
        }
    }
}

/// Reads a before-image.
pub(super) fn image(blobs: &Blobs, hash: &str, mode: Option<u32>) -> Was {
    match blobs.get(hash) {
        Ok(Some(content)) => Was::File { content, mode: mode.map_or(Mode::Unknown, Mode::Exact) },
        Ok(None) | Err(_) => Was::Lost,
    }
}

/// What the files that the messages changed were before them, and whether that is everything that changed: the tree
/// before the first step that touched a file, and the before-image of the first edit of files that no tree knows.
pub(super) fn goals(
    rows: &[MessageRow],
    directory: &Path,
    past: &[Mutation],
) -> (BTreeMap<PathBuf, Goal>, RevertCoverage) {
    let mut goals = BTreeMap::new();
    let mut coverage = RevertCoverage::Full;
    for row in rows {
        let Message::Assistant(assistant) = &row.message else { continue };
        let snapshot = assistant.snapshot.as_ref();
        let tree = snapshot.and_then(|snapshot| Some((snapshot.start.as_ref()?, snapshot.files.as_ref()?)));
        if let Some((start, files)) = tree {
            for file in files {
                goals.entry(directory.join(file)).or_insert_with(|| Goal::Tree(start.clone()));
            }
        } else if assistant.content.iter().any(|item| matches!(item, AssistantContent::Tool(_))) {
            coverage = RevertCoverage::EditsOnly;
        }
        for batch in past.iter().filter(|batch| batch.call.as_ref().is_some_and(|call| call.message == assistant.id)) {
            add_before(&mut goals, batch);
        }
    }
    (goals, coverage)
}

/// Adds what the files of a batch were before it, unless they are known from earlier.
pub(super) fn add_before(goals: &mut BTreeMap<PathBuf, Goal>, batch: &Mutation) {
    for file in &batch.files {
        let before = match &file.before_hash {
            Some(hash) => Goal::Image { hash: hash.clone(), mode: file.before_mode },
            None => Goal::Missing,
        };
        goals.entry(PathBuf::from(&file.path)).or_insert(before);
        if let (FileOp::Move, Some(to)) = (file.op, &file.to_path) {
            goals.entry(PathBuf::from(to)).or_insert(Goal::Missing);
        }
    }
}

/// Changes that lead to the former state.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub(super) changes: Vec<Change>,
    /// From the state before the stage to the one that is brought back.
    pub(super) files: Vec<FileDiff>,
    /// What cannot be brought back, with the reason.
    pub(super) skipped: Vec<String>,
}

/// Compares what is there with what was there. `originals` says what files were before an earlier stage; others are what
/// they are now.
pub(super) fn prepare(directory: &Path, goals: BTreeMap<PathBuf, Was>, originals: &BTreeMap<PathBuf, Was>) -> Prepared {
    let mut prepared = Prepared::default();
    let mut seen = BTreeSet::new();
    for (path, goal) in goals {
        let target = real_path(&path);
        // Two spellings of one file: the journal's is the real one.
        if !seen.insert(target.clone()) {
            continue;
        }
        let shown = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let original = originals.get(&path);
        match change(&target, &goal) {
            Ok((now, change)) => {
                prepared.changes.extend(change);
                let before = original.map_or(now.as_deref(), content);
                let after = content(&goal);
                if before != after {
                    prepared.files.push(compare(&shown, before, after));
                }
            }
            Err(reason) => prepared.skipped.push(format!("{shown}: {reason}")),
        }
    }
    prepared
}

/// Returns what is there now, and the change that brings the former state back, if it differs.
fn change(path: &Path, goal: &Was) -> Result<(Option<Vec<u8>>, Option<Change>), String> {
    let path = path.to_owned();
    let now = disk::look(&path).map_err(|error| error.to_string())?;
    match (now, goal) {
        (_, Was::Lost) => Err("its content from before is not kept any more".to_owned()),
        (Found::NotAFile, Was::Link { target }) if is_link_to(&path, target) => Ok((None, None)),
        (Found::NotAFile, _) => Err("it is no regular file now".to_owned()),
        (_, Was::Link { .. }) => Err("it was a symbolic link; links are not brought back".to_owned()),
        (Found::Missing, Was::Missing) => Ok((None, None)),
        (Found::Missing, Was::File { content, mode }) => {
            Ok((None, Some(Change::Create { path, content: content.clone(), mode: mode.anew() })))
        }
        (Found::File(now), Was::Missing) => {
            let expected = Some(sha256_hex(&now.content));
            Ok((Some(now.content), Some(Change::Delete { path, expected })))
        }
        (Found::File(now), Was::File { content, mode }) => {
            let mode = mode.over(now.facts.mode);
            let change = if now.content != *content {
                let expected = Some(sha256_hex(&now.content));
                Some(Change::Restore { path, expected, content: content.clone(), mode })
            } else if mode != now.facts.mode {
                Some(Change::Chmod { path, mode })
            } else {
                None
            };
            Ok((Some(now.content), change))
        }
    }
}

#[cfg(unix)]
fn is_link_to(path: &Path, target: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    std::fs::read_link(path).is_ok_and(|there| there.as_os_str().as_bytes() == target)
}

fn content(was: &Was) -> Option<&[u8]> {
    match was {
        Was::File { content, .. } => Some(content),
        Was::Missing | Was::Link { .. } | Was::Lost => None,
    }
}

fn compare(file: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| std::str::from_utf8(bytes).map(str::to_owned)).transpose();
    let diff = match (text(before), text(after)) {
        (Ok(before), Ok(after)) => diff::diff(file, before.as_deref(), after.as_deref()),
        (Err(_), _) | (_, Err(_)) => diff::binary_diff(file, before, after),
    };
    FileDiff {
        path: diff.file,
        status: diff.status,
        additions: diff.additions,
        deletions: diff.deletions,
        patch: diff.patch,
    }
}

/// Resolves the links of a file's directories, as far as they exist; the journal takes no others.
fn real_path(path: &Path) -> PathBuf {
    let there = path.ancestors().skip(1).find(|parent| parent.symlink_metadata().is_ok());
    match there.and_then(|parent| Some((real(parent), path.strip_prefix(parent).ok()?))) {
        Some((parent, rest)) => parent.join(rest),
        None => path.to_owned(),
    }
}

/// Returns the file that a change is about.
pub(super) fn path_of(change: &Change) -> &Path {
    match change {
        Change::Create { path, .. }
        | Change::Write { path, .. }
        | Change::Restore { path, .. }
        | Change::Delete { path, .. }
        | Change::Move { path, .. }
        | Change::Chmod { path, .. } => path,
    }
}
