//! Sessions as they are projected.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::JsonObject;
use crate::location::LocationRef;
use crate::message::Revert;
use crate::model::{ModelRef, Tokens};
use crate::permission::Rule;
use crate::prompt::{Delivery, Prompt};
use crate::{AgentId, MessageId, ProjectId, Seq, SessionId, Timestamp};

/// When things happened to a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionTime {
    /// Creation.
    pub created: Timestamp,
    /// The last activity that a user sees.
    pub updated: Timestamp,
    /// When it was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Timestamp>,
    /// When it last became idle. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Timestamp>,
    /// Up to which idle time a user has seen it. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub viewed: Option<Timestamp>,
}

/// How the last execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did what it should.
    Succeeded,
    /// It failed.
    Failed,
    /// It was interrupted.
    Interrupted,
}

/// Up to where history was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkBoundary {
    /// Whether the message itself was copied.
    #[serde(rename = "type")]
    pub kind: ForkBoundaryKind,
    /// The message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
}

/// Whether a boundary message is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForkBoundaryKind {
    /// Without the message.
    Before,
    /// With the message.
    Through,
}

/// Where a fork came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkInfo {
    /// The source.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// Up to where.
    pub boundary: ForkBoundary,
}

/// A session: the projection of its log into one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// The session.
    pub id: SessionId,
    /// Its parent, for a child of an agent.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// Its project.
    #[serde(rename = "projectID")]
    pub project_id: ProjectId,
    /// Its agent; absent means the configured default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Its model, with the variant spelled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Cost so far, in US dollars.
    pub cost: f64,
    /// Tokens so far.
    pub tokens: Tokens,
    /// When things happened.
    pub time: SessionTime,
    /// Its title.
    pub title: String,
    /// Where its tools act.
    pub location: LocationRef,
    /// The location below the project's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subpath: Option<String>,
    /// The staged revert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
    /// A short readable name. Extension.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slug: String,
    /// The version of abide that made it. Extension.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where a fork came from. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkInfo>,
    /// How the last execution ended. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Free-form facts. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// Own rules. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Rule>>,
}

impl SessionInfo {
    /// Returns the title of a session that has none yet.
    pub fn default_title(created: Timestamp) -> String {
        format!("New session - {}", created.to_iso())
    }

    /// Says whether the title is still the default one.
    pub fn is_untitled(&self) -> bool {
        self.title == Self::default_title(self.time.created)
    }
}

/// The receipt of an admitted prompt.
///
/// `admittedSeq` and `promotedSeq` are contract positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admitted {
    /// The contract position of the admission.
    pub admitted_seq: Seq,
    /// The input, and the message that it becomes.
    pub id: MessageId,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The prompt, with resolved media types.
    pub prompt: Prompt,
    /// When it joins.
    pub delivery: Delivery,
    /// When it was admitted.
    pub time_created: Timestamp,
    /// The contract position of the promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_seq: Option<Seq>,
}
