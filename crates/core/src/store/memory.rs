//! The store in memory, for simulation: deterministic, without threads, every write one visible commit.
//!
//! A [`MemoryStore`] is one process's handle on a disk that outlives it. [`MemoryStore::reopen`] is a crash and a
//! restart: a new owner over what was committed, while the old handle can write no more. [`MemoryStore::attach`]
//! is a second process on the same disk.

mod disk;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide_schema::event::StoredEvent;
use abide_schema::live::LiveEvent;
use abide_schema::permission::SavedPermission;
use abide_schema::project::{ContextRow, InputRow, MemoryRows, MessageRow, Position};
use abide_schema::session::SessionInfo;
use abide_schema::todo::Todo;
use abide_schema::{MessageId, MutationId, OwnerId, ProjectId, SavedPermissionId, SessionId, Timestamp};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use self::disk::{Disk, MemoryTx};
use super::signal::{Bus, Watches};
use super::transact::{self, Tx as _, in_contract, is_open, is_open_item};
use super::{
    AppendError, Batch, BusEvent, BusReceiver, CallKey, Doorbell, Draft, EventStore, Head, HeadWatch, JobRecord,
    JournalStore, Lease, LeaseStore, MessageQuery, Mutation, MutationState, Order, Page, ProjectionStore, Replay,
    ReplayError, ReplayOutcome, SeqRange, SessionQuery, Signal, StepAttempt, StoreError, StoreFuture, ToolProcess,
    ValueStore, View,
};
use crate::world::World;

/// What a commit was, for [`MemoryStore::on_commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitKind {
    /// Events with their projections and operational rows.
    Append,
    /// A lease was taken over, or a signal left.
    Lease,
    /// A row of the journals.
    Journal,
    /// A small value.
    Value,
}

/// What a fault hook does with a commit.
#[derive(Clone, Debug, Default)]
pub enum CommitFault {
    /// Nothing.
    #[default]
    None,
    /// The write fails; nothing is stored, the store goes on.
    Fail(StoreError),
    /// The process dies before the commit: nothing is stored, this handle can write no more.
    CrashBefore,
    /// The process dies after the commit: it is stored, but the caller never learns.
    CrashAfter,
}

/// Decides the fate of the `n`-th commit of a handle, counted from 1.
pub type CommitHook = Box<dyn FnMut(u64, CommitKind) -> CommitFault + Send>;

/// A handle on a store in memory.
pub struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
    world: World,
    owner: OwnerId,
    bus: Bus,
    hook: Mutex<(u64, Option<CommitHook>)>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Makes an empty disk and the first handle on it.
    pub fn new(world: World) -> Self {
        Self::on(Arc::default(), world)
    }

    fn on(disk: Arc<Mutex<Disk>>, world: World) -> Self {
        let owner = world.owner_id();
        lock(&disk).alive.insert(owner.clone());
        Self { disk, world, owner, bus: Bus::new(), hook: Mutex::new((0, None)) }
    }

    /// Makes a second process on the same disk.
    pub fn attach(&self) -> Self {
        Self::on(Arc::clone(&self.disk), self.world.clone())
    }

    /// Crashes this handle and starts anew over what was committed: writes through the old handle fail as
    /// [`StoreError::Closed`], its owner is dead.
    pub fn reopen(&self) -> Self {
        self.crash();
        self.attach()
    }

    /// Crashes this handle: its owner is dead, its writes fail as [`StoreError::Closed`].
    pub fn crash(&self) {
        lock(&self.disk).alive.remove(&self.owner);
    }

    /// Says whether a process that uses the disk lives, without a read that could fail.
    pub fn lives(&self, owner: &OwnerId) -> bool {
        lock(&self.disk).alive.contains(owner)
    }

    /// Sets the hook that decides the fate of each commit of this handle.
    pub fn on_commit(&self, hook: impl FnMut(u64, CommitKind) -> CommitFault + Send + 'static) {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(Box::new(hook));
    }

    /// Returns a copy of all projections, for assertions.
    pub fn rows(&self) -> MemoryRows {
        lock(&self.disk).rows.clone()
    }

    /// Returns all events of a session, for assertions.
    pub fn log(&self, session: &SessionId) -> Vec<Arc<StoredEvent>> {
        lock(&self.disk).log(session).to_vec()
    }

    /// Returns all sessions, the oldest first, for assertions.
    pub fn session_ids(&self) -> Vec<SessionId> {
        lock(&self.disk).sessions_in_order()
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed(format!("process {} has crashed", self.owner))
    }

    /// Runs one transaction as one commit.
    fn commit<T, E: From<StoreError>>(
        &self,
        kind: CommitKind,
        work: impl FnOnce(&mut MemoryTx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut disk = lock(&self.disk);
        if !disk.alive.contains(&self.owner) {
            return Err(self.closed().into());
        }
        let mut tx = MemoryTx::begin(&mut disk);
        let done = match work(&mut tx) {
            Ok(done) => done,
            Err(error) => {
                tx.rollback();
                return Err(error);
            }
        };
        let fault = {
            let mut slot = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
            let (count, hook) = &mut *slot;
            *count += 1;
            hook.as_mut().map_or(CommitFault::None, |hook| hook(*count, kind))
        };
        match fault {
            CommitFault::None => {
                // Under the lock, so that subscribers see commits in order.
                for event in tx.keep() {
                    self.bus.send(event);
                }
                Ok(done)
            }
            CommitFault::Fail(error) => {
                tx.rollback();
                Err(error.into())
            }
            CommitFault::CrashBefore => {
                tx.rollback();
                disk.alive.remove(&self.owner);
                Err(self.closed().into())
            }
            CommitFault::CrashAfter => {
                let _untold = tx.keep();
                disk.alive.remove(&self.owner);
                Err(self.closed().into())
            }
        }
    }

    fn read_disk<'a, T: Send + 'a>(&'a self, read: impl FnOnce(&Disk) -> T + Send + 'a) -> StoreFuture<'a, T> {
        Box::pin(async move { Ok(read(&lock(&self.disk))) })
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        kind: CommitKind,
        work: impl FnOnce(&mut MemoryTx<'_>) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.commit(kind, work) })
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.crash();
    }
}

fn lock(disk: &Arc<Mutex<Disk>>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventStore for MemoryStore {
    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<Vec<Arc<StoredEvent>>, AppendError>> {
        Box::pin(async move {
            self.commit(CommitKind::Append, |tx| {
                let mut ids = std::mem::take(&mut tx.disk.ids);
                let appended = transact::append(tx, batch, &self.world, &mut ids);
                tx.disk.ids = ids;
                let appended = appended?;
                tx.publish(appended.fresh);
                Ok(appended.events)
            })
        })
    }

    fn read<'a>(&'a self, session: &'a SessionId, range: SeqRange, view: View, limit: u32) -> StoreFuture<'a, Page> {
        self.read_disk(move |disk| disk.page(session, range, view, limit))
    }

    fn head<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Head>> {
        self.read_disk(move |disk| disk.head(session))
    }

    fn watch(&self, session: &SessionId) -> HeadWatch {
        let watches: Arc<Watches> = Arc::clone(&lock(&self.disk).watches);
        watches.watch(session)
    }

    fn replay_records(&self, records: Vec<Replay>) -> BoxFuture<'_, Result<Vec<ReplayOutcome>, ReplayError>> {
        Box::pin(async move {
            self.commit(CommitKind::Append, |tx| {
                let mut outcomes = Vec::with_capacity(records.len());
                for replay in records {
                    let publish = replay.publish;
                    let (outcome, appended) = transact::replay(tx, replay)?;
                    if publish {
                        tx.publish(appended.fresh);
                    }
                    outcomes.push(outcome);
                }
                Ok(outcomes)
            })
        })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Append, move |tx| {
            tx.remove(session);
            Ok(())
        })
    }

    fn logs(&self) -> StoreFuture<'_, Vec<SessionId>> {
        self.read_disk(Disk::sessions_in_order)
    }

    fn rebuild<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Append, move |tx| {
            tx.touch(session);
            tx.disk.refold(session).map_err(StoreError::Corrupt)
        })
    }

    fn verify<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<String>> {
        self.read_disk(move |disk| disk.verify(session))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.read_disk(|_| Vec::new())
    }

    fn subscribe(&self) -> BusReceiver {
        self.bus.subscribe()
    }

    fn publish_live(&self, event: LiveEvent) {
        self.bus.send(BusEvent::Live(Arc::new(event)));
    }
}

/// Cuts a list, given in ascending order and filtered, to a page in the requested order.
fn page_of<T, K: Ord>(
    mut rows: Vec<T>,
    order: Order,
    limit: Option<u32>,
    anchor: Option<(K, bool)>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    if order == Order::Desc {
        rows.reverse();
    }
    let backwards = anchor.as_ref().is_some_and(|(_, backwards)| *backwards);
    if let Some((at, backwards)) = anchor {
        let wants_greater = (order == Order::Asc) != backwards;
        rows.retain(|row| if wants_greater { key(row) > at } else { key(row) < at });
    }
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if backwards {
        rows.drain(..rows.len().saturating_sub(limit));
    } else {
        rows.truncate(limit);
    }
    rows
}

impl ProjectionStore for MemoryStore {
    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<SessionInfo>> {
        self.read_disk(move |disk| disk.rows.get_session(id).cloned())
    }

    fn sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionInfo>> {
        self.read_disk(move |disk| {
            let mut rows: Vec<_> = disk.rows.sessions().filter(|info| query.matches(info)).cloned().collect();
            rows.sort_by(|a, b| (a.time.created, &a.id).cmp(&(b.time.created, &b.id)));
            let anchor = query.anchor.map(|anchor| ((anchor.time, anchor.id), anchor.backwards));
            page_of(rows, query.order, Some(query.limit), anchor, |info| (info.time.created, info.id.clone()))
        })
    }

    fn messages<'a>(&'a self, session: &'a SessionId, query: MessageQuery) -> StoreFuture<'a, Vec<MessageRow>> {
        self.read_disk(move |disk| {
            let rows = disk.rows.messages(session);
            let rows = rows
                .filter(|row| query.from.is_none_or(|from| row.position >= from))
                .filter(|row| !query.contract_only || in_contract(&row.message))
                .cloned()
                .collect();
            let anchor = query.anchor.map(|anchor| (anchor.position, anchor.backwards));
            page_of(rows, query.order, query.limit, anchor, |row| row.position)
        })
    }

    fn message<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Option<MessageRow>> {
        self.read_disk(move |disk| disk.rows.get_message(id).cloned())
    }

    fn input<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Option<InputRow>> {
        self.read_disk(move |disk| disk.rows.get_input(id).cloned())
    }

    fn pending_inputs<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InputRow>> {
        self.read_disk(move |disk| {
            disk.rows.inputs(session).into_iter().filter(|row| row.is_pending()).cloned().collect()
        })
    }

    fn head_and_pending<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, (Option<Head>, Vec<InputRow>)> {
        self.read_disk(move |disk| {
            let pending = disk.rows.inputs(session).into_iter().filter(|row| row.is_pending()).cloned().collect();
            (disk.head(session), pending)
        })
    }

    fn context<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<ContextRow>> {
        self.read_disk(move |disk| disk.rows.get_context(session).cloned())
    }

    fn history_start<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Position>> {
        self.read_disk(move |disk| {
            let mut rows = disk.rows.messages(session).rev();
            rows.find(|row| row.message.kind() == "compaction" && in_contract(&row.message)).map(|row| row.position)
        })
    }

    fn open_messages<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<MessageRow>> {
        self.read_disk(move |disk| {
            let open = |row: &&MessageRow| {
                is_open(&row.message)
                    || row.message.as_assistant().is_some_and(|message| message.content.iter().any(is_open_item))
            };
            disk.rows.messages(session).filter(open).cloned().collect()
        })
    }

    fn children<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<SessionId>> {
        self.read_disk(move |disk| {
            let mut rows: Vec<_> =
                disk.rows.sessions().filter(|info| info.parent_id.as_ref() == Some(session)).collect();
            rows.sort_by(|a, b| (a.time.created, &a.id).cmp(&(b.time.created, &b.id)));
            rows.into_iter().map(|info| info.id.clone()).collect()
        })
    }
}

impl LeaseStore for MemoryStore {
    fn owner(&self) -> OwnerId {
        self.owner.clone()
    }

    fn lease<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Lease>> {
        self.read_disk(move |disk| disk.ops.get(session).and_then(|ops| ops.lease.clone()))
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<Lease>> {
        self.read_disk(|disk| {
            let leases = disk.ops.values().filter_map(|ops| ops.lease.as_ref());
            leases
                .filter(|lease| lease.owner.as_ref().is_some_and(|owner| !disk.alive.contains(owner)))
                .cloned()
                .collect()
        })
    }

    fn owed(&self) -> StoreFuture<'_, Vec<SessionId>> {
        self.read_disk(|disk| {
            let leases = disk.ops.values().filter_map(|ops| ops.lease.as_ref());
            leases
                .filter(|lease| lease.wake_seq > lease.done_seq)
                .filter(|lease| lease.owner.as_ref().is_none_or(|owner| !disk.alive.contains(owner)))
                .filter(|lease| disk.rows.inputs(&lease.session).iter().any(|row| row.is_pending()))
                .map(|lease| lease.session.clone())
                .collect()
        })
    }

    fn take_over<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Option<Lease>> {
        self.write(CommitKind::Lease, move |tx| transact::take_over(tx, lease, &self.owner))
    }

    fn is_alive<'a>(&'a self, owner: &'a OwnerId) -> StoreFuture<'a, bool> {
        self.read_disk(move |disk| disk.alive.contains(owner))
    }

    fn signal<'a>(&'a self, session: &'a SessionId, signal: Signal) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.commit(CommitKind::Lease, |tx| transact::signal(tx, session, signal))?;
            lock(&self.disk).ring();
            Ok(())
        })
    }

    fn doorbell(&self) -> Doorbell {
        let bell: watch::Receiver<u64> = lock(&self.disk).bell.subscribe();
        Doorbell(bell)
    }
}

impl JournalStore for MemoryStore {
    fn put_attempt(&self, attempt: StepAttempt) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Journal, move |tx| {
            let message = attempt.message.clone();
            tx.ops(&attempt.session).attempts.insert(message, attempt);
            Ok(())
        })
    }

    fn attempts<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<StepAttempt>> {
        self.read_disk(move |disk| {
            disk.ops.get(session).map(|ops| ops.attempts.values().cloned().collect()).unwrap_or_default()
        })
    }

    fn put_draft(&self, draft: Draft) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Journal, move |tx| {
            let key = (draft.message.clone(), draft.kind, draft.item_id.clone());
            tx.ops(&draft.session).drafts.insert(key, draft);
            Ok(())
        })
    }

    fn drafts<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Draft>> {
        self.read_disk(move |disk| {
            disk.ops.get(session).map(|ops| ops.drafts.values().cloned().collect()).unwrap_or_default()
        })
    }

    fn plan_mutation(&self, mutation: Mutation) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Journal, move |tx| transact::plan_mutation(tx, &mutation))
    }

    fn mark_mutation<'a>(
        &'a self,
        id: &'a MutationId,
        state: MutationState,
        fence: Option<u64>,
    ) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Journal, move |tx| transact::mark_mutation(tx, id, state, fence))
    }

    fn mutations<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Mutation>> {
        self.read_disk(move |disk| disk.ops.get(session).map(|ops| disk::mutations(ops, false)).unwrap_or_default())
    }

    fn past_mutations<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Mutation>> {
        self.read_disk(move |disk| disk.ops.get(session).map(|ops| disk::mutations(ops, true)).unwrap_or_default())
    }

    fn reverts(&self) -> StoreFuture<'_, Vec<Mutation>> {
        self.read_disk(|disk| {
            let past = disk.ops.values().flat_map(|ops| disk::mutations(ops, true));
            past.filter(|mutation| mutation.call.is_none()).collect()
        })
    }

    fn forget_mutations(&self, before: Timestamp) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Journal, move |tx| transact::Tx::forget_mutations(tx, before))
    }

    fn all_mutations(&self) -> StoreFuture<'_, Vec<Mutation>> {
        self.read_disk(|disk| {
            let mut all: Vec<Mutation> = disk.ops.values().flat_map(|ops| disk::mutations(ops, false)).collect();
            all.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
            all
        })
    }

    fn put_process(&self, process: ToolProcess) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Journal, move |tx| {
            let key = (process.key.message.clone(), process.key.call.clone());
            tx.ops(&process.key.session).processes.insert(key, process);
            Ok(())
        })
    }

    fn processes<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<ToolProcess>> {
        self.read_disk(move |disk| {
            disk.ops.get(session).map(|ops| ops.processes.values().cloned().collect()).unwrap_or_default()
        })
    }

    fn drop_process<'a>(&'a self, key: &'a CallKey) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Journal, move |tx| tx.drop_process(key))
    }

    fn put_job(&self, job: JobRecord) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Journal, move |tx| {
            tx.ops(&job.session).jobs.insert(job.notification.clone(), job);
            Ok(())
        })
    }

    fn jobs(&self) -> StoreFuture<'_, Vec<JobRecord>> {
        self.read_disk(|disk| {
            let mut all: Vec<JobRecord> = disk.ops.values().flat_map(|ops| ops.jobs.values().cloned()).collect();
            all.sort_by(|a, b| a.notification.cmp(&b.notification));
            all
        })
    }

    fn drop_job<'a>(&'a self, notification: &'a MessageId) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Journal, move |tx| tx.drop_job(notification))
    }
}

impl ValueStore for MemoryStore {
    fn put_blob(&self, data: Vec<u8>) -> StoreFuture<'_, String> {
        self.write(CommitKind::Value, move |tx| {
            let hash = abide_schema::json::sha256_hex(&data);
            tx.put_blob(&hash, &data)?;
            Ok(hash)
        })
    }

    fn blob<'a>(&'a self, hash: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.read_disk(move |disk| disk.blobs.get(hash).cloned())
    }

    fn get_value<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        self.read_disk(move |disk| disk.values.get(key).cloned())
    }

    fn set_value<'a>(&'a self, key: &'a str, value: Option<String>) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Value, move |tx| {
            tx.set_value(key, value);
            Ok(())
        })
    }

    fn saved_permissions<'a>(&'a self, project: Option<&'a ProjectId>) -> StoreFuture<'a, Vec<SavedPermission>> {
        self.read_disk(move |disk| {
            let saved = disk.permissions.iter();
            saved.filter(|saved| project.is_none_or(|project| saved.project_id == *project)).cloned().collect()
        })
    }

    fn save_permissions(&self, saved: Vec<SavedPermission>) -> StoreFuture<'_, ()> {
        self.write(CommitKind::Value, move |tx| {
            tx.save_permissions(saved);
            Ok(())
        })
    }

    fn remove_permission<'a>(&'a self, id: &'a SavedPermissionId) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Value, move |tx| {
            tx.remove_permission(id);
            Ok(())
        })
    }

    fn todos<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Todo>> {
        self.read_disk(move |disk| disk.ops.get(session).map(|ops| ops.todos.clone()).unwrap_or_default())
    }

    fn set_todos<'a>(&'a self, session: &'a SessionId, todos: Vec<Todo>) -> StoreFuture<'a, ()> {
        self.write(CommitKind::Value, move |tx| {
            tx.ops(session).todos = todos;
            Ok(())
        })
    }
}
