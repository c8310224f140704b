//! Locations: a directory with everything that belongs to it (spec/config.md section 1).
//!
//! [`Locations`] is the one per process. It opens a directory at most once at a time, keeps it, and notices when a
//! file that its settings were made of changes. A [`Location`] is what sessions and the server work with.

mod attachment;
mod error;
mod place;
mod services;
mod state;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_ai::LlmClient;
use abide_schema::agent::AgentInfo;
use abide_schema::catalog::{CommandInfo, IntegrationInfo, ModelInfo, ProviderInfo, SkillInfo};
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::{ProviderId, WorkspaceId};
use tokio::sync::OnceCell;

use crate::catalog::{Keys, LocalModels, LocalServer, Provider, local_servers};
use crate::config::directories::clean;
use crate::config::{Directories, real};
use crate::credential::CredentialStore;
use crate::fs::access::Access;
use crate::fs::journal::Journal;
use crate::fs::reads::Reads;
use crate::git::Git;
use crate::permission::PermissionService;
use crate::project::Project;
use crate::question::QuestionService;
use crate::secret::{SecretFiles, Secrets};
use crate::session::children::SessionsLink;
use crate::snapshot::Snapshots;
use crate::store::Store;
use crate::tool::registry::{Layer, ToolRegistry};
use crate::world::World;

use services::Services;

pub use error::LocationError;
pub use state::LocationState;

/// How long a location that nobody uses is kept.
const KEEP_UNUSED: Duration = Duration::from_hours(1);
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
    /// Sessions, saved permissions, events.
    pub store: Arc<dyn Store>,
    /// Asks local servers what they offer.
    pub client: LlmClient,
    /// The servers on this machine that are asked when no other model can be used.
    pub local_servers: Vec<LocalServer>,
    /// Through which files are changed.
    pub journal: Journal,
    /// What sessions have seen of files.
    pub reads: Arc<Reads>,
    /// Values of keys, which no output shows.
    pub secrets: Secrets,
    /// Tools of every location.
    pub application: Layer,
    /// The program that starts and guards commands; absent: the system's shell.
    pub helper: Option<crate::shell::process::Helper>,
    /// The sessions, for the tools that work with them.
    pub sessions: SessionsLink,
}

impl LocationsOptions {
    /// Makes options with the usual local servers, no further tools, and configuration errors passed over.
    pub fn new(
        world: World,
        directories: Directories,
        base: PathBuf,
        store: Arc<dyn Store>,
        client: LlmClient,
        journal: Journal,
    ) -> Self {
        Self {
            world,
            directories,
            base,
            is_strict: false,
            store,
            client,
            local_servers: local_servers(),
            journal,
            reads: Arc::default(),
            secrets: Secrets::default(),
            application: Layer::new(),
            helper: None,
            sessions: SessionsLink::default(),
        }
    }
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
    shared: Mutex<HashMap<ServicesKey, Arc<OnceCell<Arc<Services>>>>>,
}

/// The real directory and the workspace.
type ServicesKey = (PathBuf, Option<WorkspaceId>);

struct Slot {
    location: Arc<Location>,
    used: AtomicI64,
}

/// A directory with its services. References with other spellings of one directory share the services.
pub struct Location {
    info: LocationInfo,
    services: Arc<Services>,
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
            if !location.services.is_due() {
                return Ok(location);
            }
            if !location.services.has_moved().await {
                location.services.refresh().await;
                return Ok(location);
            }
            self.invalidate(&reference);
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
        cell.get_or_try_init(|| Services::build(&self.inner.options, &self.inner.git, &directory)).await.cloned()
    }

    /// Returns a location that is open already.
    pub fn opened(&self, reference: &LocationRef) -> Option<Arc<Location>> {
        self.lock_open().get(reference).map(|slot| slot.location.clone())
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

    /// Returns the permissions of the location.
    pub fn permissions(&self) -> &PermissionService {
        &self.services.permissions
    }

    /// Returns the questions of the location.
    pub fn questions(&self) -> &QuestionService {
        &self.services.questions
    }

    /// Returns the tools of the location, for more of them.
    pub fn registry(&self) -> &ToolRegistry {
        &self.services.registry
    }

    /// Returns the paths of the location.
    pub fn access(&self) -> &Arc<Access> {
        &self.services.access
    }

    /// Returns which files usually hold secrets.
    pub fn secret_files(&self) -> &SecretFiles {
        &self.services.secret_files
    }

    /// Returns the snapshots of the location; `None` outside of git.
    pub fn snapshots(&self) -> Option<&Snapshots> {
        self.services.snapshots.as_ref()
    }

    /// Returns the stored credentials, for changes.
    pub fn credentials(&self) -> &CredentialStore {
        &self.services.credentials
    }

    /// Returns the keys of the moment.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn keys(&self) -> Keys {
        self.services.keys().await
    }

    /// Returns what local servers offer, as far as they were asked before; with `ask`, asks them.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn local_models(&self, ask: bool) -> LocalModels {
        if ask { self.services.local().await } else { self.services.known_local() }
    }

    /// Lists the agents.
    pub fn list_agents(&self) -> Vec<AgentInfo> {
        self.state().agents.list().iter().map(|agent| AgentInfo::clone(agent)).collect()
    }

    /// Lists the providers that can be used.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_providers(&self) -> Vec<ProviderInfo> {
        let (state, keys, local) = (self.state(), self.keys().await, self.services.known_local());
        state.catalog.usable_providers(&keys, &local).map(Provider::info).collect()
    }

    /// Finds a provider, usable or not; `None` when it is unknown or a policy hides it.
    pub fn find_provider(&self, id: &ProviderId) -> Option<ProviderInfo> {
        self.state().catalog.provider(id).map(Provider::info)
    }

    /// Lists the models that can be used, newest first; those of local servers as far as they were asked.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_models(&self) -> Vec<ModelInfo> {
        let (state, keys, local) = (self.state(), self.keys().await, self.services.known_local());
        let mut out: Vec<ModelInfo> =
            state.catalog.usable_models(&keys).map(|(provider, model)| model.info(provider)).collect();
        out.extend(state.catalog.local_infos(&local));
        out
    }

    /// Lists the integrations with their connections, by name.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_integrations(&self) -> Vec<IntegrationInfo> {
        let keys = self.keys().await;
        self.state().catalog.integrations(&keys)
    }

    /// Lists the slash commands.
    pub fn list_commands(&self) -> Vec<CommandInfo> {
        self.state().commands.as_ref().clone()
    }

    /// Lists the skills.
    pub fn list_skills(&self) -> Vec<SkillInfo> {
        self.state().skills.iter().map(|skill| skill.info.clone()).collect()
    }

    /// Reads the settings again when a file that they were made of changed. Settings that cannot be read leave the
    /// present ones in force.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn refresh(&self) {
        self.services.refresh().await;
    }
}

#[cfg(test)]
mod tests;
