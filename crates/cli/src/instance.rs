//! The engine opened for a command: directories, settings, the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_core::app::{App, AppOptions};
use abide_core::location::Location;
use abide_core::shell::process::helper::HELPER_ARGUMENT;
use abide_core::world::World;
use abide_schema::location::LocationRef;
use abide_schema::model::ModelRef;
use abide_schema::{AgentId, SessionId};

use crate::args::Global;
use crate::error::{CliError, Exit};

/// The open engine.
pub(crate) struct Instance {
    pub(crate) app: Arc<App>,
}

impl Instance {
    pub(crate) async fn open(global: &Global) -> Result<Self, CliError> {
        Self::open_with(global, true).await
    }

    pub(crate) async fn open_with(global: &Global, auto_resume: bool) -> Result<Self, CliError> {
        let world = World::real();
        let mut options = AppOptions::new(world);
        options.data_dir.clone_from(&global.data_dir);
        options.secrets = global.secrets.clone();
        options.engine.auto_resume = auto_resume;
        options.helper = std::env::current_exe().ok().map(|program| (program, vec![HELPER_ARGUMENT.to_owned()]));
        let app = App::open(options).await.map_err(|error| {
            CliError::failed(error.to_string()).hint("`abide doctor` checks the data directory and the configuration")
        })?;
        Ok(Self { app: Arc::new(app) })
    }

    /// Opens the location of a session.
    pub(crate) async fn location_of(&self, session: &SessionId) -> Result<Arc<Location>, CliError> {
        let info = self.app.sessions().get(session).await?;
        self.location(&info.location).await
    }

    pub(crate) async fn location(&self, reference: &LocationRef) -> Result<Arc<Location>, CliError> {
        self.app.locations().get(reference).await.map_err(|error| CliError::failed(error.to_string()))
    }

    /// Refuses an agent that does not exist.
    pub(crate) async fn check_agent(&self, directory: &str, agent: &AgentId) -> Result<(), CliError> {
        use abide_core::session::place::Place as _;
        let location = self.location(&LocationRef::new(directory)).await?;
        location.agent(Some(agent)).map(|_| ()).map_err(|error| CliError::usage(error.to_string()))
    }

    /// Refuses to start where no model can be called.
    pub(crate) async fn check_model(
        &self,
        directory: &str,
        model: Option<&ModelRef>,
        agent: Option<&AgentId>,
    ) -> Result<(), CliError> {
        use abide_core::session::place::{Place as _, PlaceError};
        let location = self.location(&LocationRef::new(directory)).await?;
        let exit = |error: &PlaceError| match error {
            PlaceError::Model(_) => Exit::ProviderRefused,
            PlaceError::UnknownAgent { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        let refused = |error: PlaceError| CliError::new(exit(&error), error.to_string());
        let agent = location.agent(agent).map_err(refused)?;
        location.model(model, &agent).await.map(|_| ()).map_err(refused)
    }

    pub(crate) async fn close(self) {
        self.app.close().await;
    }
}

/// Returns the directory to work in: absolute, existing.
#[expect(clippy::disallowed_methods, reason = "the edge where the current directory is read")]
pub(crate) fn directory(global: &Global) -> Result<PathBuf, CliError> {
    let current = std::env::current_dir()
        .map_err(|error| CliError::failed(format!("the current directory cannot be read: {error}")))?;
    let directory = match &global.directory {
        Some(given) => current.join(given),
        None => current,
    };
    canonical(&directory)
}

fn canonical(directory: &Path) -> Result<PathBuf, CliError> {
    let resolved = std::fs::canonicalize(directory)
        .map_err(|error| CliError::usage(format!("the directory {} cannot be opened: {error}", directory.display())))?;
    if !resolved.is_dir() {
        return Err(CliError::usage(format!("{} is no directory", directory.display())));
    }
    Ok(resolved)
}

/// Returns the user name that the server wants.
pub(crate) fn server_user(world: &World) -> Option<String> {
    ["ABIDE_SERVER_USERNAME", "OPENCODE_SERVER_USERNAME"].iter().find_map(|name| world.var(name)).map(ToOwned::to_owned)
}

/// Returns the password that the server wants.
pub(crate) fn server_password(world: &World) -> Option<String> {
    ["ABIDE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"].iter().find_map(|name| world.var(name)).map(ToOwned::to_owned)
}
