//! Content-addressed files: what files held before they were changed, `<data>/blobs/<aa>/<hash>`.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use abide_schema::json::sha256_hex;

use super::disk;

/// How long before-images are kept.
pub const KEEP_FOR: Duration = Duration::from_hours(7 * 24);

/// How much of them is kept, in bytes.
pub const KEEP_BYTES: u64 = 512 * 1024 * 1024;

/// A folder of contents by their SHA-256. All methods block.
#[derive(Clone, Debug)]
pub struct Blobs {
    root: PathBuf,
    sync: bool,
}

impl Blobs {
    /// Makes a value for a folder, which is made when it is first needed. With `sync`, what was put survives a loss
    /// of power.
    pub fn new(root: PathBuf, sync: bool) -> Self {
        Self { root, sync }
    }

    /// Stores a content and returns its hash. What is there already is not written again.
    ///
    /// # Errors
    /// What the system says.
    pub fn put(&self, data: &[u8]) -> io::Result<String> {
        let hash = sha256_hex(data);
        let path = self.path(&hash);
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        if fs::metadata(&path).is_ok_and(|found| found.len() == length) {
            return Ok(hash);
        }
        let directory = path.parent().unwrap_or(&self.root);
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut file = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(directory)?;
        file.write_all(data)?;
        if self.sync {
            file.as_file().sync_all()?;
        }
        file.persist(&path).map_err(|error| error.error)?;
        if self.sync {
            disk::sync_directory(directory)?;
            disk::sync_directory(&self.root)?;
        }
        Ok(hash)
    }

    /// Reads a content; `None` when it is not there or damaged.
    ///
    /// # Errors
    /// What the system says.
    pub fn get(&self, hash: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(hash)) {
            Ok(data) => Ok((sha256_hex(&data) == hash).then_some(data)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes contents that nobody needs: older than [`KEEP_FOR`], and the oldest beyond [`KEEP_BYTES`]; never those
    /// in `needed`. Returns how many were deleted. What cannot be deleted stays.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn sweep(&self, needed: &HashSet<String>, now: SystemTime) -> io::Result<usize> {
        let mut found = Vec::new();
        for directory in list(&self.root)?.into_iter().filter(|path| path.is_dir()) {
            for path in list(&directory)? {
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                let age = metadata.modified().ok().and_then(|time| now.duration_since(time).ok()).unwrap_or_default();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
                if !needed.contains(&name) {
                    found.push((age, metadata.len(), path));
                }
            }
        }
        found.sort();
        let (mut kept, mut n_deleted) = (0u64, 0);
        for (age, length, path) in found {
            kept = kept.saturating_add(length);
            if (age > KEEP_FOR || kept > KEEP_BYTES) && fs::remove_file(&path).is_ok() {
                n_deleted += 1;
            }
        }
        Ok(n_deleted)
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.root.join(hash.get(..2).unwrap_or("00")).join(hash)
    }
}

const TEMP_PREFIX: &str = ".tmp-";

fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_and_are_swept_by_age() {
        let root = tempfile::TempDir::new().unwrap();
        let blobs = Blobs::new(root.path().join("blobs"), true);
        assert_eq!(blobs.sweep(&HashSet::new(), SystemTime::UNIX_EPOCH).unwrap(), 0);
        let one = blobs.put(b"one").unwrap();
        let two = blobs.put(b"two").unwrap();
        assert_eq!(blobs.put(b"one").unwrap(), one);
        assert_eq!(blobs.get(&one).unwrap().as_deref(), Some(b"one".as_slice()));
        assert_eq!(blobs.get("00ff").unwrap(), None);

        let later = fs::metadata(blobs.path(&one)).unwrap().modified().unwrap() + KEEP_FOR * 2;
        assert_eq!(blobs.sweep(&HashSet::from([one.clone()]), later).unwrap(), 1);
        assert_eq!(blobs.get(&two).unwrap(), None);
        fs::write(blobs.path(&one), "bad").unwrap();
        assert_eq!(blobs.get(&one).unwrap(), None);
    }
}
