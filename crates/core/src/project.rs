//! Which project a directory belongs to: the root of its working tree and a stable id (spec/config.md 20.1).
//!
//! Finding the repository takes no process; the id is the hash of the repository's first commit, found once by
//! git and kept in the git directory. So opening a known project costs a few system calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_schema::ProjectId;
use abide_schema::json::sha256_hex;
use abide_schema::location::ProjectRef;

use crate::git::{Git, Run};

/// The id of everything outside of version control.
pub const GLOBAL: &str = "global";
/// Files in the common git directory that hold the id, ours first.
const ID_FILES: [&str; 2] = ["abide", "opencode"];
/// How long the search for the first commit may take.
const ID_LIMIT: Duration = Duration::from_secs(20);

/// A project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its stable id; [`GLOBAL`] outside of version control.
    pub id: ProjectId,
    /// The root of the working tree; `/` outside of version control.
    pub directory: PathBuf,
    /// Its repository.
    pub repository: Option<Repository>,
    /// The id it had before it had a commit, when the id was found just now.
    pub previous: Option<ProjectId>,
}

/// A git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The root of this working tree.
    pub worktree: PathBuf,
    /// The git directory of this working tree.
    pub git_dir: PathBuf,
    /// The git directory that all working trees share.
    pub common_dir: PathBuf,
    /// Whether it has no working tree of its own.
    pub is_bare: bool,
}

impl Repository {
    /// Finds the repository that a directory lies in. Blocks for a few system calls.
    pub fn find(directory: &Path) -> Option<Self> {
        directory.ancestors().find_map(Self::at)
    }

    fn at(worktree: &Path) -> Option<Self> {
        let dot_git = worktree.join(".git");
        let (git_dir, is_bare) = if is_git_dir(&dot_git) {
            (dot_git, false)
        } else if let Ok(text) = std::fs::read_to_string(&dot_git) {
            let target = worktree.join(text.strip_prefix("gitdir:")?.trim());
            (target.join("HEAD").exists().then_some(target)?, false)
        } else if is_git_dir(worktree) {
            (worktree.to_owned(), true)
        } else {
            return None;
        };
        let common_dir = std::fs::read_to_string(git_dir.join("commondir"))
            .map_or_else(|_| git_dir.clone(), |text| super::config::directories::clean(&git_dir.join(text.trim())));
        Some(Self { worktree: worktree.to_owned(), git_dir, common_dir, is_bare })
    }

    /// Reads the id that is kept in the git directory.
    fn kept_id(&self) -> Option<ProjectId> {
        ID_FILES.iter().find_map(|name| {
            let text = std::fs::read_to_string(self.common_dir.join(name)).ok()?;
            let id = text.trim();
            let is_id = (8..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| id.into())
        })
    }

    /// Keeps the id for the next time. A repository that cannot be written works as well.
    fn keep_id(&self, id: &ProjectId) {
        let kept = tempfile::NamedTempFile::new_in(&self.common_dir)
            .and_then(|file| std::fs::write(file.path(), id.as_str()).map(|()| file))
            .and_then(|file| file.persist(self.common_dir.join(ID_FILES[0])).map_err(Into::into));
        if let Err(error) = kept {
            tracing::debug!(%error, directory = %self.common_dir.display(), "project id not kept");
        }
    }
}

fn is_git_dir(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir()
}

impl Project {
    /// Finds the project of a directory.
    ///
    /// # Cancel safety
    /// Cancel safe: at most the kept id is not written.
    pub async fn resolve(directory: &Path, git: &Git) -> Self {
        let owned = directory.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let repository = Repository::find(&owned)?;
            let id = repository.kept_id();
            Some((repository, id))
        });
        let Some((repository, id)) = found.await.ok().flatten() else {
            return Self { id: GLOBAL.into(), directory: PathBuf::from("/"), repository: None, previous: None };
        };
        let (id, previous) = match id {
            Some(id) => (id, None),
            None => Self::first_id(&repository, git).await,
        };
        Self { id, directory: repository.worktree.clone(), repository: Some(repository), previous }
    }

    /// Finds the first commit; a repository without commits is named by its place until it has one.
    async fn first_id(repository: &Repository, git: &Git) -> (ProjectId, Option<ProjectId>) {
        let common = repository.common_dir.canonicalize().unwrap_or_else(|_| repository.common_dir.clone());
        let hash = sha256_hex(format!("directory:{}", common.display()).as_bytes());
        let by_place: ProjectId = hash.get(..40).unwrap_or(&hash).into();
        let run = Run { limit: ID_LIMIT, ..Run::new(&repository.worktree, &["rev-list", "--max-parents=0", "HEAD"]) };
        let roots = match git.run(run).await {
            Ok(output) => String::from_utf8_lossy(&output).into_owned(),
            Err(error) => {
                tracing::debug!(%error, "first commit not found");
                String::new()
            }
        };
        match roots.lines().map(str::trim).filter(|line| !line.is_empty()).min() {
            Some(root) => {
                let id: ProjectId = root.into();
                let (kept, repository) = (id.clone(), repository.clone());
                let keep = tokio::task::spawn_blocking(move || repository.keep_id(&kept));
                if let Err(error) = keep.await {
                    tracing::debug!(%error, "project id not kept");
                }
                (id, Some(by_place))
            }
            None => (by_place, None),
        }
    }

    /// Returns the form that clients see.
    pub fn to_ref(&self) -> ProjectRef {
        ProjectRef { id: self.id.clone(), directory: self.directory.display().to_string() }
    }

    /// Returns the root of the working tree, when there is version control.
    pub fn worktree(&self) -> Option<&Path> {
        self.repository.as_ref().map(|repository| repository.worktree.as_path())
    }
}

#[cfg(test)]
mod tests;
