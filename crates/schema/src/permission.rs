//! Permissions: rules, requests, replies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::JsonObject;
use crate::{CallId, MessageId, PermissionId, ProjectId, SavedPermissionId, SessionId};

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Do it.
    Allow,
    /// Refuse.
    Deny,
    /// Ask the user.
    Ask,
}

/// A rule: two patterns and what to do when both match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Pattern of the action, for example `edit` or `*`.
    pub action: String,
    /// Pattern of the resource.
    pub resource: String,
    /// What to do.
    pub effect: Effect,
}

impl Rule {
    /// Makes a rule.
    pub fn new(action: impl Into<String>, resource: impl Into<String>, effect: Effect) -> Self {
        Self { action: action.into(), resource: resource.into(), effect }
    }
}

/// The tool call that a request or question comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Source {
    /// A tool call.
    Tool {
        /// The assistant message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// The call. Decoders accept the newer name `id` too.
        #[serde(rename = "callID", alias = "id")]
        call_id: CallId,
    },
}

/// A request that waits for the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionRequest {
    /// The request.
    pub id: PermissionId,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The action, for example `edit`.
    pub action: String,
    /// What the action is on.
    pub resources: Vec<String>,
    /// What `always` would save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<Vec<String>>,
    /// Facts for the user interface, for example a diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// A reason given by a hook. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The call that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// The user's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// Allow this one.
    Once,
    /// Allow this one and save a rule.
    Always,
    /// Refuse.
    Reject,
}

/// A saved rule; it always means `allow`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedPermission {
    /// The saved rule.
    pub id: SavedPermissionId,
    /// The project it holds for.
    #[serde(rename = "projectID")]
    pub project_id: ProjectId,
    /// Pattern of the action.
    pub action: String,
    /// Pattern of the resource.
    pub resource: String,
}
