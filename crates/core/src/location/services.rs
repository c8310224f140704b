//! What belongs to a directory, whatever its spelling: settings, models, tools, permissions, questions, snapshots.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_ai::LlmClient;
use abide_schema::config::CommandLimits;
use abide_schema::live::LiveEvent;
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::permission::Rule;
use abide_schema::{AgentId, SessionId};
use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::BoxFuture;

use super::{LocationError, LocationState, LocationsOptions, state};
use crate::catalog::{Catalog, Keys, LocalModels, LocalServer};
use crate::config::Directories;
use crate::credential::{CredentialError, CredentialStore, Credentials};
use crate::fs::access::Access;
use crate::fs::journal::Journal;
use crate::git::Git;
use crate::job::Jobs;
use crate::permission::{PermissionOptions, PermissionRules, PermissionService, Publish, RulesError, configured_rules};
use crate::project::{Project, Repository};
use crate::question::{QuestionOptions, QuestionService};
use crate::secret::{SecretFiles, Secrets};
use crate::session::children::{DEFAULT_DEPTH, SessionsLink};
use crate::shell::choose::choose;
use crate::skill::Skill;
use crate::snapshot::Snapshots;
use crate::store::Store;
use crate::tool::boundary::{Boundary, BoundaryOptions};
use crate::tool::builtin::files::FileTools;
use crate::tool::builtin::job::JobTool;
use crate::tool::builtin::question::QuestionTool;
use crate::tool::builtin::shell::environment::SECRET_VARIABLES;
use crate::tool::builtin::shell::{MAX_OUTPUT_BYTES, ShellServices, ShellTool};
use crate::tool::builtin::skill::{SkillTool, Skills};
use crate::tool::builtin::subagent::{SubagentSettings, SubagentTool};
use crate::tool::builtin::todo::TodoTool;
use crate::tool::builtin::webfetch::WebFetch;
use crate::tool::builtin::websearch::{SearchProvider, WebSearch, available};
use crate::tool::image::{ImageLimits, Images};
use crate::tool::info::ToolInfo;
use crate::tool::output::{OutputFiles, OutputLimits};
use crate::tool::registry::{Registration, ToolRegistry};
use crate::world::World;

/// How long what was read counts without looking at the files again.
const FRESH_FOR: Duration = Duration::from_millis(100);
/// How long a local server that answered counts as there, and one that did not as away.
const FOUND_FOR: Duration = Duration::from_mins(1);
const AWAY_FOR: Duration = Duration::from_secs(3);

/// What belongs to a directory, whatever its spelling.
pub(super) struct Services {
    pub(super) world: World,
    pub(super) directories: Directories,
    pub(super) project: Project,
    pub(super) directory: PathBuf,
    pub(super) state: Arc<ArcSwap<LocationState>>,
    pub(super) access: Arc<Access>,
    pub(super) permissions: PermissionService,
    pub(super) questions: QuestionService,
    pub(super) registry: ToolRegistry,
    pub(super) boundary: Arc<Boundary>,
    pub(super) journal: Journal,
    pub(super) snapshots: Option<Snapshots>,
    pub(super) credentials: CredentialStore,
    /// The keys as of the last boundary of a session, and when that was.
    keys: ArcSwapOption<(i64, Keys)>,
    pub(super) secrets: Secrets,
    pub(super) secret_files: SecretFiles,
    client: LlmClient,
    servers: Vec<LocalServer>,
    local: Mutex<Option<(i64, LocalModels)>>,
    /// One reload at a time.
    reloading: tokio::sync::Mutex<()>,
    checked: AtomicI64,
    _builtin: Registration,
}

impl Services {
    pub(super) async fn build(
        options: &LocationsOptions,
        git: &Git,
        directory: &Path,
    ) -> Result<Arc<Self>, LocationError> {
        let project = Project::resolve(directory, git).await;
        let loaded = state::load(&options.world, &options.directories, directory, &project).await?;
        if options.is_strict
            && let Some(error) = loaded.first_error()
        {
            return Err(LocationError::Config(Box::new(error.clone())));
        }
        for diagnostic in loaded.diagnostics.iter() {
            tracing::warn!(%diagnostic, "configuration");
        }
        let info =
            LocationInfo { directory: directory.display().to_string(), workspace_id: None, project: project.to_ref() };
        let home = options.directories.home.clone();
        let access = open_access(info.clone(), home).await?;
        let state = Arc::new(ArcSwap::from_pointee(loaded));
        let publish = publisher(options, info.to_ref());
        let permissions = PermissionService::new(PermissionOptions {
            world: options.world.clone(),
            project: project.id.clone(),
            directory: directory.to_owned(),
            rules: Arc::new(Rules { store: Arc::clone(&options.store), state: Arc::clone(&state) }),
            values: Arc::clone(&options.store) as Arc<dyn crate::store::ValueStore>,
            publish: Arc::clone(&publish),
            hooks: Vec::new(),
        });
        let questions = QuestionService::new(QuestionOptions { world: options.world.clone(), publish });
        let boundary = Arc::new(Boundary::new(BoundaryOptions {
            world: options.world.clone(),
            files: OutputFiles::new(options.world.clone(), &options.directories.data),
            limits: output_limits(&state.load()),
            hooks: Vec::new(),
            images: Images::new(image_limits(&state.load())),
            secrets: options.secrets.clone(),
        }));
        let registry = ToolRegistry::new(options.application.clone());
        let shell = ShellParts {
            world: options.world.clone(),
            access: Arc::clone(&access),
            permissions: permissions.clone(),
            questions: questions.clone(),
            journal: Arc::clone(&options.store) as Arc<dyn crate::store::JournalStore>,
            values: Arc::clone(&options.store) as Arc<dyn crate::store::ValueStore>,
            publish: publisher(options, info.to_ref()),
            spool: options.directories.data.join("shell").join(project.id.as_str()),
            helper: options.helper.clone(),
            limits: output_limits(&state.load()),
            sessions: options.sessions.clone(),
            subagents: subagent_settings(&state),
            resources: resource_limits(&state),
        };
        let secret_files = SecretFiles::new(state.load().config.abide().tools.unwrap_or_default().secret_files);
        let known_secret_files = secret_files.clone();
        let files = FileTools {
            access: Arc::clone(&access),
            permissions: permissions.clone(),
            journal: options.journal.clone(),
            reads: Arc::clone(&options.reads),
            require_read: false,
            secret_files: secret_files.clone(),
        };
        let configured_shell =
            state.load().config.documents.iter().rev().find_map(|document| document.info.shell.clone());
        let environment = options.world.environment().clone();
        let search = search_service(&state.load(), &options.world, &options.secrets);
        let secret_names = key_variables(&state.load().catalog);
        let skills = Arc::new(KnownSkills { state: Arc::clone(&state) }) as Arc<dyn Skills>;
        let others = move || {
            vec![
                ToolInfo::typed(ShellTool::new(ShellServices {
                    world: shell.world.clone(),
                    access: Arc::clone(&shell.access),
                    permissions: shell.permissions.clone(),
                    journal: Arc::clone(&shell.journal),
                    shell: choose(configured_shell.as_deref(), &environment),
                    environment: environment.clone(),
                    secret_files: secret_files.clone(),
                    secrets: secret_names.clone(),
                    spool_directory: shell.spool.clone(),
                    helper: shell.helper.clone(),
                    limits: shell.limits,
                    max_output_bytes: MAX_OUTPUT_BYTES,
                    asks_for_places: true,
                    resources: Arc::clone(&shell.resources),
                    jobs: jobs_of(&shell.sessions),
                    publish: Arc::clone(&shell.publish),
                })),
                ToolInfo::typed(SubagentTool::new(
                    shell.permissions.clone(),
                    shell.sessions.clone(),
                    Arc::clone(&shell.subagents),
                )),
                ToolInfo::typed(JobTool::new(jobs_of(&shell.sessions), shell.limits)),
                ToolInfo::typed(QuestionTool::new(shell.permissions.clone(), shell.questions.clone())),
                ToolInfo::typed(SkillTool::new(shell.permissions.clone(), Arc::clone(&skills))),
                ToolInfo::typed(WebFetch::new(shell.permissions.clone())),
                ToolInfo::typed(TodoTool::new(
                    shell.permissions.clone(),
                    Arc::clone(&shell.values),
                    Arc::clone(&shell.publish),
                )),
            ]
        };
        let searches = permissions.clone();
        let builtin = registry.location().transform(move |editor| {
            let search = search.clone().map(|service| ToolInfo::typed(WebSearch::new(searches.clone(), service)));
            for tool in files.tools().into_iter().chain(others()).chain(search) {
                editor.add(tool);
            }
        });
        Ok(Arc::new(Self {
            snapshots: Snapshots::new(git, &options.directories, &project, directory),
            credentials: CredentialStore::new(&options.world, &options.directories),
            keys: ArcSwapOption::empty(),
            secrets: options.secrets.clone(),
            secret_files: known_secret_files,
            world: options.world.clone(),
            directories: options.directories.clone(),
            project,
            directory: directory.to_owned(),
            state,
            access,
            permissions,
            questions,
            registry,
            boundary,
            journal: options.journal.clone(),
            client: options.client.clone(),
            servers: options.local_servers.clone(),
            local: Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
            checked: AtomicI64::new(options.world.now().as_millis()),
            _builtin: builtin,
        }))
    }

    /// Says whether the directory now belongs to another repository than when it was opened.
    pub(super) async fn has_moved(&self) -> bool {
        let directory = self.directory.clone();
        let found = tokio::task::spawn_blocking(move || Repository::find(&directory)).await;
        found.is_ok_and(|found| found != self.project.repository)
    }

    /// Says whether files have to be looked at again, and notes that they are.
    pub(super) fn is_due(&self) -> bool {
        let now = self.world.now().as_millis();
        let last = self.checked.load(Ordering::Relaxed);
        let pause = i64::try_from(FRESH_FOR.as_millis()).unwrap_or(0);
        if (last..last + pause).contains(&now) {
            return false;
        }
        self.checked.store(now, Ordering::Relaxed);
        true
    }

    /// Reads the settings again when a file that they were made of changed, and the keys.
    pub(super) async fn refresh(&self) {
        let (state, credentials) = (self.state.load_full(), self.credentials.clone());
        // Both at once: a step pays for one thread, not for three.
        let looked = tokio::task::spawn_blocking(move || (state.is_fresh(), credentials.read_blocking())).await;
        let Ok((is_fresh, credentials)) = looked else { return };
        self.keys.store(Some(Arc::new((self.world.now().as_millis(), self.keys_with(credentials)))));
        if !is_fresh {
            self.reload().await;
        }
    }

    /// Reads the settings again. Settings that cannot be read leave the present ones in force.
    pub(super) async fn reload(&self) {
        let _one_at_a_time = self.reloading.lock().await;
        match state::load(&self.world, &self.directories, &self.directory, &self.project).await {
            Ok(state) => {
                let present = self.state.load_full();
                let state = if state.is_worse_than(&present) { present.keeping_values(state) } else { state };
                for diagnostic in state.diagnostics.iter().filter(|new| !present.diagnostics.contains(new)) {
                    tracing::warn!(%diagnostic, "configuration");
                }
                self.state.store(Arc::new(state));
            }
            Err(error) => tracing::warn!(%error, "settings not read again"),
        }
    }

    /// Joins the environment and the stored credentials. A file that cannot be read is logged and counts as empty.
    pub(super) async fn keys(&self) -> Keys {
        self.keys_with(self.credentials.read().await)
    }

    fn keys_with(&self, credentials: Result<Credentials, CredentialError>) -> Keys {
        let credentials = credentials.unwrap_or_else(|error| {
            warn_credentials(&error);
            Credentials::default()
        });
        let keys = Keys::new(&self.world, credentials);
        // Whatever is used from here on is known, so that nothing shows it.
        self.secrets.add(keys.values(self.state.load().catalog.providers()));
        self.secrets.add(SECRET_VARIABLES.iter().filter_map(|name| self.world.var(name)).map(ToOwned::to_owned));
        keys
    }

    /// Returns the keys that were read at a boundary of a session just now, else reads them.
    pub(super) async fn keys_of_boundary(&self) -> Keys {
        let (now, pause) = (self.world.now().as_millis(), i64::try_from(FRESH_FOR.as_millis()).unwrap_or(0));
        match self.keys.load().as_deref() {
            Some((read, keys)) if (*read..*read + pause).contains(&now) => return keys.clone(),
            Some(_) | None => {}
        }
        self.keys().await
    }

    /// Returns what is known of local servers without asking them.
    pub(super) fn known_local(&self) -> LocalModels {
        let local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local.as_ref().map(|(_, models)| models.clone()).unwrap_or_default()
    }

    /// Asks the local servers, unless that was done just now.
    pub(super) async fn local(&self) -> LocalModels {
        let now = self.world.now().as_millis();
        let known = self.local.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((asked, models)) = known {
            let limit = if models.found.is_empty() { AWAY_FOR } else { FOUND_FOR };
            if (asked..asked + i64::try_from(limit.as_millis()).unwrap_or(0)).contains(&now) {
                return models;
            }
        }
        let models = LocalModels::probe(&self.client, &self.servers).await;
        *self.local.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, models.clone()));
        models
    }
}

fn warn_credentials(error: &CredentialError) {
    tracing::warn!(%error, "stored credentials are not used");
}

async fn open_access(info: LocationInfo, home: PathBuf) -> Result<Arc<Access>, LocationError> {
    let directory = info.directory.clone();
    let opened = tokio::task::spawn_blocking(move || Access::open(&info, Some(home))).await;
    match opened {
        Ok(Ok(access)) => Ok(Arc::new(access)),
        Ok(Err(error)) => Err(LocationError::NotFound { directory, reason: error.to_string() }),
        Err(error) => Err(LocationError::Interrupted { directory, reason: error.to_string() }),
    }
}

/// Publishes events of the location.
fn publisher(options: &LocationsOptions, location: LocationRef) -> Publish {
    let (store, world) = (Arc::clone(&options.store), options.world.clone());
    Arc::new(move |data| {
        store.publish_live(LiveEvent { id: world.event_id(), location: Some(location.clone()), data });
    })
}

/// What the tools beside files are made of.
struct ShellParts {
    world: World,
    access: Arc<Access>,
    permissions: PermissionService,
    questions: QuestionService,
    journal: Arc<dyn crate::store::JournalStore>,
    values: Arc<dyn crate::store::ValueStore>,
    publish: Publish,
    spool: PathBuf,
    helper: Option<crate::shell::process::Helper>,
    limits: OutputLimits,
    sessions: SessionsLink,
    subagents: Arc<dyn Fn() -> SubagentSettings + Send + Sync>,
    resources: Arc<dyn Fn() -> CommandLimits + Send + Sync>,
}

/// Reads what the settings of the moment leave to commands.
fn resource_limits(state: &Arc<ArcSwap<LocationState>>) -> Arc<dyn Fn() -> CommandLimits + Send + Sync> {
    let state = Arc::clone(state);
    Arc::new(move || state.load().config.abide().shell.and_then(|shell| shell.limits).unwrap_or_default())
}

/// Finds the jobs of the process, once there are any.
fn jobs_of(sessions: &SessionsLink) -> Arc<dyn Fn() -> Option<Jobs> + Send + Sync> {
    let sessions = sessions.clone();
    Arc::new(move || sessions.get().map(|sessions| sessions.jobs().clone()))
}

/// Reads what the settings of the moment say about children.
fn subagent_settings(state: &Arc<ArcSwap<LocationState>>) -> Arc<dyn Fn() -> SubagentSettings + Send + Sync> {
    let state = Arc::clone(state);
    Arc::new(move || {
        let state = state.load();
        let permission = state.config.abide().permission.unwrap_or_default();
        SubagentSettings {
            depth: state.config.experimental().subagent_depth.unwrap_or(DEFAULT_DEPTH),
            inherits_denials: permission.inherit_readonly.unwrap_or(true),
        }
    })
}

fn output_limits(state: &LocationState) -> OutputLimits {
    let (set, default) = (state.config.tool_output(), OutputLimits::default());
    let or = |value: Option<u64>, default: usize| {
        value.filter(|value| *value > 0).map_or(default, |value| usize::try_from(value).unwrap_or(usize::MAX))
    };
    OutputLimits { lines: or(set.max_lines, default.lines), bytes: or(set.max_bytes, default.bytes) }
}

fn image_limits(state: &LocationState) -> ImageLimits {
    let (set, default) = (state.config.image(), ImageLimits::default());
    let max_base64 = set.max_base64_bytes.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    ImageLimits {
        auto_resize: set.auto_resize.unwrap_or(default.auto_resize),
        max_width: set.max_width.unwrap_or(default.max_width),
        max_height: set.max_height.unwrap_or(default.max_height),
        max_base64_bytes: max_base64.unwrap_or(default.max_base64_bytes),
    }
}

/// Chooses the search service: the configured one, or any that has a key.
fn search_service(state: &LocationState, world: &World, secrets: &Secrets) -> Option<Arc<dyn SearchProvider>> {
    let mut found = available(state.config.latest(|document| document.websearch.as_ref()), world);
    secrets.add(std::mem::take(&mut found.keys));
    let n_services = u64::try_from(found.providers.len()).ok().filter(|n| *n > 0)?;
    let chosen = usize::try_from(world.random() % n_services).unwrap_or_default();
    found.providers.into_iter().nth(chosen)
}

/// Variables of keys that many programs besides abide need.
const SHARED_VARIABLES: &[&str] =
    &["GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "HF_TOKEN"];

/// Returns the variables that hold keys of providers: commands do not get them.
fn key_variables(catalog: &Catalog) -> Vec<String> {
    let names = catalog.providers().flat_map(|provider| provider.env.iter());
    let own = names.filter(|name| !name.starts_with("AWS_") && !SHARED_VARIABLES.contains(&name.as_str()));
    own.cloned().collect()
}

/// The skills of a location, as they are now.
struct KnownSkills {
    state: Arc<ArcSwap<LocationState>>,
}

impl Skills for KnownSkills {
    fn skill(&self, id: &str) -> Option<Skill> {
        self.state.load().skills.iter().find(|skill| skill.id == id).cloned()
    }

    fn is_agent(&self, id: &str) -> bool {
        self.state.load().agents.get(&AgentId::new(id)).is_some()
    }
}

/// The configured rules of calls: the agent's, then the session's.
struct Rules {
    store: Arc<dyn Store>,
    state: Arc<ArcSwap<LocationState>>,
}

impl PermissionRules for Rules {
    fn configured<'a>(
        &'a self,
        session: &'a SessionId,
        agent: Option<&'a AgentId>,
    ) -> BoxFuture<'a, Result<Vec<Rule>, RulesError>> {
        Box::pin(async move {
            let Some(info) = self.store.session(session).await? else {
                return Err(RulesError::SessionNotFound(session.clone()));
            };
            let state = self.state.load();
            let agent = match agent.or(info.agent.as_ref()) {
                Some(id) => state.agents.get(id),
                None => state.agents.default_agent(),
            };
            Ok(configured_rules(agent.map(AsRef::as_ref), info.permissions.as_deref().unwrap_or_default()))
        })
    }
}

#[cfg(test)]
impl Services {
    /// Makes the next opening look at the files.
    pub(super) fn forget_check(&self) {
        self.checked.store(0, Ordering::Relaxed);
    }
}
