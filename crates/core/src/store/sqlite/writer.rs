//! The one thread that writes.
//!
//! Jobs that wait together become savepoints of one transaction (group commit). A commit itself never waits for the
//! disk (`synchronous=NORMAL`): with [`DurabilityLevel::Power`], jobs that ask to be synced are handed, once
//! committed, to a second thread that syncs the write-ahead log once for all of them and then answers. So a fragment
//! of a stream never waits for the disk, the writer goes on while the disk works, and one sync covers everything
//! committed before it, because the log is written in order. SQLite itself syncs the log's header and what a
//! checkpoint moves. Watchers and subscribers learn of events when they are committed; who acts on an event acts
//! after its append returned, that is after the sync.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use abide_schema::SessionId;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::DurabilityLevel;
use super::checkpoint::Checkpoints;
use super::codec::Result;
use super::tx::{Outbox, SqliteTx};
use crate::fault::{self, Faults};
use crate::store::StoreError;
use crate::store::signal::{Bus, Watches};
use crate::store::transact::{EventIds, Tx as _};
use crate::world::World;

/// Jobs that may wait for the writer; more wait for a place.
const MAX_QUEUED: usize = 1024;
/// Jobs of one transaction.
const MAX_GROUP: usize = 128;
/// Rows that are deleted at once.
const PURGE_ROWS: u32 = 100;
/// How soon another process's commit is noticed while somebody watches.
const POLL: Duration = Duration::from_millis(250);

/// What writer, readers and handles share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) bus: Bus,
    pub(super) watches: Arc<Watches>,
    pub(super) bell: watch::Sender<u64>,
    /// Why nothing can be written any more.
    closed: Mutex<Option<String>>,
    /// Whether the writer was told to look for watchers.
    told: AtomicBool,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            bus: Bus::new(),
            watches: Arc::default(),
            bell: watch::channel(0).0,
            closed: Mutex::new(None),
            told: AtomicBool::new(false),
        }
    }

    /// Refuses all further writes; the first reason stays.
    pub(super) fn close(&self, reason: &str) {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
        self.watches.close();
    }

    fn closed(&self) -> Option<StoreError> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).clone().map(StoreError::Closed)
    }

    fn closed_error(&self) -> StoreError {
        self.closed().unwrap_or_else(|| StoreError::Closed("the writer has ended".to_owned()))
    }

    fn is_watched(&self) -> bool {
        self.watches.count() > 0 || self.bell.receiver_count() > 0
    }
}

/// One unit of work of a transaction, with its answer.
trait Job: Send {
    /// Does the work; says whether it is to be kept.
    fn run(&mut self, tx: &mut SqliteTx<'_>) -> bool;
    /// Makes the outcome a failure.
    fn fail(&mut self, error: StoreError);
    /// Says whether the answer waits for the disk.
    fn is_synced(&self) -> bool;
    /// Answers.
    fn reply(self: Box<Self>);
}

struct Task<T, E, F> {
    work: Option<F>,
    outcome: Option<std::result::Result<T, E>>,
    reply: oneshot::Sender<std::result::Result<T, E>>,
    synced: bool,
}

impl<T, E, F> Job for Task<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: FnOnce(&mut SqliteTx<'_>) -> std::result::Result<T, E> + Send,
{
    fn run(&mut self, tx: &mut SqliteTx<'_>) -> bool {
        let Some(work) = self.work.take() else { return false };
        let outcome = work(tx);
        let kept = outcome.is_ok();
        self.outcome = Some(outcome);
        kept
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Some(Err(error.into()));
    }

    fn is_synced(&self) -> bool {
        self.synced
    }

    fn reply(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // Nobody may be waiting any more.
            let _unread = self.reply.send(outcome);
        }
    }
}

struct Queued {
    job: Box<dyn Job>,
    kept: bool,
    faults: Faults,
    // Gives the place in the queue back.
    _place: OwnedSemaphorePermit,
}

enum Command {
    Job(Queued),
    /// Somebody watches now.
    Look,
    /// Compact the file.
    Vacuum(oneshot::Sender<Result<()>>),
    Close,
}

/// The way to the writer.
#[derive(Debug)]
pub(super) struct Writer {
    commands: Sender<Command>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        mut conn: Connection,
        path: &Path,
        durability: DurabilityLevel,
        world: World,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let (commands, inbox) = channel();
        let mut threads = Vec::new();
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let builder = std::thread::Builder::new().name(name.to_owned());
            builder.spawn(body).map_err(|error| StoreError::Other(format!("thread {name} cannot start: {error}")))
        };
        let syncer = match durability {
            DurabilityLevel::Process => None,
            DurabilityLevel::Power => {
                let (sender, jobs) = channel();
                let syncer = Syncer { path: log_path(path), file: None, shared: Arc::clone(&shared) };
                threads.push(spawn("abide-store-sync", Box::new(move || syncer.run(&jobs)))?);
                Some(sender)
            }
        };
        let checkpoints = Checkpoints::new(&mut conn, path.to_owned())?;
        let thread = WriterThread {
            conn,
            checkpoints,
            keys: HashMap::new(),
            world,
            ids: EventIds::default(),
            data_version: None,
            syncer,
            has_purges: false,
            shared: Arc::clone(&shared),
        };
        threads.push(spawn("abide-store", Box::new(move || thread.run(&inbox)))?);
        Ok(Self { commands, places: Arc::new(Semaphore::new(MAX_QUEUED)), shared, threads: Mutex::new(threads) })
    }

    /// Runs `work` in a transaction, together with whatever else waits; returns after the commit, or after the sync.
    pub(super) async fn submit<T, E, F>(&self, synced: bool, work: F) -> std::result::Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut SqliteTx<'_>) -> std::result::Result<T, E> + Send + 'static,
    {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Err(self.shared.closed_error().into());
        };
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Task { work: Some(work), outcome: None, reply, synced });
        if self
            .commands
            .send(Command::Job(Queued { job, kept: false, faults: fault::current(), _place: place }))
            .is_err()
        {
            return Err(self.shared.closed_error().into());
        }
        match answer.await {
            Ok(outcome) => outcome,
            Err(_gone) => Err(self.shared.closed_error().into()),
        }
    }

    /// Makes the writer look whether somebody watches.
    pub(super) fn look(&self) {
        if !self.shared.told.swap(true, Ordering::AcqRel) {
            // Without a writer nothing happens any more.
            let _closed = self.commands.send(Command::Look);
        }
    }

    /// Rewrites the file without its free pages.
    pub(super) async fn vacuum(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(Command::Vacuum(reply)).is_err() {
            return Err(self.shared.closed_error());
        }
        answer.await.unwrap_or_else(|_| Err(self.shared.closed_error()))
    }

    /// Finishes what is queued and waits for the threads.
    pub(super) fn close(&self) {
        let _closed = self.commands.send(Command::Close);
        self.places.close();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads.into_iter().rev() {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

/// The path of the write-ahead log.
fn log_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    PathBuf::from(path)
}

struct WriterThread {
    conn: Connection,
    checkpoints: Checkpoints,
    keys: HashMap<SessionId, i64>,
    world: World,
    ids: EventIds,
    /// Changes when another connection commits; `None` before the first look.
    data_version: Option<i64>,
    syncer: Option<Sender<Vec<Queued>>>,
    /// Whether events of deleted sessions may be left.
    has_purges: bool,
    shared: Arc<Shared>,
}

/// Closes the store when the writer ends, however it does.
struct OnExit(Arc<Shared>);

impl Drop for OnExit {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() { "the writer panicked" } else { "it was closed" };
        self.0.close(reason);
    }
}

impl WriterThread {
    fn run(mut self, inbox: &Receiver<Command>) {
        let _exit = OnExit(Arc::clone(&self.shared));
        let mut closing = false;
        while !closing {
            let first = if self.has_purges {
                match inbox.try_recv() {
                    Ok(command) => command,
                    Err(TryRecvError::Empty) => {
                        self.purge();
                        continue;
                    }
                    Err(TryRecvError::Disconnected) => break,
                }
            } else if self.shared.is_watched() {
                match inbox.recv_timeout(POLL) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Timeout) => {
                        self.poll();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            } else {
                match inbox.recv() {
                    Ok(command) => command,
                    Err(_disconnected) => break,
                }
            };
            let mut group = Vec::new();
            let mut next = Some(first);
            while let Some(command) = next {
                match command {
                    Command::Job(job) => group.push(job),
                    Command::Look => {
                        self.shared.told.store(false, Ordering::Release);
                        self.poll();
                    }
                    Command::Vacuum(reply) => {
                        self.commit(std::mem::take(&mut group));
                        let _unread = reply.send(self.conn.execute_batch("VACUUM").map_err(StoreError::from));
                    }
                    Command::Close => {
                        closing = true;
                        break;
                    }
                }
                next = if group.len() < MAX_GROUP { inbox.try_recv().ok() } else { None };
            }
            if !group.is_empty() {
                self.commit(group);
                self.checkpoints.after_commit(&self.conn);
            }
        }
        self.checkpoints.close();
    }

    /// Commits a group of jobs and answers them.
    fn commit(&mut self, mut group: Vec<Queued>) {
        if group.is_empty() {
            return;
        }
        let done = match self.shared.closed() {
            Some(error) => Err(error),
            None => self.transaction(&mut group),
        };
        match done {
            Ok(outbox) => {
                if let Err(error) = hit(&group, "store.before_notify") {
                    tracing::error!(%error, "what was committed is not told");
                }
                self.has_purges |= outbox.has_deletion;
                for (session, head) in &outbox.heads {
                    self.shared.watches.set(session, *head);
                }
                for event in outbox.events {
                    self.shared.bus.send(event);
                }
            }
            Err(error) => {
                for queued in &mut group {
                    queued.kept = false;
                    queued.job.fail(error.clone());
                }
            }
        }
        let Some(syncer) = &self.syncer else {
            reply_all(group);
            return;
        };
        let (waiting, ready): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|queued| queued.kept && queued.job.is_synced());
        reply_all(ready);
        if !waiting.is_empty() {
            // If the syncer is gone, the dropped jobs tell their callers that the store is closed.
            let _gone = syncer.send(waiting);
        }
    }

    /// Runs the jobs in one transaction; an error means that none of them was stored.
    fn transaction(&mut self, group: &mut [Queued]) -> Result<Outbox> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let ran = self.run_jobs(group).and_then(|outbox| hit(group, "store.before_commit").map(|()| outbox));
        let finish = match &ran {
            Ok(_) if group.iter().any(|queued| queued.kept) => "COMMIT",
            Ok(_) | Err(_) => "ROLLBACK",
        };
        let finished = self.conn.prepare_cached(finish).and_then(|mut statement| statement.execute([]));
        let (error, is_known) = match (ran, finished) {
            (Ok(outbox), Ok(_)) => match hit(group, "store.after_commit") {
                Ok(()) => return Ok(outbox),
                // As if the process had died before it could answer.
                Err(error) => (error, false),
            },
            (Ok(_), Err(error)) => {
                // A full disk or a lock leave the state known: nothing was stored. After anything else the commit may
                // have reached the log.
                let code = error.sqlite_error_code();
                (StoreError::from(error), matches!(code, Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy)))
            }
            (Err(error), _) => (error, true),
        };
        self.keys.clear();
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction cannot be rolled back; the store is closed");
            self.shared.close(&format!("a failed transaction cannot be rolled back: {error}"));
        } else if !is_known {
            tracing::error!(%error, "a commit failed; the store is closed");
            self.shared.close(&format!("a commit failed: {error}"));
        }
        Err(error)
    }

    fn run_jobs(&mut self, group: &mut [Queued]) -> Result<Outbox> {
        self.notice_others()?;
        let alone = group.len() == 1;
        let Self { conn, keys, world, ids, .. } = self;
        let mut tx = SqliteTx { conn, keys, world, ids, outbox: Outbox::default() };
        for queued in group {
            if !alone {
                tx.run("SAVEPOINT job", [])?;
            }
            let (n_events, n_heads) = (tx.outbox.events.len(), tx.outbox.heads.len());
            queued.kept = queued.job.run(&mut tx);
            if queued.kept {
                if !alone {
                    tx.run("RELEASE job", [])?;
                }
                continue;
            }
            tx.outbox.events.truncate(n_events);
            tx.outbox.heads.truncate(n_heads);
            // What the job looked up or made may be gone.
            tx.keys.clear();
            if tx.conn.is_autocommit() {
                return Err(StoreError::Disk("the transaction was rolled back by the database".to_owned()));
            }
            if !alone {
                tx.run("ROLLBACK TO job", [])?;
                tx.run("RELEASE job", [])?;
            }
        }
        Ok(tx.outbox)
    }

    /// Notices commits of other processes: says whether there were any since the last look.
    fn notice_others(&mut self) -> Result<bool> {
        let version: i64 = self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.data_version == Some(version) {
            return Ok(false);
        }
        let first_look = self.data_version.replace(version).is_none();
        self.keys.clear();
        // Ids that the store gives begin with a time in hex.
        let sql = "SELECT id FROM event WHERE id < 'evt_g' ORDER BY id DESC LIMIT 1";
        if let Some(id) = self.tx().first(sql, [], |row| Ok(row.get::<_, String>(0)?))? {
            self.ids.sort_after(&id);
        }
        self.has_purges = true;
        if !first_look {
            self.refresh()?;
        }
        Ok(!first_look)
    }

    fn tx(&mut self) -> SqliteTx<'_> {
        let Self { conn, keys, world, ids, .. } = self;
        SqliteTx { conn, keys, world, ids, outbox: Outbox::default() }
    }

    /// Wakes those who watch what another process changed.
    fn refresh(&mut self) -> Result<()> {
        for session in self.shared.watches.sessions() {
            if let Some(head) = self.tx().head(&session)? {
                self.shared.watches.set(&session, head);
            }
        }
        self.shared.bell.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }

    /// Deletes some events of deleted sessions, in a moment when nobody waits. Only the deletion itself stays, so that
    /// the session's id cannot begin again.
    fn purge(&mut self) {
        // Who follows a log may still read what came before its end; the next start, or deletion, removes it.
        let watched = self.shared.watches.sessions();
        let done = self.conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut statement| statement.execute([]));
        let purged = done.map_err(StoreError::from).and_then(|_| self.tx().purge(PURGE_ROWS, &watched));
        self.has_purges = matches!(purged, Ok(true));
        let finish = if purged.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let finished = self.conn.prepare_cached(finish).and_then(|mut statement| statement.execute([]));
        if let Some(error) = purged.err().or_else(|| finished.err().map(StoreError::from)) {
            // The next start tries again.
            self.has_purges = false;
            tracing::warn!(%error, "events of deleted sessions cannot be removed now");
            if !self.conn.is_autocommit()
                && let Err(error) = self.conn.execute_batch("ROLLBACK")
            {
                self.shared.close(&format!("a failed transaction cannot be rolled back: {error}"));
            }
        }
        self.checkpoints.after_commit(&self.conn);
    }

    fn poll(&mut self) {
        if self.shared.is_watched()
            && let Err(error) = self.notice_others()
        {
            tracing::warn!(%error, "commits of other processes cannot be noticed now");
        }
    }
}

/// A fault point of every job that is to be stored.
fn hit(group: &[Queued], point: &'static str) -> Result<()> {
    for queued in group.iter().filter(|queued| queued.kept) {
        queued.faults.hit(point).map_err(|fault| StoreError::Other(fault.to_string()))?;
    }
    Ok(())
}

fn reply_all(jobs: Vec<Queued>) {
    for queued in jobs {
        queued.job.reply();
    }
}

/// Syncs the write-ahead log and answers those who wait for it.
struct Syncer {
    path: PathBuf,
    file: Option<File>,
    shared: Arc<Shared>,
}

impl Syncer {
    fn run(mut self, inbox: &Receiver<Vec<Queued>>) {
        while let Ok(mut waiting) = inbox.recv() {
            while let Ok(more) = inbox.try_recv() {
                waiting.extend(more);
            }
            if let Err(error) = self.sync() {
                // Whether the commit survives a loss of power is unknown, and a second sync would not tell.
                tracing::error!(%error, path = %self.path.display(), "the log cannot be synced; the store is closed");
                let reason = format!("{} cannot be synced: {error}", self.path.display());
                self.shared.close(&reason);
                for queued in &mut waiting {
                    queued.job.fail(StoreError::Closed(reason.clone()));
                }
            }
            reply_all(waiting);
        }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        // The file exists as soon as something was committed, and is never replaced while a connection is open.
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        self.file.insert(file).sync_data()
    }
}
