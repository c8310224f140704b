// ---------------------------------------------------------------------------------------------
// 2. Request body
// ---------------------------------------------------------------------------------------------

use std::sync::Arc;

use serde::Serialize;
use serde::ser::SerializeMap as _;
use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::messages::ToolDefinition;

/// The body of a Chat request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChatBody {
    pub(super) model: String,
    pub(super) messages: Vec<ChatMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<ChatTool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Value>,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_retention: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
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
    pub(super) seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

/// `cache_control` of variants with inline marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CacheControl {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum ChatMessage {
    System {
        content: ChatContent,
    },
    User {
        content: ChatContent,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatToolCall>,
        /// The reasoning field under its own name.
        #[serde(flatten)]
        reasoning: JsonObject,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<Vec<Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Tool {
        tool_call_id: String,
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

impl ChatMessage {
    pub(super) fn assistant(content: &str) -> Self {
        Self::Assistant {
            content: Some(content.to_owned()),
            tool_calls: Vec::new(),
            reasoning: JsonObject::new(),
            reasoning_details: None,
            cache_control: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatPart {
    Text {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    File {
        file: FileData,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FileData {
    pub(super) filename: String,
    pub(super) file_data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ChatToolCall {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: CalledFunction,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CalledFunction {
    pub(super) name: String,
    pub(super) arguments: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ChatTool {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

/// A function tool; the definition is shared with the request, not copied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Function {
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) strict: Option<bool>,
}

impl Serialize for Function {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ToolDefinition { name, description, input_schema, .. } = self.definition.as_ref();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("description", description)?;
        map.serialize_entry("parameters", input_schema)?;
        if let Some(strict) = self.strict {
            map.serialize_entry("strict", &strict)?;
        }
        map.end()
    }
}
