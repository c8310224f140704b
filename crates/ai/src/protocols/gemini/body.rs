//! The request body on the wire. Text borrows from the request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::schema::JsonObject;

/// The body of one request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Body<'r> {
    pub(super) contents: Vec<Turn<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_instruction: Option<Instruction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<[ToolList<'r>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'r>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    pub(super) generation_config: GenerationConfig<'r>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) safety_settings: Vec<SafetySetting<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_content: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service_tier: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<&'r JsonObject>,
}

/// The system prompt.
#[derive(Debug, Serialize)]
pub(super) struct Instruction {
    pub(super) parts: [TextOnly; 1],
}

/// A part of text.
#[derive(Debug, Serialize)]
pub(super) struct TextOnly {
    pub(super) text: String,
}

/// Who speaks, in the provider's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WireRole {
    User,
    Model,
}

/// One turn.
#[derive(Debug, Serialize)]
pub(super) struct Turn<'r> {
    pub(super) role: WireRole,
    pub(super) parts: Vec<WirePart<'r>>,
}

/// One part; which it is shows in its fields.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum WirePart<'r> {
    Text(TextPart<'r>),
    Media(MediaPart),
    Call(CallPart<'r>),
    Response(ResponsePart<'r>),
}

/// Text or a thought.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TextPart<'r> {
    pub(super) text: Cow<'r, str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<&'r str>,
}

/// Inline media.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MediaPart {
    pub(super) inline_data: InlineData,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InlineData {
    pub(super) mime_type: String,
    pub(super) data: String,
}

/// A call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallPart<'r> {
    pub(super) function_call: FunctionCall<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<&'r str>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'r str>,
    pub(super) name: &'r str,
    pub(super) args: Cow<'r, Value>,
}

/// The result of a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponsePart<'r> {
    pub(super) function_response: FunctionResponse<'r>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'r str>,
    pub(super) name: &'r str,
    pub(super) response: Response<'r>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<MediaPart>,
}

#[derive(Debug, Serialize)]
pub(super) struct Response<'r> {
    pub(super) name: &'r str,
    pub(super) content: Cow<'r, str>,
}

/// The tools of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolList<'r> {
    pub(super) function_declarations: Vec<Declaration<'r>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Declaration<'r> {
    pub(super) name: &'r str,
    pub(super) description: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<&'r JsonObject>,
}

/// Which tool may or must be called.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'r> {
    pub(super) function_calling_config: CallingConfig<'r>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallingConfig<'r> {
    pub(super) mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allowed_function_names: Option<[&'r str; 1]>,
}

/// Sampling, length and thinking.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerationConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_sequences: Option<&'r [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_config: Option<ThinkingConfig<'r>>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How much the model thinks, and whether it shows.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_budget: Option<i64>,
    pub(super) include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_level: Option<&'r str>,
}

#[derive(Debug, Serialize)]
pub(super) struct SafetySetting<'r> {
    pub(super) category: &'r str,
    pub(super) threshold: &'r str,
}
