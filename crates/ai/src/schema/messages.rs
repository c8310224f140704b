//! Messages, their parts, tools and tool choice.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::ToolCallId;
use super::options::CacheHint;
use super::{JsonObject, ProviderMetadata};

/// One text of the initial privileged prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "text")]
pub struct SystemPart {
    /// The text.
    pub text: String,
    /// Prompt-cache mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheHint>,
    /// Caller data, never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
}

impl SystemPart {
    /// Makes a part from text.
    pub fn make(text: impl Into<String>) -> Self {
        Self { text: text.into(), cache: None, metadata: None }
    }
}

impl From<&str> for SystemPart {
    fn from(text: &str) -> Self {
        Self::make(text)
    }
}

impl From<String> for SystemPart {
    fn from(text: String) -> Self {
        Self::make(text)
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator: a chronological update, it applies from its position on.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Results of tools.
    Tool,
}

impl Role {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Caller id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
    /// Caller data, never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// Provider data of the whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<ProviderMetadata>,
    /// Provider-native fields by namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<JsonObject>,
}

impl Message {
    /// Makes a message of any role.
    pub fn new(role: Role, content: impl Into<Content>) -> Self {
        Self { id: None, role, content: content.into().0, metadata: None, provider_metadata: None, native: None }
    }

    /// Makes a chronological operator update. Never put untrusted text here.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Role::System, content)
    }

    /// Makes a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, content)
    }

    /// Makes an assistant message.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Makes a message of one tool result.
    pub fn tool(result: ToolResultPart) -> Self {
        Self::new(Role::Tool, Part::ToolResult(result))
    }

    /// Makes a user message of one media part.
    pub fn media(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::user(Part::Media(MediaPart::make(media_type, data)))
    }
}

/// Content arguments: a string (one text part), one part or many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content(pub Vec<Part>);

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self(vec![Part::text(text)])
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self(vec![Part::text(text)])
    }
}

impl From<Part> for Content {
    fn from(part: Part) -> Self {
        Self(vec![part])
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts)
    }
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Part {
    /// Text.
    Text(TextPart),
    /// An image, a document or other media.
    Media(MediaPart),
    /// A call of a tool.
    ToolCall(ToolCallPart),
    /// The result of a tool.
    ToolResult(ToolResultPart),
    /// What the model thought.
    Reasoning(ReasoningPart),
}

impl Part {
    /// Makes a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextPart::make(text))
    }

    /// Makes a reasoning part without provider data.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::Reasoning(ReasoningPart { text: text.into(), ..ReasoningPart::default() })
    }

    /// The tag on the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Media(_) => "media",
            Self::ToolCall(_) => "tool-call",
            Self::ToolResult(_) => "tool-result",
            Self::Reasoning(_) => "reasoning",
        }
    }

    /// The prompt-cache mark of this part.
    pub const fn cache(&self) -> Option<CacheHint> {
        match self {
            Self::Text(part) => part.cache,
            Self::Media(part) => part.cache,
            Self::ToolCall(part) => part.cache,
            Self::ToolResult(part) => part.cache,
            Self::Reasoning(part) => part.cache,
        }
    }

    /// Sets the prompt-cache mark of this part.
    pub const fn set_cache(&mut self, hint: Option<CacheHint>) {
        match self {
            Self::Text(part) => part.cache = hint,
            Self::Media(part) => part.cache = hint,
            Self::ToolCall(part) => part.cache = hint,
            Self::ToolResult(part) => part.cache = hint,
            Self::Reasoning(part) => part.cache = hint,
        }
    }

    /// The provider data of this part.
    pub const fn provider_metadata(&self) -> Option<&ProviderMetadata> {
        match self {
            Self::Text(part) => part.provider_metadata.as_ref(),
            Self::Media(part) => part.provider_metadata.as_ref(),
            Self::ToolCall(part) => part.provider_metadata.as_ref(),
            Self::ToolResult(part) => part.provider_metadata.as_ref(),
            Self::Reasoning(part) => part.provider_metadata.as_ref(),
        }
    }
}

/// Declares a part struct with the fields every part may have.
macro_rules! part {
    ($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $type,)+
            /// Prompt-cache mark.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cache: Option<CacheHint>,
            /// Caller data, never sent.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub metadata: Option<JsonObject>,
            /// Provider data to send back, by metadata key.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub provider_metadata: Option<ProviderMetadata>,
        }
    };
}

part! {
    /// Text of a message.
    TextPart {
        /// The text.
        text: String,
    }
}

impl TextPart {
    /// Makes a part from text.
    pub fn make(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

part! {
    /// An image, a document or other media.
    MediaPart {
        /// The media type.
        media_type: String,
        /// Base64, a `data:` URL, or an `http(s)` URL.
        data: String,
        /// The name of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
    }
}

impl MediaPart {
    /// Makes a part from base64, a `data:` URL or an `http(s)` URL.
    pub fn make(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self { media_type: media_type.into(), data: data.into(), ..Self::default() }
    }

    /// Makes a part from bytes.
    pub fn from_bytes(media_type: impl Into<String>, bytes: &[u8]) -> Self {
        use base64::Engine as _;
        Self::make(media_type, base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

part! {
    /// A call of a tool.
    ToolCallPart {
        /// The call id.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// The namespace of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The arguments.
        #[serde(default)]
        input: Value,
        /// Whether the provider runs the tool itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_executed: Option<bool>,
    }
}

impl ToolCallPart {
    /// Makes a local call.
    pub fn make(id: impl Into<ToolCallId>, name: impl Into<String>, input: Value) -> Self {
        Self { id: id.into(), name: name.into(), input, ..Self::default() }
    }

    /// Whether the provider runs the tool itself.
    pub const fn is_provider_executed(&self) -> bool {
        matches!(self.provider_executed, Some(true))
    }
}

part! {
    /// The result of a tool.
    ToolResultPart {
        /// The call id.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// The namespace of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The result.
        result: ToolResultValue,
        /// Whether the provider ran the tool itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_executed: Option<bool>,
    }
}

impl ToolResultPart {
    /// Makes the result of a local call.
    pub fn make(id: impl Into<ToolCallId>, name: impl Into<String>, result: ToolResultValue) -> Self {
        Self { id: id.into(), name: name.into(), result, ..Self::default() }
    }

    /// Whether the provider ran the tool itself.
    pub const fn is_provider_executed(&self) -> bool {
        matches!(self.provider_executed, Some(true))
    }
}

part! {
    /// What the model thought.
    ReasoningPart {
        /// The visible text.
        text: String,
        /// An opaque signature or ciphertext the caller keeps outside provider metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encrypted: Option<String>,
    }
}

pub use abide_schema::tool::Content as ToolContent;

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "kebab-case")]
pub enum ToolResultValue {
    /// Any JSON.
    Json(Value),
    /// Any JSON, normally a string.
    Text(Value),
    /// A failure the model shall see.
    Error(Value),
    /// Text and files.
    Content(Vec<ToolContent>),
}

impl Default for ToolResultValue {
    fn default() -> Self {
        Self::Json(Value::Null)
    }
}

impl ToolResultValue {
    /// Wraps a value: an already tagged result is taken as it is, anything else becomes `json`.
    pub fn make(value: Value) -> Self {
        Self::make_as(value, "json")
    }

    /// Wraps a value under a tag (`json`, `text`, `error` or `content`; other words mean `json`).
    /// An already tagged result is taken as it is; `content` of anything but a list is empty.
    pub fn make_as(value: Value, kind: &str) -> Self {
        if let Some(object) = value.as_object()
            && let (Some(Value::String(tag)), Some(inner)) = (object.get("type"), object.get("value"))
            && matches!(tag.as_str(), "json" | "text" | "error" | "content")
        {
            let (tag, inner) = (tag.clone(), inner.clone());
            return Self::tagged(inner, &tag);
        }
        Self::tagged(value, kind)
    }

    fn tagged(value: Value, kind: &str) -> Self {
        match kind {
            "text" => Self::Text(value),
            "error" => Self::Error(value),
            "content" => Self::Content(serde_json::from_value(value).unwrap_or_default()),
            _ => Self::Json(value),
        }
    }

    /// Makes a text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Value::String(text.into()))
    }

    /// Makes an error result.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(Value::String(message.into()))
    }

    /// Whether this is a failure.
    pub const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// A tool's output as structured value and content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The value for programs.
    pub structured: Value,
    /// The items for the model.
    #[serde(default)]
    pub content: Vec<ToolContent>,
}

impl ToolOutput {
    /// The result value the model sees.
    pub fn to_result(&self) -> ToolResultValue {
        match self.content.as_slice() {
            [] => ToolResultValue::Json(self.structured.clone()),
            [ToolContent::Text { text }] => ToolResultValue::text(text.clone()),
            _ => ToolResultValue::Content(self.content.clone()),
        }
    }

    /// The output a result value stands for; `None` for a failure.
    pub fn from_result(result: &ToolResultValue) -> Option<Self> {
        let empty = || Value::Object(JsonObject::new());
        match result {
            ToolResultValue::Json(value) => Some(Self { structured: value.clone(), content: Vec::new() }),
            ToolResultValue::Text(value) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                Some(Self { structured: empty(), content: vec![ToolContent::Text { text }] })
            }
            ToolResultValue::Content(items) => Some(Self { structured: empty(), content: items.clone() }),
            ToolResultValue::Error(_) => None,
        }
    }
}

/// A tool offered to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "tool", rename_all = "camelCase")]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: JsonObject,
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonObject>,
    /// Prompt-cache mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheHint>,
    /// Caller data, never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// Native tool objects by metadata key (hosted tools).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<JsonObject>,
}

impl ToolDefinition {
    /// Makes a definition; a schema that is not an object is taken as an empty one.
    pub fn make(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        let input_schema = match input_schema {
            Value::Object(schema) => schema,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
        };
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            cache: None,
            metadata: None,
            native: None,
        }
    }
}

/// Which tool the model may or must call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolChoice {
    /// The mode.
    #[serde(rename = "type")]
    pub mode: ToolChoiceMode,
    /// The tool of mode `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Ask for at most one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_parallel_tool_use: Option<bool>,
}

/// The mode of a tool choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolChoiceMode {
    /// The model decides.
    Auto,
    /// No calls.
    None,
    /// At least one call.
    Required,
    /// The named tool.
    Tool,
}

impl ToolChoice {
    /// Makes a choice from a word: a mode, else the name of a tool.
    pub fn make(word: &str) -> Self {
        match word {
            "auto" => Self::mode(ToolChoiceMode::Auto),
            "none" => Self::mode(ToolChoiceMode::None),
            "required" => Self::mode(ToolChoiceMode::Required),
            name => Self::named(name),
        }
    }

    /// Forces a tool by name, also when the name equals a mode.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::mode(ToolChoiceMode::Tool) }
    }

    const fn mode(mode: ToolChoiceMode) -> Self {
        Self { mode, name: None, disable_parallel_tool_use: None }
    }
}

impl From<&ToolDefinition> for ToolChoice {
    fn from(tool: &ToolDefinition) -> Self {
        Self::named(tool.name.clone())
    }
}
