//! The private git directory of snapshots.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::config::directories::create_private;
use crate::project::Repository;

/// How long to wait for another process.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// How often the lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Makes the directory, if needed, and brings what it takes over from the user's repository up to date.
pub(super) fn prepare(directory: &Path, repository: &Repository) -> io::Result<()> {
    let source = &repository.common_dir;
    create_private(directory)?;
    for part in ["objects/info", "objects/pack", "refs/heads", "info"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let objects = source.join("objects");
    let mut alternates = format!("{}\n", objects.canonicalize().unwrap_or_else(|_| objects.clone()).display());
    for line in fs::read_to_string(objects.join("info/alternates")).unwrap_or_default().lines() {
        if !line.is_empty() && !line.starts_with('#') {
            alternates = format!("{alternates}{}\n", objects.join(line).display());
        }
    }
    write_if_other(&directory.join("objects/info/alternates"), alternates.as_bytes())?;
    // What only this repository ignores must not be listed at every capture.
    let exclude = fs::read(source.join("info/exclude")).unwrap_or_default();
    write_if_other(&directory.join("info/exclude"), &exclude)?;
    if !directory.join("HEAD").exists() {
        take_index(directory, repository)?;
        fs::write(directory.join("config"), config(source))?;
        fs::write(directory.join("HEAD"), "ref: refs/heads/none\n")?;
    }
    Ok(())
}

/// Starts with the user's index, so that the first capture need not read every file.
fn take_index(directory: &Path, repository: &Repository) -> io::Result<()> {
    let source = repository.git_dir.join("index");
    let Ok(metadata) = fs::metadata(&source) else { return Ok(()) };
    let target = directory.join("index");
    fs::copy(&source, &target)?;
    // Git tells files that changed together with the index by its time.
    if let Ok(modified) = metadata.modified() {
        File::options().write(true).open(&target)?.set_modified(modified)?;
    }
    Ok(())
}

fn config(source: &Path) -> String {
    let theirs = fs::read_to_string(source.join("config")).unwrap_or_default().to_lowercase().replace([' ', '\t'], "");
    let (version, format) =
        if theirs.contains("objectformat=sha256") { (1, "[extensions]\n\tobjectFormat = sha256\n") } else { (0, "") };
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\tautocrlf = false\n\
         \tlongpaths = true\n\tsymlinks = true\n\tfsmonitor = false\n\tuntrackedCache = true\n\tlogAllRefUpdates = \
         false\n{format}[feature]\n\tmanyFiles = true\n[index]\n\tversion = 4\n\tthreads = true\n[gc]\n\tauto = 0\n"
    )
}

fn write_if_other(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) { Ok(()) } else { fs::write(path, content) }
}

/// Keeps other processes out; says whether another one may have been in since this process was.
pub(super) fn lock(directory: &Path) -> io::Result<(File, bool)> {
    let file =
        File::options().create(true).truncate(false).read(true).write(true).open(directory.join("abide.lock"))?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if waited < LOCK_LIMIT => {
                std::thread::sleep(LOCK_PAUSE);
                waited += LOCK_PAUSE;
            }
            Err(TryLockError::WouldBlock) => return Err(io::Error::other("another process is using it")),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    // The file names the process that was in last.
    let own = std::process::id().to_string();
    let path = directory.join("abide.lock");
    let was_other = fs::read_to_string(&path).is_ok_and(|last| last != own);
    if was_other {
        fs::write(&path, own)?;
    }
    // A git that was killed leaves its lock behind; nobody else works here.
    if directory.join("index.lock").exists() {
        fs::remove_file(directory.join("index.lock"))?;
    }
    Ok((file, was_other))
}

/// Splits the output of `diff --patch` into one text for each file.
pub(super) fn split_patches(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            out.push(String::new());
        }
        if let Some(last) = out.last_mut() {
            last.push_str(line);
        }
    }
    for patch in &mut out {
        if patch.contains("\nBinary files ") || patch.contains("\nGIT binary patch\n") {
            patch.clear();
        }
    }
    out
}

/// Takes the quotes off a path that git wrote in C style.
pub(super) fn unquote(path: &str) -> String {
    let Some(inner) = path.strip_prefix('"').and_then(|path| path.strip_suffix('"')) else {
        return path.to_owned();
    };
    let mut out: Vec<u8> = Vec::with_capacity(inner.len());
    let mut bytes = inner.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next @ b'0'..=b'7') = bytes.peek().copied() {
                        value = value * 8 + u32::from(next - b'0');
                        bytes.next();
                    }
                }
                out.push(u8::try_from(value).unwrap_or(b'?'));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
