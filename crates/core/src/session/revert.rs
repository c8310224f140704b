//! Going back: staging, clearing and committing a revert (spec/session.md 11.1).
//!
//! Restoring files is one batch of the mutation journal whose output is the event that it leads to. A crash in the
//! middle is finished or undone by [`settle`] before the session does anything else, and the event is appended once.

mod restore;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_schema::event::{
    EventData, ExecutionInterrupted, InterruptReason, RevertCleared, RevertCommitted, RevertStaged,
};
use abide_schema::message::{Revert, RevertCoverage};
use abide_schema::project::{MessageRow, Position};
use abide_schema::session::SessionInfo;
use abide_schema::tool::Verdict;
use abide_schema::{MessageId, MutationId, Seq, SessionId};
use serde::{Deserialize, Serialize};

use self::restore::{Goal, Prepared, Was};
use crate::fs::journal::{ApplyError, Change, Journal, Plan};
use crate::session::drain::DrainError;
use crate::session::engine::{Ask, Engine, Exclusive};
use crate::session::errors::SessionsError;
use crate::session::place::Place;
use crate::session::sessions::Sessions;
use crate::snapshot::SnapshotError;
use crate::store::{AppendError, Batch, Expect, Guard, Hook, MessageQuery, Mutation, MutationState, Order, StoreError};

/// The tool that batches of reverts name.
const TOOL: &str = "revert";
/// How long staging waits for the snapshot of the present state. Without it, the journal alone brings it back.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(10);

/// Where a session goes back to.
#[derive(Clone, Debug)]
pub struct StageRevert {
    /// The boundary.
    pub message_id: MessageId,
    /// Whether files go back too.
    pub files: bool,
    /// Whether the boundary message goes too; absent means true.
    pub inclusive: Option<bool>,
}

/// Why files cannot be brought back. Nothing was changed, except where the journal says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The contents from before cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The files cannot be changed.
    #[error("the files cannot be brought back: {0}")]
    Apply(#[from] ApplyError),
    /// The session or its files changed meanwhile.
    #[error("the session changed while its files were brought back; they are as before, try again")]
    Changed,
}

/// What a batch leads to, kept with it until the event is appended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pending {
    /// The new stage; absent: the stage is taken back.
    staged: Option<Revert>,
    /// The boundary that is staged before.
    before: Option<MessageId>,
    /// The head of the log that it was decided on.
    head: Option<Seq>,
}

impl Sessions {
    /// Stages a revert: files that the session changed since the boundary go back to what they were, messages stay until
    /// the commit. Staging again moves the boundary.
    ///
    /// # Errors
    /// [`SessionsError::MessageNotFound`]; [`SessionsError::Busy`] while the session runs; [`SessionsError::Restore`].
    ///
    /// # Cancel safety
    /// The operation is carried to its end even if the future is dropped.
    pub async fn stage_revert(&self, session: &SessionId, input: StageRevert) -> Result<Revert, SessionsError> {
        let (engine, id) = (self.engine.clone(), session.clone());
        self.engine.to_the_end(async move { Work::begin(&engine, &id).await?.stage(input).await }).await?
    }

    /// Takes a staged revert back: files are as before it. Nothing staged is no error.
    ///
    /// # Errors
    /// As [`Sessions::stage_revert`].
    ///
    /// # Cancel safety
    /// As [`Sessions::stage_revert`].
    pub async fn clear_revert(&self, session: &SessionId) -> Result<(), SessionsError> {
        let (engine, id) = (self.engine.clone(), session.clone());
        self.engine.to_the_end(async move { Work::begin(&engine, &id).await?.clear().await }).await?
    }

    /// Makes a staged revert final: the messages and inputs since the boundary go, files stay as they are. Nothing
    /// staged is no error.
    ///
    /// # Errors
    /// As [`Sessions::stage_revert`].
    ///
    /// # Cancel safety
    /// As [`Sessions::stage_revert`].
    pub async fn commit_revert(&self, session: &SessionId) -> Result<(), SessionsError> {
        let (engine, id) = (self.engine.clone(), session.clone());
        self.engine.to_the_end(async move { Work::begin(&engine, &id).await?.commit().await }).await?
    }
}

/// Returns the batch that makes a staged revert final.
pub(super) fn commit_batch(engine: &Engine, session: &SessionInfo, revert: &Revert) -> Batch {
    let mut batch = Engine::batch(&session.id, &session.location, vec![committed(engine, &session.id, revert)]);
    batch.guard = Some(Guard::RevertIs(Some(revert.message_id.clone())));
    batch.hooks = vec![Hook::DropReverts];
    batch
}

/// Returns the event that makes a staged revert final.
pub(super) fn committed(engine: &Engine, session: &SessionId, revert: &Revert) -> EventData {
    RevertCommitted {
        timestamp: engine.world.now(),
        session_id: session.clone(),
        message_id: revert.message_id.clone(),
        inclusive: revert.inclusive,
    }
    .into()
}

/// Finishes or undoes what a crash left of reverts, in all sessions or one.
pub(super) async fn settle(engine: &Engine, only: Option<&SessionId>) -> Result<(), StoreError> {
    let batches = match only {
        Some(session) => engine.store.mutations(session).await?,
        None => engine.store.all_mutations().await?,
    };
    for batch in batches.into_iter().filter(|batch| batch.call.is_none() && batch.tool == TOOL) {
        let Some(recovered) = engine.effects.finish(batch.clone()).await? else { continue };
        let (session, mutation) = (&batch.session, &batch.id);
        match recovered.verdict {
            Verdict::Applied => match append(engine, &batch).await {
                Ok(()) => {}
                Err(AppendError::Storage(error)) => return Err(error),
                Err(error) => {
                    tracing::warn!(session.id = %session, %error, "a revert that a crash cut off is undone");
                    if let Err(error) = put_back(engine, &batch).await {
                        tracing::error!(session.id = %session, %error, "files of a revert could not be put back");
                        engine.store.mark_mutation(mutation, MutationState::Settled, None).await?;
                    }
                }
            },
            Verdict::NotStarted
            | Verdict::RolledBack
            | Verdict::Diverged
            | Verdict::Finished
            | Verdict::Killed
            | Verdict::Unknown
            | Verdict::ChildInterrupted => {
                let report = crate::fs::journal::summary(&recovered);
                tracing::warn!(session.id = %session, %mutation, report, "a crash cut a revert off");
                engine.store.mark_mutation(mutation, MutationState::Settled, None).await?;
            }
        }
    }
    Ok(())
}

/// Appends the event that an applied batch leads to, and settles the batch, all or nothing.
async fn append(engine: &Engine, mutation: &Mutation) -> Result<(), AppendError> {
    let pending: Pending = serde_json::from_value(mutation.output.clone())
        .map_err(|error| StoreError::Corrupt(format!("the batch {} of a revert: {error}", mutation.id)))?;
    let Some(session) = engine.store.session(&mutation.session).await? else {
        return Err(AppendError::SessionMissing(mutation.session.clone()));
    };
    let staged = pending.staged.map(|mut revert| {
        revert.snapshot.get_or_insert_with(|| mutation.id.to_string());
        revert
    });
    let mut batch = event(engine, &session, staged, pending.before, Some(mutation.id.clone()));
    batch.expect = pending.head.map_or(Expect::Any, Expect::Head);
    engine.store.append(batch).await?;
    Ok(())
}

/// Undoes an applied batch whose event finds no place in the log.
async fn put_back(engine: &Engine, batch: &Mutation) -> Result<(), SessionsError> {
    let id = &batch.session;
    let session = engine.store.session(id).await?.ok_or_else(|| SessionsError::NotFound(id.clone()))?;
    let place = engine.places.open(&session.location).await?;
    let Some(journal) = place.journal() else { return Ok(()) };
    let mut before = BTreeMap::new();
    restore::add_before(&mut before, batch);
    let directory = real_directory(&session).await?;
    let goals = resolve(&*place, &directory, before).await?;
    let prepared = blocking(move || restore::prepare(&directory, goals, &BTreeMap::new())).await?;
    if !prepared.changes.is_empty() {
        apply(journal, id, None, prepared.changes, serde_json::Value::Null).await.map_err(RestoreError::from)?;
    }
    forget_unsettled(engine, id).await
}

async fn apply(
    journal: &Journal,
    session: &SessionId,
    fence: Option<u64>,
    changes: Vec<Change>,
    output: serde_json::Value,
) -> Result<(), ApplyError> {
    let guard = journal.lock(changes.iter().map(|change| restore::path_of(change).to_owned())).await;
    let (session, tool) = (session.clone(), TOOL.to_owned());
    journal.apply(guard, Plan { call: None, session, tool, fence, output, changes }).await
}

/// Takes batches that lead to nothing out of recovery's sight.
async fn forget_unsettled(engine: &Engine, session: &SessionId) -> Result<(), SessionsError> {
    for batch in engine.store.mutations(session).await? {
        if batch.call.is_none() && batch.tool == TOOL && batch.state != MutationState::Diverged {
            engine.store.mark_mutation(&batch.id, MutationState::Settled, None).await?;
        }
    }
    Ok(())
}

/// Returns the batch that stages, or takes the stage back, and settles the batch of files that led there.
fn event(
    engine: &Engine,
    session: &SessionInfo,
    staged: Option<Revert>,
    before: Option<MessageId>,
    settled: Option<MutationId>,
) -> Batch {
    let (timestamp, session_id) = (engine.world.now(), session.id.clone());
    let settle = settled.map(Hook::SettleBatch);
    let hooks = match (&staged, &before) {
        // What failed stages left is forgotten before this one counts.
        (Some(_), None) => std::iter::once(Hook::DropReverts).chain(settle).collect(),
        (Some(_), Some(_)) => settle.into_iter().collect(),
        (None, _) => settle.into_iter().chain([Hook::DropReverts]).collect(),
    };
    let event: EventData = match staged {
        Some(revert) => RevertStaged { timestamp, session_id, revert }.into(),
        None => RevertCleared { timestamp, session_id }.into(),
    };
    let mut batch = Engine::batch(&session.id, &session.location, vec![event]);
    batch.guard = Some(Guard::RevertIs(before));
    batch.hooks = hooks;
    batch
}

/// An operation on a session that nothing runs beside.
struct Work {
    engine: Arc<Engine>,
    session: SessionInfo,
    /// The session's directory, links resolved.
    directory: PathBuf,
    head: Option<Seq>,
    fence: u64,
    _exclusive: Exclusive,
}

impl Work {
    /// Keeps executions away, settles what a dead process left, and reads the session.
    async fn begin(engine: &Arc<Engine>, id: &SessionId) -> Result<Self, SessionsError> {
        let unknown = || SessionsError::NotFound(id.clone());
        engine.store.session(id).await?.ok_or_else(unknown)?;
        let exclusive = engine.exclusive(id).await.ok_or_else(|| SessionsError::Busy(id.clone()))?;
        let fence = release(engine, id).await?;
        settle(engine, Some(id)).await?;
        let head = engine.store.head(id).await?.map(|head| head.seq);
        let session = engine.store.session(id).await?.ok_or_else(unknown)?;
        let directory = real_directory(&session).await?;
        Ok(Self { engine: engine.clone(), session, directory, head, fence, _exclusive: exclusive })
    }

    async fn stage(self, input: StageRevert) -> Result<Revert, SessionsError> {
        let StageRevert { message_id, files, inclusive } = input;
        let (store, id) = (&self.engine.store, &self.session.id);
        let row = store.message(&message_id).await?.filter(|row| row.session_id == *id);
        let boundary = row
            .map(|row| row.position)
            .ok_or_else(|| SessionsError::MessageNotFound { session: id.clone(), message: message_id.clone() })?;
        let from = if inclusive.unwrap_or(true) { boundary } else { after(boundary) };
        let before = self.session.revert.as_ref();
        let mut revert = Revert {
            message_id,
            inclusive,
            snapshot: before.and_then(|revert| revert.snapshot.clone()),
            diff: None,
            files: Some(Vec::new()),
            coverage: None,
            skipped: None,
        };
        // Files of an earlier stage go back to what they were before it, also when this one leaves files alone.
        let originals = self.originals().await?;
        if !files && originals.is_empty() {
            self.append(self.event(Some(revert.clone()))).await?;
            return Ok(revert);
        }
        let place = self.engine.places.open(&self.session.location).await?;
        let mut goals = originals.clone();
        if files {
            let query = MessageQuery { order: Order::Asc, from: Some(from), ..MessageQuery::default() };
            let rows: Vec<MessageRow> = store.messages(id, query).await?;
            let past = store.past_mutations(id).await?;
            let (wanted, coverage) = restore::goals(&rows, &self.directory, &past);
            goals.extend(wanted);
            revert.coverage = Some(coverage);
            if revert.snapshot.is_none() && place.settings().snapshot {
                revert.snapshot = tokio::time::timeout(SNAPSHOT_WAIT, place.capture()).await.ok().flatten();
            }
        }
        let prepared = self.prepare(&*place, goals, originals).await?;
        revert.diff = Some(prepared.files.iter().map(|file| file.patch.as_str()).collect());
        revert.files = Some(prepared.files.clone());
        revert.skipped = (!prepared.skipped.is_empty()).then(|| prepared.skipped.clone());
        if revert.skipped.is_some() {
            revert.coverage = Some(RevertCoverage::EditsOnly);
        }
        self.carry_out(place.journal(), prepared, Some(revert)).await?;
        let staged = store.session(id).await?.and_then(|session| session.revert);
        staged.ok_or(SessionsError::Restore(RestoreError::Changed))
    }

    async fn clear(self) -> Result<(), SessionsError> {
        let Some(revert) = self.session.revert.clone() else { return Ok(()) };
        let mut originals = self.originals().await?;
        if originals.is_empty()
            && let (Some(tree), Some(files)) = (&revert.snapshot, &revert.files)
            && !files.is_empty()
        {
            // The journal's record is gone: what the snapshot knows comes back.
            let goal = |path: &str| (self.directory.join(path), Goal::Tree(tree.clone()));
            originals = files.iter().map(|file| goal(&file.path)).collect();
        }
        if originals.is_empty() {
            self.append(self.event(None)).await?;
        } else {
            let place = self.engine.places.open(&self.session.location).await?;
            let prepared = self.prepare(&*place, originals, BTreeMap::new()).await?;
            for skipped in &prepared.skipped {
                tracing::warn!(session.id = %self.session.id, skipped, "a file of a staged revert stays as it is");
            }
            self.carry_out(place.journal(), prepared, None).await?;
        }
        self.wake_if_owed().await
    }

    async fn commit(self) -> Result<(), SessionsError> {
        let Some(revert) = &self.session.revert else { return Ok(()) };
        self.append(commit_batch(&self.engine, &self.session, revert)).await?;
        self.wake_if_owed().await
    }

    fn event(&self, staged: Option<Revert>) -> Batch {
        event(&self.engine, &self.session, staged, self.staged(), None)
    }

    fn staged(&self) -> Option<MessageId> {
        self.session.revert.as_ref().map(|revert| revert.message_id.clone())
    }

    /// What the files of the present stage were before it, by path.
    async fn originals(&self) -> Result<BTreeMap<PathBuf, Goal>, SessionsError> {
        let mut originals = BTreeMap::new();
        if self.session.revert.is_none() {
            return Ok(originals);
        }
        let past = self.engine.store.past_mutations(&self.session.id).await?;
        for batch in past.iter().filter(|batch| batch.call.is_none() && batch.tool == TOOL) {
            restore::add_before(&mut originals, batch);
        }
        Ok(originals)
    }

    /// Reads what the files are to become and compares it with what they are.
    async fn prepare(
        &self,
        place: &dyn Place,
        goals: BTreeMap<PathBuf, Goal>,
        originals: BTreeMap<PathBuf, Goal>,
    ) -> Result<Prepared, SessionsError> {
        let directory = self.directory.clone();
        let goals = resolve(place, &directory, goals).await?;
        let originals = resolve(place, &directory, originals).await?;
        blocking(move || restore::prepare(&directory, goals, &originals)).await
    }

    /// Changes the files as one batch, then appends the event that it leads to.
    async fn carry_out(
        &self,
        journal: Option<&Journal>,
        prepared: Prepared,
        staged: Option<Revert>,
    ) -> Result<(), SessionsError> {
        let (Some(journal), false) = (journal, prepared.changes.is_empty()) else {
            return self.append(self.event(staged)).await;
        };
        let pending = Pending { staged, before: self.staged(), head: self.head };
        let output = serde_json::to_value(pending).map_err(|error| StoreError::Other(error.to_string()))?;
        let id = &self.session.id;
        match apply(journal, id, Some(self.fence), prepared.changes, output).await {
            Ok(()) => {}
            // The files are as they shall be: recovery goes on from there.
            Err(error @ ApplyError::Journal { applied: true, .. }) => return Err(RestoreError::Apply(error).into()),
            Err(error) => {
                forget_unsettled(&self.engine, id).await?;
                let fenced = matches!(error, ApplyError::Fenced);
                return Err(if fenced { SessionsError::Busy(id.clone()) } else { RestoreError::Apply(error).into() });
            }
        }
        // The batch as it was recorded is what recovery would find.
        let batches = self.engine.store.mutations(id).await?;
        let Some(batch) = batches.into_iter().rev().find(|batch| batch.call.is_none() && batch.tool == TOOL) else {
            // Another process finished it meanwhile.
            return Ok(());
        };
        crate::fault::point("revert.mid_restore").await.map_err(|fault| StoreError::Other(fault.to_string()))?;
        match append(&self.engine, &batch).await {
            Ok(()) => Ok(()),
            Err(AppendError::Storage(error)) => Err(error.into()),
            Err(error) => {
                tracing::warn!(session.id = %id, %error, "a revert is undone: the session changed");
                put_back(&self.engine, &batch).await?;
                Err(RestoreError::Changed.into())
            }
        }
    }

    async fn append(&self, mut batch: Batch) -> Result<(), SessionsError> {
        batch.expect = self.head.map_or(Expect::Any, Expect::Head);
        match self.engine.store.append(batch).await {
            Ok(_) => Ok(()),
            Err(AppendError::GuardFailed | AppendError::SequenceConflict { .. }) => Err(RestoreError::Changed.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs what waited while the revert was staged.
    async fn wake_if_owed(&self) -> Result<(), SessionsError> {
        let id = &self.session.id;
        let lease = self.engine.store.lease(id).await?;
        if lease.is_some_and(|lease| lease.wake_seq > lease.done_seq)
            && !self.engine.store.pending_inputs(id).await?.is_empty()
        {
            self.engine.ask(id, Ask::WAKE);
        }
        Ok(())
    }
}

const fn after(position: Position) -> Position {
    Position { seq: position.seq, sub: position.sub.saturating_add(1) }
}

/// Reads what goals stand for.
async fn resolve(
    place: &dyn Place,
    directory: &Path,
    goals: BTreeMap<PathBuf, Goal>,
) -> Result<BTreeMap<PathBuf, Was>, SessionsError> {
    let mut out = BTreeMap::new();
    let mut trees: BTreeMap<String, Vec<(PathBuf, String)>> = BTreeMap::new();
    let mut images = Vec::new();
    for (path, goal) in goals {
        match goal {
            Goal::Tree(tree) => {
                let relative = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
                trees.entry(tree).or_default().push((path, relative));
            }
            Goal::Missing => drop(out.insert(path, Was::Missing)),
            Goal::Image { hash, mode } => images.push((path, hash, mode)),
        }
    }
    for (tree, files) in trees {
        let paths: Vec<String> = files.iter().map(|(_, relative)| relative.clone()).collect();
        let past = place.past(&tree, &paths).await.map_err(RestoreError::from)?;
        out.extend(files.into_iter().map(|(path, _)| path).zip(past.into_iter().map(|(_, past)| Was::from(past))));
    }
    if let Some(journal) = place.journal() {
        let blobs = journal.blobs().clone();
        let read =
            move |(path, hash, mode): (PathBuf, String, Option<u32>)| (path, restore::image(&blobs, &hash, mode));
        out.extend(blocking(move || images.into_iter().map(read).collect::<Vec<_>>()).await?);
    }
    Ok(out)
}

async fn real_directory(session: &SessionInfo) -> Result<PathBuf, SessionsError> {
    let directory = PathBuf::from(&session.location.directory);
    blocking(move || crate::config::real(&directory)).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, SessionsError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Other(format!("looking at the files ended early: {error}")).into())
}

/// Frees a session whose owner died: what it left is settled, and its execution ends. Returns the fence.
async fn release(engine: &Arc<Engine>, id: &SessionId) -> Result<u64, SessionsError> {
    let Some(lease) = engine.store.lease(id).await? else {
        stale(engine.settle_stale(id, None, 0).await)?;
        return Ok(0);
    };
    let Some(owner) = &lease.owner else {
        stale(engine.settle_stale(id, None, lease.attempts).await)?;
        return Ok(lease.fence);
    };
    let busy = || SessionsError::Busy(id.clone());
    if *owner == engine.store.owner() || engine.store.is_alive(owner).await? {
        return Err(busy());
    }
    let lease = engine.store.take_over(&lease).await?.ok_or_else(busy)?;
    stale(engine.settle_stale(id, Some(lease.fence), lease.attempts).await)?;
    let location = engine.store.session(id).await?.ok_or_else(|| SessionsError::NotFound(id.clone()))?.location;
    let interrupted = ExecutionInterrupted {
        timestamp: engine.world.now(),
        session_id: id.clone(),
        reason: InterruptReason::Superseded,
    };
    let mut batch = Engine::batch(id, &location, vec![interrupted.into()]);
    batch.fence = Some(lease.fence);
    batch.hooks = vec![Hook::ReleaseLease { done: None }, Hook::DropOperational];
    engine.store.append(batch).await?;
    Ok(lease.fence)
}

fn stale(settled: Result<Vec<EventData>, DrainError>) -> Result<(), SessionsError> {
    match settled {
        Ok(_) => Ok(()),
        Err(DrainError::Append(error)) => Err(error.into()),
        Err(error @ DrainError::Fenced) => Err(StoreError::Conflict(error.to_string()).into()),
    }
}
