//! The request body on the wire. Text borrows from the request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::protocols::utils::marks::Mark;
use crate::schema::JsonObject;

/// The body of one request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Body<'r> {
    pub(super) model_id: &'r str,
    pub(super) messages: Vec<WireMessage<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<Block<'r>>,
    #[serde(skip_serializing_if = "InferenceConfig::is_empty")]
    pub(super) inference_config: InferenceConfig<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'r>>,
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub(super) additional_model_request_fields: JsonObject,
}

/// Who speaks, in the provider's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WireRole {
    User,
    Assistant,
}

/// One message.
#[derive(Debug, Serialize)]
pub(super) struct WireMessage<'r> {
    pub(super) role: WireRole,
    pub(super) content: Vec<Block<'r>>,
}

/// One content block, under the name of its kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'r> {
    Text(Cow<'r, str>),
    Json(Cow<'r, Value>),
    Image(Image),
    Document(Document),
    ReasoningContent(Reasoning<'r>),
    ToolUse(ToolUse<'r>),
    ToolResult(ToolResult<'r>),
    CachePoint(CachePoint),
}

/// A prompt-cache mark.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl From<Mark> for CachePoint {
    fn from(mark: Mark) -> Self {
        Self { kind: "default", ttl: mark.ttl }
    }
}

/// An image.
#[derive(Debug, Serialize)]
pub(super) struct Image {
    pub(super) format: &'static str,
    pub(super) source: Source,
}

/// A document.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) name: String,
    pub(super) source: Source,
}

/// Inline bytes, as base64.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    pub(super) bytes: String,
}

/// What the model thought.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reasoning<'r> {
    ReasoningText(ReasoningText<'r>),
    RedactedContent(&'r str),
}

#[derive(Debug, Serialize)]
pub(super) struct ReasoningText<'r> {
    pub(super) text: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<&'r str>,
}

/// A call.
#[derive(Debug, Serialize)]
pub(super) struct ToolUse<'r> {
    #[serde(rename = "toolUseId")]
    pub(super) id: Cow<'r, str>,
    pub(super) name: &'r str,
    pub(super) input: Cow<'r, Value>,
}

/// The result of a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult<'r> {
    pub(super) tool_use_id: Cow<'r, str>,
    pub(super) content: Vec<Block<'r>>,
    pub(super) status: &'static str,
}

/// Sampling and length.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InferenceConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_sequences: Option<&'r [String]>,
}

impl InferenceConfig<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The tools of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'r> {
    pub(super) tools: Vec<Tool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice<'r>>,
}

/// A tool, or a mark after one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Tool<'r> {
    ToolSpec(ToolSpec<'r>),
    CachePoint(CachePoint),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolSpec<'r> {
    pub(super) name: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'r str,
    pub(super) input_schema: InputSchema<'r>,
}

#[derive(Debug, Serialize)]
pub(super) struct InputSchema<'r> {
    pub(super) json: &'r JsonObject,
}

/// Which tool may or must be called.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ToolChoice<'r> {
    Auto {},
    Any {},
    Tool { name: &'r str },
}
