//! Building the request.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::body::{
    Body, CallItem, ContentPart, FunctionTool, Item, MessageContent, MessageItem, OutputItem, ReasoningItem, WireTool,
};
use super::dialect::Dialect;
use super::{ids, options};
use crate::protocols::shared::{self, Media};
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{
    MediaPart, Message, Part, Role, TextPart, ToolCallPart, ToolContent, ToolDefinition, ToolResultPart,
    ToolResultValue,
};
use crate::schema::model::SystemPlacement;
use crate::schema::request::LLMRequest;

/// Builds the body of a request.
#[tracing::instrument(name = "OpenResponses.fromRequest", level = "debug", skip_all)]
pub(super) fn from_request<'r>(request: &'r LLMRequest, dialect: &dyn Dialect) -> Result<Body<'r>, AIError> {
    let generation = request.generation.as_ref();
    let key = request.model.metadata_key();
    let options = options::body_options(request, dialect);
    let placement = request.model.compatibility.system_placement.unwrap_or(SystemPlacement::Instructions);
    let system = (!request.system.is_empty()).then(|| shared::join_text(&request.system));
    let mut lowering = Lowering {
        key,
        dialect,
        is_stored: options.store == Some(true),
        hosted_ids: BTreeSet::new(),
        input: Vec::with_capacity(request.messages.len().saturating_add(1)),
    };
    let instructions = match placement {
        SystemPlacement::Instructions => system,
        SystemPlacement::Input => {
            lowering.input.extend(system.map(|text| plain("system", text)));
            None
        }
    };
    for message in &request.messages {
        lowering.message(message)?;
    }
    drop_bare_reasoning(&mut lowering.input);
    Ok(Body {
        model: request.model.id.as_str(),
        input: lowering.input,
        instructions,
        tools: request.tools.iter().map(|tool| tool_definition(tool, key, dialect)).collect::<Result<_, _>>()?,
        tool_choice: options::tool_choice(request, key, dialect)?,
        options,
        prompt_cache_key: shared::prompt_cache_key(request),
        max_output_tokens: generation.and_then(|generation| generation.max_tokens),
        parallel_tool_calls: options::parallel_tool_calls(request),
        temperature: generation.and_then(|generation| generation.temperature),
        top_p: generation.and_then(|generation| generation.top_p),
        presence_penalty: generation.and_then(|generation| generation.presence_penalty),
        frequency_penalty: generation.and_then(|generation| generation.frequency_penalty),
        stream: true,
    })
}

fn tool_definition<'r>(tool: &'r ToolDefinition, key: &str, dialect: &dyn Dialect) -> Result<WireTool<'r>, AIError> {
    if let Some(native) = tool.native.as_ref().and_then(|native| native.get(key)) {
        return dialect.native_tool(tool, native).map(WireTool::Native);
    }
    Ok(WireTool::Function(FunctionTool {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.input_schema,
        strict: false,
    }))
}

struct Lowering<'r, 'd> {
    /// The namespace in provider metadata.
    key: &'r str,
    dialect: &'d dyn Dialect,
    /// Whether the provider keeps items, so that reasoning without ciphertext can be looked up.
    is_stored: bool,
    /// Hosted items that were sent.
    hosted_ids: BTreeSet<&'r str>,
    input: Vec<Item<'r>>,
}

impl<'r> Lowering<'r, '_> {
    fn message(&mut self, message: &'r Message) -> Result<(), AIError> {
        match message.role {
            Role::System => {
                let text = shared::system_update_text(self.dialect.name(), message)?;
                if !is_blank(&text) {
                    self.input.push(plain("developer", text));
                }
                Ok(())
            }
            Role::User => self.user(message),
            Role::Assistant => self.assistant(message),
            Role::Tool => self.tool(message),
        }
    }

    fn user(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut parts = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text(text) if is_blank(&text.text) => {}
                Part::Text(text) => parts.push(ContentPart::InputText { text: Cow::Borrowed(&text.text) }),
                Part::Media(part) => parts.push(self.user_media(part)?),
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                    return Err(shared::unsupported_content(self.dialect.name(), Role::User, &["text", "media"]));
                }
            }
        }
        self.push_user(parts);
        Ok(())
    }

    fn push_user(&mut self, parts: Vec<ContentPart<'r>>) {
        if !parts.is_empty() {
            let content = MessageContent::Parts(parts);
            self.input.push(Item::Message(MessageItem { kind: None, id: None, role: "user", content, phase: None }));
        }
    }

    fn user_media(&self, part: &'r MediaPart) -> Result<ContentPart<'r>, AIError> {
        let media = shared::normalize_media(self.dialect.name(), part)?;
        if media.mime().starts_with("video/") {
            return Err(AIError::invalid_request(format!(
                "{} does not support media type {}",
                self.dialect.name(),
                media.mime()
            )));
        }
        Ok(media_part(&media, part.filename.as_deref()))
    }

    fn assistant(&mut self, message: &'r Message) -> Result<(), AIError> {
        // Items of one message may merge with each other, never with those of another.
        let mut items = AssistantItems::new(self.input.len());
        for part in &message.content {
            let metadata = part.provider_metadata().and_then(|metadata| metadata.get(self.key));
            match part {
                Part::Text(text) if is_blank(&text.text) => {}
                Part::Text(text) => self.assistant_text(&mut items, text, metadata),
                Part::Reasoning(reasoning) => {
                    if let Some(metadata) = metadata {
                        self.reasoning(&mut items, &reasoning.text, metadata);
                    }
                }
                Part::ToolCall(call) if call.is_provider_executed() => {}
                Part::ToolCall(call) => self.call(call, metadata),
                Part::ToolResult(result) if result.is_provider_executed() => {
                    self.hosted_result(result, metadata)?;
                }
                Part::ToolResult(_) | Part::Media(_) => {
                    return Err(shared::unsupported_content(
                        self.dialect.name(),
                        Role::Assistant,
                        &["text", "reasoning", "tool-call", "hosted tool-result"],
                    ));
                }
            }
        }
        // Reasoning the provider cannot look up is of no use without its ciphertext.
        if !self.is_stored {
            let mut index = 0;
            self.input.retain(|item| {
                let is_own = index >= items.first;
                index += 1;
                !is_own || !matches!(item, Item::Reasoning(item) if item.encrypted_content.is_none())
            });
        }
        Ok(())
    }

    fn assistant_text(&mut self, items: &mut AssistantItems<'r>, part: &'r TextPart, metadata: Option<&'r JsonObject>) {
        let text = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str);
        let (id, phase) = (text("itemId").and_then(ids::item_id), text("phase"));
        let output = ContentPart::OutputText { text: &part.text };
        if self.input.len() > items.first
            && let Some(Item::Message(message)) = self.input.last_mut()
            && message.role == "assistant"
            && (message.id, message.phase) == (id, phase)
            && let MessageContent::Parts(parts) = &mut message.content
        {
            parts.push(output);
            return;
        }
        self.input.push(Item::Message(MessageItem {
            kind: (id.is_some() || phase.is_some()).then_some("message"),
            id,
            role: "assistant",
            content: MessageContent::Parts(vec![output]),
            phase,
        }));
    }

    fn reasoning(&mut self, items: &mut AssistantItems<'r>, text: &'r str, metadata: &'r JsonObject) {
        let raw_id = metadata.get("itemId").and_then(Value::as_str);
        let encrypted = metadata.get("reasoningEncryptedContent").and_then(Value::as_str);
        let summary = (!text.is_empty()).then_some(ContentPart::SummaryText { text });
        let known = raw_id.and_then(|id| items.reasoning.iter().find(|(known, _)| *known == id));
        if let Some((_, index)) = known
            && let Some(Item::Reasoning(item)) = self.input.get_mut(*index)
        {
            item.summary.extend(summary);
            item.encrypted_content = encrypted.or(item.encrypted_content);
            return;
        }
        items.reasoning.extend(raw_id.map(|id| (id, self.input.len())));
        self.input.push(Item::Reasoning(ReasoningItem {
            id: raw_id.and_then(ids::item_id),
            summary: summary.into_iter().collect(),
            encrypted_content: encrypted,
        }));
    }

    fn call(&mut self, call: &'r ToolCallPart, metadata: Option<&'r JsonObject>) {
        let id = metadata.and_then(|metadata| metadata.get("itemId")).and_then(Value::as_str);
        let arguments = if call.input.is_null() { "{}".to_owned() } else { shared::json_text(&call.input) };
        self.input.push(Item::Call(CallItem {
            id: id.and_then(ids::item_id),
            call_id: ids::call_id(call.id.as_str()),
            name: &call.name,
            arguments,
        }));
    }

    fn hosted_result(&mut self, result: &'r ToolResultPart, metadata: Option<&'r JsonObject>) -> Result<(), AIError> {
        let item_id =
            metadata.and_then(|metadata| metadata.get("itemId")).and_then(Value::as_str).unwrap_or(result.id.as_str());
        if let Some(item) = self.hosted_item(&result.result, item_id) {
            if self.hosted_ids.insert(item_id) {
                self.input.push(Item::Hosted(item));
            }
            return Ok(());
        }
        let parts = match &result.result {
            ToolResultValue::Content(items) => self.tool_content(items)?,
            ToolResultValue::Json(_) | ToolResultValue::Text(_) | ToolResultValue::Error(_) => {
                let text = shared::tool_result_text(result);
                if is_blank(&text) { Vec::new() } else { vec![ContentPart::InputText { text }] }
            }
        };
        self.push_user(parts);
        Ok(())
    }

    /// The hosted item that a result holds, if it is one of this protocol and the one of its id.
    fn hosted_item(&self, result: &'r ToolResultValue, item_id: &str) -> Option<&'r Value> {
        let ToolResultValue::Json(item) = result else { return None };
        let is_known = item.get("type").and_then(Value::as_str).is_some_and(|kind| self.dialect.is_hosted(kind));
        (is_known && item.get("id").and_then(Value::as_str) == Some(item_id)).then_some(item)
    }

    fn tool(&mut self, message: &'r Message) -> Result<(), AIError> {
        for part in &message.content {
            let Part::ToolResult(result) = part else {
                return Err(shared::unsupported_content(self.dialect.name(), Role::Tool, &["tool-result"]));
            };
            let output = match &result.result {
                ToolResultValue::Content(items) => {
                    let parts = self.tool_content(items)?;
                    if parts.is_empty() {
                        MessageContent::Text(Cow::Borrowed(""))
                    } else {
                        MessageContent::Parts(parts)
                    }
                }
                ToolResultValue::Json(_) | ToolResultValue::Text(_) | ToolResultValue::Error(_) => {
                    MessageContent::Text(shared::tool_result_text(result))
                }
            };
            self.input.push(Item::Output(OutputItem { call_id: ids::call_id(result.id.as_str()), output }));
        }
        Ok(())
    }

    fn tool_content(&self, items: &'r [ToolContent]) -> Result<Vec<ContentPart<'r>>, AIError> {
        let mut parts = Vec::with_capacity(items.len());
        for item in items {
            match item {
                ToolContent::Text { text } if is_blank(text) => {}
                ToolContent::Text { text } => parts.push(ContentPart::InputText { text: Cow::Borrowed(text) }),
                ToolContent::File { uri, mime, name } => {
                    let media = shared::normalize_tool_file(self.dialect.name(), mime, uri)?;
                    parts.push(media_part(&media, name.as_deref()));
                }
            }
        }
        Ok(parts)
    }
}

/// What is known of the items of one assistant message.
struct AssistantItems<'r> {
    /// The position of its first item.
    first: usize,
    /// Ids of reasoning items and where they are.
    reasoning: Vec<(&'r str, usize)>,
}

impl AssistantItems<'_> {
    const fn new(first: usize) -> Self {
        Self { first, reasoning: Vec::new() }
    }
}

fn plain<'r>(role: &'static str, text: String) -> Item<'r> {
    let content = MessageContent::Text(Cow::Owned(text));
    Item::Message(MessageItem { kind: None, id: None, role, content, phase: None })
}

fn media_part<'r>(media: &Media, name: Option<&'r str>) -> ContentPart<'r> {
    if media.is_image() {
        return ContentPart::InputImage { image_url: media.url() };
    }
    if media.mime().starts_with("video/") {
        return ContentPart::InputVideo { video_url: media.url() };
    }
    match media {
        Media::Inline { .. } => {
            let fallback = if media.is_pdf() { "document.pdf" } else { "file" };
            ContentPart::InputFile {
                filename: Some(name.unwrap_or(fallback)),
                file_data: Some(media.url()),
                file_url: None,
            }
        }
        Media::Url { url, .. } => {
            ContentPart::InputFile { filename: None, file_data: None, file_url: Some(url.clone()) }
        }
    }
}

/// Drops reasoning items that no item of the same turn follows: the provider refuses them, and an
/// interrupted answer may leave one behind.
fn drop_bare_reasoning(input: &mut Vec<Item<'_>>) {
    let mut is_followed = false;
    let mut keep: Vec<bool> = input
        .iter()
        .rev()
        .map(|item| match item {
            Item::Reasoning(_) => is_followed,
            Item::Call(_) | Item::Hosted(_) => {
                is_followed = true;
                true
            }
            Item::Message(message) => {
                is_followed = message.role == "assistant";
                true
            }
            Item::Output(_) => {
                is_followed = false;
                true
            }
        })
        .collect();
    input.retain(|_| keep.pop().unwrap_or(true));
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
