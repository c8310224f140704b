//! Tool types: content, results, errors, options (spec/tools.md section 1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::JsonObject;

/// One piece of what a tool tells the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file: `data:<mime>;base64,<data>` or another URI.
    File {
        /// Where the bytes are.
        uri: String,
        /// Their media type.
        mime: String,
        /// A name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

impl Content {
    /// Makes a text piece.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns the text of a text piece.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::File { .. } => None,
        }
    }
}

/// Joins the text pieces of `content` by line ends.
pub fn joined_text(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

/// What a tool returned, after normalisation: `content` is never empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The value of a declared output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What the model is told.
    #[serde(default)]
    pub content: Vec<Content>,
    /// Small facts for user interfaces; never sent to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

/// An expected failure of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "_tag", rename = "Tool.Error")]
#[error("{message}")]
pub struct ToolError {
    /// Text for the model.
    pub message: String,
    /// The cause: `{name?, message}` or any JSON, never a stack trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Small facts for user interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

impl ToolError {
    /// Makes an error of a message alone.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), error: None, metadata: None }
    }
}

/// How a tool is offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolOptions {
    /// Dot-separated namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The action whose rules decide whether the tool is visible; absent means the effective name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// Whether the tool is offered through Code Mode instead of directly.
    pub codemode: bool,
    /// Whether Code Mode always describes it whole.
    #[serde(default)]
    pub pinned: bool,
}

impl ToolOptions {
    /// Options of a tool that the model calls directly.
    pub fn direct() -> Self {
        Self { namespace: None, permission: None, codemode: false, pinned: false }
    }
}

/// A tool that may be advertised as a text-only custom tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Freeform {
    /// The input property that takes the text.
    pub input: String,
    /// The advertised name.
    pub name: String,
}

/// What recovery can say about an interrupted tool call (spec/session.md section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The change is there, whole.
    Applied,
    /// Nothing happened; safe to repeat.
    NotStarted,
    /// What had been done was undone, whole.
    RolledBack,
    /// Files are neither as before nor as planned.
    Diverged,
    /// The command ended; its result is known.
    Finished,
    /// The command was killed.
    Killed,
    /// It may or may not have had an effect.
    Unknown,
    /// A child session was interrupted.
    ChildInterrupted,
}

/// What kind of effects a tool has, stored with each call so that recovery does not need the tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effects {
    /// None: safe to call again.
    #[default]
    None,
    /// Changes files, through the mutation journal.
    Files,
    /// Runs a process, through the process journal.
    Process,
    /// Acts on sessions.
    Session,
    /// Reads from the network.
    Network,
    /// Unknown: an external tool.
    External,
}
