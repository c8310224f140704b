//! A home and a project on disk, for tests of what configuration becomes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Config, Directories, LoadOptions, load};
use crate::location::LocationState;
use crate::world::World;

/// A home and a project on disk.
pub(crate) struct Tree {
    root: TempDir,
    environment: BTreeMap<String, String>,
}

impl Tree {
    /// Makes `home/`, `project/` and these files below the root.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = std::env::vars().find(|(name, _)| name == "PATH").map(|(_, value)| value).unwrap_or_default();
        let environment =
            [("ABIDE_TEST_HOME", "home"), ("ABIDE_TEST_MANAGED_CONFIG_DIR", "managed"), ("TMPDIR", "tmp")]
                .into_iter()
                .map(|(name, path)| (name.to_owned(), root.path().join(path).display().to_string()))
                .chain([("PATH".to_owned(), path)])
                .collect();
        let tree = Self { root, environment };
        fs::create_dir_all(tree.path("home")).unwrap();
        fs::create_dir_all(tree.path("project")).unwrap();
        for (path, content) in files {
            tree.write(path, content);
        }
        tree
    }

    /// Sets a variable; `ROOT` in the value is the root.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.replace("ROOT", &self.root()));
        self
    }

    pub(crate) fn root(&self) -> String {
        self.root.path().display().to_string()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn world(&self) -> World {
        World::real().with_environment(self.environment.clone())
    }

    pub(crate) fn directories(&self) -> Directories {
        Directories::new(&self.world()).unwrap()
    }

    /// Loads the documents of a location.
    pub(crate) fn load(&self, location: &str, worktree: Option<&str>) -> Config {
        let worktree = worktree.map(|path| self.path(path));
        load(&LoadOptions {
            world: &self.world(),
            directories: &self.directories(),
            location: &self.path(location),
            worktree: worktree.as_deref(),
        })
    }

    /// Loads the documents of `project/`.
    pub(crate) fn load_project(&self) -> Config {
        self.load("project", Some("project"))
    }

    /// Reads everything that files say of a location.
    pub(crate) fn state(&self, location: &str, worktree: Option<&str>) -> LocationState {
        let worktree = worktree.map(|path| self.path(path));
        LocationState::read(&self.world(), &self.directories(), &self.path(location), worktree.as_deref())
    }

    /// Runs git in a directory; returns what it wrote.
    #[track_caller]
    pub(crate) fn git(&self, directory: impl AsRef<Path>, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.email=t@example.invalid", "-c", "user.name=t", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(self.path("").join(directory))
            .env_clear()
            .envs(self.environment.iter())
            .env("HOME", self.path("home"))
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
