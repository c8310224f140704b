//! The request body on the wire. Text borrows from the request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::schema::JsonObject;

/// The body of one request.
#[derive(Debug, Serialize)]
pub struct Body<'r> {
    pub(super) model: &'r str,
    pub(super) input: Vec<Item<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<WireTool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<WireToolChoice<'r>>,
    #[serde(flatten)]
    pub(super) options: BodyOptions<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    pub(super) stream: bool,
}

/// The fields that come from provider options.
#[derive(Debug, Default, Serialize)]
pub(super) struct BodyOptions<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<&'r JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safety_identifier: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<WireStreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_logprobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) truncation: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service_tier: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_retention: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_options: Option<PromptCacheOptions<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include: Option<Vec<&'r str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<Reasoning<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<TextOptions<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context_management: Option<&'r Vec<Value>>,
}

#[derive(Debug, Serialize)]
pub(super) struct WireStreamOptions {
    pub(super) include_obfuscation: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct PromptCacheOptions<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<&'r Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Reasoning<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effort: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<&'r str>,
}

#[derive(Debug, Serialize)]
pub(super) struct TextOptions<'r> {
    pub(super) verbosity: &'r str,
}

/// One input item.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Item<'r> {
    Message(MessageItem<'r>),
    Reasoning(ReasoningItem<'r>),
    Call(CallItem<'r>),
    Output(OutputItem<'r>),
    /// A hosted item, as it came.
    Hosted(&'r Value),
}

/// A message. Without id and phase an assistant message takes the short form, without `type`.
#[derive(Debug, Serialize)]
pub(super) struct MessageItem<'r> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'r str>,
    pub(super) role: &'static str,
    pub(super) content: MessageContent<'r>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<&'r str>,
}

/// What a message or a function output says.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessageContent<'r> {
    Text(Cow<'r, str>),
    Parts(Vec<ContentPart<'r>>),
}

/// One part of a message or a function output.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart<'r> {
    InputText {
        text: Cow<'r, str>,
    },
    OutputText {
        text: &'r str,
    },
    SummaryText {
        text: &'r str,
    },
    InputImage {
        image_url: String,
    },
    InputVideo {
        video_url: String,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'r str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<String>,
    },
}

/// What the model thought.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "reasoning")]
pub(super) struct ReasoningItem<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'r str>,
    pub(super) summary: Vec<ContentPart<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encrypted_content: Option<&'r str>,
}

/// A call.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function_call")]
pub(super) struct CallItem<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'r str>,
    pub(super) call_id: Cow<'r, str>,
    pub(super) name: &'r str,
    pub(super) arguments: String,
}

/// The output of a call.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function_call_output")]
pub(super) struct OutputItem<'r> {
    pub(super) call_id: Cow<'r, str>,
    pub(super) output: MessageContent<'r>,
}

/// A tool: a local one, or a native object of a hosted one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum WireTool<'r> {
    Function(FunctionTool<'r>),
    Native(&'r JsonObject),
}

/// A tool that abide runs.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct FunctionTool<'r> {
    pub(super) name: &'r str,
    pub(super) description: &'r str,
    pub(super) parameters: &'r JsonObject,
    pub(super) strict: bool,
}

/// Which tool may or must be called.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum WireToolChoice<'r> {
    Mode(&'static str),
    Named(NamedTool<'r>),
    Allowed(AllowedTools<'r>),
}

/// A tool by type and, unless it is hosted, name.
#[derive(Debug, Serialize)]
pub(super) struct NamedTool<'r> {
    #[serde(rename = "type")]
    pub(super) kind: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'r str>,
}

/// A choice among some of the tools.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "allowed_tools")]
pub(super) struct AllowedTools<'r> {
    pub(super) mode: &'static str,
    pub(super) tools: Vec<NamedTool<'r>>,
}
