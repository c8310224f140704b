//! System calls on single files, exact about what they replace. All functions block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Gid, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;

use abide_schema::json::sha256_hex;

/// What can be compared and kept of a file besides its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) n_links: u64,
    pub(crate) identity: (u64, u64),
    pub(crate) length: u64,
    pub(crate) modified: (i64, i64),
}

impl Facts {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            n_links: metadata.nlink(),
            identity: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A regular file as it was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) content: Vec<u8>,
    pub(crate) facts: Facts,
}

impl Read {
    pub(crate) fn hash(&self) -> String {
        sha256_hex(&self.content)
    }
}

/// What stands at a path.
#[derive(Debug)]
pub(crate) enum Found {
    Missing,
    File(Read),
    /// A directory, link, pipe, socket or device.
    NotAFile,
}

/// Opens a regular file for reading; never follows a link as the last name, never waits for a pipe.
///
/// # Errors
/// What the system says; `None` for what is no regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<Option<(File, Facts)>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then(|| (file, Facts::of(&metadata))))
}

/// Reads what stands at a path.
///
/// # Errors
/// What the system says; that nothing is there is no error.
pub(crate) fn look(path: &Path) -> io::Result<Found> {
    match open_regular(path) {
        Ok(Some((mut file, facts))) => {
            let mut content = Vec::with_capacity(usize::try_from(facts.length).unwrap_or_default());
            file.read_to_end(&mut content)?;
            Ok(Found::File(Read { content, facts }))
        }
        Ok(None) => Ok(Found::NotAFile),
        Err(error) if is_missing(&error) => Ok(Found::Missing),
        Err(error) => Err(error),
    }
}

/// Says whether an error means that nothing is there.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Writes a new file that must not exist. With `like`, it gets that file's owner, extended attributes and mode;
/// else `mode`, or what the process's mask leaves of 0666.
pub(crate) fn write_new(
    path: &Path,
    content: &[u8],
    like: Option<&Path>,
    mode: Option<u32>,
    sync: bool,
) -> io::Result<()> {
    let first_mode = if like.is_some() || mode.is_some() { 0o600 } else { 0o666 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(first_mode).open(path)?;
    file.write_all(content)?;
    if let Some(like) = like.and_then(|like| File::open(like).ok()) {
        copy_facts(&like, &file);
    }
    if let Some(mode) = mode {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    if sync {
        file.sync_all()?;
    }
    Ok(())
}

/// Copies owner and extended attributes as far as the process may.
fn copy_facts(from: &File, to: &File) {
    if let Ok(metadata) = from.metadata() {
        let (owner, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        // What may not be copied shows in `must_write_in_place`.
        if rustix::fs::fchown(to, Some(owner), Some(group)).is_err() {
            let _denied = rustix::fs::fchown(to, None, Some(group));
        }
    }
    let mut names = vec![0u8; 16 * 1024];
    let Ok(length) = rustix::fs::flistxattr(from, names.as_mut_slice()) else { return };
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 64 * 1024];
        if let Ok(length) = rustix::fs::fgetxattr(from, name, value.as_mut_slice()) {
            let value = value.get(..length).unwrap_or_default();
            let _unsupported = rustix::fs::fsetxattr(to, name, value, XattrFlags::empty());
        }
    }
}

/// Says whether a file has to be written in place: another name shares it, or a new file would have another owner.
pub(crate) fn must_write_in_place(target: Facts, staged: Facts) -> bool {
    target.n_links > 1 || target.owner != staged.owner
}

/// Puts the staged content at `path`, where a file is: by renaming, or in place where renaming would lose a link or
/// the owner.
pub(crate) fn replace(staged: &Path, path: &Path, sync: bool) -> io::Result<()> {
    let target = Facts::of(&fs::symlink_metadata(path)?);
    let new = Facts::of(&fs::symlink_metadata(staged)?);
    if !must_write_in_place(target, new) {
        return fs::rename(staged, path);
    }
    let content = fs::read(staged)?;
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits()).unwrap_or_default();
    let mut file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    file.write_all(&content)?;
    file.set_len(new.length)?;
    if sync {
        file.sync_all()?;
    }
    fs::remove_file(staged)
}

/// Says whether `now` is what a write in place leaves when it dies in the middle: the start of the new content, then
/// the rest of the old one.
pub(crate) fn is_torn(now: &[u8], before: &[u8], after: &[u8]) -> bool {
    let written = now.iter().zip(after).take_while(|(now, after)| now == after).count();
    now.get(written..) == Some(before.get(written..).unwrap_or_default())
}

/// Renames, and fails when the new name is taken.
pub(crate) fn rename_exclusive(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        result => return Ok(result?),
    }
    fs::hard_link(from, to)?;
    fs::remove_file(from)
}

/// Removes a file; says whether there was one.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // Some file systems cannot sync directories.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Lists the parents of `path` that do not exist, outermost first.
pub(crate) fn missing_parents(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = path
        .ancestors()
        .skip(1)
        .take_while(|parent| fs::symlink_metadata(parent).is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
        .map(Path::to_path_buf)
        .collect();
    missing.reverse();
    missing
}
