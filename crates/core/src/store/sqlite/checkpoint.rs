//! Moving the write-ahead log into the database, beside the writer.
//!
//! A checkpoint writes thousands of pages and syncs twice. The writer does not wait for it: a thread with its own
//! connection copies what is committed while the writer goes on, and the log begins anew at the first write that finds
//! all of it copied. Only a log that never comes to rest is moved by the writer itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, wal::CheckpointMode};

use super::codec::Result;
use super::migrate::connect;

/// Pages in the log after which a checkpoint begins, and again after as many more (4 MiB).
const BEGIN_PAGES: i32 = 2048;
/// Pages in the log after which the writer makes the checkpoint itself (64 MiB).
const MAX_PAGES: i32 = 32 * 1024;

/// The writer's side.
pub(super) struct Checkpoints {
    path: PathBuf,
    /// Pages in the log after the last commit.
    pages: Arc<AtomicI32>,
    /// When the next checkpoint begins.
    next: i32,
    worker: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Checkpoints {
    /// Takes the care of the log over from SQLite.
    pub(super) fn new(conn: &mut Connection, path: PathBuf) -> Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let count = Arc::clone(&pages);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            count.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { path, pages, next: BEGIN_PAGES, worker: None })
    }

    /// Begins a checkpoint when the log is long. Called after commits.
    pub(super) fn after_commit(&mut self, conn: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < BEGIN_PAGES {
            self.next = BEGIN_PAGES;
        } else if pages >= MAX_PAGES {
            run(conn);
        } else if pages >= self.next {
            self.next = pages.saturating_add(BEGIN_PAGES);
            if let Some((orders, _)) = self.worker() {
                // One that is at work, or ordered, is enough.
                let _busy = orders.try_send(());
            }
        }
    }

    fn worker(&mut self) -> Option<&(SyncSender<()>, JoinHandle<()>)> {
        if self.worker.is_none() {
            let (orders, inbox) = sync_channel(1);
            let path = self.path.clone();
            let builder = std::thread::Builder::new().name("abide-store-log".to_owned());
            // Without the thread the log grows until the writer moves it.
            self.worker = builder.spawn(move || work(path, &inbox)).ok().map(|handle| (orders, handle));
        }
        self.worker.as_ref()
    }

    /// Waits for a checkpoint at work.
    pub(super) fn close(&mut self) {
        if let Some((orders, handle)) = self.worker.take() {
            drop(orders);
            if handle.join().is_err() {
                tracing::error!("the thread of the store's checkpoints panicked");
            }
        }
    }
}

fn work(path: PathBuf, inbox: &Receiver<()>) {
    let conn = match connect(&path, std::time::Duration::ZERO) {
        Ok(conn) => conn,
        Err(error) => {
            tracing::warn!(%error, "the log of the store cannot be moved beside the writer");
            return;
        }
    };
    while inbox.recv().is_ok() {
        run(&conn);
    }
}

fn run(conn: &Connection) {
    match conn.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
        Ok((pages, moved)) => tracing::debug!(pages, moved, "the log of the store was moved"),
        // Nothing is lost: it is in the log.
        Err(error) => tracing::warn!(%error, "the log of the store cannot be moved now"),
    }
}
