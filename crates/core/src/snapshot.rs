//! Snapshots of a working tree: content-addressed trees in a private git directory (spec/config.md section 23).
//!
//! The user's index, refs, stash and configuration are never touched. Capturing is best effort: what goes wrong is
//! logged and gives no snapshot. A capture without changes costs two listings, which run at the same time.

mod store;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use abide_schema::json::sha256_hex;

use crate::config::{Directories, real};
use crate::git::{Git, GitError, Run};
use crate::project::{Project, Repository};

/// The largest untracked file that is captured.
const MAX_UNTRACKED_BYTES: u64 = 2 << 20;
/// The most untracked files, and bytes of them, that one capture adds: the safety net must not block the work.
const MAX_UNTRACKED_FILES: usize = 10_000;
const MAX_UNTRACKED_TOTAL: u64 = 64 << 20;
/// How long one run of git may take.
const LIMIT: Duration = Duration::from_mins(1);

/// What was done when something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Taking a snapshot.
    Capture,
    /// Listing files that differ.
    Files,
    /// Comparing content.
    Diff,
    /// Reading content to be restored.
    Plan,
}

/// Why a snapshot cannot be taken or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Git failed.
    #[error("snapshot {operation:?} failed: {source}")]
    Git {
        /// What was done.
        operation: Operation,
        /// Why.
        #[source]
        source: GitError,
    },
    /// The private directory cannot be used.
    #[error("the snapshot directory {path} cannot be used: {source}")]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Git answered something else than was asked for.
    #[error("snapshot {operation:?} failed: git gave an unexpected answer")]
    Answer {
        /// What was done.
        operation: Operation,
    },
    /// The path leads out of the working tree.
    #[error("{path:?} is not a path inside of the working tree")]
    Escape {
        /// The path.
        path: String,
    },
}

/// How a file differs between two snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only in the second.
    Added,
    /// Only in the first.
    Deleted,
    /// In both.
    Modified,
}

/// A file that differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file, relative to the location.
    pub file: String,
    /// How it differs.
    pub kind: ChangeKind,
    /// Lines added; 0 for binary files.
    pub additions: u64,
    /// Lines removed; 0 for binary files.
    pub deletions: u64,
    /// A unified diff; empty for binary files.
    pub patch: String,
}

/// What a file was in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// It did not exist.
    Missing,
    /// A regular file.
    File {
        /// Its content.
        content: Vec<u8>,
        /// Whether it could be run.
        is_executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Where it led.
        target: Vec<u8>,
    },
}

/// The snapshots of one location. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshots {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    git: Git,
    repository: Repository,
    /// The private git directory.
    directory: PathBuf,
    /// The real root of the working tree.
    worktree: PathBuf,
    /// The location relative to it, with `/`; empty for the root.
    scope: String,
    /// One capture at a time for each private directory of this process.
    shared: Arc<tokio::sync::Mutex<Shared>>,
    has_warned: AtomicBool,
}

/// What locations of one working tree share.
#[derive(Debug, Default)]
struct Shared {
    is_prepared: bool,
    /// The tree of the private index, when this process wrote it last.
    tree: Option<String>,
}

static SHARED: LazyLock<Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<Shared>>>>> = LazyLock::new(Mutex::default);

fn shared(directory: &Path) -> Arc<tokio::sync::Mutex<Shared>> {
    let mut all = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(directory).and_then(Weak::upgrade) {
        return known;
    }
    all.retain(|_, known| known.strong_count() > 0);
    let made = Arc::new(tokio::sync::Mutex::default());
    all.insert(directory.to_owned(), Arc::downgrade(&made));
    made
}

impl Snapshots {
    /// Makes the snapshots of a location; `None` outside of git. Nothing is created before the first capture.
    pub fn new(git: &Git, directories: &Directories, project: &Project, location: &Path) -> Option<Self> {
        let repository = project.repository.clone().filter(|repository| !repository.is_bare)?;
        let worktree = real(&repository.worktree);
        let scope = real(location).strip_prefix(&worktree).ok()?.to_str()?.replace('\\', "/");
        let hash = sha256_hex(worktree.display().to_string().as_bytes());
        let name = hash.get(..40).unwrap_or(&hash);
        let directory = directories.data.join("snapshot").join(project.id.as_str()).join(name);
        Some(Self {
            inner: Arc::new(Inner {
                git: git.clone(),
                shared: shared(&directory),
                repository,
                directory,
                worktree,
                scope,
                has_warned: AtomicBool::new(false),
            }),
        })
    }

    /// Takes a snapshot of the location's files. Failures are logged and give none.
    ///
    /// # Cancel safety
    /// Cancel safe: the next capture goes on from what is there.
    pub async fn capture(&self) -> Option<String> {
        match self.try_capture().await {
            Ok(tree) => Some(tree),
            Err(error) => {
                // Once a location: the reason rarely goes away by itself.
                if self.inner.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::debug!(%error, "no snapshot");
                } else {
                    tracing::warn!(%error, "no snapshot; changes of this step cannot be undone as a whole");
                }
                None
            }
        }
    }

    /// Takes a snapshot of the location's files.
    ///
    /// # Errors
    /// [`SnapshotError`].
    ///
    /// # Cancel safety
    /// Cancel safe: the next capture goes on from what is there.
    pub async fn try_capture(&self) -> Result<String, SnapshotError> {
        let inner = &self.inner;
        let mut shared = inner.shared.lock().await;
        let _other_processes = self.lock_directory(&mut shared).await?;
        let changes = match self.changes().await {
            Ok(changes) => changes,
            Err(error) => {
                // An index that cannot be used, for example one that depends on files of the source: begin anew.
                tracing::debug!(%error, "snapshot index is made anew");
                let index = inner.directory.join("index");
                if tokio::fs::remove_file(&index).await.is_err() {
                    return Err(error);
                }
                shared.tree = None;
                self.changes().await?
            }
        };
        if changes.is_empty()
            && let Some(tree) = &shared.tree
        {
            return Ok(tree.clone());
        }
        shared.tree = None;
        if !changes.is_empty() {
            self.add(&changes).await?;
        }
        let tree = self.git(Operation::Capture, &["write-tree", "--missing-ok"], None).await?;
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        if tree.len() < 40 {
            return Err(SnapshotError::Answer { operation: Operation::Capture });
        }
        shared.tree = Some(tree.clone());
        Ok(tree)
    }

    /// Makes the private directory and keeps other processes out of it.
    async fn lock_directory(&self, shared: &mut Shared) -> Result<File, SnapshotError> {
        let inner = Arc::clone(&self.inner);
        let is_prepared = shared.is_prepared;
        let path = inner.directory.clone();
        let work = tokio::task::spawn_blocking(move || {
            if !is_prepared {
                store::prepare(&inner.directory, &inner.repository)?;
            }
            store::lock(&inner.directory)
        });
        let locked = match work.await {
            Ok(result) => result,
            Err(error) => Err(std::io::Error::other(error)),
        };
        let (lock, was_other) = locked.map_err(|source| SnapshotError::Io { path, source })?;
        shared.is_prepared = true;
        if was_other {
            shared.tree = None;
        }
        Ok(lock)
    }

    /// Lists paths, relative to the working tree, that differ from the private index.
    async fn changes(&self) -> Result<Vec<Vec<u8>>, SnapshotError> {
        let scope = self.scope_pathspec();
        let tracked = ["diff-files", "--name-only", "-z", "--ignore-submodules=all", "--", scope];
        let others = ["ls-files", "--others", "--exclude-standard", "-z", "--", scope];
        let (tracked, others) =
            tokio::join!(self.git(Operation::Capture, &tracked, None), self.git(Operation::Capture, &others, None));
        let mut changed: Vec<Vec<u8>> = split(&tracked?);
        let others: Vec<Vec<u8>> = split(&others?).into_iter().filter(|path| !path.ends_with(b"/")).collect();
        changed.extend(self.small(others).await);
        if changed.is_empty() {
            return Ok(changed);
        }
        let ignored = self.ignored(&changed).await?;
        changed.retain(|path| !ignored.contains(path));
        Ok(changed)
    }

    /// Leaves out what is too large.
    async fn small(&self, others: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if others.is_empty() {
            return others;
        }
        let inner = Arc::clone(&self.inner);
        let work = tokio::task::spawn_blocking(move || {
            let all = others.len();
            let mut total = 0;
            let kept: Vec<Vec<u8>> = others
                .into_iter()
                .filter(|path| {
                    let found = std::fs::symlink_metadata(inner.worktree.join(os_path(path)));
                    let Ok(metadata) = found else { return true };
                    if metadata.len() > MAX_UNTRACKED_BYTES || total + metadata.len() > MAX_UNTRACKED_TOTAL {
                        return false;
                    }
                    total += metadata.len();
                    true
                })
                .take(MAX_UNTRACKED_FILES)
                .collect();
            if kept.len() < all && !inner.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    left_out = all - kept.len(),
                    worktree = %inner.worktree.display(),
                    "untracked files that are large or very many are not in snapshots; undo does not cover them"
                );
            }
            kept
        });
        work.await.unwrap_or_default()
    }

    /// Asks the user's repository which of the paths it ignores.
    async fn ignored(&self, paths: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>, SnapshotError> {
        let inner = &self.inner;
        // With `./` in front no name is taken for a pattern.
        let named: Vec<Vec<u8>> = paths.iter().map(|path| [b"./", path.as_slice()].concat()).collect();
        let run = Run {
            input: Some(joined(&named)),
            limit: LIMIT,
            ..Run::new(&inner.worktree, &["check-ignore", "--no-index", "--stdin", "-z"])
        };
        let failed = |source| SnapshotError::Git { operation: Operation::Capture, source };
        match inner.git.run_any(run).await.map_err(failed)? {
            // 1: none of them.
            (0 | 1, output, _) => Ok(split(&output)
                .into_iter()
                .map(|path| path.strip_prefix(b"./").map(<[u8]>::to_vec).unwrap_or(path))
                .collect()),
            (status, _, stderr) => Err(failed(GitError::Failed { command: "check-ignore".to_owned(), status, stderr })),
        }
    }

    async fn add(&self, paths: &[Vec<u8>]) -> Result<(), SnapshotError> {
        let arguments =
            ["add", "--all", "--force", "--sparse", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let run = Run { input: Some(joined(paths)), ..self.run(&arguments) };
        let failed = |source| SnapshotError::Git { operation: Operation::Capture, source };
        match self.inner.git.run_any(run).await.map_err(failed)? {
            (0, _, _) => Ok(()),
            // Some files cannot be read: the others count.
            (1, _, stderr) => {
                tracing::debug!(%stderr, "some files are not in the snapshot");
                Ok(())
            }
            (status, _, stderr) => Err(failed(GitError::Failed { command: "add".to_owned(), status, stderr })),
        }
    }

    /// Lists the files that differ between two snapshots, relative to the location, sorted.
    ///
    /// # Errors
    /// [`SnapshotError`], for example when a tree is gone.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn files(&self, from: &str, to: &str) -> Result<Vec<String>, SnapshotError> {
        check_tree(from, Operation::Files)?;
        check_tree(to, Operation::Files)?;
        if from == to {
            return Ok(Vec::new());
        }
        let scope = self.scope_pathspec();
        let arguments = ["diff-tree", "-r", "--name-only", "--no-renames", "-z", from, to, "--", scope];
        let output = self.git(Operation::Files, &arguments, None).await?;
        Ok(split(&output).iter().filter_map(|path| self.relative(&String::from_utf8_lossy(path))).collect())
    }

    /// Compares two snapshots: one entry for each file that differs, sorted.
    ///
    /// # Errors
    /// [`SnapshotError`], for example when a tree is gone.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn diff(&self, from: &str, to: &str) -> Result<Vec<FileChange>, SnapshotError> {
        check_tree(from, Operation::Diff)?;
        check_tree(to, Operation::Diff)?;
        if from == to {
            return Ok(Vec::new());
        }
        let scope = self.scope_pathspec();
        let with = |format: &'static str| {
            [
                "diff-tree",
                "-r",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                "--no-color",
                format,
                from,
                to,
                "--",
                scope,
            ]
        };
        let (status, counts, patch) = (with("--raw"), with("--numstat"), with("--patch"));
        let (status, counts, patch) = tokio::join!(
            self.git(Operation::Diff, &status, None),
            self.git(Operation::Diff, &counts, None),
            self.git(Operation::Diff, &patch, None)
        );
        let (status, counts, patch) = (status?, counts?, patch?);
        let patches = store::split_patches(&String::from_utf8_lossy(&patch));
        let counts = String::from_utf8_lossy(&counts).into_owned();
        let mut out = Vec::new();
        let lines = String::from_utf8_lossy(&status).into_owned();
        for ((line, counts), patch) in lines.lines().zip(counts.lines()).zip(patches) {
            let Some((head, path)) = line.split_once('\t') else { continue };
            let kind = match head.chars().last() {
                Some('A') => ChangeKind::Added,
                Some('D') => ChangeKind::Deleted,
                Some(_) | None => ChangeKind::Modified,
            };
            let mut numbers = counts.split('\t').map(|number| number.parse().unwrap_or(0));
            let (additions, deletions) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            let Some(file) = self.relative(&store::unquote(path)) else { continue };
            out.push(FileChange { file, kind, additions, deletions, patch });
        }
        Ok(out)
    }

    /// Reads what files were in a snapshot: what a restore has to write. Paths are relative to the location.
    ///
    /// # Errors
    /// [`SnapshotError::Escape`] for a path that leads out, before anything is read; else [`SnapshotError`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn past(&self, tree: &str, paths: &[String]) -> Result<Vec<(String, Past)>, SnapshotError> {
        check_tree(tree, Operation::Plan)?;
        let mut wanted = Vec::with_capacity(paths.len());
        for path in paths {
            wanted.push((path.clone(), self.inside(path)?));
        }
        let mut entries: HashMap<String, (String, String)> = HashMap::new();
        let listed: Vec<&str> = wanted.iter().map(|(_, full)| full.as_str()).collect();
        for chunk in listed.chunks(500) {
            let mut arguments = vec!["ls-tree", "-z", "--full-tree", tree, "--"];
            arguments.extend(chunk);
            let output = self.git(Operation::Plan, &arguments, None).await?;
            for entry in split(&output) {
                let entry = String::from_utf8_lossy(&entry).into_owned();
                let Some((head, path)) = entry.split_once('\t') else { continue };
                let mut parts = head.split(' ');
                if let (Some(mode), Some("blob"), Some(hash)) = (parts.next(), parts.next(), parts.next()) {
                    entries.insert(path.to_owned(), (mode.to_owned(), hash.to_owned()));
                }
            }
        }
        let mut out = Vec::with_capacity(wanted.len());
        for (path, full) in wanted {
            let past = match entries.get(&full) {
                None => Past::Missing,
                Some((mode, hash)) => {
                    let content = self.git(Operation::Plan, &["cat-file", "blob", hash], None).await?;
                    match mode.as_str() {
                        "120000" => Past::Link { target: content },
                        mode => Past::File { content, is_executable: mode == "100755" },
                    }
                }
            };
            out.push((path, past));
        }
        Ok(out)
    }

    /// A path of the location as one of the working tree, when it stays inside, also through links of its parents.
    fn inside(&self, path: &str) -> Result<String, SnapshotError> {
        let escape = || SnapshotError::Escape { path: path.to_owned() };
        let is_plain = !path.is_empty()
            && !path.starts_with('/')
            && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
            && !path.contains('\0');
        if !is_plain {
            return Err(escape());
        }
        let full = if self.inner.scope.is_empty() { path.to_owned() } else { format!("{}/{path}", self.inner.scope) };
        let absolute = self.inner.worktree.join(&full);
        let above = absolute.ancestors().skip(1).find(|path| path.exists()).unwrap_or(&self.inner.worktree);
        if real(above).starts_with(&self.inner.worktree) { Ok(full) } else { Err(escape()) }
    }

    /// A path of the working tree as one of the location.
    fn relative(&self, path: &str) -> Option<String> {
        if self.inner.scope.is_empty() {
            return Some(path.to_owned());
        }
        path.strip_prefix(&self.inner.scope)?.strip_prefix('/').map(str::to_owned)
    }

    fn scope_pathspec(&self) -> &str {
        if self.inner.scope.is_empty() { "." } else { &self.inner.scope }
    }

    fn run<'a>(&'a self, arguments: &'a [&'a str]) -> Run<'a> {
        let inner = &self.inner;
        Run {
            repository: Some((&inner.directory, &inner.worktree)),
            variables: &[("GIT_LITERAL_PATHSPECS", "1")],
            limit: LIMIT,
            ..Run::new(&inner.worktree, arguments)
        }
    }

    async fn git(
        &self,
        operation: Operation,
        arguments: &[&str],
        input: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, SnapshotError> {
        let run = Run { input, ..self.run(arguments) };
        self.inner.git.run(run).await.map_err(|source| SnapshotError::Git { operation, source })
    }
}

/// A snapshot's name comes from the log: it must not be taken for an option.
fn check_tree(tree: &str, operation: Operation) -> Result<(), SnapshotError> {
    let is_hash = (40..=64).contains(&tree.len()) && tree.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(()) } else { Err(SnapshotError::Answer { operation }) }
}

fn split(output: &[u8]) -> Vec<Vec<u8>> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

fn joined(paths: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(paths.iter().map(|path| path.len() + 1).sum());
    for path in paths {
        out.extend_from_slice(path);
        out.push(0);
    }
    out
}

#[cfg(unix)]
fn os_path(path: &[u8]) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

#[cfg(not(unix))]
fn os_path(path: &[u8]) -> &OsStr {
    OsStr::new(std::str::from_utf8(path).unwrap_or_default())
}

#[cfg(test)]
mod tests;
