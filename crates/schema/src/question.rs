//! Questions that a tool asks the user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CallId, MessageId, QuestionId, SessionId};

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionInfo {
    /// The whole question.
    pub question: String,
    /// A very short label.
    pub header: String,
    /// The choices.
    pub options: Vec<QuestionOption>,
    /// Whether several may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// Whether the user may write an own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOption {
    /// What is shown and returned.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// The call that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionTool {
    /// The assistant message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The call.
    #[serde(rename = "callID")]
    pub call_id: CallId,
}

/// Questions that wait for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRequest {
    /// The request.
    pub id: QuestionId,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The questions.
    pub questions: Vec<QuestionInfo>,
    /// The call that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<QuestionTool>,
}

/// The labels chosen for one question.
pub type Answer = Vec<String>;
