//! What the server needs of the engine.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use abide_core::permission::PermissionService;
use abide_core::question::QuestionService;
use abide_core::store::{Store, StoreError};
use abide_core::world::World;
use abide_protocol::body::{CreateSession, ForkSession, MoveSession, SendPrompt, StageRevert};
use abide_protocol::error::ApiError;
use abide_protocol::wire::{
    CommandInfo, EntryKind, FileEntry, IntegrationInfo, ModelInfo, ProviderInfo, ReferenceInfo, SkillInfo,
};
use abide_schema::agent::AgentInfo;
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::message::{Message, Revert};
use abide_schema::model::ModelRef;
use abide_schema::prompt::Delivery;
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{AgentId, CredentialId, IntegrationId, MessageId, ProviderId, SessionId};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;

/// Why an operation has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The client is told.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The client is told a reference; the log has the details.
    #[error("{0}")]
    Internal(String),
}

impl Failure {
    /// A failure whose details go to the log alone.
    pub fn internal(details: impl std::fmt::Display) -> Self {
        Self::Internal(details.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::internal(error)
    }
}

/// What an operation answers, later.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// The engine, as far as the API shows it. Every method may be dropped at any await: an operation that was begun may
/// or may not have happened, and may be asked for again.
pub trait Backend: Send + Sync + 'static {
    /// Clock, ids, randomness, tasks.
    fn world(&self) -> &World;
    /// The store, for reads and streams.
    fn store(&self) -> &Arc<dyn Store>;
    /// Opens a directory, or returns the open one.
    fn directory<'a>(&'a self, location: &'a LocationRef) -> Answer<'a, Arc<dyn Directory>>;
    /// Creates a session, or returns the recorded one with that id. The location is filled in.
    fn create(&self, input: CreateSession) -> Answer<'_, SessionInfo>;
    /// Admits a prompt.
    fn prompt<'a>(&'a self, session: &'a SessionId, input: SendPrompt) -> Answer<'a, Admitted>;
    /// Lists the sessions that this process executes.
    fn active(&self) -> Vec<SessionId>;
    /// Waits until a session is idle.
    fn wait<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Stops a session; returns when it is settled.
    fn interrupt<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Sends to the background what calls of a session wait for.
    fn background<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Asks for a compaction.
    fn compact<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Chooses the agent of the next steps.
    fn switch_agent<'a>(&'a self, session: &'a SessionId, agent: AgentId) -> Answer<'a, ()>;
    /// Chooses the model of the next steps.
    fn switch_model<'a>(&'a self, session: &'a SessionId, model: ModelRef) -> Answer<'a, ()>;
    /// Stages a revert.
    fn stage_revert<'a>(&'a self, session: &'a SessionId, input: StageRevert) -> Answer<'a, Revert>;
    /// Takes a staged revert back.
    fn clear_revert<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Makes a staged revert final.
    fn commit_revert<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Copies a session's history into a new one.
    fn fork<'a>(&'a self, session: &'a SessionId, input: ForkSession) -> Answer<'a, SessionInfo>;
    /// Asks for a move.
    fn move_to<'a>(&'a self, session: &'a SessionId, input: MoveSession) -> Answer<'a, ()>;
    /// Deletes a session with its children.
    fn delete<'a>(&'a self, session: &'a SessionId) -> Answer<'a, ()>;
    /// Changes when a pending input joins.
    fn change_delivery<'a>(
        &'a self,
        session: &'a SessionId,
        input: &'a MessageId,
        delivery: Delivery,
    ) -> Answer<'a, ()>;
    /// Takes a pending input back.
    fn cancel_input<'a>(&'a self, session: &'a SessionId, input: &'a MessageId) -> Answer<'a, ()>;
    /// Reads the active history.
    fn context<'a>(&'a self, session: &'a SessionId) -> Answer<'a, Vec<Message>>;
}

/// An open directory, as far as the API shows it.
pub trait Directory: Send + Sync {
    /// The location with its project.
    fn info(&self) -> &LocationInfo;
    /// Its permission requests.
    fn permissions(&self) -> &PermissionService;
    /// Its questions.
    fn questions(&self) -> &QuestionService;
    /// Its agents, in registration order.
    fn agents(&self) -> Vec<AgentInfo>;
    /// The models of its usable providers.
    fn models(&self) -> Answer<'_, Vec<ModelInfo>>;
    /// Its usable providers.
    fn providers(&self) -> Answer<'_, Vec<ProviderInfo>>;
    /// A provider, usable or not.
    fn provider<'a>(&'a self, id: &'a ProviderId) -> Option<ProviderInfo>;
    /// Its slash commands.
    fn commands(&self) -> Vec<CommandInfo>;
    /// Its skills.
    fn skills(&self) -> Vec<SkillInfo>;
    /// Its references.
    fn references(&self) -> Vec<ReferenceInfo>;
    /// Its integrations with their connections.
    fn integrations(&self) -> Answer<'_, Vec<IntegrationInfo>>;
    /// Stores a key of an integration.
    fn add_key(&self, integration: IntegrationId, key: String, label: Option<String>) -> Answer<'_, ()>;
    /// Gives a credential another label; an unknown one is no error.
    fn relabel_credential(&self, id: CredentialId, label: String) -> Answer<'_, ()>;
    /// Removes a credential; an unknown one is no error.
    fn remove_credential(&self, id: CredentialId) -> Answer<'_, ()>;
    /// Lists a directory below it.
    fn list_files<'a>(&'a self, path: Option<&'a str>) -> Answer<'a, Vec<FileEntry>>;
    /// Finds files and directories below it, the best first.
    fn find_files<'a>(&'a self, query: &'a str, kind: Option<EntryKind>, limit: usize) -> Answer<'a, Vec<FileEntry>>;
    /// Opens a file below it.
    fn read_file<'a>(&'a self, path: &'a str) -> Answer<'a, FileContent>;
}

/// The content of a file.
pub struct FileContent {
    /// Its media type.
    pub mime: String,
    /// Its length in bytes.
    pub length: u64,
    /// Its bytes.
    pub bytes: Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>,
}

impl std::fmt::Debug for FileContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContent").field("mime", &self.mime).field("length", &self.length).finish_non_exhaustive()
    }
}
