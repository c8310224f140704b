//! The engine behind the API.

use std::io;
use std::sync::Arc;

use abide_core::app::App;
use abide_core::fs::browse::{BrowseError, Browser, Find};
use abide_core::location::{Location, LocationError};
use abide_core::permission::PermissionService;
use abide_core::question::QuestionService;
use abide_core::session::place::PlaceError;
use abide_core::session::{self as engine, FileInput, PromptSession, SessionsError};
use abide_core::store::Store;
use abide_core::world::World;
use abide_protocol::body::{CreateSession, SendPrompt};
use abide_protocol::error::{ApiError, InvalidKind};
use abide_protocol::wire::{CommandInfo, EntryKind, FileEntry, ModelInfo, ProviderInfo, ReferenceInfo, SkillInfo};
use abide_schema::agent::AgentInfo;
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::message::Message;
use abide_schema::model::ModelRef;
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{AgentId, SessionId};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::{Answer, Backend, Directory, Failure, FileContent};

/// Bytes of a file that are read at a time.
const CHUNK: usize = 64 * 1024;

/// Makes the backend of the real engine.
pub fn core_backend(app: Arc<App>) -> Arc<dyn Backend> {
    Arc::new(CoreBackend { app })
}

struct CoreBackend {
    app: Arc<App>,
}

fn sessions_failure(error: SessionsError) -> Failure {
    let message = error.to_string();
    match error {
        SessionsError::NotFound(session_id) => ApiError::session_not_found(session_id).into(),
        SessionsError::MessageNotFound { session, message } => ApiError::message_not_found(session, message).into(),
        SessionsError::Conflict { resource } => ApiError::Conflict { message, resource: Some(resource) }.into(),
        SessionsError::UnknownAgent { agent, .. } => {
            ApiError::AgentNotFound { message, agent_id: AgentId::new(agent) }.into()
        }
        SessionsError::Busy(session_id) => ApiError::SessionBusy { message, session_id }.into(),
        SessionsError::Invalid { field, .. } => ApiError::InvalidRequest {
            message,
            kind: Some(InvalidKind::Payload.as_str().to_owned()),
            field: Some(field.to_owned()),
        }
        .into(),
        SessionsError::Place(error) => place_failure(&error),
        _ => Failure::internal(message),
    }
}

fn place_failure(error: &PlaceError) -> Failure {
    let message = error.to_string();
    match error {
        PlaceError::Directory { directory, .. } => {
            ApiError::LocationNotFound { message, location: directory.clone() }.into()
        }
        PlaceError::UnknownAgent { agent, .. } => {
            ApiError::AgentNotFound { message, agent_id: AgentId::new(agent.as_str()) }.into()
        }
        _ => Failure::internal(message),
    }
}

fn location_failure(error: &LocationError) -> Failure {
    let message = error.to_string();
    match error {
        LocationError::Invalid { .. } => ApiError::invalid(InvalidKind::Query, message).into(),
        LocationError::NotFound { directory, .. } => {
            ApiError::LocationNotFound { message, location: directory.clone() }.into()
        }
        LocationError::PermissionDenied { directory } => {
            ApiError::LocationPermissionDenied { message, location: directory.clone() }.into()
        }
        _ => Failure::internal(message),
    }
}

fn browse_failure(error: BrowseError) -> Failure {
    let message = error.to_string();
    match error {
        BrowseError::NotFound { path } => ApiError::FileNotFound { message, path }.into(),
        BrowseError::Outside { .. } => ApiError::Forbidden { message }.into(),
        BrowseError::NotAFile { .. } | BrowseError::NotADirectory { .. } => {
            ApiError::invalid(InvalidKind::Params, message).into()
        }
        BrowseError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            ApiError::Forbidden { message }.into()
        }
        other => Failure::internal(other),
    }
}

/// Turns core's form of a catalogue entry into the wire's; both have the same fields.
fn convert<A: Serialize, B: DeserializeOwned>(value: &A) -> Result<B, Failure> {
    serde_json::to_value(value).and_then(serde_json::from_value).map_err(Failure::internal)
}

impl Backend for CoreBackend {
    fn world(&self) -> &World {
        self.app.world()
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.app.store()
    }

    fn directory<'a>(&'a self, location: &'a LocationRef) -> Answer<'a, Arc<dyn Directory>> {
        Box::pin(async move {
            let location = self.app.locations().get(location).await.map_err(|error| location_failure(&error))?;
            Ok(Arc::new(CoreDirectory { browser: Browser::new(location.access().clone()), location }) as _)
        })
    }

    fn open_directory(&self, location: &LocationRef) -> Option<Arc<dyn Directory>> {
        let location = self.app.locations().opened(location)?;
        Some(Arc::new(CoreDirectory { browser: Browser::new(location.access().clone()), location }))
    }

    fn create(&self, input: CreateSession) -> Answer<'_, SessionInfo> {
        Box::pin(async move {
            let CreateSession { id, agent, model, location } = input;
            let input = engine::CreateSession { id, agent, model, location, ..engine::CreateSession::default() };
            self.app.sessions().create(input).await.map_err(sessions_failure)
        })
    }

    fn prompt<'a>(&'a self, session: &'a SessionId, input: SendPrompt) -> Answer<'a, Admitted> {
        Box::pin(async move {
            let files = input.prompt.files.map(|files| {
                files
                    .into_iter()
                    .map(|file| FileInput {
                        uri: file.uri,
                        name: file.name,
                        description: file.description,
                        source: file.source,
                    })
                    .collect()
            });
            let prompt = PromptSession {
                id: input.id,
                text: input.prompt.text,
                files,
                agents: input.prompt.agents,
                delivery: input.delivery.unwrap_or_default(),
                resume: input.resume,
                metadata: None,
            };
            self.app.sessions().prompt(session, prompt).await.map_err(sessions_failure)
        })
    }

    fn active(&self) -> Vec<SessionId> {
        self.app.sessions().active()
    }

    fn wait<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        Box::pin(async move { self.app.sessions().wait(session).await.map(|_| ()).map_err(sessions_failure) })
    }

    fn interrupt<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        Box::pin(async move { self.app.sessions().interrupt(session).await.map(|_| ()).map_err(sessions_failure) })
    }

    fn compact<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        Box::pin(async move { self.app.sessions().compact(session).await.map_err(sessions_failure) })
    }

    fn switch_agent<'a>(&'a self, session: &'a SessionId, agent: AgentId) -> Answer<'a, ()> {
        Box::pin(async move { self.app.sessions().switch_agent(session, agent).await.map_err(sessions_failure) })
    }

    fn switch_model<'a>(&'a self, session: &'a SessionId, model: ModelRef) -> Answer<'a, ()> {
        Box::pin(async move { self.app.sessions().switch_model(session, model).await.map_err(sessions_failure) })
    }

    fn context<'a>(&'a self, session: &'a SessionId) -> Answer<'a, Vec<Message>> {
        Box::pin(async move {
            let rows = self.app.sessions().context(session).await.map_err(sessions_failure)?;
            Ok(rows.into_iter().map(|row| row.message).collect())
        })
    }
}

struct CoreDirectory {
    location: Arc<Location>,
    browser: Browser,
}

impl Directory for CoreDirectory {
    fn info(&self) -> &LocationInfo {
        self.location.info()
    }

    fn permissions(&self) -> &PermissionService {
        self.location.permissions()
    }

    fn questions(&self) -> &QuestionService {
        self.location.questions()
    }

    fn agents(&self) -> Vec<AgentInfo> {
        self.location.list_agents()
    }

    fn models(&self) -> Answer<'_, Vec<ModelInfo>> {
        Box::pin(async move { convert(&self.location.list_models().await) })
    }

    fn providers(&self) -> Answer<'_, Vec<ProviderInfo>> {
        Box::pin(async move { convert(&self.location.list_providers().await) })
    }

    fn commands(&self) -> Answer<'_, Vec<CommandInfo>> {
        Box::pin(async move { convert(&self.location.list_commands()) })
    }

    fn skills(&self) -> Answer<'_, Vec<SkillInfo>> {
        Box::pin(async move { convert(&self.location.list_skills()) })
    }

    fn references(&self) -> Answer<'_, Vec<ReferenceInfo>> {
        // References come with a later issue: there are none yet.
        Box::pin(async move { Ok(Vec::new()) })
    }

    fn list_files<'a>(&'a self, path: Option<&'a str>) -> Answer<'a, Vec<FileEntry>> {
        Box::pin(async move {
            let entries = self.browser.list(path).await.map_err(browse_failure)?;
            convert(&entries)
        })
    }

    fn find_files<'a>(&'a self, query: &'a str, kind: Option<EntryKind>, limit: usize) -> Answer<'a, Vec<FileEntry>> {
        Box::pin(async move {
            let kind = kind.map(|kind| match kind {
                EntryKind::File => abide_core::fs::browse::EntryKind::File,
                EntryKind::Directory => abide_core::fs::browse::EntryKind::Directory,
            });
            let find = Find { query: query.to_owned(), kind, limit: Some(limit) };
            convert(&self.browser.find(find).await.map_err(browse_failure)?)
        })
    }

    fn read_file<'a>(&'a self, path: &'a str) -> Answer<'a, FileContent> {
        Box::pin(async move {
            let open = self.browser.open(path).await.map_err(browse_failure)?;
            let file = tokio::fs::File::from_std(open.file);
            let stream =
                tokio_util::io::ReaderStream::with_capacity(tokio::io::AsyncReadExt::take(file, open.length), CHUNK);
            let bytes: std::pin::Pin<Box<dyn futures_util::Stream<Item = io::Result<Bytes>> + Send>> = Box::pin(stream);
            Ok(FileContent { mime: open.media_type.to_owned(), length: open.length, bytes })
        })
    }
}
