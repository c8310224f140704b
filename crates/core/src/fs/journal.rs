//! The mutation journal: any number of files changed as one batch that is, whatever happens to the process, there as a
//! whole or not at all, or reported (spec/session.md 9.2).
//!
//! Order: lock, compare with what the plan was made from, keep the old contents, record the plan, stage the new
//! contents beside their places, record that they go in, put them in, record that they are. What a crash leaves between
//! any two of these is decided by [`Journal::recover`].

mod locks;
mod prepare;
mod recover;
mod work;

#[cfg(test)]
mod crash;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use abide_schema::{MutationId, SessionId};
use serde_json::Value;

use crate::fault::{self, Fault};
use crate::store::{CallKey, JournalStore, Mutation, MutationState, StoreError};
use crate::world::World;

use super::blobs::Blobs;

pub use locks::PathGuard;
pub use recover::{FileReport, Recovered, Standing, summary};

/// How many own changes are remembered.
const MAX_REMEMBERED: usize = 1024;

/// Is called with the real path of each file that was changed.
pub type OnEdited = Arc<dyn Fn(&Path) + Send + Sync>;

/// What the journal is made of.
pub struct JournalOptions {
    /// Where batches are recorded.
    pub store: Arc<dyn JournalStore>,
    /// Ids and time.
    pub world: World,
    /// The folder of before-images, `<data>/blobs`. Beside it, `<data>/locks` keeps processes apart that share the
    /// store.
    pub blobs: PathBuf,
    /// Whether files and folders are synced, so that the promise holds when the power fails too.
    pub sync: bool,
    /// Is told of changed files.
    pub on_edited: OnEdited,
}

/// A change of one file. Paths are absolute, and real: every link is resolved.
#[derive(Clone, Debug)]
pub enum Change {
    /// Makes a file that does not exist, with its missing directories.
    Create {
        /// The file.
        path: PathBuf,
        /// Its content.
        content: Vec<u8>,
        /// Its mode; absent: what the process's mask leaves of 0666.
        mode: Option<u32>,
    },
    /// Replaces the content of a file. Mode, owner and hard links stay.
    Write {
        /// The file.
        path: PathBuf,
        /// SHA-256 of the content that the plan was made from.
        expected: Option<String>,
        /// The new content.
        content: Vec<u8>,
    },
    /// Gives a file the content and the mode that it had before, also one that nobody may write.
    Restore {
        /// The file.
        path: PathBuf,
        /// As in `Write`.
        expected: Option<String>,
        /// Its content.
        content: Vec<u8>,
        /// Its mode.
        mode: u32,
    },
    /// Removes a file.
    Delete {
        /// The file.
        path: PathBuf,
        /// As in `Write`.
        expected: Option<String>,
    },
    /// Renames a file to a name that is free, with its missing directories.
    Move {
        /// The file.
        path: PathBuf,
        /// The new name.
        to: PathBuf,
        /// As in `Write`.
        expected: Option<String>,
    },
    /// Changes the mode of a file.
    Chmod {
        /// The file.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
}

impl Change {
    /// Returns the file; of one that moves, its old name.
    pub fn place(&self) -> &Path {
        match self {
            Self::Create { path, .. }
            | Self::Write { path, .. }
            | Self::Restore { path, .. }
            | Self::Delete { path, .. }
            | Self::Chmod { path, .. }
            | Self::Move { path, .. } => path,
        }
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let (path, to) = match self {
            Self::Create { path, .. }
            | Self::Write { path, .. }
            | Self::Restore { path, .. }
            | Self::Delete { path, .. }
            | Self::Chmod { path, .. } => (path, None),
            Self::Move { path, to, .. } => (path, Some(to)),
        };
        std::iter::once(path).chain(to)
    }
}

/// A batch of changes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The call that makes them; a call can apply one batch only. Absent for a revert.
    pub call: Option<CallKey>,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: String,
    /// The session's fence: a batch of an owner that has lost the session is not applied.
    pub fence: Option<u64>,
    /// What is published as the call's success when recovery finds the batch applied: `{structured, content,
    /// outputPaths?}`.
    pub output: Value,
    /// The changes, in the order in which they go in; each path once.
    pub changes: Vec<Change>,
}

/// Why a batch was not applied. Unless the variant says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A file that was to be made is there.
    #[error("{path} exists already")]
    TargetExists {
        /// The file.
        path: String,
    },
    /// A file is not what the plan was made from.
    #[error("{path} changed meanwhile")]
    Stale {
        /// The file.
        path: String,
    },
    /// A file is not there.
    #[error("{path} does not exist")]
    Missing {
        /// The file.
        path: String,
    },
    /// It is no regular file.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// Nobody may write it.
    #[error("{path} is read-only (mode {mode:04o})")]
    ReadOnly {
        /// The file.
        path: String,
        /// Its mode.
        mode: u32,
    },
    /// The path cannot be recorded: it is relative, not UTF-8, not locked, or named twice.
    #[error("{path} cannot be changed: {reason}")]
    BadPath {
        /// The path.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// The call has applied a batch already.
    #[error("this call has changed files already")]
    AlreadyDone,
    /// Another owner has the session.
    #[error("the session is executed by another process now")]
    Fenced,
    /// The system refused; what was done was undone.
    #[error("{path} could not be changed")]
    Io {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something went wrong in the middle, and not everything could be undone.
    #[error("the changes could not be completed and not be undone: {}", recover::lines(files))]
    Diverged {
        /// Every file of the batch.
        files: Vec<FileReport>,
        /// What went wrong first.
        #[source]
        cause: Box<Self>,
    },
    /// The journal could not be written. Before the batch was applied nothing was changed; after that it is, and
    /// recovery will say so.
    #[error("the journal of file changes could not be written{}", if *applied { " after the files were changed" } else { "" })]
    Journal {
        /// Whether the files are changed.
        applied: bool,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// An injected failure.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The journal. Cheap to clone; one per process, because its locks are what keeps two calls apart.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    options: JournalOptions,
    blobs: Blobs,
    locks: locks::PathLocks,
    own: Mutex<VecDeque<OwnChange>>,
}

struct OwnChange {
    path: String,
    before: Option<String>,
    after: Option<String>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

impl Journal {
    /// Makes the journal of a process.
    pub fn new(options: JournalOptions) -> Self {
        let blobs = Blobs::new(options.blobs.clone(), options.sync);
        Self { inner: Arc::new(Inner { options, blobs, locks: locks::PathLocks::default(), own: Mutex::default() }) }
    }

    /// Locks files against other calls of this process: all of a batch at once, in sorted order, so that two calls
    /// cannot wait for each other. Hold the guard from the last look at the files until [`Journal::apply`] has taken it.
    ///
    /// # Cancel safety
    /// Cancel safe: what was locked is released.
    pub async fn lock(&self, paths: impl IntoIterator<Item = PathBuf>) -> PathGuard {
        self.inner.locks.lock(paths).await
    }

    /// Applies a batch whose files are locked.
    ///
    /// # Errors
    /// [`ApplyError`]; every variant says whether files are changed.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call leaves what a crash leaves, which [`Journal::recover`] decides. Run it in a
    /// commit section of the call.
    pub async fn apply(&self, guard: PathGuard, plan: Plan) -> Result<(), ApplyError> {
        if let Some(path) = plan.changes.iter().flat_map(Change::paths).find(|path| !guard.holds(path)) {
            return Err(ApplyError::BadPath { path: path.display().to_string(), reason: "it is not locked" });
        }
        let others = self.lock_processes(&guard).await?;
        let fence = plan.fence;
        let (mutation, contents) = self.prepare(plan).await?;
        self.record(&mutation).await?;
        let batch = work::Batch {
            files: mutation.files.clone(),
            blobs: self.inner.blobs.clone(),
            sync: self.inner.options.sync,
        };
        let result = self.carry_out(&mutation.id, fence, &batch, contents).await;
        if result.is_ok() {
            self.remember(&mutation);
            for file in &mutation.files {
                for path in std::iter::once(&file.path).chain(&file.to_path) {
                    (self.inner.options.on_edited)(Path::new(path));
                }
            }
        }
        drop((others, guard));
        result
    }

    /// Says whether a file came from one content to another by changes of this journal alone.
    pub fn is_own_change(&self, path: &Path, from: Option<&str>, to: Option<&str>) -> bool {
        let own = self.inner.own.lock().unwrap_or_else(PoisonError::into_inner);
        let path = path.to_string_lossy();
        let mut at = from.map(str::to_owned);
        for change in own.iter().filter(|change| change.path == path) {
            if at.as_deref() == to {
                return true;
            }
            if change.before == at {
                at.clone_from(&change.after);
            }
        }
        at.as_deref() == to
    }

    /// Returns the before-images.
    pub fn blobs(&self) -> &Blobs {
        &self.inner.blobs
    }

    async fn lock_processes(&self, guard: &PathGuard) -> Result<locks::ProcessGuard, ApplyError> {
        let directory = self.inner.options.blobs.with_file_name("locks");
        let path = || guard.paths().first().map(|path| path.display().to_string()).unwrap_or_default();
        let locked = locks::lock_processes(&directory, guard.paths()).await;
        locked.map_err(|source| ApplyError::Io { path: path(), source })
    }

    async fn prepare(&self, plan: Plan) -> Result<(Mutation, work::Contents), ApplyError> {
        let id = self.inner.options.world.mutation_id();
        let (blobs, now) = (self.inner.blobs.clone(), self.inner.options.world.now());
        blocking(move || prepare::prepare(plan, id, now, &blobs)).await?
    }

    async fn record(&self, mutation: &Mutation) -> Result<(), ApplyError> {
        match self.inner.options.store.plan_mutation(mutation.clone()).await {
            Ok(()) => Ok(()),
            Err(StoreError::Conflict(_)) if mutation.call.is_some() => Err(ApplyError::AlreadyDone),
            Err(source) => Err(ApplyError::Journal { applied: false, source }),
        }
    }

    async fn carry_out(
        &self,
        id: &MutationId,
        fence: Option<u64>,
        batch: &work::Batch,
        contents: work::Contents,
    ) -> Result<(), ApplyError> {
        let store = &self.inner.options.store;
        let staged = async {
            fault::point("mutation.after_plan").await?;
            let staging = batch.clone();
            blocking(move || staging.stage(&contents)).await??;
            fault::point("mutation.after_stage").await?;
            Ok(())
        }
        .await;
        if let Err(cause) = staged {
            return Err(self.undo(id, batch, cause).await);
        }
        if let Err(source) = store.mark_mutation(id, MutationState::Applying, fence).await {
            // Whoever owns the session now finds a plan that was not begun.
            let cleaning = batch.clone();
            blocking(move || cleaning.clean()).await?;
            let fenced = matches!(source, StoreError::Fenced { .. });
            return Err(if fenced { ApplyError::Fenced } else { ApplyError::Journal { applied: false, source } });
        }
        let (applying, faults) = (batch.clone(), fault::current());
        let applied = match blocking(move || applying.apply(&faults)).await {
            Ok(Ok(())) => fault::point("mutation.after_apply").await.map_err(ApplyError::from),
            Ok(Err(error)) | Err(error) => Err(error),
        };
        if let Err(cause) = applied {
            return Err(self.undo(id, batch, cause).await);
        }
        let marked = store.mark_mutation(id, MutationState::Applied, None).await;
        marked.map_err(|source| ApplyError::Journal { applied: true, source })
    }

    /// Undoes what was done and records it; returns what the caller is told.
    async fn undo(&self, id: &MutationId, batch: &work::Batch, cause: ApplyError) -> ApplyError {
        let store = &self.inner.options.store;
        // Recorded first: whatever stops the undoing, recovery goes on with it.
        let marked = store.mark_mutation(id, MutationState::RolledBack, None).await;
        let undoing = batch.clone();
        let undone = blocking(move || undoing.roll_back()).await;
        match undone {
            Ok(files) if files.iter().all(|file| file.standing.is_before()) => {
                if let Err(error) = marked {
                    tracing::error!(mutation.id = %id, %error, "a batch that was undone could not be recorded");
                }
                cause
            }
            Ok(files) => {
                if let Err(error) = store.mark_mutation(id, MutationState::Diverged, None).await {
                    tracing::error!(mutation.id = %id, %error, "a batch that diverged could not be recorded");
                }
                ApplyError::Diverged { files, cause: Box::new(cause) }
            }
            Err(error) => error,
        }
    }

    fn remember(&self, mutation: &Mutation) {
        let mut own = self.inner.own.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &mutation.files {
            for (path, before, after) in work::contents_of(file) {
                own.push_back(OwnChange { path: path.to_owned(), before, after });
            }
        }
        let surplus = own.len().saturating_sub(MAX_REMEMBERED);
        own.drain(..surplus);
    }
}

/// Runs blocking work on its own thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApplyError> {
    let failed = |error| ApplyError::Io { path: "the files".to_owned(), source: io::Error::other(error) };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
