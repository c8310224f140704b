//! What survives the processes of a memory store, and transactions on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use abide_schema::event::{EventData, InboxKind, StoredEvent, Visibility};
use abide_schema::message::ItemKind;
use abide_schema::permission::SavedPermission;
use abide_schema::project::{MemoryRows, ProjectError, Rows as _, apply};
use abide_schema::session::SessionInfo;
use abide_schema::todo::Todo;
use abide_schema::{CallId, EventId, MessageId, MutationId, OwnerId, SavedPermissionId, Seq, SessionId, Timestamp};
use tokio::sync::watch;

use crate::store::signal::Watches;
use crate::store::transact::{EventIds, Tx};
use crate::store::{
    BusEvent, CallKey, Draft, Head, JobRecord, Lease, Mutation, MutationState, Page, SeqRange, StepAttempt, StoreError,
    ToolProcess, View,
};

/// The operational rows of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Ops {
    pub(super) lease: Option<Lease>,
    pub(super) attempts: BTreeMap<MessageId, StepAttempt>,
    pub(super) drafts: BTreeMap<(MessageId, ItemKind, String), Draft>,
    pub(super) mutations: BTreeMap<MutationId, Mutation>,
    pub(super) processes: BTreeMap<(MessageId, CallId), ToolProcess>,
    pub(super) jobs: BTreeMap<MessageId, JobRecord>,
    pub(super) todos: Vec<Todo>,
}

/// Lists the mutations that are settled, or those that are not.
pub(super) fn mutations(ops: &Ops, is_settled: bool) -> Vec<Mutation> {
    let wanted = |mutation: &&Mutation| (mutation.state == MutationState::Settled) == is_settled;
    let mut all: Vec<Mutation> = ops.mutations.values().filter(wanted).cloned().collect();
    all.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    all
}

#[derive(Debug, Default)]
pub(super) struct Log {
    events: Vec<Arc<StoredEvent>>,
    contract_seq: Option<Seq>,
    replay_owner: Option<String>,
}

/// The shared state of all processes.
#[derive(Debug)]
pub(super) struct Disk {
    logs: HashMap<SessionId, Log>,
    order: Vec<SessionId>,
    by_id: HashMap<EventId, (SessionId, Seq)>,
    pub(super) rows: MemoryRows,
    pub(super) ops: BTreeMap<SessionId, Ops>,
    pub(super) blobs: BTreeMap<String, Vec<u8>>,
    pub(super) values: BTreeMap<String, String>,
    pub(super) permissions: Vec<SavedPermission>,
    pub(super) alive: BTreeSet<OwnerId>,
    pub(super) ids: EventIds,
    pub(super) watches: Arc<Watches>,
    pub(super) bell: watch::Sender<u64>,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            logs: HashMap::new(),
            order: Vec::new(),
            by_id: HashMap::new(),
            rows: MemoryRows::default(),
            ops: BTreeMap::new(),
            blobs: BTreeMap::new(),
            values: BTreeMap::new(),
            permissions: Vec::new(),
            alive: BTreeSet::new(),
            ids: EventIds::default(),
            watches: Arc::default(),
            bell: watch::channel(0).0,
        }
    }
}

impl Disk {
    pub(super) fn log(&self, session: &SessionId) -> &[Arc<StoredEvent>] {
        self.logs.get(session).map(|log| log.events.as_slice()).unwrap_or_default()
    }

    pub(super) fn head(&self, session: &SessionId) -> Option<Head> {
        let log = self.logs.get(session)?;
        Some(Head { seq: log.events.last()?.seq, contract_seq: log.contract_seq })
    }

    pub(super) fn sessions_in_order(&self) -> Vec<SessionId> {
        self.order.clone()
    }

    /// Wakes everybody who looks at other processes' work.
    pub(super) fn ring(&self) {
        self.bell.send_modify(|count| *count += 1);
    }

    pub(super) fn page(&self, session: &SessionId, range: SeqRange, view: View, limit: u32) -> Page {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut page = Page { cursor: range.after, ..Page::default() };
        for event in self.log(session) {
            let (position, shown) = match view {
                View::Log => (Some(event.seq), true),
                View::Public => (Some(event.seq), event.data.def().visibility != Visibility::Internal),
                View::Contract => (event.contract_seq, event.data.def().visibility == Visibility::Contract),
            };
            let Some(position) = position else { continue };
            if range.after.is_some_and(|after| position <= after)
                || range.through.is_some_and(|through| position > through)
            {
                continue;
            }
            if shown {
                if page.events.len() >= limit {
                    page.has_more = true;
                    break;
                }
                page.events.push(Arc::clone(event));
            }
            page.cursor = Some(position);
        }
        page
    }

    /// Folds a session's projections anew from its log, apart from other sessions' rows: the log is no function of
    /// them.
    pub(super) fn refold(&mut self, session: &SessionId) -> Result<(), String> {
        let mut folded = MemoryRows::default();
        for event in self.log(session) {
            apply(&mut folded, event)
                .map_err(|error| format!("event {} of session {session} cannot be projected: {error}", event.seq))?;
        }
        let Ok(()) = self.rows.delete_session(session);
        if let Some(info) = folded.get_session(session) {
            self.rows.load(
                info.clone(),
                folded.messages(session).cloned(),
                folded.inputs(session).into_iter().cloned(),
                folded.get_context(session).cloned(),
            );
        }
        Ok(())
    }

    pub(super) fn verify(&self, session: &SessionId) -> Vec<String> {
        let mut found = Vec::new();
        let mut fresh = MemoryRows::default();
        for (index, event) in self.log(session).iter().enumerate() {
            if usize::try_from(event.seq.0) != Ok(index) {
                found.push(format!("event {} has position {}, expected {index}", event.id, event.seq));
            }
            if let Err(error) = apply(&mut fresh, event) {
                found.push(format!("event {} ({}) cannot be projected: {error}", event.seq, event.data.def().name));
            }
        }
        let mut compare = |what: &str, same: bool| {
            if !same {
                found.push(format!("{what} differs from the log"));
            }
        };
        compare("the session's row", self.rows.get_session(session) == fresh.get_session(session));
        compare("the context epoch", self.rows.get_context(session) == fresh.get_context(session));
        compare("the inputs", self.rows.inputs(session) == fresh.inputs(session));
        compare("the messages", self.rows.messages(session).eq(fresh.messages(session)));
        found
    }
}

/// A transaction: changes are made in place and undone on failure.
pub(super) struct MemoryTx<'a> {
    pub(super) disk: &'a mut Disk,
    undo: Undo,
}

/// What a transaction tells when it commits, and puts back when it fails. Projections are folded anew from the log, which failures are rare enough for.
#[derive(Default)]
struct Undo {
    sessions: BTreeMap<SessionId, Touched>,
    blobs: Vec<String>,
    values: Option<BTreeMap<String, String>>,
    permissions: Option<Vec<SavedPermission>>,
    moved: Vec<(SessionId, Head)>,
    published: Vec<BusEvent>,
}

struct Touched {
    ops: Option<Ops>,
    n_events: usize,
    contract_seq: Option<Seq>,
    replay_owner: Option<String>,
    projected: bool,
}

impl<'a> MemoryTx<'a> {
    pub(super) fn begin(disk: &'a mut Disk) -> Self {
        Self { disk, undo: Undo::default() }
    }

    /// Tells the subscribers of these events once they are committed.
    pub(super) fn publish(&mut self, events: Vec<BusEvent>) {
        self.undo.published.extend(events);
    }

    /// Commits: wakes the watchers, returns what is to be published.
    pub(super) fn keep(self) -> Vec<BusEvent> {
        for (session, head) in &self.undo.moved {
            self.disk.watches.set(session, *head);
        }
        if !self.undo.moved.is_empty() {
            self.disk.ring();
        }
        self.undo.published
    }

    pub(super) fn rollback(self) {
        let Self { disk, undo } = self;
        for (session, old) in undo.sessions {
            match old.ops {
                Some(ops) => disk.ops.insert(session.clone(), ops),
                None => disk.ops.remove(&session),
            };
            if let Some(log) = disk.logs.get_mut(&session) {
                for event in log.events.drain(old.n_events..) {
                    disk.by_id.remove(&event.id);
                }
                log.contract_seq = old.contract_seq;
                log.replay_owner = old.replay_owner;
                if log.events.is_empty() {
                    disk.logs.remove(&session);
                    disk.order.retain(|other| *other != session);
                }
            }
            if old.projected {
                // The log was projected before, so it can be again.
                let _known_good = disk.refold(&session);
            }
        }
        for hash in undo.blobs {
            disk.blobs.remove(&hash);
        }
        if let Some(values) = undo.values {
            disk.values = values;
        }
        if let Some(permissions) = undo.permissions {
            disk.permissions = permissions;
        }
    }

    /// Remembers a session as it is, before it is changed.
    pub(super) fn touch(&mut self, session: &SessionId) -> &mut bool {
        let Self { disk, undo } = self;
        let touched = undo.sessions.entry(session.clone()).or_insert_with(|| {
            let log = disk.logs.get(session);
            Touched {
                ops: disk.ops.get(session).cloned(),
                n_events: log.map_or(0, |log| log.events.len()),
                contract_seq: log.and_then(|log| log.contract_seq),
                replay_owner: log.and_then(|log| log.replay_owner.clone()),
                projected: false,
            }
        });
        &mut touched.projected
    }

    pub(super) fn ops(&mut self, session: &SessionId) -> &mut Ops {
        self.touch(session);
        self.disk.ops.entry(session.clone()).or_default()
    }

    fn log(&mut self, session: &SessionId) -> &mut Log {
        self.touch(session);
        if !self.disk.logs.contains_key(session) {
            self.disk.order.push(session.clone());
        }
        self.disk.logs.entry(session.clone()).or_default()
    }

    /// Removes a session for good; not undone, so it is the only thing its transaction does.
    pub(super) fn remove(&mut self, session: &SessionId) {
        let Ok(()) = self.disk.rows.delete_session(session);
        for event in self.disk.logs.remove(session).map(|log| log.events).unwrap_or_default() {
            self.disk.by_id.remove(&event.id);
        }
        self.disk.order.retain(|other| other != session);
        self.disk.ops.remove(session);
    }

    pub(super) fn set_value(&mut self, key: &str, value: Option<String>) {
        self.undo.values.get_or_insert_with(|| self.disk.values.clone());
        match value {
            Some(value) => self.disk.values.insert(key.to_owned(), value),
            None => self.disk.values.remove(key),
        };
    }

    pub(super) fn save_permissions(&mut self, saved: Vec<SavedPermission>) {
        self.undo.permissions.get_or_insert_with(|| self.disk.permissions.clone());
        for new in saved {
            let known = |old: &SavedPermission| {
                old.id == new.id
                    || (&old.project_id, &old.action, &old.resource) == (&new.project_id, &new.action, &new.resource)
            };
            if !self.disk.permissions.iter().any(known) {
                self.disk.permissions.push(new);
            }
        }
    }

    pub(super) fn remove_permission(&mut self, id: &SavedPermissionId) {
        self.undo.permissions.get_or_insert_with(|| self.disk.permissions.clone());
        self.disk.permissions.retain(|saved| saved.id != *id);
    }
}

impl Tx for MemoryTx<'_> {
    fn head(&mut self, session: &SessionId) -> Result<Option<Head>, StoreError> {
        Ok(self.disk.head(session))
    }

    fn replay_owner(&mut self, session: &SessionId) -> Result<Option<String>, StoreError> {
        Ok(self.disk.logs.get(session).and_then(|log| log.replay_owner.clone()))
    }

    fn set_replay_owner(&mut self, session: &SessionId, owner: &str) -> Result<(), StoreError> {
        self.log(session).replay_owner = Some(owner.to_owned());
        Ok(())
    }

    fn event_by_id(&mut self, id: &EventId) -> Result<Option<StoredEvent>, StoreError> {
        let Some((session, seq)) = self.disk.by_id.get(id).cloned() else { return Ok(None) };
        self.event_at(&session, seq)
    }

    fn event_at(&mut self, session: &SessionId, seq: Seq) -> Result<Option<StoredEvent>, StoreError> {
        let index = usize::try_from(seq.0).unwrap_or(usize::MAX);
        Ok(self.disk.log(session).get(index).map(|event| StoredEvent::clone(event)))
    }

    fn insert_event(&mut self, event: &StoredEvent, head: Head, data: &str) -> Result<(), StoreError> {
        // What is kept is what a database would give back.
        let decoded = EventData::decode(&event.data.def().stored_type(), data)
            .map_err(|error| StoreError::Other(error.to_string()))?;
        let stored = Arc::new(StoredEvent { data: decoded, ..event.clone() });
        let session = event.session_id();
        let log = self.log(session);
        log.events.push(stored);
        log.contract_seq = head.contract_seq;
        self.undo.moved.push((session.clone(), head));
        self.disk.by_id.insert(event.id.clone(), (session.clone(), event.seq));
        Ok(())
    }

    fn project(&mut self, event: &StoredEvent) -> Result<(), ProjectError<StoreError>> {
        *self.touch(event.session_id()) = true;
        apply(&mut self.disk.rows, event).map_err(|error| match error {
            ProjectError::SessionAlreadyProjected => ProjectError::SessionAlreadyProjected,
            ProjectError::SessionMissing => ProjectError::SessionMissing,
            ProjectError::InputLifecycleConflict { id } => ProjectError::InputLifecycleConflict { id },
            ProjectError::MessageExists { id } => ProjectError::MessageExists { id },
            ProjectError::UnknownBoundary { id } => ProjectError::UnknownBoundary { id },
            ProjectError::Rows(never) => match never {},
        })
    }

    fn session_info(&mut self, session: &SessionId) -> Result<Option<SessionInfo>, StoreError> {
        Ok(self.disk.rows.get_session(session).cloned())
    }

    fn has_session(&mut self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.disk.rows.get_session(session).is_some())
    }

    fn has_pending_compaction(&mut self, session: &SessionId) -> Result<bool, StoreError> {
        let inputs = self.disk.rows.inputs(session);
        Ok(inputs.iter().any(|row| row.kind == InboxKind::Compaction && row.is_pending()))
    }

    fn lease(&mut self, session: &SessionId) -> Result<Option<Lease>, StoreError> {
        Ok(self.disk.ops.get(session).and_then(|ops| ops.lease.clone()))
    }

    fn put_lease(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.ops(&lease.session).lease = Some(lease.clone());
        Ok(())
    }

    fn put_blob(&mut self, hash: &str, data: &[u8]) -> Result<(), StoreError> {
        if !self.disk.blobs.contains_key(hash) {
            self.disk.blobs.insert(hash.to_owned(), data.to_vec());
            self.undo.blobs.push(hash.to_owned());
        }
        Ok(())
    }

    fn drop_draft(&mut self, message: &MessageId, kind: ItemKind, item_id: &str) -> Result<(), StoreError> {
        let key = (message.clone(), kind, item_id.to_owned());
        for session in self.sessions_with(|ops| ops.drafts.contains_key(&key)) {
            self.ops(&session).drafts.remove(&key);
        }
        Ok(())
    }

    fn drop_step(&mut self, message: &MessageId) -> Result<(), StoreError> {
        let of = |ops: &Ops| ops.attempts.contains_key(message) || ops.drafts.keys().any(|key| key.0 == *message);
        for session in self.sessions_with(of) {
            let ops = self.ops(&session);
            ops.attempts.remove(message);
            ops.drafts.retain(|key, _| key.0 != *message);
        }
        Ok(())
    }

    fn mutation_by_call(&mut self, key: &CallKey) -> Result<Option<MutationId>, StoreError> {
        let ops = self.disk.ops.get(&key.session);
        let found = ops.and_then(|ops| ops.mutations.values().find(|mutation| mutation.call.as_ref() == Some(key)));
        Ok(found.map(|mutation| mutation.id.clone()))
    }

    fn mutation_session(&mut self, id: &MutationId) -> Result<Option<SessionId>, StoreError> {
        Ok(self.sessions_with(|ops| ops.mutations.contains_key(id)).pop())
    }

    fn mutation_state(&mut self, id: &MutationId) -> Result<Option<MutationState>, StoreError> {
        Ok(self.disk.ops.values().find_map(|ops| ops.mutations.get(id)).map(|mutation| mutation.state))
    }

    fn insert_mutation(&mut self, mutation: &Mutation) -> Result<(), StoreError> {
        self.ops(&mutation.session).mutations.insert(mutation.id.clone(), mutation.clone());
        Ok(())
    }

    fn set_mutation_state(&mut self, id: &MutationId, state: MutationState) -> Result<(), StoreError> {
        for session in self.sessions_with(|ops| ops.mutations.contains_key(id)) {
            if let Some(mutation) = self.ops(&session).mutations.get_mut(id) {
                mutation.state = state;
                if state == MutationState::Settled {
                    mutation.output = serde_json::Value::Null;
                }
            }
        }
        Ok(())
    }

    fn drop_process(&mut self, key: &CallKey) -> Result<(), StoreError> {
        self.ops(&key.session).processes.remove(&(key.message.clone(), key.call.clone()));
        Ok(())
    }

    fn drop_job(&mut self, notification: &MessageId) -> Result<(), StoreError> {
        for session in self.sessions_with(|ops| ops.jobs.contains_key(notification)) {
            self.ops(&session).jobs.remove(notification);
        }
        Ok(())
    }

    fn forget_mutations(&mut self, before: Timestamp) -> Result<(), StoreError> {
        let is_old = |mutation: &Mutation| {
            mutation.call.is_some() && mutation.state == MutationState::Settled && mutation.created < before
        };
        for session in self.sessions_with(|ops| ops.mutations.values().any(is_old)) {
            self.ops(&session).mutations.retain(|_, mutation| !is_old(mutation));
        }
        Ok(())
    }

    fn drop_reverts(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let is_kept = |mutation: &Mutation| mutation.call.is_some() || mutation.state != MutationState::Settled;
        self.ops(session).mutations.retain(|_, mutation| is_kept(mutation));
        Ok(())
    }

    fn drop_operational(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let ops = self.ops(session);
        ops.drafts.clear();
        ops.attempts.clear();
        Ok(())
    }

    fn forget_session(&mut self, session: &SessionId) -> Result<(), StoreError> {
        self.touch(session);
        self.disk.ops.remove(session);
        Ok(())
    }
}

impl MemoryTx<'_> {
    fn sessions_with(&self, test: impl Fn(&Ops) -> bool) -> Vec<SessionId> {
        self.disk.ops.iter().filter(|(_, ops)| test(ops)).map(|(session, _)| session.clone()).collect()
    }
}
