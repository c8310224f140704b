//! The request body on the wire. Text borrows from the request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::protocols::utils::marks::Mark;
use crate::schema::JsonObject;

/// The body of one request.
#[derive(Debug, Serialize)]
pub struct Body<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) anthropic_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<TextBlock<'r>>,
    pub(super) messages: Vec<WireMessage<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<WireTool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<WireToolChoice<'r>>,
    pub(super) stream: bool,
    pub(super) max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_sequences: Option<&'r [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'r JsonObject>,
}

/// Who speaks, in the provider's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WireRole {
    System,
    User,
    Assistant,
}

/// One message.
#[derive(Debug, Serialize)]
pub(super) struct WireMessage<'r> {
    pub(super) role: WireRole,
    pub(super) content: Vec<Block<'r>>,
}

/// One content block; each struct carries its own `type`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Block<'r> {
    Text(TextBlock<'r>),
    Media(MediaBlock<'r>),
    Thinking(ThinkingBlock<'r>),
    Redacted(RedactedBlock<'r>),
    ToolUse(ToolUseBlock<'r>),
    HostedResult(HostedResultBlock<'r>),
    ToolResult(ToolResultBlock<'r>),
}

/// A prompt-cache mark.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CacheControl {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<&'static str>,
}

impl From<Mark> for CacheControl {
    fn from(mark: Mark) -> Self {
        Self { kind: "ephemeral", ttl: mark.ttl }
    }
}

/// Text.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "text")]
pub(super) struct TextBlock<'r> {
    pub(super) text: Cow<'r, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// An image or a document.
#[derive(Debug, Serialize)]
pub(super) struct MediaBlock<'r> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) source: MediaSource<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// Where media comes from.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum MediaSource<'r> {
    Base64 { media_type: String, data: Cow<'r, str> },
    Url { url: Cow<'r, str> },
}

/// Thinking with its signature.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "thinking")]
pub(super) struct ThinkingBlock<'r> {
    pub(super) thinking: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<&'r str>,
}

/// Thinking that only the provider can read.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "redacted_thinking")]
pub(super) struct RedactedBlock<'r> {
    pub(super) data: &'r str,
}

/// A call.
#[derive(Debug, Serialize)]
pub(super) struct ToolUseBlock<'r> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) id: Cow<'r, str>,
    pub(super) name: &'r str,
    pub(super) input: Cow<'r, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// The result of a hosted call.
#[derive(Debug, Serialize)]
pub(super) struct HostedResultBlock<'r> {
    #[serde(rename = "type")]
    pub(super) kind: Cow<'r, str>,
    pub(super) tool_use_id: Cow<'r, str>,
    pub(super) content: Cow<'r, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// The result of a local call.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "tool_result")]
pub(super) struct ToolResultBlock<'r> {
    pub(super) tool_use_id: Cow<'r, str>,
    pub(super) content: ToolResultContent<'r>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// What a tool result says.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ToolResultContent<'r> {
    Text(Cow<'r, str>),
    Blocks(Vec<Block<'r>>),
}

/// A tool: a local one, or a native object of a hosted one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum WireTool<'r> {
    Local(LocalTool<'r>),
    Hosted(HostedTool<'r>),
}

/// A tool that abide runs.
#[derive(Debug, Serialize)]
pub(super) struct LocalTool<'r> {
    pub(super) name: &'r str,
    pub(super) description: &'r str,
    pub(super) input_schema: Cow<'r, JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// A tool that the provider runs.
#[derive(Debug, Serialize)]
pub(super) struct HostedTool<'r> {
    #[serde(flatten)]
    pub(super) object: &'r JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// Which tool may or must be called.
#[derive(Debug, Serialize)]
pub(super) struct WireToolChoice<'r> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disable_parallel_tool_use: Option<bool>,
}

/// Extended thinking.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Thinking {
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<ThinkingDisplay>,
    },
    Disabled,
    Enabled {
        budget_tokens: i64,
    },
}

/// Whether thinking is shown.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ThinkingDisplay {
    Summarized,
    Omitted,
}

/// How hard the model works.
#[derive(Debug, Serialize)]
pub(super) struct OutputConfig<'r> {
    pub(super) effort: &'r str,
}
