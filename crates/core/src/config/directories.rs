//! Where abide keeps its files: the XDG rules on every platform.

use std::path::{Path, PathBuf};

use super::flags;
use crate::world::World;

/// The directories of one user. Nothing is created here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// The home directory.
    pub home: PathBuf,
    /// Database, logs, snapshots, tool output.
    pub data: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
    /// The user's configuration.
    pub config: PathBuf,
    /// Locks and state of interfaces.
    pub state: PathBuf,
    /// Scratch files.
    pub tmp: PathBuf,
    /// The configuration of OpenCode, read with lower precedence.
    pub foreign_config: PathBuf,
    /// Configuration that the user cannot override.
    pub managed: PathBuf,
    /// The managed configuration of OpenCode.
    pub foreign_managed: PathBuf,
}

/// There is no home directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no home directory is known; set HOME to an absolute path")]
pub struct NoHome;

impl Directories {
    /// Finds the directories from the environment.
    ///
    /// # Errors
    /// [`NoHome`] when neither `HOME` nor the user database names one.
    pub fn new(world: &World) -> Result<Self, NoHome> {
        let absolute = |text: &str| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let home = flags::variable(world, "TEST_HOME")
            .and_then(absolute)
            .or_else(|| world.var("HOME").and_then(absolute))
            .or_else(|| etcetera::home_dir().ok())
            .ok_or(NoHome)?;
        let base =
            |name: &str, fallback: &str| world.var(name).and_then(absolute).unwrap_or_else(|| home.join(fallback));
        let config_home = base("XDG_CONFIG_HOME", ".config");
        let managed = flags::variable(world, "TEST_MANAGED_CONFIG_DIR").and_then(absolute);
        let system = if cfg!(target_os = "macos") { "/Library/Application Support" } else { "/etc" };
        Ok(Self {
            data: flags::variable(world, "DATA_DIR")
                .and_then(absolute)
                .unwrap_or_else(|| base("XDG_DATA_HOME", ".local/share").join("abide")),
            cache: base("XDG_CACHE_HOME", ".cache").join("abide"),
            config: flags::variable(world, "CONFIG_DIR")
                .and_then(absolute)
                .unwrap_or_else(|| config_home.join("abide")),
            state: base("XDG_STATE_HOME", ".local/state").join("abide"),
            tmp: base("TMPDIR", "/tmp").join("abide"),
            foreign_config: config_home.join("opencode"),
            foreign_managed: managed
                .as_ref()
                .map_or_else(|| Path::new(system).join("opencode"), |path| path.join("opencode")),
            managed: managed.unwrap_or_else(|| Path::new(system).join("abide")),
            home,
        })
    }

    /// Replaces a leading `~` or `$HOME` by the home directory.
    pub fn expand_home(&self, text: &str) -> String {
        expand_home(&self.home, text)
    }
}

/// Replaces a leading `~`, `~/`, `$HOME` or `$HOME/` by the home directory.
pub fn expand_home(home: &Path, text: &str) -> String {
    for prefix in ["~", "$HOME"] {
        if let Some(rest) = text.strip_prefix(prefix) {
            if rest.is_empty() {
                return home.display().to_string();
            }
            if rest.starts_with(['/', '\\']) {
                return format!("{}{rest}", home.display());
            }
        }
    }
    text.to_owned()
}

/// Makes a directory, and those above it, that only the user can enter.
///
/// # Errors
/// When it cannot be made.
pub fn create_private(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes `.`, `..`, doubled and trailing separators without looking at the disk.
pub fn clean(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(component),
        }
    }
    out
}
