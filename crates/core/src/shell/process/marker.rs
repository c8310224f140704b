//! The files beside a spool file that say how far its command came.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How a command ended, as the wrapper writes it into `<spool>.exit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitMarker {
    /// The exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// Whether the wrapper ended it because nobody waited any more.
    #[serde(default)]
    pub(crate) killed: bool,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Processes that it left running, as people read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left: Vec<String>,
    /// When, in milliseconds since 1970; absent from the plain wrapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<i64>,
}

/// Returns the path of the file that says that the command was started.
pub(crate) fn started_path(spool: &Path) -> PathBuf {
    with_suffix(spool, ".started")
}

/// Returns the path of the file that says how the command ended.
pub(crate) fn exit_path(spool: &Path) -> PathBuf {
    with_suffix(spool, ".exit")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Writes the start marker so that it survives a power failure: what follows has effects.
pub(crate) fn write_started(spool: &Path) -> io::Result<()> {
    let path = started_path(spool);
    File::create_new(&path)?.sync_all()?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Writes the exit marker, whole or not at all.
pub(crate) fn write_exit(spool: &Path, marker: &ExitMarker) -> io::Result<()> {
    let path = exit_path(spool);
    let draft = with_suffix(&path, ".new");
    let mut file = File::create(&draft)?;
    file.write_all(&serde_json::to_vec(marker)?)?;
    file.sync_data()?;
    std::fs::rename(&draft, &path)
}

/// Reads the exit marker; `None` when there is none that can be read.
pub(crate) fn read_exit(spool: &Path) -> Option<ExitMarker> {
    serde_json::from_slice(&std::fs::read(exit_path(spool)).ok()?).ok()
}
