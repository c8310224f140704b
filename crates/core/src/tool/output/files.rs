//! Files `<data>/tool-output/tool_<id>`: complete output of tools, for seven days.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_schema::ToolFileId;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// How long a file is kept after its last change.
const RETENTION: Duration = Duration::from_hours(7 * 24);

/// How often old files are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// The directory of managed output. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OutputFiles {
    world: World,
    directory: PathBuf,
}

impl OutputFiles {
    /// Makes the handle; the directory is `tool-output` below abide's data directory and is made when it is needed.
    pub fn new(world: World, data: &Path) -> Self {
        Self { world, directory: data.join("tool-output") }
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens a new file, readable by the owner only.
    ///
    /// # Errors
    /// When the directory or the file cannot be made.
    ///
    /// # Cancel safety
    /// A file that was made and not returned is removed by the sweep.
    pub async fn create(&self) -> io::Result<OutputFile> {
        let id = self.world.tool_file_id();
        let path = self.directory.join(id.as_str());
        let directory = self.directory.clone();
        let target = path.clone();
        let file = blocking(move || {
            make_directory(&directory)?;
            exclusive(&target)
        })
        .await?;
        Ok(OutputFile { id, file: File::from_std(file), path: Some(path) })
    }

    /// Writes a complete output.
    ///
    /// # Errors
    /// When it cannot be stored whole; nothing is left then.
    ///
    /// # Cancel safety
    /// A file that was not finished is removed.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        let mut file = self.create().await?;
        file.write(bytes).await?;
        file.keep().await
    }

    /// Removes files that nobody changed for seven days; other names are left alone. Returns how many were removed.
    ///
    /// # Cancel safety
    /// What was removed stays removed.
    pub async fn sweep(&self) -> usize {
        let directory = self.directory.clone();
        let now = self.world.now().as_millis();
        let oldest = now - i64::try_from(RETENTION.as_millis()).unwrap_or(i64::MAX);
        blocking(move || Ok(sweep(&directory, oldest))).await.unwrap_or(0)
    }
}

impl OutputFiles {
    /// Sweeps now and then every hour, until `token` is cancelled. One task per process does this.
    ///
    /// # Cancel safety
    /// What was removed stays removed.
    pub async fn run(self, token: CancellationToken) {
        while token.run_until_cancelled(self.sweep()).await.is_some() {
            if token.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_none() {
                return;
            }
        }
    }
}

/// A file that is being written: removed when dropped before [`OutputFile::keep`].
#[derive(Debug)]
pub struct OutputFile {
    id: ToolFileId,
    file: File,
    path: Option<PathBuf>,
}

impl OutputFile {
    /// Returns the opaque reference.
    pub fn id(&self) -> &ToolFileId {
        &self.id
    }

    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When they cannot be written; the file is then of no use.
    ///
    /// # Cancel safety
    /// A part may have been written.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).await
    }

    /// Reaches the disk and keeps the file.
    ///
    /// # Errors
    /// When the bytes do not reach the disk; the file is removed.
    ///
    /// # Cancel safety
    /// Dropped before its end, the file is removed.
    pub async fn keep(mut self) -> io::Result<PathBuf> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        Ok(self.path.take().unwrap_or_default())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take()
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::debug!(path = %path.display(), %error, "an unfinished output file stays");
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn exclusive(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes managed files last changed before `oldest` (milliseconds since the epoch). Failures are ignored: the next
/// sweep tries again.
fn sweep(directory: &Path, oldest: i64) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let is_old = |entry: &std::fs::DirEntry| {
        let modified = entry.metadata().ok().filter(std::fs::Metadata::is_file)?.modified().ok()?;
        let age = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(i64::try_from(age.as_millis()).ok()? < oldest)
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_managed))
        .filter(|entry| is_old(entry).unwrap_or(false))
        .filter(|entry| std::fs::remove_file(entry.path()).is_ok())
        .count()
}

fn is_managed(name: &str) -> bool {
    let digits = name.strip_prefix("tool_").and_then(|tail| tail.get(..12));
    digits.is_some_and(|digits| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}
