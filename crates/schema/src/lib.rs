//! Data of abide, and nothing else: typed ids, event definitions, messages, prompts, tools,
//! permissions, questions, agents, models, configuration documents, and the pure reducer that folds
//! events into session state.
//!
//! This crate must not know I/O, an async runtime, a database, HTTP or any provider.
//!
//! Main types: [`event::EventData`] (every durable event), [`event::StoredEvent`] (an event in the log),
//! [`live::LiveData`] (ephemeral events), [`message::Message`] (the projected transcript),
//! [`project::apply`] (the reducer), [`project::MemoryRows`] (its in-memory state).

pub mod agent;
pub mod catalog;
pub mod config;
pub mod error;
pub mod event;
pub mod id;
pub mod json;
pub mod live;
pub mod location;
pub mod message;
pub mod model;
pub mod permission;
pub mod project;
pub mod prompt;
pub mod question;
pub mod session;
pub mod time;
pub mod todo;
pub mod tool;
#[cfg(test)]
mod wire;

pub use id::{
    AgentId, CallId, CredentialId, EventId, IntegrationId, JobId, MessageId, ModelId, MutationId, OwnerId,
    PermissionId, ProjectId, ProviderId, PtyId, QuestionId, SavedPermissionId, Seq, SessionId, ToolFileId, WorkspaceId,
};
pub use json::JsonObject;
pub use time::Timestamp;
