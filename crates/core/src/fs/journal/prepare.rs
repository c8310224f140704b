//! From a plan to a recorded batch: what is there now, what it becomes, where the new contents are staged.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use abide_schema::json::sha256_hex;
use abide_schema::{MutationId, Timestamp};

use super::work::Contents;
use super::{ApplyError, Change, Plan};
use crate::fs::blobs::Blobs;
use crate::fs::disk::{self, Found, Read};
use crate::store::{FileOp, Mutation, MutationFile, MutationState};

/// The longest file name that file systems take, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Compares the files with the plan, keeps their contents, and makes the record. Blocks.
pub(super) fn prepare(
    plan: Plan,
    id: MutationId,
    now: Timestamp,
    blobs: &Blobs,
) -> Result<(Mutation, Contents), ApplyError> {
    let mut named = BTreeSet::new();
    for path in plan.changes.iter().flat_map(Change::paths) {
        if !named.insert(path.clone()) {
            return Err(bad(path, "it is named twice"));
        }
    }
    let Plan { call, session, tool, output, changes, fence: _ } = plan;
    let mut builder = Builder { id: &id, blobs, made: BTreeSet::new() };
    let mut files = Vec::with_capacity(changes.len());
    let mut contents = Contents::new();
    for change in changes {
        let (file, content) = builder.file(change)?;
        if let (Some(tmp), Some(content)) = (&file.tmp_path, content) {
            contents.insert(tmp.clone(), content);
        }
        files.push(file);
    }
    let mutation = Mutation { id, call, session, tool, state: MutationState::Planned, output, created: now, files };
    Ok((mutation, contents))
}

struct Builder<'a> {
    id: &'a MutationId,
    blobs: &'a Blobs,
    /// Directories that an earlier file of the batch makes.
    made: BTreeSet<PathBuf>,
}

impl Builder<'_> {
    fn file(&mut self, change: Change) -> Result<(MutationFile, Option<Vec<u8>>), ApplyError> {
        match change {
            Change::Create { path, content, mode } => {
                expect_free(&path)?;
                let file = MutationFile {
                    op: FileOp::Create,
                    path: text(&path)?,
                    to_path: None,
                    before_hash: None,
                    before_mode: None,
                    after_hash: Some(sha256_hex(&content)),
                    after_mode: mode,
                    tmp_path: Some(staged(self.id, &path)?),
                    made_directories: self.directories(&path)?,
                };
                Ok((file, Some(content)))
            }
            Change::Write { path, expected, content } => {
                let (hash, mode) = self.keep(&path, expected.as_deref())?;
                if mode & 0o222 == 0 {
                    return Err(ApplyError::ReadOnly { path: path.display().to_string(), mode });
                }
                let file = MutationFile {
                    op: FileOp::Write,
                    path: text(&path)?,
                    to_path: None,
                    before_hash: Some(hash),
                    before_mode: Some(mode),
                    after_hash: Some(sha256_hex(&content)),
                    after_mode: Some(mode),
                    tmp_path: Some(staged(self.id, &path)?),
                    made_directories: Vec::new(),
                };
                Ok((file, Some(content)))
            }
            Change::Restore { path, expected, content, mode } => {
                let (hash, before) = self.keep(&path, expected.as_deref())?;
                let file = MutationFile {
                    op: FileOp::Write,
                    path: text(&path)?,
                    to_path: None,
                    before_hash: Some(hash),
                    before_mode: Some(before),
                    after_hash: Some(sha256_hex(&content)),
                    after_mode: Some(mode & 0o7777),
                    tmp_path: Some(staged(self.id, &path)?),
                    made_directories: Vec::new(),
                };
                Ok((file, Some(content)))
            }
            Change::Delete { path, expected } => {
                let (hash, mode) = self.keep(&path, expected.as_deref())?;
                let file = MutationFile {
                    op: FileOp::Delete,
                    path: text(&path)?,
                    to_path: None,
                    before_hash: Some(hash),
                    before_mode: Some(mode),
                    after_hash: None,
                    after_mode: None,
                    // Where the content is put when the removal is undone.
                    tmp_path: Some(staged(self.id, &path)?),
                    made_directories: Vec::new(),
                };
                Ok((file, None))
            }
            Change::Move { path, to, expected } => {
                let (hash, mode) = self.keep(&path, expected.as_deref())?;
                expect_free(&to)?;
                let file = MutationFile {
                    op: FileOp::Move,
                    path: text(&path)?,
                    to_path: Some(text(&to)?),
                    before_hash: Some(hash.clone()),
                    before_mode: Some(mode),
                    after_hash: Some(hash),
                    after_mode: Some(mode),
                    tmp_path: None,
                    made_directories: self.directories(&to)?,
                };
                Ok((file, None))
            }
            Change::Chmod { path, mode } => {
                let Read { content, facts } = existing(&path)?;
                let (hash, before) = (sha256_hex(&content), facts.mode);
                let file = MutationFile {
                    op: FileOp::Chmod,
                    path: text(&path)?,
                    to_path: None,
                    before_hash: Some(hash.clone()),
                    before_mode: Some(before),
                    after_hash: Some(hash),
                    after_mode: Some(mode & 0o7777),
                    tmp_path: None,
                    made_directories: Vec::new(),
                };
                Ok((file, None))
            }
        }
    }

    /// Reads a file, compares it with what the plan was made from, and keeps its content.
    fn keep(&self, path: &Path, expected: Option<&str>) -> Result<(String, u32), ApplyError> {
        let shown = || path.display().to_string();
        let Read { content, facts } = existing(path)?;
        let hash = sha256_hex(&content);
        if expected.is_some_and(|expected| expected != hash) {
            return Err(ApplyError::Stale { path: shown() });
        }
        self.blobs.put(&content).map_err(|source| ApplyError::Io { path: shown(), source })?;
        Ok((hash, facts.mode))
    }

    fn directories(&mut self, path: &Path) -> Result<Vec<String>, ApplyError> {
        let missing = disk::missing_parents(path).into_iter().filter(|directory| self.made.insert(directory.clone()));
        missing.map(|directory| text(&directory)).collect()
    }
}

/// Returns where the new content of a file is staged: beside it, under a hidden name with the batch's id.
fn staged(id: &MutationId, path: &Path) -> Result<String, ApplyError> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| bad(path, "it has no name"))?;
    let rest = format!(".{}{}", id, super::work::TEMP_SUFFIX);
    let room = MAX_NAME_BYTES.saturating_sub(rest.len() + 1);
    let name = if name.len() <= room {
        name.to_owned()
    } else {
        // Two long names may begin alike.
        let (hash, short) = (sha256_hex(name.as_bytes()), name.floor_char_boundary(room.saturating_sub(9)));
        format!("{}-{}", name.get(..short).unwrap_or_default(), hash.get(..8).unwrap_or_default())
    };
    text(&path.with_file_name(format!(".{name}{rest}")))
}

fn expect_free(path: &Path) -> Result<(), ApplyError> {
    match look(path)? {
        Found::Missing => Ok(()),
        Found::File(_) | Found::NotAFile => Err(ApplyError::TargetExists { path: path.display().to_string() }),
    }
}

fn existing(path: &Path) -> Result<Read, ApplyError> {
    match look(path)? {
        Found::File(read) => Ok(read),
        Found::Missing => Err(ApplyError::Missing { path: path.display().to_string() }),
        Found::NotAFile => Err(ApplyError::NotAFile { path: path.display().to_string() }),
    }
}

fn look(path: &Path) -> Result<Found, ApplyError> {
    disk::look(path).map_err(|source: io::Error| ApplyError::Io { path: path.display().to_string(), source })
}

fn text(path: &Path) -> Result<String, ApplyError> {
    if !path.is_absolute() {
        return Err(bad(path, "it is not absolute"));
    }
    Ok(path.to_str().ok_or_else(|| bad(path, "its name is not UTF-8"))?.to_owned())
}

fn bad(path: &Path, reason: &'static str) -> ApplyError {
    ApplyError::BadPath { path: path.display().to_string(), reason }
}
