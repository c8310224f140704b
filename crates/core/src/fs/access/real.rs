//! Paths with and without links.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// How many links one path may lead through, where they have to be followed by hand.
const MAX_LINKS: usize = 40;

/// Removes `.`, empty names and `..` from an absolute path without looking at the disk.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
        }
    }
    out
}

/// Says whether `path` is `directory` or lies below it, by whole names.
pub(crate) fn inside(path: &Path, directory: &Path) -> bool {
    path.starts_with(directory)
}

/// Resolves every link of an absolute path. What is missing is kept below the real path of its nearest existing
/// parent; a link to something missing counts as what it names, so that a write through it lands where the link says.
///
/// # Errors
/// `NotADirectory` when a parent is a file, `ELOOP` for too many links, and what the system says.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    resolve(path, MAX_LINKS)
}

/// Says whether a path leads through too many links.
pub(crate) fn is_loop(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

fn resolve(path: &Path, links_left: usize) -> io::Result<PathBuf> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut at = path;
    let base = loop {
        match at.canonicalize() {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if let Ok(link) = std::fs::read_link(at) {
            if links_left == 0 {
                return Err(Errno::LOOP.into());
            }
            let parent = at.parent().unwrap_or(at).canonicalize()?;
            break resolve(&lexical(&parent.join(link)), links_left - 1)?;
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                at = parent;
            }
            _ => return Err(io::ErrorKind::NotFound.into()),
        }
    };
    if !missing.is_empty() && std::fs::metadata(&base).is_ok_and(|found| !found.is_dir()) {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(missing.into_iter().rev().fold(base, |path, name| path.join(name)))
}
