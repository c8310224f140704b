//! The whole engine, put together for a process: store, directories, sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_ai::{LLMRequest, LlmClient, LlmStream, StreamOptions};
use abide_schema::live::{FileEdited, LiveData, LiveEvent};

use crate::config::Directories;
use crate::credential::CredentialStore;
use crate::fs::journal::{Journal, JournalOptions};
use crate::location::{Locations, LocationsOptions};
use crate::secret::Secrets;
use crate::session::children::SessionsLink;
use crate::session::place::ModelClient;
use crate::session::{EngineOptions, Sessions, SessionsParts};
use crate::shell::process::Helper;
use crate::store::{DurabilityLevel, SqliteStore, Store, StoreError, StoreOptions};
use crate::tool::builtin::shell::environment::SECRET_VARIABLES;
use crate::tool::output::OutputFiles;
use crate::world::World;
use tokio_util::sync::CancellationToken;

mod effects;

pub use effects::Journals;

/// How often before-images are swept.
const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// How to open the engine.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// Clock, ids, environment.
    pub world: World,
    /// Directory of all data; absent: the user's data directory.
    pub data_dir: Option<PathBuf>,
    /// Where relative directories start; absent: `/`.
    pub base: Option<PathBuf>,
    /// What a synced commit survives.
    pub durability: DurabilityLevel,
    /// Recovery.
    pub engine: EngineOptions,
    /// The program that starts and guards commands of the shell tool, and its arguments; absent: the system's shell.
    pub helper: Option<(PathBuf, Vec<String>)>,
    /// Where the values of keys are noted, so that nothing shows them.
    pub secrets: Secrets,
}

impl AppOptions {
    /// Makes the usual options.
    pub fn new(world: World) -> Self {
        let durability = match world.var("ABIDE_DURABILITY") {
            Some("process") => DurabilityLevel::Process,
            Some(_) | None => DurabilityLevel::default(),
        };
        Self {
            world,
            data_dir: None,
            base: None,
            durability,
            engine: EngineOptions::default(),
            helper: None,
            secrets: Secrets::default(),
        }
    }
}

/// Why the engine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The user has no home directory.
    #[error("the user's directories are unknown: {0}; set HOME, or ABIDE_DATA_DIR")]
    Directories(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting in the environment has a value that means nothing.
    #[error("{name} is {value:?}; use {expected}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// HTTP cannot be set up.
    #[error("HTTP cannot be set up: {0}")]
    Http(String),
}

/// The open engine.
pub struct App {
    world: World,
    db_path: PathBuf,
    outputs: OutputFiles,
    journal: Journal,
    store: Arc<dyn Store>,
    locations: Locations,
    sessions: Sessions,
    secrets: Secrets,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("App")
    }
}

/// Models over the network.
struct LiveModels {
    client: LlmClient,
}

impl ModelClient for LiveModels {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        self.client.stream(&request, StreamOptions::default())
    }
}

/// Notes what this process could call providers with, before anything is logged or shown.
async fn note_keys(secrets: &Secrets, world: &World, directories: &Directories) {
    let is_key = |name: &str| name.ends_with("_API_KEY") || SECRET_VARIABLES.contains(&name);
    let environment = world.environment().iter().filter(|(name, _)| is_key(name));
    secrets.add(environment.map(|(_, value)| value.clone()));
    // A file that cannot be read is reported by whoever needs it.
    if let Ok(credentials) = CredentialStore::new(world, directories).read().await {
        secrets.add(credentials.values());
    }
}

impl App {
    /// Opens the engine. Nothing runs until a prompt, or [`Sessions::recover`].
    ///
    /// # Errors
    /// [`AppError`] with what to do.
    ///
    /// # Cancel safety
    /// Cancel safe: a database that was being made is finished by the next opening.
    pub async fn open(options: AppOptions) -> Result<Self, AppError> {
        if let Some(value) = options.world.var("ABIDE_DURABILITY")
            && !matches!(value, "power" | "process")
        {
            return Err(AppError::Setting {
                name: "ABIDE_DURABILITY",
                value: value.to_owned(),
                expected: "power (survives a power loss) or process (survives the death of the program)",
            });
        }
        let AppOptions { world, data_dir, base, durability, engine, helper, secrets } = options;
        let mut directories = Directories::new(&world).map_err(|error| AppError::Directories(error.to_string()))?;
        if let Some(data) = data_dir {
            directories.data = data;
        }
        note_keys(&secrets, &world, &directories).await;
        let mut store_options = StoreOptions::new(&directories.data, world.clone());
        store_options.durability = durability;
        let db_path = SqliteStore::path_in(&directories.data);
        let outputs = OutputFiles::new(world.clone(), &directories.data);
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open(store_options)).await;
        let opened = opened.map_err(|error| StoreError::Other(format!("opening the database failed: {error}")))?;
        let sqlite = Arc::new(opened?);
        let store: Arc<dyn Store> = sqlite.clone();
        let client = LlmClient::live().map_err(|error| AppError::Http(error.to_string()))?;
        let (edits, edit_world) = (store.clone(), world.clone());
        let journal = Journal::new(JournalOptions {
            store: sqlite,
            world: world.clone(),
            blobs: directories.data.join("blobs"),
            sync: durability == DurabilityLevel::Power,
            on_edited: Arc::new(move |path| {
                edits.publish_live(LiveEvent {
                    id: edit_world.event_id(),
                    location: None,
                    data: LiveData::FileEdited(FileEdited { file: path.display().to_string() }),
                });
            }),
        });
        let kept_journal = journal.clone();
        let effects = Arc::new(Journals::new(journal.clone(), world.clone(), store.clone()));
        let base = base.unwrap_or_else(|| PathBuf::from("/"));
        let mut locations =
            LocationsOptions::new(world.clone(), directories, base, store.clone(), client.clone(), journal);
        let link = SessionsLink::default();
        locations.sessions = link.clone();
        locations.secrets = secrets.clone();
        locations.helper = helper.map(|(program, arguments)| Helper { program, arguments });
        let locations = Locations::new(locations);
        let sessions = Sessions::new(SessionsParts {
            store: store.clone(),
            world: world.clone(),
            places: Arc::new(locations.clone()),
            models: Arc::new(LiveModels { client }),
            effects,
            options: engine,
        });
        link.set(&sessions);
        Ok(Self { world, db_path, outputs, journal: kept_journal, store, locations, sessions, secrets })
    }

    /// Returns clock, ids and environment.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the open directories.
    pub fn locations(&self) -> &Locations {
        &self.locations
    }

    /// Returns the sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns the values of keys that are known, which nothing may show.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the path of the database.
    pub fn db_path(&self) -> &Path {
        &self.db_path
    }

    /// Removes what is old from the data directory, now and every hour, until `token` is cancelled. A server does
    /// this; one task per process is enough.
    ///
    /// # Cancel safety
    /// What was removed stays removed.
    pub async fn keep_house(&self, token: CancellationToken) {
        let sweep_journal = async {
            loop {
                if let Err(error) = self.journal.sweep(Vec::new()).await {
                    tracing::warn!(%error, "before-images are not swept");
                }
                if token.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_none() {
                    return;
                }
            }
        };
        tokio::join!(self.outputs.clone().run(token.clone()), sweep_journal);
    }

    /// Stops what runs; what is not settled in time is settled by the next start. The store closes when its last
    /// handle goes away.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn close(&self) {
        self.sessions.shutdown(Duration::from_secs(5)).await;
    }
}
