//! Locks by path: within this process, and between processes that share a data directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use abide_schema::json::sha256_hex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::OwnedMutexGuard;

/// How long another process may hold the files of a batch. It holds them for milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How often it is looked whether it still does.
const POLL: Duration = Duration::from_millis(10);

/// The locks that somebody holds or waits for.
#[derive(Default)]
pub(super) struct PathLocks {
    locks: Mutex<BTreeMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
}

/// Files locked for one batch; released when dropped.
#[derive(Debug)]
pub struct PathGuard {
    paths: BTreeSet<PathBuf>,
    #[expect(dead_code, reason = "held for its drop")]
    guards: Vec<OwnedMutexGuard<()>>,
}

impl PathGuard {
    pub(super) fn paths(&self) -> &BTreeSet<PathBuf> {
        &self.paths
    }

    /// Says whether a file is locked by this guard.
    pub fn holds(&self, path: &Path) -> bool {
        self.paths.contains(path)
    }
}

impl PathLocks {
    pub(super) async fn lock(&self, paths: impl IntoIterator<Item = PathBuf>) -> PathGuard {
        let paths: BTreeSet<PathBuf> = paths.into_iter().collect();
        let mut guards = Vec::with_capacity(paths.len());
        for path in &paths {
            let lock = self.of(path);
            guards.push(lock.lock_owned().await);
        }
        PathGuard { paths, guards }
    }

    fn of(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(path.to_path_buf(), Arc::downgrade(&lock));
        lock
    }
}

/// Locks held against other processes; released when dropped, also by death.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    #[expect(dead_code, reason = "held for its drop")]
    files: Vec<File>,
}

/// Locks paths against other processes with the same `directory`. Paths share a few lock files, which are taken in
/// order, so that two processes cannot wait for each other.
///
/// # Errors
/// `TimedOut` after thirty seconds, and what the system says.
pub(super) async fn lock_processes(directory: &Path, paths: &BTreeSet<PathBuf>) -> io::Result<ProcessGuard> {
    let shards: BTreeSet<String> = paths
        .iter()
        .filter_map(|path| Some(sha256_hex(path.to_string_lossy().as_bytes()).get(..2)?.to_owned()))
        .collect();
    let mut files = Vec::with_capacity(shards.len());
    for shard in shards {
        let file = open(directory, &shard)?;
        let mut waited = Duration::ZERO;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if waited < MAX_WAIT => {
                    tokio::time::sleep(POLL).await;
                    waited += POLL;
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process changes it"));
                }
                // Some network file systems have no locks.
                Err(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK) => break,
                Err(error) => return Err(error.into()),
            }
        }
        files.push(file);
    }
    Ok(ProcessGuard { files })
}

fn open(directory: &Path, shard: &str) -> io::Result<File> {
    let path = directory.join(shard);
    let options = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    match options() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            options()
        }
        result => result,
    }
}
