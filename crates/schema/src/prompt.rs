//! Prompts as they are admitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A user's prompt with its attachments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileAttachment>>,
    /// Mentioned agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentAttachment>>,
}

impl Prompt {
    /// Makes a prompt of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), files: None, agents: None }
    }
}

/// A place in the prompt's text that an attachment stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSource {
    /// First character.
    pub start: f64,
    /// One past the last character.
    pub end: f64,
    /// The text between.
    pub text: String,
}

/// An attached file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileAttachment {
    /// A `file:`, `data:` or `http(s):` URI.
    pub uri: String,
    /// Its media type.
    pub mime: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The place in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PromptSource>,
}

/// A mentioned agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentAttachment {
    /// Its name.
    pub name: String,
    /// The place in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PromptSource>,
}

/// When an admitted input joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// At the next safe boundary, also in the middle of work.
    #[default]
    Steer,
    /// When the session would go idle, one at a time.
    Queue,
}
