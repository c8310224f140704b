//! Files for clients: listing, finding and reading, confined to the real directory of the location.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{Access, inside, lexical, real_path};
use super::{disk, media, search};

/// How many entries a search returns when nothing is said.
pub const DEFAULT_FIND_LIMIT: usize = 100;

/// How many entries a search looks at.
const MAX_WALKED: usize = 200_000;

/// How long a search may take.
const FIND_TIME: Duration = Duration::from_secs(10);

/// The most entries of one list.
const MAX_LISTED: usize = 100_000;

/// A file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A directory; its path ends in `/`.
    Directory,
    /// Anything else.
    File,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Relative to the location.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
}

/// What to find.
#[derive(Clone, Debug, Default)]
pub struct Find {
    /// What the path is like; empty means everything.
    pub query: String,
    /// Only files or only directories.
    pub kind: Option<EntryKind>,
    /// The most entries; absent means [`DEFAULT_FIND_LIMIT`].
    pub limit: Option<usize>,
}

/// A file that is ready to be read from its start.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: File,
    /// Its size in bytes.
    pub length: u64,
    /// Its media type.
    pub media_type: &'static str,
}

impl OpenFile {
    /// Reads it whole, up to the size that it had.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.file.take(self.length).read_to_end(&mut content)?;
        Ok(content)
    }
}

/// Why something is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowseError {
    /// There is nothing.
    #[error("{path} does not exist")]
    NotFound {
        /// The path as it was named.
        path: String,
    },
    /// It lies outside the location.
    #[error("{path} lies outside the location")]
    Outside {
        /// The path as it was named.
        path: String,
    },
    /// It is no regular file.
    #[error("{path} is not a file")]
    NotAFile {
        /// The path as it was named.
        path: String,
    },
    /// It is no directory.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The path as it was named.
        path: String,
    },
    /// The system refuses.
    #[error("{path} cannot be read")]
    Io {
        /// The path as it was named.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The files of a location. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Browser {
    access: Arc<Access>,
}

impl Browser {
    /// Makes the service of a location.
    pub fn new(access: Arc<Access>) -> Self {
        Self { access }
    }

    /// Lists the direct children of a directory, of the location itself without `path`: directories first, each group
    /// in the order of names regardless of case. `.git` is left out.
    ///
    /// # Errors
    /// [`BrowseError`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn list(&self, path: Option<&str>) -> Result<Vec<Entry>, BrowseError> {
        let (browser, path) = (self.clone(), path.unwrap_or_default().to_owned());
        blocking(path.clone(), move || browser.list_blocking(&path)).await
    }

    /// Finds files and directories by likeness of their paths, the best first. What version control ignores is left
    /// out. Stops after ten seconds or many entries with what it has.
    ///
    /// # Errors
    /// [`BrowseError`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn find(&self, find: Find) -> Result<Vec<Entry>, BrowseError> {
        let browser = self.clone();
        blocking(String::new(), move || Ok(browser.find_blocking(&find))).await
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`BrowseError`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn open(&self, path: &str) -> Result<OpenFile, BrowseError> {
        let (browser, path) = (self.clone(), path.to_owned());
        blocking(path.clone(), move || browser.open_blocking(&path)).await
    }

    fn list_blocking(&self, path: &str) -> Result<Vec<Entry>, BrowseError> {
        let real = self.resolve(path)?;
        let root = self.access.real_directory();
        let found = fs::metadata(&real).map_err(|error| failed(path, error))?;
        if !found.is_dir() {
            return Err(BrowseError::NotADirectory { path: path.to_owned() });
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(&real).map_err(|error| failed(path, error))?.take(MAX_LISTED) {
            // An entry that is gone in this moment is none.
            let Ok(entry) = entry else { continue };
            if entry.file_name() == ".git" {
                continue;
            }
            let kind = kind_inside(&entry.path(), root);
            entries.extend(self.entry(&entry.path(), kind));
        }
        entries.sort_by_cached_key(|entry| (entry.kind, entry.path.to_lowercase(), entry.path.clone()));
        Ok(entries)
    }

    fn find_blocking(&self, find: &Find) -> Vec<Entry> {
        let limit = find.limit.unwrap_or(DEFAULT_FIND_LIMIT);
        let root = self.access.real_directory();
        let deadline = Instant::now().checked_add(FIND_TIME);
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        let pattern = Pattern::parse(&find.query, CaseMatching::Smart, Normalization::Smart);
        let mut buffer = Vec::new();
        let mut found: Vec<(u32, Entry)> = Vec::new();
        for entry in search::walk(root, true).build().take(MAX_WALKED).filter_map(Result::ok) {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
            if entry.depth() == 0 || find.kind.is_some_and(|wanted| wanted != kind) {
                continue;
            }
            let Some(entry) = self.entry(entry.path(), kind) else { continue };
            if find.query.trim().is_empty() {
                found.push((0, entry));
                if found.len() == limit {
                    break;
                }
            } else if let Some(score) = pattern.score(Utf32Str::new(&entry.path, &mut buffer), &mut matcher) {
                found.push((score, entry));
            }
        }
        if !find.query.trim().is_empty() {
            found.sort_by_cached_key(|(score, entry)| (Reverse(*score), entry.path.len(), entry.path.clone()));
        }
        found.into_iter().take(limit).map(|(_, entry)| entry).collect()
    }

    fn open_blocking(&self, path: &str) -> Result<OpenFile, BrowseError> {
        let real = self.resolve(path)?;
        let opened = open_beneath(self.access.real_directory(), &real).map_err(|error| failed(path, error))?;
        let Some((mut file, length)) = opened else {
            return Err(BrowseError::NotAFile { path: path.to_owned() });
        };
        let mut first = vec![0; 8 * 1024];
        let length_read = read_some(&mut file, &mut first).map_err(|error| failed(path, error))?;
        file.rewind().map_err(|error| failed(path, error))?;
        let media_type = media::of(&real, first.get(..length_read).unwrap_or_default());
        Ok(OpenFile { file, length, media_type })
    }

    /// Resolves a path to its real place inside the location.
    fn resolve(&self, path: &str) -> Result<PathBuf, BrowseError> {
        let root = self.access.real_directory();
        if path.contains('\0') {
            return Err(BrowseError::NotFound { path: path.escape_default().to_string() });
        }
        let joined = root.join(path);
        let named = lexical(&joined);
        // A location that is itself named through a link may be spelled that way too.
        let spelled_inside = inside(&named, root) || inside(&named, self.access.directory());
        let outside = || BrowseError::Outside { path: path.to_owned() };
        if !spelled_inside {
            return Err(outside());
        }
        let real = real_path(&named).map_err(|error| failed(path, error))?;
        if inside(&real, root) { Ok(real) } else { Err(outside()) }
    }

    fn entry(&self, path: &Path, kind: EntryKind) -> Option<Entry> {
        let relative = path.strip_prefix(self.access.real_directory()).ok()?.to_string_lossy().into_owned();
        let path = match kind {
            EntryKind::Directory => relative + "/",
            EntryKind::File => relative,
        };
        Some(Entry { path, kind })
    }
}

/// Says what an entry is; of a link that leads outside, nothing is told.
fn kind_inside(path: &Path, root: &Path) -> EntryKind {
    let is_directory = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => path.canonicalize().is_ok_and(|real| inside(&real, root) && real.is_dir()),
        Ok(found) => found.is_dir(),
        Err(_) => false,
    };
    if is_directory { EntryKind::Directory } else { EntryKind::File }
}

/// Opens a regular file below `root` without following any link, so that one that appears meanwhile leads nowhere.
/// `None` for what is no regular file.
fn open_beneath(root: &Path, real: &Path) -> io::Result<Option<(File, u64)>> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        use rustix::io::Errno;

        if !fs::symlink_metadata(real)?.is_file() {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let relative = real.strip_prefix(root).map_err(|_| io::ErrorKind::NotFound)?;
        match openat2(File::open(root)?, relative, flags, Mode::empty(), resolve) {
            Ok(file) => {
                let file = File::from(file);
                let metadata = file.metadata()?;
                return Ok(metadata.is_file().then_some((file, metadata.len())));
            }
            // Old kernels, and sandboxes that forbid the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(disk::open_regular(real)?.map(|(file, facts)| (file, facts.length)))
}

fn read_some(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            n => length += n,
        }
    }
    Ok(length)
}

fn failed(path: &str, error: io::Error) -> BrowseError {
    let path = path.to_owned();
    if disk::is_missing(&error) { BrowseError::NotFound { path } } else { BrowseError::Io { path, source: error } }
}

async fn blocking<T: Send + 'static>(
    path: String,
    work: impl FnOnce() -> Result<T, BrowseError> + Send + 'static,
) -> Result<T, BrowseError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(BrowseError::Io { path, source: io::Error::other(error) }),
    }
}
