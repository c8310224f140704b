//! The engine behind the API: [`App`] as a [`Backend`], [`Location`] as a [`Directory`].

use std::sync::Arc;

use abide_core::app::App;
use abide_core::credential::{CredentialError, Secret};
use abide_core::fs::browse::{BrowseError, Browser, EntryKind as BrowseKind, Find};
use abide_core::location::{Location, LocationError};
use abide_core::permission::PermissionService;
use abide_core::question::QuestionService;
use abide_core::session::place::PlaceError;
use abide_core::session::{self, FileInput, ForkPoint, PromptSession, SessionsError};
use abide_core::store::Store;
use abide_core::world::World;
use abide_protocol::body::{CreateSession, ForkSession, MoveSession, SendPrompt, StageRevert};
use abide_protocol::error::{ApiError, InvalidKind};
use abide_protocol::wire::{
    CommandInfo, EntryKind, FileEntry, IntegrationInfo, ModelInfo, ProviderInfo, ReferenceInfo, SkillInfo,
};
use abide_schema::agent::AgentInfo;
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::message::{Message, Revert};
use abide_schema::model::ModelRef;
use abide_schema::prompt::Delivery;
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{AgentId, CredentialId, IntegrationId, MessageId, ProviderId, Seq, SessionId};
use futures_util::FutureExt as _;
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use crate::backend::{Answer, Backend, Directory, Failure, FileContent};

/// Returns the engine as the server wants it.
pub fn core_backend(app: Arc<App>) -> Arc<dyn Backend> {
    app
}

impl From<SessionsError> for Failure {
    fn from(error: SessionsError) -> Self {
        let message = error.to_string();
        match error {
            SessionsError::NotFound(id) => ApiError::session_not_found(id).into(),
            SessionsError::MessageNotFound { session, message } => ApiError::message_not_found(session, message).into(),
            SessionsError::Conflict { resource } => ApiError::Conflict { message, resource: Some(resource) }.into(),
            SessionsError::UnknownAgent { agent, known: _ } => {
                ApiError::AgentNotFound { message, agent_id: AgentId::new(agent) }.into()
            }
            SessionsError::Busy(session_id) => ApiError::SessionBusy { message, session_id }.into(),
            SessionsError::Invalid { field, message } => {
                let kind = Some(InvalidKind::Payload.as_str().to_owned());
                ApiError::InvalidRequest { message, kind, field: Some(field.to_owned()) }.into()
            }
            SessionsError::Place(error) => error.into(),
            // What stands in the way is the user's: it must be named.
            SessionsError::Restore(_) => ApiError::Unknown { message, reference: None }.into(),
            other @ (SessionsError::Store(_) | SessionsError::Append(_) | _) => Self::internal(other),
        }
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        let message = error.to_string();
        match error {
            PlaceError::Directory { directory, .. } => {
                ApiError::LocationNotFound { message, location: directory }.into()
            }
            PlaceError::UnknownAgent { agent, .. } => {
                ApiError::AgentNotFound { message, agent_id: AgentId::new(agent) }.into()
            }
            PlaceError::Config(_) | PlaceError::Model(_) => {
                ApiError::ServiceUnavailable { message, service: Some("location".to_owned()) }.into()
            }
            other => Self::internal(other),
        }
    }
}

impl From<LocationError> for Failure {
    fn from(error: LocationError) -> Self {
        let message = error.to_string();
        match error {
            LocationError::Invalid { .. } => ApiError::invalid(InvalidKind::Query, message).into(),
            LocationError::NotFound { directory, .. } => {
                ApiError::LocationNotFound { message, location: directory }.into()
            }
            LocationError::PermissionDenied { directory } => {
                ApiError::LocationPermissionDenied { message, location: directory }.into()
            }
            LocationError::Config(_) | LocationError::Interrupted { .. } => {
                ApiError::ServiceUnavailable { message, service: Some("location".to_owned()) }.into()
            }
            other => Self::internal(other),
        }
    }
}

impl From<BrowseError> for Failure {
    fn from(error: BrowseError) -> Self {
        let message = error.to_string();
        match error {
            BrowseError::NotFound { path } => ApiError::FileNotFound { message, path }.into(),
            BrowseError::Outside { .. } => ApiError::Forbidden { message }.into(),
            BrowseError::NotAFile { .. } | BrowseError::NotADirectory { .. } => {
                ApiError::InvalidRequest { message, kind: None, field: Some("path".to_owned()) }.into()
            }
            other @ (BrowseError::Io { .. } | _) => Self::internal(other),
        }
    }
}

impl From<CredentialError> for Failure {
    fn from(error: CredentialError) -> Self {
        match error {
            CredentialError::Empty => ApiError::invalid(InvalidKind::Payload, error.to_string()).into(),
            CredentialError::Busy { .. } => {
                ApiError::ServiceUnavailable { message: error.to_string(), service: Some("credential".to_owned()) }
                    .into()
            }
            other @ (CredentialError::Io { .. } | CredentialError::Corrupt { .. } | _) => Self::internal(other),
        }
    }
}

impl Backend for App {
    fn world(&self) -> &World {
        Self::world(self)
    }

    fn store(&self) -> &Arc<dyn Store> {
        Self::store(self)
    }

    fn directory<'a>(&'a self, location: &'a LocationRef) -> Answer<'a, Arc<dyn Directory>> {
        async move {
            let location = self.locations().get(location).await?;
            Ok(location as Arc<dyn Directory>)
        }
        .boxed()
    }

    fn create(&self, input: CreateSession) -> Answer<'_, SessionInfo> {
        let CreateSession { id, agent, model, location } = input;
        let input = session::CreateSession { id, agent, model, location, ..session::CreateSession::default() };
        async move { Ok(self.sessions().create(input).await?) }.boxed()
    }

    fn prompt<'a>(&'a self, session: &'a SessionId, input: SendPrompt) -> Answer<'a, Admitted> {
        let SendPrompt { prompt, id, delivery, resume } = input;
        let files = prompt.files.map(|files| {
            let input = |file: abide_protocol::body::PromptInputFileAttachment| FileInput {
                uri: file.uri,
                name: file.name,
                description: file.description,
                source: file.source,
            };
            files.into_iter().map(input).collect()
        });
        let input = PromptSession {
            id,
            text: prompt.text,
            files,
            agents: prompt.agents,
            delivery: delivery.unwrap_or_default(),
            resume,
            metadata: None,
        };
        async move { Ok(self.sessions().prompt(session, input).await?) }.boxed()
    }

    fn active(&self) -> Vec<SessionId> {
        self.sessions().active()
    }

    fn wait<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move {
            self.sessions().wait(session).await?;
            Ok(())
        }
        .boxed()
    }

    fn interrupt<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move {
            self.sessions().interrupt(session).await?;
            Ok(())
        }
        .boxed()
    }

    fn background<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move {
            self.sessions().background(session).await?;
            Ok(())
        }
        .boxed()
    }

    fn compact<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move { Ok(self.sessions().compact(session).await?) }.boxed()
    }

    fn switch_agent<'a>(&'a self, session: &'a SessionId, agent: AgentId) -> Answer<'a, ()> {
        async move { Ok(self.sessions().switch_agent(session, agent).await?) }.boxed()
    }

    fn switch_model<'a>(&'a self, session: &'a SessionId, model: ModelRef) -> Answer<'a, ()> {
        async move { Ok(self.sessions().switch_model(session, model).await?) }.boxed()
    }

    fn stage_revert<'a>(&'a self, session: &'a SessionId, input: StageRevert) -> Answer<'a, Revert> {
        let StageRevert { message_id, files } = input;
        let input = session::StageRevert { message_id, files: files.unwrap_or(true), inclusive: None };
        async move { Ok(self.sessions().stage_revert(session, input).await?) }.boxed()
    }

    fn clear_revert<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move { Ok(self.sessions().clear_revert(session).await?) }.boxed()
    }

    fn commit_revert<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move { Ok(self.sessions().commit_revert(session).await?) }.boxed()
    }

    fn fork<'a>(&'a self, session: &'a SessionId, input: ForkSession) -> Answer<'a, SessionInfo> {
        let ForkSession { id, message_id, at, title } = input;
        async move {
            let point = match (message_id, at) {
                (Some(message), None) => ForkPoint::Before(message),
                (None, Some(at)) => ForkPoint::At(Seq(at)),
                (None, None) => ForkPoint::End,
                (Some(_), Some(_)) => {
                    let message = "give either a message or a position, not both";
                    return Err(ApiError::invalid(InvalidKind::Payload, message).into());
                }
            };
            Ok(self.sessions().fork(session, session::ForkSession { id, point, title }).await?)
        }
        .boxed()
    }

    fn move_to<'a>(&'a self, session: &'a SessionId, input: MoveSession) -> Answer<'a, ()> {
        let MoveSession { location, project_id } = input;
        let input = session::MoveSession { location, project_id };
        async move { Ok(self.sessions().move_to(session, input).await?) }.boxed()
    }

    fn delete<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()> {
        async move { Ok(self.sessions().delete(session).await?) }.boxed()
    }

    fn change_delivery<'a>(
        &'a self,
        session: &'a SessionId,
        input: &'a MessageId,
        delivery: Delivery,
    ) -> Answer<'a, ()> {
        async move { Ok(self.sessions().change_delivery(session, input, delivery).await.map(drop)?) }.boxed()
    }

    fn cancel_input<'a>(&'a self, session: &'a SessionId, input: &'a MessageId) -> Answer<'a, ()> {
        async move { Ok(self.sessions().cancel_input(session, input).await.map(drop)?) }.boxed()
    }

    fn context<'a>(&'a self, session: &'a SessionId) -> Answer<'a, Vec<Message>> {
        async move {
            let rows = self.sessions().context(session).await?;
            Ok(rows.into_iter().map(|row| row.message).collect())
        }
        .boxed()
    }
}

impl Directory for Location {
    fn info(&self) -> &LocationInfo {
        Self::info(self)
    }

    fn permissions(&self) -> &PermissionService {
        Self::permissions(self)
    }

    fn questions(&self) -> &QuestionService {
        Self::questions(self)
    }

    fn agents(&self) -> Vec<AgentInfo> {
        self.list_agents()
    }

    fn models(&self) -> Answer<'_, Vec<ModelInfo>> {
        async move { Ok(self.list_models().await) }.boxed()
    }

    fn providers(&self) -> Answer<'_, Vec<ProviderInfo>> {
        async move { Ok(self.list_providers().await) }.boxed()
    }

    fn provider<'a>(&'a self, id: &'a ProviderId) -> Option<ProviderInfo> {
        self.find_provider(id)
    }

    fn commands(&self) -> Vec<CommandInfo> {
        self.list_commands()
    }

    fn skills(&self) -> Vec<SkillInfo> {
        self.list_skills()
    }

    fn references(&self) -> Vec<ReferenceInfo> {
        // No configuration of abide makes any.
        Vec::new()
    }

    fn integrations(&self) -> Answer<'_, Vec<IntegrationInfo>> {
        async move { Ok(self.list_integrations().await) }.boxed()
    }

    fn add_key(&self, integration: IntegrationId, key: String, label: Option<String>) -> Answer<'_, ()> {
        async move {
            self.credentials().add_key(integration, &Secret::new(key), label).await?;
            Ok(())
        }
        .boxed()
    }

    fn relabel_credential(&self, id: CredentialId, label: String) -> Answer<'_, ()> {
        async move { Ok(self.credentials().relabel(id, label).await?) }.boxed()
    }

    fn remove_credential(&self, id: CredentialId) -> Answer<'_, ()> {
        async move { Ok(self.credentials().remove(id).await?) }.boxed()
    }

    fn list_files<'a>(&'a self, path: Option<&'a str>) -> Answer<'a, Vec<FileEntry>> {
        async move {
            let entries = Browser::new(self.access().clone()).list(path).await?;
            Ok(entries.into_iter().map(entry).collect())
        }
        .boxed()
    }

    fn find_files<'a>(&'a self, query: &'a str, kind: Option<EntryKind>, limit: usize) -> Answer<'a, Vec<FileEntry>> {
        let kind = kind.map(|kind| match kind {
            EntryKind::File => BrowseKind::File,
            EntryKind::Directory => BrowseKind::Directory,
        });
        let find = Find { query: query.to_owned(), kind, limit: Some(limit) };
        async move {
            let entries = Browser::new(self.access().clone()).find(find).await?;
            Ok(entries.into_iter().map(entry).collect())
        }
        .boxed()
    }

    fn read_file<'a>(&'a self, path: &'a str) -> Answer<'a, FileContent> {
        async move {
            let open = Browser::new(self.access().clone()).open(path).await?;
            // A file that grows meanwhile must not make the answer longer than its head said.
            let file = tokio::fs::File::from_std(open.file).take(open.length);
            Ok(FileContent {
                mime: open.media_type.to_owned(),
                length: open.length,
                bytes: Box::pin(ReaderStream::new(file)),
            })
        }
        .boxed()
    }
}

fn entry(entry: abide_core::fs::browse::Entry) -> FileEntry {
    let kind = match entry.kind {
        BrowseKind::File => EntryKind::File,
        BrowseKind::Directory => EntryKind::Directory,
    };
    FileEntry { path: entry.path, kind }
}
