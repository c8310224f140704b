//! Reading with a memory: every file and directory that was looked at, so that it can be asked later whether
//! any of them changed.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest file that configuration may consist of or include.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// What was seen at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Missing,
    Unreadable,
    Present { len: u64, modified: Option<SystemTime>, changed: (i64, i64), inode: u64 },
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (changed, inode) = {
            use std::os::unix::fs::MetadataExt as _;
            ((metadata.ctime(), metadata.ctime_nsec()), metadata.ino())
        };
        #[cfg(not(unix))]
        let (changed, inode) = ((0, 0), 0);
        Self::Present { len: metadata.len(), modified: metadata.modified().ok(), changed, inode }
    }

    fn take(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(metadata) => Self::of(&metadata),
            Err(error) if is_missing(&error) => Self::Missing,
            Err(_) => Self::Unreadable,
        }
    }
}

/// Says whether an error means that there is nothing at a path.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The files that something was made of.
#[derive(Clone, Debug, Default)]
pub struct FileSet {
    seen: BTreeMap<PathBuf, Stamp>,
}

impl FileSet {
    /// Reads a file of at most [`MAX_FILE_BYTES`]; `None` when there is none.
    ///
    /// # Errors
    /// When the file exists and cannot be read, is a directory, or is too large.
    pub fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        // The stamp is taken before the content: a change in between makes the set stale, never falsely fresh.
        let stamp = Stamp::take(path);
        self.seen.insert(path.to_owned(), stamp);
        match stamp {
            Stamp::Missing => return Ok(None),
            Stamp::Present { len, .. } if len > MAX_FILE_BYTES => {
                return Err(io::Error::other(format!("{len} bytes are more than the limit of {MAX_FILE_BYTES}")));
            }
            Stamp::Present { .. } | Stamp::Unreadable => {}
        }
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says whether there is a directory at a path.
    pub fn is_dir(&mut self, path: &Path) -> bool {
        self.seen.insert(path.to_owned(), Stamp::take(path));
        path.is_dir()
    }

    /// Lists the names in a directory, sorted; empty when there is none.
    pub fn list(&mut self, path: &Path) -> Vec<PathBuf> {
        self.seen.insert(path.to_owned(), Stamp::take(path));
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
        entries.sort_unstable();
        entries
    }

    /// Adds what another set saw.
    pub fn extend(&mut self, other: Self) {
        self.seen.extend(other.seen);
    }

    /// Says whether everything is still as it was seen. Looks at each path once; blocks.
    pub fn is_fresh(&self) -> bool {
        self.seen.iter().all(|(path, stamp)| Stamp::take(path) == *stamp)
    }
}
