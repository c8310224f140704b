//! The store in an SQLite file: one writer thread with group commit, a few readers, a write-ahead log.

mod checkpoint;
mod codec;
mod error;
mod migrate;
mod owners;
mod read;
mod readers;
mod rows;
mod tx;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_schema::event::StoredEvent;
use abide_schema::live::LiveEvent;
use abide_schema::permission::SavedPermission;
use abide_schema::project::{ContextRow, InputRow, MessageRow, Position};
use abide_schema::session::SessionInfo;
use abide_schema::todo::Todo;
use abide_schema::{MessageId, MutationId, OwnerId, ProjectId, SavedPermissionId, SessionId, Timestamp};
use futures_util::future::BoxFuture;
use rusqlite::{Connection, params};

use self::owners::Owner;
use self::readers::Readers;
use self::tx::SqliteTx;
use self::writer::{Shared, Writer};
use super::transact::{self, Tx as _};
use super::{
    AppendError, Batch, BusEvent, BusReceiver, CallKey, Doorbell, Draft, Durability, EventStore, Head, HeadWatch,
    JobRecord, JournalStore, Lease, LeaseStore, MessageQuery, Mutation, MutationState, Page, ProjectionStore, Replay,
    ReplayError, ReplayOutcome, SeqRange, SessionQuery, Signal, StepAttempt, StoreError, StoreFuture, ToolProcess,
    ValueStore, View,
};
use crate::world::World;

/// What a synced commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityLevel {
    /// The loss of power: commits that ask for it wait for the disk.
    #[default]
    Power,
    /// The death of the process: no commit waits for the disk.
    Process,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The directory of the database and of the owners' locks; made when missing.
    pub data_dir: PathBuf,
    /// What a synced commit survives.
    pub durability: DurabilityLevel,
    /// Clock and ids.
    pub world: World,
    /// Connections that read at once.
    pub max_readers: usize,
    /// How long to wait for another process's write.
    pub lock_timeout: Duration,
}

impl StoreOptions {
    /// Makes the usual options.
    pub fn new(data_dir: impl Into<PathBuf>, world: World) -> Self {
        Self {
            data_dir: data_dir.into(),
            durability: DurabilityLevel::default(),
            world,
            max_readers: 3,
            lock_timeout: Duration::from_secs(5),
        }
    }
}

/// The file's name in the data directory.
const FILE: &str = "abide.db";

/// A store in an SQLite file. Dropping it finishes what is queued and waits for its threads; prefer
/// [`SqliteStore::close`] in async code.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    world: World,
    shared: Arc<Shared>,
    writer: Writer,
    readers: Readers,
    owner: Arc<Owner>,
}

impl SqliteStore {
    /// Opens the store, migrates it when it is old, and registers this process instance. Blocks, for a few
    /// milliseconds when there is nothing to migrate.
    ///
    /// # Errors
    /// [`StoreError::NewerVersion`] for a database of a newer abide, [`StoreError::Disk`] when the directory cannot be
    /// written, [`StoreError::Locked`] when another process holds the database for longer than the timeout or
    /// migrates it for more than thirty, [`StoreError::Corrupt`] when the file is damaged.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions { data_dir, durability, world, max_readers, lock_timeout } = options;
        let path = data_dir.join(FILE);
        let conn = migrate::open_writer(&path, lock_timeout)?;
        let owner = Arc::new(Owner::register(&data_dir, world.owner_id())?);
        let shared = Arc::new(Shared::new());
        let writer = Writer::start(conn, &path, durability, world.clone(), Arc::clone(&shared))?;
        let readers = Readers::new(path.clone(), max_readers);
        Ok(Self { path, world, shared, writer, readers, owner })
    }

    /// Returns the path of the database below a data directory.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join(FILE)
    }

    /// Returns the path of the database.
    pub fn db_path(&self) -> &Path {
        &self.path
    }

    /// Finishes what is queued, ends the threads, moves the log into the database and gives the registration up.
    /// Later operations fail as [`StoreError::Closed`].
    ///
    /// # Cancel safety
    /// Once polled it goes on in the background.
    pub async fn close(self) {
        let closed = tokio::task::spawn_blocking(move || drop(self)).await;
        if closed.is_err() {
            tracing::error!("closing the store panicked");
        }
    }

    /// Rewrites the file without its free pages.
    ///
    /// # Errors
    /// As a write.
    ///
    /// # Cancel safety
    /// Once polled it goes on in the background.
    pub async fn vacuum(&self) -> Result<(), StoreError> {
        self.writer.vacuum().await
    }

    fn query<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.readers.submit(read))
    }

    fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(&mut SqliteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.writer.submit(durability == Durability::Synced, work))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The writer's connection is the last, so that it moves the log into the database.
        self.readers.close();
        self.writer.close();
    }
}

impl EventStore for SqliteStore {
    fn append(&self, batch: Batch) -> BoxFuture<'_, Result<Vec<Arc<StoredEvent>>, AppendError>> {
        let synced = batch.durability == Durability::Synced;
        Box::pin(self.writer.submit(synced, move |tx| tx.append(batch)))
    }

    fn read<'a>(&'a self, session: &'a SessionId, range: SeqRange, view: View, limit: u32) -> StoreFuture<'a, Page> {
        let session = session.clone();
        self.query(move |conn| read::page(conn, &session, range, view, limit))
    }

    fn head<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Head>> {
        let session = session.clone();
        self.query(move |conn| read::head(conn, &session))
    }

    fn watch(&self, session: &SessionId) -> HeadWatch {
        let watch = self.shared.watches.watch(session);
        self.writer.look();
        watch
    }

    fn replay_records(&self, records: Vec<Replay>) -> BoxFuture<'_, Result<Vec<ReplayOutcome>, ReplayError>> {
        Box::pin(self.writer.submit(false, move |tx| records.into_iter().map(|record| tx.replay(record)).collect()))
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, ()> {
        let session = session.clone();
        self.write(Durability::Synced, move |tx| tx.remove(&session))
    }

    fn logs(&self) -> StoreFuture<'_, Vec<SessionId>> {
        self.query(read::logs)
    }

    fn rebuild<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, ()> {
        let session = session.clone();
        self.write(Durability::Synced, move |tx| tx.rebuild(&session))
    }

    fn verify<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<String>> {
        let (session, world) = (session.clone(), self.world.clone());
        self.query(move |conn| verify::verify(conn, &world, &session))
    }

    fn check(&self) -> StoreFuture<'_, Vec<String>> {
        self.query(verify::check_file)
    }

    fn subscribe(&self) -> BusReceiver {
        self.shared.bus.subscribe()
    }

    fn publish_live(&self, event: LiveEvent) {
        self.shared.bus.send(BusEvent::Live(Arc::new(event)));
    }
}

impl ProjectionStore for SqliteStore {
    fn session<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, Option<SessionInfo>> {
        let id = id.clone();
        self.query(move |conn| read::session(conn, &id))
    }

    fn sessions(&self, query: SessionQuery) -> StoreFuture<'_, Vec<SessionInfo>> {
        self.query(move |conn| read::sessions(conn, &query))
    }

    fn messages<'a>(&'a self, session: &'a SessionId, query: MessageQuery) -> StoreFuture<'a, Vec<MessageRow>> {
        let session = session.clone();
        self.query(move |conn| read::messages(conn, &session, &query))
    }

    fn message<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Option<MessageRow>> {
        let id = id.clone();
        self.query(move |conn| read::message(conn, &id))
    }

    fn input<'a>(&'a self, id: &'a MessageId) -> StoreFuture<'a, Option<InputRow>> {
        let id = id.clone();
        self.query(move |conn| read::input(conn, &id))
    }

    fn pending_inputs<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<InputRow>> {
        let session = session.clone();
        self.query(move |conn| read::pending_inputs(conn, &session))
    }

    fn head_and_pending<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, (Option<Head>, Vec<InputRow>)> {
        let session = session.clone();
        self.query(move |conn| Ok((read::head(conn, &session)?, read::pending_inputs(conn, &session)?)))
    }

    fn context<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<ContextRow>> {
        let session = session.clone();
        self.query(move |conn| read::context(conn, &session))
    }

    fn history_start<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Position>> {
        let session = session.clone();
        self.query(move |conn| read::history_start(conn, &session))
    }

    fn open_messages<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<MessageRow>> {
        let session = session.clone();
        self.query(move |conn| read::open_messages(conn, &session))
    }

    fn children<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<SessionId>> {
        let session = session.clone();
        self.query(move |conn| read::children(conn, &session))
    }
}

impl LeaseStore for SqliteStore {
    fn owner(&self) -> OwnerId {
        self.owner.id.clone()
    }

    fn lease<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Option<Lease>> {
        let session = session.clone();
        self.query(move |conn| read::lease(conn, &session))
    }

    fn orphans(&self) -> StoreFuture<'_, Vec<Lease>> {
        let owner = Arc::clone(&self.owner);
        self.query(move |conn| {
            let mut leases = read::held_leases(conn)?;
            leases.retain(|lease| lease.owner.as_ref().is_some_and(|holder| !owner.is_alive(holder)));
            Ok(leases)
        })
    }

    fn owed(&self) -> StoreFuture<'_, Vec<SessionId>> {
        let owner = Arc::clone(&self.owner);
        self.query(move |conn| {
            let mut owed = read::owed(conn)?;
            owed.retain(|(_, holder)| holder.as_ref().is_none_or(|holder| !owner.is_alive(holder)));
            Ok(owed.into_iter().map(|(session, _)| session).collect())
        })
    }

    fn take_over<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, Option<Lease>> {
        let (lease, owner) = (lease.clone(), self.owner.id.clone());
        self.write(Durability::Synced, move |tx| transact::take_over(tx, &lease, &owner))
    }

    fn is_alive<'a>(&'a self, owner: &'a OwnerId) -> StoreFuture<'a, bool> {
        let (me, owner) = (Arc::clone(&self.owner), owner.clone());
        self.query(move |_| Ok(me.is_alive(&owner)))
    }

    fn signal<'a>(&'a self, session: &'a SessionId, signal: Signal) -> StoreFuture<'a, ()> {
        let session = session.clone();
        self.write(Durability::Synced, move |tx| transact::signal(tx, &session, signal))
    }

    fn doorbell(&self) -> Doorbell {
        let bell = Doorbell(self.shared.bell.subscribe());
        self.writer.look();
        bell
    }
}

impl JournalStore for SqliteStore {
    fn put_attempt(&self, attempt: StepAttempt) -> StoreFuture<'_, ()> {
        self.write(Durability::Committed, move |tx| tx.put_attempt(&attempt))
    }

    fn attempts<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<StepAttempt>> {
        let session = session.clone();
        self.query(move |conn| read::attempts(conn, &session))
    }

    fn put_draft(&self, draft: Draft) -> StoreFuture<'_, ()> {
        self.write(Durability::Committed, move |tx| tx.put_draft(&draft))
    }

    fn drafts<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Draft>> {
        let session = session.clone();
        self.query(move |conn| read::drafts(conn, &session))
    }

    fn plan_mutation(&self, mutation: Mutation) -> StoreFuture<'_, ()> {
        self.write(Durability::Synced, move |tx| transact::plan_mutation(tx, &mutation))
    }

    fn mark_mutation<'a>(
        &'a self,
        id: &'a MutationId,
        state: MutationState,
        fence: Option<u64>,
    ) -> StoreFuture<'a, ()> {
        let id = id.clone();
        self.write(Durability::Synced, move |tx| transact::mark_mutation(tx, &id, state, fence))
    }

    fn mutations<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Mutation>> {
        let session = session.clone();
        self.query(move |conn| read::mutations(conn, Some(&session)))
    }

    fn past_mutations<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Mutation>> {
        let session = session.clone();
        self.query(move |conn| read::past_mutations(conn, Some(&session)))
    }

    fn reverts(&self) -> StoreFuture<'_, Vec<Mutation>> {
        self.query(|conn| read::past_mutations(conn, None))
    }

    fn forget_mutations(&self, before: Timestamp) -> StoreFuture<'_, ()> {
        self.write(Durability::Committed, move |tx| transact::Tx::forget_mutations(tx, before))
    }

    fn all_mutations(&self) -> StoreFuture<'_, Vec<Mutation>> {
        self.query(|conn| read::mutations(conn, None))
    }

    fn put_process(&self, process: ToolProcess) -> StoreFuture<'_, ()> {
        self.write(Durability::Synced, move |tx| tx.put_process(&process))
    }

    fn processes<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<ToolProcess>> {
        let session = session.clone();
        self.query(move |conn| read::processes(conn, &session))
    }

    fn drop_process<'a>(&'a self, key: &'a CallKey) -> StoreFuture<'a, ()> {
        let key = key.clone();
        self.write(Durability::Committed, move |tx| tx.drop_process(&key))
    }

    fn put_job(&self, job: JobRecord) -> StoreFuture<'_, ()> {
        self.write(Durability::Synced, move |tx| tx.put_job(&job))
    }

    fn jobs(&self) -> StoreFuture<'_, Vec<JobRecord>> {
        self.query(read::jobs)
    }

    fn drop_job<'a>(&'a self, notification: &'a MessageId) -> StoreFuture<'a, ()> {
        let notification = notification.clone();
        self.write(Durability::Committed, move |tx| tx.drop_job(&notification))
    }
}

impl ValueStore for SqliteStore {
    fn put_blob(&self, data: Vec<u8>) -> StoreFuture<'_, String> {
        self.write(Durability::Committed, move |tx| {
            let hash = abide_schema::json::sha256_hex(&data);
            tx.put_blob(&hash, &data)?;
            Ok(hash)
        })
    }

    fn blob<'a>(&'a self, hash: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        let hash = hash.to_owned();
        self.query(move |conn| read::blob(conn, &hash))
    }

    fn get_value<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        let key = key.to_owned();
        self.query(move |conn| read::value(conn, &key))
    }

    fn set_value<'a>(&'a self, key: &'a str, value: Option<String>) -> StoreFuture<'a, ()> {
        let key = key.to_owned();
        self.write(Durability::Synced, move |tx| {
            match value {
                Some(value) => tx.run("INSERT OR REPLACE INTO kv (key, value) VALUES (?1, ?2)", params![key, value])?,
                None => tx.run("DELETE FROM kv WHERE key = ?1", [key])?,
            };
            Ok(())
        })
    }

    fn saved_permissions<'a>(&'a self, project: Option<&'a ProjectId>) -> StoreFuture<'a, Vec<SavedPermission>> {
        let project = project.cloned();
        self.query(move |conn| read::saved_permissions(conn, project.as_ref()))
    }

    fn save_permissions(&self, saved: Vec<SavedPermission>) -> StoreFuture<'_, ()> {
        self.write(Durability::Synced, move |tx| {
            for saved in saved {
                tx.run(
                    "INSERT OR IGNORE INTO permission (id, project_id, action, resource) VALUES (?1, ?2, ?3, ?4)",
                    params![saved.id.as_str(), saved.project_id.as_str(), saved.action, saved.resource],
                )?;
            }
            Ok(())
        })
    }

    fn remove_permission<'a>(&'a self, id: &'a SavedPermissionId) -> StoreFuture<'a, ()> {
        let id = id.clone();
        self.write(Durability::Synced, move |tx| {
            tx.run("DELETE FROM permission WHERE id = ?1", [id.as_str()])?;
            Ok(())
        })
    }

    fn todos<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Todo>> {
        let session = session.clone();
        self.query(move |conn| read::todos(conn, &session))
    }

    fn set_todos<'a>(&'a self, session: &'a SessionId, todos: Vec<Todo>) -> StoreFuture<'a, ()> {
        let session = session.clone();
        self.write(Durability::Committed, move |tx| {
            let key = tx.make_key(&session)?;
            let items = codec::to_json(&todos)?;
            tx.run("INSERT OR REPLACE INTO todo (session, items) VALUES (?1, ?2)", params![key, items])?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod crash;
#[cfg(test)]
mod tests;
