//! Resolution of paths that the model or a client names: links are followed before anything is asked or opened, so
//! that rules and requests meet in one form (spec/tools.md 10.1 and 10.2).

mod real;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use abide_schema::location::LocationInfo;

pub(crate) use real::{inside, is_loop, lexical, real_path};

/// What a target has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A file, or something that does not exist yet.
    File,
    /// A directory: the border of an external target is the target itself.
    Directory,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket, device or pipe.
    Other,
    /// Nothing.
    Missing,
}

/// A resolved path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path as it was named.
    pub requested: String,
    /// Inside: the lexical absolute path. Outside: the real one.
    pub absolute: PathBuf,
    /// The path with every link resolved: what is opened.
    pub real: PathBuf,
    /// What permission rules see. Inside: relative to the location, `.` for the location itself, with `/` between
    /// the names; outside: the real path. Always the name of the real place.
    pub resource: String,
    /// The name through a link, when it differs from [`Target::resource`]: rules for either name count.
    pub alias: Option<String>,
    /// What stood there.
    pub kind: Kind,
    /// Whether the path itself, and not only a directory on the way, is a link.
    pub is_link: bool,
    /// What has to be asked because it lies outside.
    pub external: Option<External>,
}

impl Target {
    /// Returns what an action on the target has to be asked for: the real name, and the name through a link.
    pub fn resources(&self) -> Vec<String> {
        std::iter::once(self.resource.clone()).chain(self.alias.clone()).collect()
    }
}

/// The border that a target outside lies behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct External {
    /// The directory.
    pub directory: PathBuf,
    /// The resource of the action `external_directory`: `<directory>/*`.
    pub resource: String,
    /// What `always` saves: the enclosing project, or the directory, with `/*`.
    pub save: String,
}

/// The action that is asked for targets outside.
pub const EXTERNAL_ACTION: &str = "external_directory";

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// It is empty or has a NUL byte.
    #[error("{path:?} is not a path")]
    Invalid {
        /// The path.
        path: String,
    },
    /// A parent is a file.
    #[error("a parent of {path} is not a directory")]
    ParentNotDirectory {
        /// The path.
        path: String,
    },
    /// Too many links.
    #[error("{path} leads through too many links")]
    TooManyLinks {
        /// The path.
        path: String,
    },
    /// `~` without a home directory.
    #[error("{path} cannot be resolved: no home directory is known")]
    NoHome {
        /// The path.
        path: String,
    },
    /// It changed since it was resolved.
    #[error("The target changed while waiting for approval")]
    Changed {
        /// The path.
        path: String,
    },
    /// It cannot be looked at.
    #[error("{path} cannot be resolved")]
    Io {
        /// The path.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The paths of one location.
#[derive(Clone, Debug)]
pub struct Access {
    directory: PathBuf,
    real_directory: PathBuf,
    /// Absent when the project is a whole file system.
    worktree: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl Access {
    /// Opens a location; blocks for a few system calls. `home` is what `~` means.
    ///
    /// # Errors
    /// When the directory cannot be resolved.
    pub fn open(location: &LocationInfo, home: Option<PathBuf>) -> io::Result<Self> {
        let directory = PathBuf::from(&location.directory);
        if !directory.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the location is not an absolute path"));
        }
        let real_directory = directory.canonicalize()?;
        if !real_directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        // A project directory that cannot be resolved widens nothing.
        let worktree =
            Path::new(&location.project.directory).canonicalize().ok().filter(|path| path.parent().is_some());
        Ok(Self { directory: lexical(&directory), real_directory, worktree, home })
    }

    /// Returns the location's directory, as it was named.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the location's directory with links resolved.
    pub fn real_directory(&self) -> &Path {
        &self.real_directory
    }

    /// Resolves a path as [`Access::resolve_blocking`] does, on a thread that may block.
    ///
    /// # Errors
    /// [`AccessError`], except `Changed`.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn resolve(&self, path: &str, wanted: Wanted) -> Result<Target, AccessError> {
        let (access, requested) = (self.clone(), path.to_owned());
        blocking(path, move || access.resolve_blocking(&requested, wanted)).await
    }

    /// Resolves a path: `~`, then the location, then links, through missing parents too. Nothing is opened or made.
    ///
    /// # Errors
    /// [`AccessError`], except `Changed`.
    pub fn resolve_blocking(&self, path: &str, wanted: Wanted) -> Result<Target, AccessError> {
        if path.is_empty() || path.contains('\0') {
            return Err(AccessError::Invalid { path: path.to_owned() });
        }
        let absolute = lexical(&self.directory.join(self.expand_home(path)?));
        let real = real_path(&absolute).map_err(|error| named(error, path))?;
        let kind = kind_of(&real).map_err(|error| named(error, path))?;
        let is_link = absolute.is_symlink();
        let resource = self.relative(&real);
        let external = match resource {
            Some(_) => None,
            None => Some(external(&real, wanted, kind)),
        };
        let Some(resource) = resource else {
            let resource = display(&real);
            return Ok(Target {
                requested: path.to_owned(),
                absolute: real.clone(),
                real,
                resource,
                alias: None,
                kind,
                is_link,
                external,
            });
        };
        let alias = self.lexical_relative(&absolute).filter(|alias| *alias != resource);
        Ok(Target { requested: path.to_owned(), absolute, real, resource, alias, kind, is_link, external })
    }

    /// Resolves an approved target again, right before it is used.
    ///
    /// # Errors
    /// [`AccessError::Changed`] when the real place, its kind or the border differ from what was approved.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn recheck(&self, approved: &Target) -> Result<(), AccessError> {
        let (access, known) = (self.clone(), approved.clone());
        blocking(&approved.requested, move || access.recheck_blocking(&known)).await
    }

    /// As [`Access::recheck`].
    ///
    /// # Errors
    /// As [`Access::recheck`].
    pub fn recheck_blocking(&self, approved: &Target) -> Result<(), AccessError> {
        let wanted = match &approved.external {
            Some(border) if border.directory == approved.real => Wanted::Directory,
            Some(_) | None => Wanted::File,
        };
        let now = self.resolve_blocking(&approved.requested, wanted)?;
        let same = now.real == approved.real && now.kind == approved.kind && now.external == approved.external;
        if same { Ok(()) } else { Err(AccessError::Changed { path: approved.requested.clone() }) }
    }

    /// Returns the name that rules see for a real path, when it is inside.
    pub fn relative(&self, real: &Path) -> Option<String> {
        if inside(real, &self.real_directory) {
            return Some(relative_to(real, &self.real_directory));
        }
        let worktree = self.worktree.as_deref()?;
        inside(real, worktree).then(|| relative_to(real, &self.real_directory))
    }

    /// Returns the name of a path as it was spelled, relative to the location as it was spelled.
    fn lexical_relative(&self, absolute: &Path) -> Option<String> {
        if inside(absolute, &self.directory) {
            return Some(relative_to(absolute, &self.directory));
        }
        // Spelled in another way than the location: compare by the parent's real place.
        let parent = real_path(absolute.parent()?).ok()?;
        self.relative(&parent.join(absolute.file_name()?))
    }

    fn expand_home(&self, path: &str) -> Result<PathBuf, AccessError> {
        let rest = match path.strip_prefix('~') {
            Some("") => "",
            Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
            Some(_) | None => return Ok(PathBuf::from(path)),
        };
        let home = self.home.as_ref().ok_or_else(|| AccessError::NoHome { path: path.to_owned() })?;
        Ok(home.join(rest))
    }
}

/// Returns the distinct borders of several targets, in first-seen order: what one question asks for.
pub fn externals<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Vec<External> {
    let mut found: Vec<External> = Vec::new();
    for border in targets.into_iter().filter_map(|target| target.external.as_ref()) {
        if !found.iter().any(|known| known.resource == border.resource) {
            found.push(border.clone());
        }
    }
    found
}

async fn blocking<T: Send + 'static>(
    path: &str,
    work: impl FnOnce() -> Result<T, AccessError> + Send + 'static,
) -> Result<T, AccessError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(AccessError::Io { path: path.to_owned(), source: io::Error::other(error) }),
    }
}

fn named(error: io::Error, path: &str) -> AccessError {
    let path = path.to_owned();
    if is_loop(&error) {
        AccessError::TooManyLinks { path }
    } else if error.kind() == io::ErrorKind::NotADirectory {
        AccessError::ParentNotDirectory { path }
    } else {
        AccessError::Io { path, source: error }
    }
}

/// Says what stands at a real path.
pub(crate) fn kind_of(real: &Path) -> io::Result<Kind> {
    match std::fs::symlink_metadata(real) {
        Ok(found) if found.is_file() => Ok(Kind::File),
        Ok(found) if found.is_dir() => Ok(Kind::Directory),
        Ok(_) => Ok(Kind::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kind::Missing),
        Err(error) => Err(error),
    }
}

fn external(real: &Path, wanted: Wanted, kind: Kind) -> External {
    let itself = wanted == Wanted::Directory || kind == Kind::Directory;
    let directory = if itself { real } else { real.parent().unwrap_or(real) };
    External {
        directory: directory.to_path_buf(),
        resource: all_of(directory),
        save: all_of(enclosing_project(directory).unwrap_or(directory)),
    }
}

fn all_of(directory: &Path) -> String {
    let text = display(directory);
    format!("{}/*", text.trim_end_matches('/'))
}

/// Finds the nearest directory at or above `directory` that has a `.git`, the root of the file system excepted.
fn enclosing_project(directory: &Path) -> Option<&Path> {
    directory.ancestors().filter(|path| path.parent().is_some()).find(|path| path.join(".git").exists())
}

/// Writes `path` relative to `base`, with `..` where it lies beside it.
pub(crate) fn relative_to(path: &Path, base: &Path) -> String {
    let mut rest = path.components().peekable();
    let mut from = base.components().peekable();
    while let (Some(one), Some(other)) = (rest.peek(), from.peek()) {
        if one != other {
            break;
        }
        rest.next();
        from.next();
    }
    let up = from.map(|_| OsStr::new(".."));
    let names: Vec<String> =
        up.chain(rest.map(Component::as_os_str)).map(|name| name.to_string_lossy().into_owned()).collect();
    if names.is_empty() { ".".to_owned() } else { names.join("/") }
}

/// Writes a path for people and for rules; names that are not UTF-8 get replacement characters.
pub(crate) fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
