//! Locks by path, within this process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

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
