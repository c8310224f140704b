//! Locations: a directory with everything that belongs to it (spec/config.md section 1).
//!
//! [`Locations`] is the one per process. It opens a directory at most once at a time, keeps it, and notices when a
//! file that its settings were made of changes. A [`Location`] is what sessions and the server work with.

mod error;
mod state;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_schema::WorkspaceId;
use abide_schema::location::{LocationInfo, LocationRef};
use arc_swap::ArcSwap;
use tokio::sync::OnceCell;

use crate::config::directories::clean;
use crate::config::{Directories, real};
use crate::git::Git;
use crate::project::Project;
use crate::world::World;

pub use error::LocationError;
pub use state::LocationState;

/// How long what was read counts without looking at the files again.
const FRESH_FOR: Duration = Duration::from_millis(100);
/// How long a location that nobody uses is kept.
const KEEP_UNUSED: Duration = Duration::from_secs(60 * 60);
/// How many locations may be kept before unused ones are looked for.
const MANY: usize = 64;

/// What locations are made of.
#[derive(Clone)]
pub struct LocationsOptions {
    /// Clock, ids, environment.
    pub world: World,
    /// The user's directories.
    pub directories: Directories,
    /// Where relative directories start: the working directory of the process.
    pub base: PathBuf,
    /// Whether an error in the configuration makes opening fail. Set by headless commands.
    pub is_strict: bool,
}

/// All open directories of this process. Cheap to clone.
#[derive(Clone)]
pub struct Locations {
    inner: Arc<Inner>,
}

struct Inner {
    options: LocationsOptions,
    git: Git,
    open: Mutex<HashMap<LocationRef, Slot>>,
    shared: Mutex<HashMap<(PathBuf, Option<WorkspaceId>), Arc<OnceCell<Arc<Services>>>>>,
}

struct Slot {
    location: Arc<Location>,
    used: AtomicI64,
}

/// A directory with its services. References with other spellings of one directory share the services.
pub struct Location {
    info: LocationInfo,
    services: Arc<Services>,
}

/// What belongs to a directory, whatever its spelling.
struct Services {
    world: World,
    directories: Directories,
    project: Project,
    directory: PathBuf,
    state: ArcSwap<LocationState>,
    /// One reload at a time.
    reload: tokio::sync::Mutex<()>,
    checked: AtomicI64,
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Location").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Locations {
    /// Makes the locations of a process. Opens nothing.
    pub fn new(options: LocationsOptions) -> Self {
        let git = Git::new(&options.world);
        Self { inner: Arc::new(Inner { options, git, open: Mutex::default(), shared: Mutex::default() }) }
    }

    /// Returns the user's directories.
    pub fn directories(&self) -> &Directories {
        &self.inner.options.directories
    }

    /// Makes a reference to a directory as a user or a client named it: relative ones start at the working
    /// directory of the process.
    ///
    /// # Errors
    /// [`LocationError::Invalid`] when it is empty or has a NUL byte.
    pub fn reference(&self, directory: &str) -> Result<LocationRef, LocationError> {
        if directory.is_empty() || directory.contains('\0') {
            return Err(LocationError::Invalid { directory: directory.to_owned() });
        }
        let path = clean(&self.inner.options.base.join(directory));
        match path.to_str() {
            Some(path) => Ok(LocationRef::new(path)),
            None => Err(LocationError::Invalid { directory: directory.to_owned() }),
        }
    }

    /// Returns the reference of the working directory of the process.
    ///
    /// # Errors
    /// [`LocationError::Invalid`] when it is not UTF-8.
    pub fn default_reference(&self) -> Result<LocationRef, LocationError> {
        self.reference(".")
    }

    /// Opens a directory, or returns the open one with its settings brought up to date.
    ///
    /// # Errors
    /// [`LocationError`]; a failed opening is tried again the next time.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn get(&self, reference: &LocationRef) -> Result<Arc<Location>, LocationError> {
        let mut reference = reference.clone();
        reference.directory = self.reference(&reference.directory)?.directory;
        check_directory(&reference.directory).await?;
        let now = self.inner.options.world.now().as_millis();
        let known = self.lock_open().get(&reference).map(|slot| {
            slot.used.store(now, Ordering::Relaxed);
            Arc::clone(&slot.location)
        });
        if let Some(location) = known {
            location.refresh().await;
            return Ok(location);
        }
        let services = self.services(&reference).await?;
        let location = Arc::new(Location {
            info: LocationInfo {
                directory: reference.directory.clone(),
                workspace_id: reference.workspace_id.clone(),
                project: services.project.to_ref(),
            },
            services,
        });
        let mut open = self.lock_open();
        forget_unused(&mut open, now);
        let slot = open.entry(reference).or_insert_with(|| Slot { location, used: AtomicI64::new(now) });
        Ok(Arc::clone(&slot.location))
    }

    /// Forgets a directory: the next use opens it anew. Who holds it keeps what it has.
    pub fn invalidate(&self, reference: &LocationRef) {
        let removed = self.lock_open().remove(reference);
        if let Some(slot) = removed {
            let place = slot.location.services.directory.clone();
            let mut shared = self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.retain(|(directory, _), _| *directory != place);
        }
    }

    async fn services(&self, reference: &LocationRef) -> Result<Arc<Services>, LocationError> {
        let directory = PathBuf::from(&reference.directory);
        let key = (real(&directory), reference.workspace_id.clone());
        let cell = {
            let mut shared = self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.len() > MANY {
                shared.retain(|_, cell| cell.get().is_none_or(|services| Arc::strong_count(services) > 1));
            }
            Arc::clone(shared.entry(key).or_default())
        };
        cell.get_or_try_init(|| self.build(&directory)).await.cloned()
    }

    async fn build(&self, directory: &Path) -> Result<Arc<Services>, LocationError> {
        let options = &self.inner.options;
        let project = Project::resolve(directory, &self.inner.git).await;
        let state = state::load(&options.world, &options.directories, directory, &project).await?;
        if options.is_strict
            && let Some(error) = state.first_error()
        {
            return Err(LocationError::Config(Box::new(error.clone())));
        }
        Ok(Arc::new(Services {
            world: options.world.clone(),
            directories: options.directories.clone(),
            project,
            directory: directory.to_owned(),
            state: ArcSwap::from_pointee(state),
            reload: tokio::sync::Mutex::default(),
            checked: AtomicI64::new(options.world.now().as_millis()),
        }))
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<LocationRef, Slot>> {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops locations that nobody holds and nobody asked for lately.
fn forget_unused(open: &mut HashMap<LocationRef, Slot>, now: i64) {
    if open.len() < MANY {
        return;
    }
    let limit = now - i64::try_from(KEEP_UNUSED.as_millis()).unwrap_or(i64::MAX);
    open.retain(|_, slot| Arc::strong_count(&slot.location) > 1 || slot.used.load(Ordering::Relaxed) > limit);
}

async fn check_directory(directory: &str) -> Result<(), LocationError> {
    let owned = directory.to_owned();
    let found = tokio::fs::metadata(directory).await;
    match found {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(LocationError::NotFound { directory: owned, reason: "it is not a directory".to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(LocationError::PermissionDenied { directory: owned })
        }
        Err(error) => Err(LocationError::NotFound { directory: owned, reason: error.to_string() }),
    }
}

impl Location {
    /// Returns the directory with its project.
    pub fn info(&self) -> &LocationInfo {
        &self.info
    }

    /// Returns the project.
    pub fn project(&self) -> &Project {
        &self.services.project
    }

    /// Returns the settings as they were last read, with agents, commands and skills.
    pub fn state(&self) -> Arc<LocationState> {
        self.services.state.load_full()
    }

    /// Reads the settings again when a file that they were made of changed. Settings that cannot be read leave the
    /// present ones in force.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn refresh(&self) {
        let services = &self.services;
        let now = services.world.now().as_millis();
        let last = services.checked.load(Ordering::Relaxed);
        let pause = i64::try_from(FRESH_FOR.as_millis()).unwrap_or(0);
        if (last..last + pause).contains(&now) {
            return;
        }
        services.checked.store(now, Ordering::Relaxed);
        let state = self.state();
        let is_fresh = tokio::task::spawn_blocking(move || state.is_fresh()).await.unwrap_or(true);
        if !is_fresh {
            self.reload().await;
        }
    }

    /// Reads the settings again. Settings that cannot be read leave the present ones in force.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn reload(&self) {
        let services = &self.services;
        let _one_at_a_time = services.reload.lock().await;
        let loaded = state::load(&services.world, &services.directories, &services.directory, &services.project).await;
        match loaded {
            Ok(state) => {
                let present = self.state();
                let state = if state.is_worse_than(&present) { present.keeping_values(state) } else { state };
                services.state.store(Arc::new(state));
            }
            Err(error) => tracing::warn!(%error, "settings not read again"),
        }
    }
}

#[cfg(test)]
mod tests;
