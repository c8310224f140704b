// ---------------------------------------------------------------------------------------------
// 2. Request body
// ---------------------------------------------------------------------------------------------

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::schema::JsonObject;

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MistralBody<'r> {
    pub(super) model: &'r str,
    pub(super) messages: Vec<MistralMessage<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<MistralTool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) random_seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) safe_prompt: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) document_image_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) document_page_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_mode: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum MistralMessage<'r> {
    System {
        content: Cow<'r, str>,
    },
    User {
        content: MistralContent<'r>,
    },
    Assistant {
        content: MistralContent<'r>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<MistralCall<'r>>,
        /// The model goes on from this text.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        prefix: bool,
    },
    Tool {
        tool_call_id: String,
        name: &'r str,
        content: MistralContent<'r>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum MistralContent<'r> {
    Text(Cow<'r, str>),
    Items(Vec<MistralItem<'r>>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MistralItem<'r> {
    Text { text: Cow<'r, str> },
    Thinking { thinking: &'r Value },
    ImageUrl { image_url: String },
    DocumentUrl { document_url: String },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MistralCall<'r> {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: CalledFunction<'r>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CalledFunction<'r> {
    pub(super) name: &'r str,
    pub(super) arguments: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MistralTool<'r> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function<'r>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Function<'r> {
    pub(super) name: &'r str,
    pub(super) description: &'r str,
    pub(super) parameters: &'r JsonObject,
    pub(super) strict: bool,
}
