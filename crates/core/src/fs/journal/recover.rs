//! What a crash left of a batch, and what is done about it (the table of spec/session.md 9.2). Everything here can be
//! repeated: a recovery that is killed and run again ends the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use abide_schema::tool::Verdict;
use abide_schema::{MutationId, Timestamp};
use serde_json::Value;

use super::work::{self, Batch};
use super::{ApplyError, Journal, blocking};
use crate::fs::blobs::KEEP_FOR;
use crate::store::{CallKey, Mutation, MutationState, StoreError};

/// Where a file of a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// As before the batch.
    Before,
    /// As planned.
    After,
    /// As before and as planned: the batch does not change it.
    Same,
    /// In the middle of a write in place of ours.
    Torn,
    /// As somebody else made it.
    Other,
}

impl Standing {
    /// Says whether the file is as it was.
    pub const fn is_before(self) -> bool {
        matches!(self, Self::Before | Self::Same)
    }

    /// Says whether the file is as planned.
    pub const fn is_after(self) -> bool {
        matches!(self, Self::After | Self::Same)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Before | Self::Same => "before",
            Self::After => "after",
            Self::Torn | Self::Other => "other",
        }
    }
}

/// Where one file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The file.
    pub path: String,
    /// Where it stands.
    pub standing: Standing,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The batch.
    pub mutation: MutationId,
    /// Its call.
    pub call: Option<CallKey>,
    /// What recovery can say: `Applied`, `NotStarted`, `RolledBack` or `Diverged`.
    pub verdict: Verdict,
    /// The success output to publish when it is applied.
    pub output: Option<Value>,
    /// Where the files stand now.
    pub files: Vec<FileReport>,
}

/// Says in a line for the model what became of a batch.
pub fn summary(recovered: &Recovered) -> String {
    let names = || recovered.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ");
    match recovered.verdict {
        Verdict::Applied => format!("Its file changes were completed: {}.", names()),
        Verdict::NotStarted => "It had not started to change anything; it is safe to repeat.".to_owned(),
        Verdict::RolledBack => format!("Its file changes were undone completely: {}.", names()),
        Verdict::Diverged | Verdict::Finished | Verdict::Killed | Verdict::Unknown | Verdict::ChildInterrupted => {
            format!(
                "Its files were changed by somebody else meanwhile; look at each before going on: {}.",
                lines(&recovered.files)
            )
        }
    }
}

/// Writes `path: before`, `path: after` or `path: other` for every file.
pub(super) fn lines(files: &[FileReport]) -> String {
    files.iter().map(|file| format!("{}: {}", file.path, file.standing.word())).collect::<Vec<_>>().join(", ")
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Everything is in.
    Applied,
    /// Nothing is in, and nothing will be.
    NotStarted,
    /// Put in the rest.
    RollForward,
    /// Put back what is in.
    RollBack,
    /// Touch nothing.
    Diverged,
}

/// Decides by the recorded state, where the files stand, and whether the rest is staged.
pub(super) fn decide(state: MutationState, standings: &[Standing], is_staged: bool) -> Decision {
    let any = |wanted: Standing| standings.contains(&wanted);
    if state == MutationState::Settled {
        return Decision::Applied;
    }
    if state == MutationState::Diverged || any(Standing::Other) {
        return Decision::Diverged;
    }
    if state == MutationState::RolledBack {
        return Decision::RollBack;
    }
    if standings.iter().all(|standing| standing.is_after()) {
        return Decision::Applied;
    }
    let all_before = standings.iter().all(|standing| standing.is_before());
    match state {
        MutationState::Planned if all_before => Decision::NotStarted,
        MutationState::Applying if is_staged => Decision::RollForward,
        MutationState::Applying if all_before => Decision::NotStarted,
        MutationState::Applying => Decision::RollBack,
        // Before `applying` and after `applied` nothing of ours leaves such a mixture.
        MutationState::Planned
        | MutationState::Applied
        | MutationState::Settled
        | MutationState::RolledBack
        | MutationState::Diverged => Decision::Diverged,
    }
}

/// The contents that later batches gave to a file: from a content to the next.
#[derive(Clone)]
struct Later(BTreeMap<(String, Option<String>), Option<String>>);

impl Later {
    /// Takes those of `batches` that began after `mutation`.
    fn than(mutation: &Mutation, batches: &[Mutation]) -> Self {
        let mut later: Vec<&Mutation> = batches.iter().filter(|batch| age(batch) > age(mutation)).collect();
        later.sort_by_key(|batch| age(batch));
        let files = later.into_iter().flat_map(|batch| &batch.files).flat_map(work::contents_of);
        let changes = files.filter(|(_, before, after)| before != after);
        Self(changes.map(|(path, before, after)| ((path.to_owned(), before), after)).collect())
    }
}

fn age(batch: &Mutation) -> (Timestamp, MutationId) {
    (batch.created, batch.id.clone())
}

impl Journal {
    /// Brings the unsettled batches of one or of all sessions to an end, the newest first; returns what became of each,
    /// in that order. Nothing else may change these files through this journal meanwhile; a batch that is being applied
    /// is waited for.
    ///
    /// With `fence`, only an owner that still has the session records the outcome.
    ///
    /// # Errors
    /// When the outcome cannot be recorded; then it can be run again.
    ///
    /// # Cancel safety
    /// Can be dropped and run again.
    pub async fn recover(&self, mut batches: Vec<Mutation>, fence: Option<u64>) -> Result<Vec<Recovered>, StoreError> {
        batches.sort_by_key(|batch| Reverse(age(batch)));
        let unsettled = self.inner.options.store.all_mutations().await?;
        let mut recovered = Vec::with_capacity(batches.len());
        for batch in batches {
            recovered.push(self.recover_one(&batch, fence, &Later::than(&batch, &unsettled)).await?);
        }
        Ok(recovered)
    }

    /// Brings one unsettled batch to an end.
    ///
    /// # Errors
    /// As [`Journal::recover`].
    ///
    /// # Cancel safety
    /// As [`Journal::recover`].
    pub async fn recover_mutation(&self, mutation: Mutation, fence: Option<u64>) -> Result<Recovered, StoreError> {
        let unsettled = self.inner.options.store.all_mutations().await?;
        self.recover_one(&mutation, fence, &Later::than(&mutation, &unsettled)).await
    }

    /// Deletes what nobody needs: staged contents that no unsettled batch knows, in these directories (not below them),
    /// records of settled calls and before-images that are too old or too many. What an unsettled batch or a staged
    /// revert needs stays. Returns how many files.
    ///
    /// # Errors
    /// When the unsettled batches cannot be read.
    ///
    /// # Cancel safety
    /// Can be dropped and run again.
    pub async fn sweep(&self, directories: Vec<PathBuf>) -> Result<usize, StoreError> {
        let batches = self.inner.options.store.all_mutations().await?;
        let staged = self.inner.options.store.reverts().await?;
        let files = || batches.iter().flat_map(|batch| &batch.files);
        let live: BTreeSet<String> = files().filter_map(|file| file.tmp_path.clone()).collect();
        let kept = files().chain(staged.iter().flat_map(|batch| &batch.files));
        let needed: HashSet<String> = kept.filter_map(|file| file.before_hash.clone()).collect();
        let now = self.inner.options.world.now().as_millis();
        let kept_for = i64::try_from(KEEP_FOR.as_millis()).unwrap_or(i64::MAX);
        self.inner.options.store.forget_mutations(Timestamp::from_millis(now.saturating_sub(kept_for))).await?;
        let millis = u64::try_from(now).unwrap_or_default();
        let (blobs, now) = (self.inner.blobs.clone(), SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        run(move || {
            let forgotten = directories.iter().flat_map(|directory| work::forgotten(directory, &live));
            let n_staged = forgotten.filter(|path| std::fs::remove_file(path).is_ok()).count();
            n_staged + blobs.sweep(&needed, now).unwrap_or_default()
        })
        .await
    }

    async fn recover_one(
        &self,
        mutation: &Mutation,
        fence: Option<u64>,
        later: &Later,
    ) -> Result<Recovered, StoreError> {
        let paths = mutation.files.iter().flat_map(|file| std::iter::once(&file.path).chain(&file.to_path));
        let paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
        let guard = self.inner.locks.lock(paths).await;
        let others = self.lock_processes(&guard).await.map_err(|error| StoreError::Locked(chain(&error)))?;
        let batch =
            Batch { files: mutation.files.clone(), blobs: self.inner.blobs.clone(), sync: self.inner.options.sync };
        let (mut decision, mut files) = self.look(&batch, mutation.state, later).await?;
        if decision == Decision::RollForward {
            let forward = batch.clone();
            if let Err(error) = run(move || forward.roll_forward()).await? {
                tracing::warn!(mutation.id = %mutation.id, %error, "a batch could not be completed");
            }
            (decision, files) = self.look(&batch, MutationState::Applying, later).await?;
            if matches!(decision, Decision::RollForward | Decision::NotStarted) {
                // What cannot go in goes out.
                decision = Decision::RollBack;
            }
        }
        let mut outcome = match decision {
            Decision::Applied => MutationState::Applied,
            Decision::NotStarted => mutation.state,
            Decision::RollForward | Decision::RollBack => MutationState::RolledBack,
            Decision::Diverged => MutationState::Diverged,
        };
        if outcome != mutation.state && mutation.state != MutationState::Settled {
            self.inner.options.store.mark_mutation(&mutation.id, outcome, fence).await?;
        }
        if outcome == MutationState::RolledBack {
            let back = batch.clone();
            files = run(move || back.roll_back()).await?;
            if !files.iter().all(|file| file.standing.is_before()) {
                outcome = MutationState::Diverged;
                self.inner.options.store.mark_mutation(&mutation.id, outcome, fence).await?;
            }
        } else {
            run(move || batch.clean()).await?;
        }
        drop((others, guard));
        let verdict = match outcome {
            MutationState::Applied | MutationState::Settled => Verdict::Applied,
            MutationState::Planned | MutationState::Applying => Verdict::NotStarted,
            MutationState::RolledBack => Verdict::RolledBack,
            MutationState::Diverged => Verdict::Diverged,
        };
        let output = (verdict == Verdict::Applied).then(|| mutation.output.clone());
        Ok(Recovered { mutation: mutation.id.clone(), call: mutation.call.clone(), verdict, output, files })
    }

    async fn look(
        &self,
        batch: &Batch,
        state: MutationState,
        later: &Later,
    ) -> Result<(Decision, Vec<FileReport>), StoreError> {
        let (batch, later) = (batch.clone(), later.clone());
        run(move || {
            let mut files = batch.reports();
            for (file, report) in batch.files.iter().zip(&mut files) {
                // A batch that was recorded as applied may have been followed back to where it began.
                let unclear = report.standing == Standing::Other
                    || state == MutationState::Applied && report.standing == Standing::Before;
                if unclear && later.explains(file) {
                    report.standing = Standing::After;
                }
            }
            let standings: Vec<Standing> = files.iter().map(|file| file.standing).collect();
            (decide(state, &standings, batch.is_staged(&files)), files)
        })
        .await
    }
}

impl Later {
    /// Says whether later batches led from what this file of a batch became to what is there now.
    fn explains(&self, file: &crate::store::MutationFile) -> bool {
        work::contents_of(file).into_iter().all(|(path, _, after)| {
            let now = match crate::fs::disk::look(Path::new(path)) {
                Ok(crate::fs::disk::Found::File(read)) => Some(read.hash()),
                Ok(crate::fs::disk::Found::Missing) => None,
                Ok(crate::fs::disk::Found::NotAFile) | Err(_) => return false,
            };
            let mut at = after;
            // Contents may come back: no longer than the chain is.
            for _ in 0..=self.0.len() {
                if at == now {
                    return true;
                }
                match self.0.get(&(path.to_owned(), at)).cloned() {
                    Some(next) => at = next,
                    None => return false,
                }
            }
            false
        })
    }
}

fn chain(error: &ApplyError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    blocking(work).await.map_err(|error| StoreError::Other(error.to_string()))
}
