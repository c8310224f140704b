//! The store: the event log with its projections, leases, journals and small values (spec/session.md sections 3,
//! 9.2, 9.3 and 12).
//!
//! Everything durable goes through [`EventStore::append`]: one transaction holds the events, their projections and
//! the operational rows that belong to them ([`Hook`]). Two implementations pass one suite: SQLite and memory.

mod job;
mod memory;
mod signal;
mod sqlite;
mod tail;
mod transact;
mod types;

use std::sync::Arc;

use abide_schema::event::StoredEvent;
use abide_schema::live::LiveEvent;
use abide_schema::permission::SavedPermission;
use abide_schema::project::{ContextRow, InputRow, MessageRow, Position};
use abide_schema::session::SessionInfo;
use abide_schema::todo::Todo;
use abide_schema::{MessageId, MutationId, OwnerId, ProjectId, SavedPermissionId, Seq, SessionId, Timestamp};
use futures_util::future::BoxFuture;

pub use job::{JobRecord, JobWork};
pub use memory::{CommitFault, CommitHook, CommitKind, MemoryStore};
pub use signal::{BUS_CAPACITY, BusEvent, BusLagged, BusReceiver, Doorbell, HeadWatch};
pub use sqlite::{DurabilityLevel, SqliteStore, StoreOptions};
pub use tail::{TailItem, tail};
pub use types::*;

/// A future of a store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The event log.
pub trait EventStore: Send + Sync {
    /// Appends events with their projections and operational rows, all or nothing.
    ///
    /// Returns after the commit (and, for [`Durability::Synced`], after it reached the disk).
    ///
    /// # Cancel safety
    /// Dropping the future does not stop an append that was queued.
    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<Vec<Arc<StoredEvent>>, AppendError>>;

    /// Reads a finite page of one session's log, by log position or by contract position ([`View`]).
    fn read<'a>(&'a self, session: &'a SessionId, range: SeqRange, view: View, limit: u32) -> StoreFuture<'a, Page>;

    /// Returns the head of a session's log: log position and contract position.
    fn head<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Head>>;

    /// Watches the head: level-triggered, a slow watcher loses wakes but no events. Subscribe before reading.
    fn watch(&self, session: &SessionId) -> HeadWatch;

    /// Takes over records of one session's serialized log in one transaction (spec/session.md 3.7); see [`replay_all`],
    /// which checks their order first.
    fn replay_records(&self, records: Vec<Replay>) -> BoxFuture<'_, Result<Vec<ReplayOutcome>, ReplayError>>;

    /// Deletes the events, the sequence and everything else of a session, as if it had never been. Deleting a
    /// session for a user appends `session.deleted` instead.
    fn remove<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, ()>;

    /// Lists all sessions with a log, deleted ones included, oldest first: `db verify` and `db rebuild` go through them.
    fn logs(&self) -> StoreFuture<'_, Vec<SessionId>>;

    /// Deletes and rebuilds the projections of one session from its log.
    fn rebuild<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, ()>;

    /// Compares the projections of one session with rebuilt ones; returns the differences, in words.
    fn verify<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<String>>;

    /// Checks what the log lies in (for SQLite, the file); returns what is damaged, in words.
    fn check(&self) -> StoreFuture<'_, Vec<String>>;

    /// Subscribes to all committed and live events of this process, in order. A subscriber that falls
    /// [`BUS_CAPACITY`] behind gets [`BusLagged`] and must start over.
    fn subscribe(&self) -> BusReceiver;

    /// Publishes an ephemeral event to the subscribers.
    fn publish_live(&self, event: LiveEvent);
}

/// The projections, read.
pub trait ProjectionStore: Send + Sync {
    /// Reads a session.
    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<SessionInfo>>;
    /// Lists sessions.
    fn sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionInfo>>;
    /// Reads a page of a session's messages with content.
    fn messages<'a>(&'a self, session: &'a SessionId, query: MessageQuery) -> StoreFuture<'a, Vec<MessageRow>>;
    /// Reads one message of any session with content.
    fn message<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Option<MessageRow>>;
    /// Reads an input of any session.
    fn input<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Option<InputRow>>;
    /// Reads a session's pending inputs in admission order.
    fn pending_inputs<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InputRow>>;
    /// Reads the head of a session's log and its pending inputs at once: what a boundary between two steps needs. The
    /// inputs are at least as new as the head.
    fn head_and_pending<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, (Option<Head>, Vec<InputRow>)>;
    /// Reads a session's context epoch.
    fn context<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<ContextRow>>;
    /// Returns the position of the newest completed compaction, where active history begins.
    fn history_start<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Position>>;
    /// Reads the messages with open state (assistants without completion, open items, running compactions, open
    /// shells), with content, in order: what a crash left.
    fn open_messages<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<MessageRow>>;
    /// Counts direct children and lists their ids.
    fn children<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<SessionId>>;
}

/// Who executes which session.
pub trait LeaseStore: Send + Sync {
    /// Registers this process instance and holds its lock for the life of the store.
    fn owner(&self) -> OwnerId;
    /// Reads a session's lease row.
    fn lease<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Lease>>;
    /// Lists leases whose owner is dead.
    fn orphans(&self) -> StoreFuture<'_, Vec<Lease>>;
    /// Lists sessions without live owner where work is owed: `wake_seq > done_seq` and pending input.
    fn owed(&self) -> StoreFuture<'_, Vec<SessionId>>;
    /// Takes an orphaned lease over by compare-and-swap on owner and fence; counts one attempt. `None`: somebody
    /// else was faster.
    fn take_over<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Option<Lease>>;
    /// Says whether an owner still lives.
    fn is_alive<'a>(&'a self, owner: &'a OwnerId) -> StoreFuture<'a, bool>;
    /// Sets `wake_seq` or `interrupt_seq` to the head, for an owner elsewhere. Nothing happens when the session has
    /// no log.
    fn signal<'a>(&'a self, session: &'a SessionId, signal: Signal) -> StoreFuture<'a, ()>;
    /// Returns a bell that rings after another process wrote: the holder then reads its leases again for signals.
    /// With SQLite it rings within 250 ms.
    fn doorbell(&self) -> Doorbell;
}

/// Write-ahead records of what tools do, and drafts of streamed text.
pub trait JournalStore: Send + Sync {
    /// Records a dispatched or streaming model request. Not synced.
    fn put_attempt(&self, attempt: StepAttempt) -> StoreFuture<'_, ()>;
    /// Lists the attempts of a session.
    fn attempts<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<StepAttempt>>;
    /// Upserts the draft of an open fragment. Not synced.
    fn put_draft(&self, draft: Draft) -> StoreFuture<'_, ()>;
    /// Lists the drafts of a session.
    fn drafts<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Draft>>;
    /// Inserts a planned mutation with its files; refuses a second one for the same call. Synced.
    fn plan_mutation(&self, mutation: Mutation) -> StoreFuture<'_, ()>;
    /// Moves a mutation to another state; with `fence`, only while that fence is still the session's. Synced.
    fn mark_mutation<'a>(&'a self, id: &'a MutationId, state: MutationState, fence: Option<u64>)
    -> StoreFuture<'a, ()>;
    /// Reads the unsettled mutations of a session.
    fn mutations<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Mutation>>;
    /// Reads all unsettled mutations of all sessions.
    fn all_mutations(&self) -> StoreFuture<'_, Vec<Mutation>>;
    /// Reads the settled mutations of a session, the oldest first: what a revert can go back to.
    fn past_mutations<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Mutation>>;
    /// Reads the settled mutations of all sessions that belong to no call: what staged reverts can be taken back to.
    fn reverts(&self) -> StoreFuture<'_, Vec<Mutation>>;
    /// Deletes settled mutations of calls that are older.
    fn forget_mutations(&self, before: Timestamp) -> StoreFuture<'_, ()>;
    /// Upserts a process record. Synced.
    fn put_process(&self, process: ToolProcess) -> StoreFuture<'_, ()>;
    /// Lists the process records of a session.
    fn processes<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<ToolProcess>>;
    /// Deletes a process record.
    fn drop_process<'a>(&'a self, key: &'a CallKey) -> StoreFuture<'a, ()>;
    /// Upserts the record of a background job. Synced.
    fn put_job(&self, job: JobRecord) -> StoreFuture<'_, ()>;
    /// Lists the records of all sessions, oldest notice first.
    fn jobs(&self) -> StoreFuture<'_, Vec<JobRecord>>;
    /// Deletes the record of a background job.
    fn drop_job<'a>(&'a self, notification: &'a MessageId) -> StoreFuture<'a, ()>;
}

/// Small values.
pub trait ValueStore: Send + Sync {
    /// Writes a content-addressed value and returns its hash (SHA-256 in hex).
    fn put_blob(&self, data: Vec<u8>) -> StoreFuture<'_, String>;
    /// Reads a content-addressed value.
    fn blob<'a>(&'a self, hash: &'a str) -> StoreFuture<'a, Option<Vec<u8>>>;
    /// Reads a value by key.
    fn get_value<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<String>>;
    /// Writes or removes a value by key.
    fn set_value<'a>(&'a self, key: &'a str, value: Option<String>) -> StoreFuture<'a, ()>;
    /// Lists saved permissions of a project, or of all.
    fn saved_permissions<'a>(&'a self, project: Option<&'a ProjectId>) -> StoreFuture<'a, Vec<SavedPermission>>;
    /// Saves permissions; those that exist already stay as they are.
    fn save_permissions(&self, saved: Vec<SavedPermission>) -> StoreFuture<'_, ()>;
    /// Removes a saved permission; an unknown one is no error.
    fn remove_permission<'a>(&'a self, id: &'a SavedPermissionId) -> StoreFuture<'a, ()>;
    /// Reads a session's things to do.
    fn todos<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Todo>>;
    /// Replaces a session's things to do.
    fn set_todos<'a>(&'a self, session: &'a SessionId, todos: Vec<Todo>) -> StoreFuture<'a, ()>;
}

/// The whole store.
pub trait Store: EventStore + ProjectionStore + LeaseStore + JournalStore + ValueStore {}
impl<T: EventStore + ProjectionStore + LeaseStore + JournalStore + ValueStore> Store for T {}

#[cfg(test)]
mod tests;

/// Takes over the records of one session's log, in order and in one transaction: all of them, or none. Later calls go
/// on where the first ended.
///
/// # Errors
/// The first record that is refused: for its type, its data, its place, or its owner. Records of several sessions, or
/// with gaps, are refused before anything is looked at.
///
/// # Cancel safety
/// They may have been taken over; a repetition knows them.
pub async fn replay_all(
    store: &(impl EventStore + ?Sized),
    replays: Vec<Replay>,
) -> Result<Vec<ReplayOutcome>, ReplayError> {
    for (one, two) in replays.iter().zip(replays.iter().skip(1)) {
        let (one, two) = (&one.record.durable, &two.record.durable);
        if one.aggregate_id != two.aggregate_id {
            return Err(ReplayError::AggregateMismatch {
                envelope: one.aggregate_id.clone(),
                data: two.aggregate_id.clone(),
            });
        }
        if two.seq != one.seq.next() {
            return Err(ReplayError::SequenceGap {
                session: two.aggregate_id.clone(),
                seq: two.seq,
                head: Some(one.seq),
            });
        }
    }
    store.replay_records(replays).await
}

/// Returns `seq`'s successor, or the first position when there is none.
pub fn next_seq(head: Option<Seq>) -> Seq {
    head.map_or(Seq(0), Seq::next)
}
