//! Process instances: each holds a lock on its own file for as long as it lives, and the kernel lets go of it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use abide_schema::OwnerId;
use rustix::fs::{FlockOperation, flock};

use super::migrate::make_directory;
use crate::store::StoreError;

/// This process instance, registered.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: OwnerId,
    directory: PathBuf,
    // Holds the lock.
    file: Option<File>,
}

impl Owner {
    /// Registers a new instance and removes the files of dead ones.
    pub(super) fn register(data_dir: &Path, id: OwnerId) -> Result<Self, StoreError> {
        let directory = data_dir.join("owners");
        let fail = |error: &dyn std::fmt::Display| StoreError::Disk(format!("{}: {error}", directory.display()));
        make_directory(&directory)?;
        sweep(&directory);
        // Locked before it has its name, so that nobody ever sees it unlocked.
        let temporary = directory.join(format!("{id}.new"));
        let mut file =
            OpenOptions::new().create_new(true).write(true).open(&temporary).map_err(|error| fail(&error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| fail(&error))?;
        // For people who look.
        writeln!(file, "{}", std::process::id()).map_err(|error| fail(&error))?;
        std::fs::rename(&temporary, lock_path(&directory, &id)).map_err(|error| fail(&error))?;
        Ok(Self { id, directory, file: Some(file) })
    }

    /// Says whether an instance still lives.
    pub(super) fn is_alive(&self, owner: &OwnerId) -> bool {
        *owner == self.id || is_locked(&lock_path(&self.directory, owner))
    }

    /// Gives the registration up.
    pub(super) fn release(&mut self) {
        if let Some(file) = self.file.take() {
            // A file that stays is swept by the next instance.
            let _swept_later = std::fs::remove_file(lock_path(&self.directory, &self.id));
            drop(file);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.release();
    }
}

fn lock_path(directory: &Path, owner: &OwnerId) -> PathBuf {
    directory.join(format!("{owner}.lock"))
}

/// A file that is gone, or that can be locked, belongs to no living process. One that cannot be examined counts as
/// alive: taking work from a living process is worse than leaving it.
fn is_locked(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension().and_then(std::ffi::OsStr::to_str) {
            Some("lock") if !is_locked(&path) => {
                // Another process may have swept it.
                let _gone = std::fs::remove_file(&path);
            }
            Some(_) | None => (),
        }
    }
}
