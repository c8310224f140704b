//! Plain data of the store's operations.

use std::sync::Arc;

use abide_schema::event::{DecodeError, EventData, LogRecord, StoredEvent};
use abide_schema::live::LiveEvent;
use abide_schema::location::LocationRef;
use abide_schema::message::ItemKind;
use abide_schema::project::Position;
use abide_schema::session::SessionInfo;
use serde::{Deserialize, Serialize};

use abide_schema::{CallId, EventId, JsonObject, MessageId, MutationId, OwnerId, ProjectId, Seq, SessionId, Timestamp};

/// One event to append.
#[derive(Clone, Debug)]
pub struct Item {
    /// What happened.
    pub data: EventData,
    /// An id given by the caller, for idempotent re-publishing; otherwise the store makes one.
    pub id: Option<EventId>,
    /// Free-form facts.
    pub metadata: Option<JsonObject>,
    /// The publisher's location.
    pub location: Option<LocationRef>,
    /// Ephemeral events that subscribers see right before this one, once it is committed; never without it.
    pub live: Vec<LiveEvent>,
}

impl<T: Into<EventData>> From<T> for Item {
    fn from(data: T) -> Self {
        Self { data: data.into(), id: None, metadata: None, location: None, live: Vec::new() }
    }
}

/// What the head must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    #[default]
    Any,
    /// This log position.
    Head(Seq),
    /// No event yet.
    Empty,
}

/// A condition that is checked in the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The session's title is this one.
    TitleIs(String),
    /// The boundary of the staged revert is this message; `None`: no revert is staged.
    RevertIs(Option<MessageId>),
}

/// When an append counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// When committed; it survives the death of the process, and of the machine once a later synced commit follows.
    #[default]
    Committed,
    /// When it reached the disk (with `power`), or when committed (with `process`).
    Synced,
}

/// An operational row that is written in the transaction of the events; not serialized and not replayed.
#[derive(Clone, Debug)]
pub enum Hook {
    /// Takes the session's lease: fails with [`AppendError::Busy`] unless it is free, ours, or held by `dead_owner`,
    /// and its fence is `fence - 1`. Sets the fence to `fence`.
    AcquireLease {
        /// The new owner.
        owner: OwnerId,
        /// The new fence.
        fence: u64,
        /// An owner that is known to be dead.
        dead_owner: Option<OwnerId>,
    },
    /// Releases the lease, resets the attempts, and notes up to where work is done.
    ReleaseLease {
        /// `done_seq`: a position, or the position of the last event of this batch.
        done: Option<Seq>,
    },
    /// Resets the attempts: the execution got on after it was resumed.
    ResetAttempts,
    /// Sets `wake_seq` to the position of the first event of the batch.
    SetWake,
    /// Writes a content-addressed value.
    PutBlob {
        /// SHA-256 of the value in hex.
        hash: String,
        /// The value.
        data: Vec<u8>,
    },
    /// Deletes the draft of one fragment.
    DropDraft {
        /// The assistant message.
        message: MessageId,
        /// The kind of the fragment.
        kind: ItemKind,
        /// The fragment.
        item_id: String,
    },
    /// Deletes all drafts and the attempt of an assistant message or compaction.
    DropStep {
        /// The message.
        message: MessageId,
    },
    /// Marks the mutation of a call settled.
    SettleMutation(CallKey),
    /// Marks a mutation settled; fails with [`AppendError::GuardFailed`] when it is settled already or unknown, so that
    /// what it announced is appended once.
    SettleBatch(MutationId),
    /// Deletes the settled mutations that belong to no call: nothing can be taken back to them any more.
    DropReverts,
    /// Deletes the process record of a call.
    DropProcess(CallKey),
    /// Deletes the record of a background job: its notice is admitted with these events.
    DropJob(MessageId),
    /// Deletes drafts and attempts of the whole session. Settled mutations stay: a revert needs them.
    DropOperational,
}

/// One transaction's worth of events of one session.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The session.
    pub session: SessionId,
    /// The events, in order; at least one.
    pub items: Vec<Item>,
    /// What the head must be.
    pub expect: Expect,
    /// The fence of the writer, for the session's owner.
    pub fence: Option<u64>,
    /// A condition.
    pub guard: Option<Guard>,
    /// Operational rows.
    pub hooks: Vec<Hook>,
    /// When it counts as done.
    pub durability: Durability,
}

impl Batch {
    /// Makes a synced batch without conditions.
    pub fn new(session: SessionId, items: Vec<Item>) -> Self {
        Self {
            session,
            items,
            expect: Expect::Any,
            fence: None,
            guard: None,
            hooks: Vec::new(),
            durability: Durability::Synced,
        }
    }
}

/// Why an append failed. Nothing of the batch was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another owner has taken the session over.
    #[error("session {session} is fenced: the writer has fence {expected}, the session {actual}")]
    Fenced {
        /// The session.
        session: SessionId,
        /// The writer's fence.
        expected: u64,
        /// The session's fence.
        actual: u64,
    },
    /// The lease is held by a live owner.
    #[error("session {session} is executed by {owner}")]
    Busy {
        /// The session.
        session: SessionId,
        /// The owner.
        owner: OwnerId,
    },
    /// The head is not what was expected.
    #[error("session {session}: expected head {expected:?}, found {actual:?}")]
    SequenceConflict {
        /// The session.
        session: SessionId,
        /// What was expected.
        expected: Expect,
        /// The head.
        actual: Option<Seq>,
    },
    /// The guard does not hold.
    #[error("the condition of the append does not hold")]
    GuardFailed,
    /// The id is taken by another event.
    #[error("event id {id} is taken by another event")]
    EventIdConflict {
        /// The id.
        id: EventId,
    },
    /// An event belongs to another session than the batch.
    #[error("an event of session {actual} in a batch of session {expected}")]
    AggregateMismatch {
        /// The batch's session.
        expected: SessionId,
        /// The event's session.
        actual: SessionId,
    },
    /// The session exists already.
    #[error("session {0} exists already")]
    SessionAlreadyProjected(SessionId),
    /// The session has no projection.
    #[error("session {0} does not exist")]
    SessionMissing(SessionId),
    /// An input is not in the state that the event needs.
    #[error("input {id} is not in a state for this event")]
    InputLifecycleConflict {
        /// The input.
        id: MessageId,
    },
    /// An event does not fit the projection.
    #[error("the event does not fit the session's state: {0}")]
    Projection(String),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StoreError),
}

/// Why the storage failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database was made by a newer abide.
    #[error(
        "the database {path} has schema version {found}, this abide knows up to {known}: use a newer abide, or another data directory (ABIDE_DATA_DIR)"
    )]
    NewerVersion {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
        /// The newest known.
        known: u32,
    },
    /// The database has our version and other tables: a build between two releases made it.
    #[error(
        "the database {path} has schema version {version}, but its {object} is not as in this abide: a build between two releases made it. Move it away, use another data directory (ABIDE_DATA_DIR), or open it with that build"
    )]
    OtherSchema {
        /// The file.
        path: String,
        /// Its version.
        version: u32,
        /// The first table or index that differs.
        object: String,
    },
    /// Another process holds the database for too long.
    #[error("the database is locked by another process: {0}")]
    Locked(String),
    /// The disk is full, or a file cannot be written.
    #[error("the data directory cannot be written: {0}")]
    Disk(String),
    /// The file is damaged or not a database.
    #[error("the database is damaged: {0}; run `abide db verify`")]
    Corrupt(String),
    /// A record conflicts with what is stored.
    #[error("{0}")]
    Conflict(String),
    /// Another owner has taken the session over.
    #[error("session {session} is fenced: the writer has fence {expected}, the session {actual}")]
    Fenced {
        /// The session.
        session: SessionId,
        /// The writer's fence.
        expected: u64,
        /// The session's fence.
        actual: u64,
    },
    /// The writer is gone: an earlier write failed in a way that leaves the state unknown, or the store was closed.
    #[error("the store is closed: {0}")]
    Closed(String),
    /// Anything else.
    #[error("the store failed: {0}")]
    Other(String),
}

/// A range of positions, both ends exclusive-inclusive: `(after, through]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeqRange {
    /// Exclusive begin; absent means from the start.
    pub after: Option<Seq>,
    /// Inclusive end; absent means the head.
    pub through: Option<Seq>,
}

/// Which events a read returns, and which positions its range means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All events, by log position.
    Log,
    /// All events that are not internal, by log position.
    Public,
    /// The contract's events without `session.created`, by contract position.
    Contract,
}

/// A page of events.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The events, in order.
    pub events: Vec<Arc<StoredEvent>>,
    /// Whether more follow within the range.
    pub has_more: bool,
    /// The position (in the view's own counting) up to which rows were read, skipped ones included.
    pub cursor: Option<Seq>,
}

/// The head of a session's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Log position of the last event.
    pub seq: Seq,
    /// Contract position of the last counted event.
    pub contract_seq: Option<Seq>,
}

/// An event of a serialized log, to be taken over.
#[derive(Debug)]
pub struct Replay {
    /// The record.
    pub record: LogRecord,
    /// Whether subscribers of the bus are told.
    pub publish: bool,
    /// Who replays, when the log belongs to one replayer.
    pub claim: Option<ReplayClaim>,
}

impl Replay {
    /// Makes a replay that tells nobody and claims nothing.
    pub const fn new(record: LogRecord) -> Self {
        Self { record, publish: false, claim: None }
    }
}

/// Names the one who replays a log. The first claim owns the log; replay owners are unrelated to leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayClaim {
    /// The replayer.
    pub owner: String,
    /// Whether another owner is an error; otherwise the record is ignored.
    pub strict: bool,
}

/// What became of a replayed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// It was stored.
    Accepted,
    /// It was there already.
    Known,
    /// The log belongs to another replayer.
    Ignored,
}

/// Why a record of a serialized log was refused. Nothing was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The envelope names another session than the data.
    #[error("the record is of session {envelope}, its data of session {data}")]
    AggregateMismatch {
        /// The envelope's session.
        envelope: SessionId,
        /// The data's session.
        data: SessionId,
    },
    /// Events between the head and the record are missing.
    #[error("session {session}: the record has position {seq}, the log ends at {head:?}")]
    SequenceGap {
        /// The session.
        session: SessionId,
        /// The record's position.
        seq: Seq,
        /// The head.
        head: Option<Seq>,
    },
    /// Another event has this position.
    #[error("session {session}: another event is stored at position {seq}")]
    Diverged {
        /// The session.
        session: SessionId,
        /// The position.
        seq: Seq,
    },
    /// The log belongs to another replayer.
    #[error("session {session} is replayed by {owner}")]
    OwnedElsewhere {
        /// The session.
        session: SessionId,
        /// Its replayer.
        owner: String,
    },
    /// The record is no event that this abide knows.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The event cannot be stored.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        Self::Append(AppendError::Storage(error))
    }
}

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    #[default]
    Desc,
}

/// Which sessions a list holds.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery {
    /// Exact location directory.
    pub directory: Option<String>,
    /// Project.
    pub project: Option<ProjectId>,
    /// Location at or below this path of the project.
    pub subpath: Option<String>,
    /// Workspace.
    pub workspace: Option<String>,
    /// Substring of the title, case-insensitive.
    pub search: Option<String>,
    /// `Some(None)`: only sessions without parent.
    pub parent: Option<Option<SessionId>>,
    /// By creation time, then id.
    pub order: Order,
    /// The most rows.
    pub limit: u32,
    /// Only rows beyond this one, in the direction given: creation time, id, and whether the page goes backwards.
    pub anchor: Option<SessionAnchor>,
}

impl SessionQuery {
    /// Says whether a session passes the filters (not the anchor and the limit).
    pub fn matches(&self, info: &SessionInfo) -> bool {
        let below = |path: &String| {
            let own = info.subpath.as_deref().unwrap_or_default();
            own == path || own.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/')) || path.is_empty()
        };
        let titled = |search: &String| info.title.to_lowercase().contains(&search.to_lowercase());
        let workspace = info.location.workspace_id.as_ref().map(abide_schema::WorkspaceId::as_str);
        self.directory.as_ref().is_none_or(|directory| info.location.directory == *directory)
            && self.project.as_ref().is_none_or(|project| info.project_id == *project)
            && self.subpath.as_ref().is_none_or(below)
            && self.workspace.as_deref().is_none_or(|wanted| workspace == Some(wanted))
            && self.search.as_ref().is_none_or(titled)
            && self.parent.as_ref().is_none_or(|parent| info.parent_id == *parent)
    }
}

/// A row of a session list from which a page goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAnchor {
    /// Its creation time.
    pub time: Timestamp,
    /// Its id.
    pub id: SessionId,
    /// Whether the page lies before it in the requested order (then the rows nearest to it are returned, in the
    /// requested order).
    pub backwards: bool,
}

/// Which messages a page holds.
#[derive(Clone, Debug, Default)]
pub struct MessageQuery {
    /// By position.
    pub order: Order,
    /// The most rows; absent means all.
    pub limit: Option<u32>,
    /// Only rows at or after this position.
    pub from: Option<Position>,
    /// Only rows beyond this position in the requested order.
    pub anchor: Option<MessageAnchor>,
    /// Whether messages that are no part of the contract are left out (`idle`, `skill`, `location-switched`, running
    /// and failed compactions).
    pub contract_only: bool,
}

/// A row of a message list from which a page goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageAnchor {
    /// Its position.
    pub position: Position,
    /// As in [`SessionAnchor::backwards`].
    pub backwards: bool,
}

/// A session's lease row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Who executes it.
    pub owner: Option<OwnerId>,
    /// Rises with every owner; never falls.
    pub fence: u64,
    /// Resumes of the current execution so far.
    pub attempts: u32,
    /// Position of the last admission that asked to run.
    pub wake_seq: Option<Seq>,
    /// Position up to which owed work is done.
    pub done_seq: Option<Seq>,
    /// Position of the last interrupt that came from elsewhere.
    pub interrupt_seq: Option<Seq>,
}

/// What another process wants of a session's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Run.
    Wake,
    /// Stop.
    Interrupt,
}

/// Names a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// The session.
    pub session: SessionId,
    /// The assistant message.
    pub message: MessageId,
    /// The call.
    pub call: CallId,
}

/// Where a model request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// It is about to be sent.
    Dispatched,
    /// Its first byte arrived.
    Streaming,
}

/// A model request in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAttempt {
    /// The session.
    pub session: SessionId,
    /// The assistant message that it will become.
    pub message: MessageId,
    /// Its number, from 1.
    pub attempt: u32,
    /// Where it stands.
    pub state: AttemptState,
    /// When.
    pub updated: Timestamp,
}

/// What an open fragment holds so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The session.
    pub session: SessionId,
    /// The assistant message.
    pub message: MessageId,
    /// The kind of the fragment.
    pub kind: ItemKind,
    /// The fragment.
    pub item_id: String,
    /// Its text so far.
    pub text: String,
    /// When.
    pub updated: Timestamp,
}

/// Where a mutation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MutationState {
    /// Intent is durable, nothing is changed.
    Planned,
    /// Files are being replaced.
    Applying,
    /// All files are replaced.
    Applied,
    /// The call is settled.
    Settled,
    /// Everything was put back.
    RolledBack,
    /// Somebody else changed a file meanwhile.
    Diverged,
}

/// A batch of file changes (spec/session.md 9.2).
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The batch.
    pub id: MutationId,
    /// The call; absent for a revert or a move.
    pub call: Option<CallKey>,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: String,
    /// Where it stands.
    pub state: MutationState,
    /// The success output to publish when recovery finds it applied: `{structured, content, outputPaths?}`.
    pub output: serde_json::Value,
    /// When.
    pub created: Timestamp,
    /// The files, in order.
    pub files: Vec<MutationFile>,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOp {
    /// It must not exist and is made.
    Create,
    /// It is replaced.
    Write,
    /// It is removed.
    Delete,
    /// It is renamed.
    Move,
    /// Its mode changes.
    Chmod,
}

/// One file of a mutation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationFile {
    /// What happens.
    pub op: FileOp,
    /// Canonical absolute path.
    pub path: String,
    /// Target of a move.
    pub to_path: Option<String>,
    /// SHA-256 before; absent when it did not exist.
    pub before_hash: Option<String>,
    /// Mode before.
    pub before_mode: Option<u32>,
    /// SHA-256 after; absent when it is removed.
    pub after_hash: Option<String>,
    /// Mode after.
    pub after_mode: Option<u32>,
    /// The staged content beside the target.
    pub tmp_path: Option<String>,
    /// Directories that were made for it, outermost first.
    pub made_directories: Vec<String>,
}

/// A process that a tool started (spec/session.md 9.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolProcess {
    /// The call.
    pub key: CallKey,
    /// The wrapper's process id.
    pub pid: i32,
    /// Its process group.
    pub pgid: i32,
    /// Its start time, in clock ticks since boot.
    pub start_time: u64,
    /// The boot it belongs to.
    pub boot_id: String,
    /// The command.
    pub command: String,
    /// Where it runs.
    pub cwd: String,
    /// Where its output goes.
    pub spool_path: String,
    /// Whether it belongs to a background job.
    pub background: bool,
}
