//! Building the request.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::body::{
    Block, Body, CacheControl, HostedResultBlock, HostedTool, LocalTool, MediaBlock, MediaSource, OutputConfig,
    RedactedBlock, TextBlock, Thinking, ThinkingBlock, ThinkingDisplay, ToolResultBlock, ToolResultContent,
    ToolUseBlock, WireMessage, WireRole, WireTool, WireToolChoice,
};
use super::property_names::KeyMaps;
use super::system_updates::supports_system_updates;
use super::{NAME, Service, VERTEX_VERSION};
use crate::protocols::shared::{self, Choice, Media};
use crate::protocols::utils::image_size::image_size;
use crate::protocols::utils::marks::Marks;
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{
    MediaPart, Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolContent, ToolDefinition, ToolResultPart,
    ToolResultValue,
};
use crate::schema::request::LLMRequest;

/// The output cap when neither the call nor the model names one; the wire format needs one.
const DEFAULT_MAX_TOKENS: u64 = 32_000;
/// The smallest thinking budget the provider takes.
const MIN_THINKING_BUDGET: i64 = 1024;
/// The most images of a request whose sides may have the full length.
const MANY_IMAGES: usize = 20;
/// The longest side of an image, in pixels.
const MAX_SIDE: u32 = 8000;
/// The same in a request with more than [`MANY_IMAGES`].
const MAX_SIDE_AMONG_MANY: u32 = 2000;
/// What a silent tool says; the provider refuses empty content.
const NO_OUTPUT: &str = "(no output)";
/// The type of a call that the provider runs itself.
const HOSTED_CALL: &str = "server_tool_use";

/// Builds the body of a request.
#[tracing::instrument(name = "AnthropicMessages.fromRequest", level = "debug", skip_all)]
pub(super) fn from_request(request: &LLMRequest, service: Service) -> Result<Body<'_>, AIError> {
    let generation = request.generation.as_ref();
    let max_tokens = request.effective_max_tokens().unwrap_or(DEFAULT_MAX_TOKENS);
    let mut lowering = Lowering {
        key: request.model.metadata_key(),
        are_signatures_required: request.model.compatibility.require_signature.unwrap_or(true),
        are_updates_native: supports_system_updates(&request.model),
        key_maps: KeyMaps::of(&request.tools),
        marks: Marks::default(),
        max_side: if n_images(request) > MANY_IMAGES { MAX_SIDE_AMONG_MANY } else { MAX_SIDE },
        unanswered: BTreeSet::new(),
        messages: Vec::new(),
    };
    // Marks are spent in this order: tools, system, messages.
    let tools = lowering.tools(request)?;
    let system = lowering.system(request);
    lowering.history(request)?;
    lowering.marks.warn_about_surplus();
    Ok(Body {
        model: (service == Service::Anthropic).then_some(request.model.id.as_str()),
        anthropic_version: (service == Service::Vertex).then_some(VERTEX_VERSION),
        system,
        messages: lowering.messages,
        tool_choice: if tools.is_empty() { None } else { tool_choice(request)? },
        tools,
        stream: true,
        max_tokens,
        temperature: generation.and_then(|generation| generation.temperature),
        top_p: generation.and_then(|generation| generation.top_p),
        top_k: generation.and_then(|generation| generation.top_k),
        stop_sequences: generation.and_then(|generation| generation.stop.as_deref()),
        thinking: thinking(request, max_tokens)?,
        output_config: request.option("effort").and_then(Value::as_str).map(|effort| OutputConfig { effort }),
        metadata: request.option("metadata").and_then(Value::as_object),
    })
}

struct Lowering<'r> {
    /// The namespace in provider metadata.
    key: &'r str,
    are_signatures_required: bool,
    are_updates_native: bool,
    key_maps: KeyMaps,
    marks: Marks,
    /// The longest side of an image that is sent.
    max_side: u32,
    /// Local calls without a result so far.
    unanswered: BTreeSet<&'r str>,
    messages: Vec<WireMessage<'r>>,
}

impl<'r> Lowering<'r> {
    fn tools(&mut self, request: &'r LLMRequest) -> Result<Vec<WireTool<'r>>, AIError> {
        request.tools.iter().map(|tool| self.tool_definition(tool)).collect()
    }

    fn tool_definition(&mut self, tool: &'r ToolDefinition) -> Result<WireTool<'r>, AIError> {
        let cache_control = self.marks.take(tool.cache);
        let Some(native) = tool.native.as_ref().and_then(|native| native.get(self.key)) else {
            return Ok(WireTool::Local(LocalTool {
                name: &tool.name,
                description: &tool.description,
                input_schema: self.key_maps.schema(tool),
                cache_control,
            }));
        };
        match native.as_object() {
            Some(object) if object.get("type").is_some_and(Value::is_string) => {
                Ok(WireTool::Hosted(HostedTool { object, cache_control }))
            }
            Some(_) | None => {
                Err(AIError::invalid_request(format!("{NAME} native tool {} must be an object with a type", tool.name)))
            }
        }
    }

    fn system(&mut self, request: &'r LLMRequest) -> Vec<TextBlock<'r>> {
        request
            .system
            .iter()
            .filter(|part| !is_blank(&part.text))
            .map(|part| TextBlock { text: Cow::Borrowed(&part.text), cache_control: self.marks.take(part.cache) })
            .collect()
    }

    fn history(&mut self, request: &'r LLMRequest) -> Result<(), AIError> {
        let messages = &request.messages;
        for (index, message) in messages.iter().enumerate() {
            match message.role {
                Role::System => {
                    let before = index.checked_sub(1).and_then(|index| messages.get(index));
                    let after = messages.get(index.saturating_add(1));
                    let is_alone = before.is_none_or(|before| before.role != Role::System);
                    let is_last = after.is_none_or(|after| after.role == Role::Assistant);
                    self.system_update(message, is_alone && is_last)?;
                }
                Role::User => self.user(message)?,
                Role::Assistant => self.assistant(message)?,
                Role::Tool => self.tool(message)?,
            }
        }
        self.trim_trailing_thinking();
        Ok(())
    }

    /// An operator update, in its native form if its neighbours allow it.
    fn system_update(&mut self, message: &'r Message, may_be_native: bool) -> Result<(), AIError> {
        if !self.unanswered.is_empty() {
            return Err(AIError::invalid_request(format!(
                "{NAME} system updates cannot split a local tool call from its tool result"
            )));
        }
        let text = shared::system_update_text(NAME, message)?;
        if is_blank(&text) {
            return Ok(());
        }
        let hint = message.content.iter().rev().find_map(Part::cache);
        let cache_control = self.marks.take(hint);
        self.trim_trailing_thinking();
        if self.are_updates_native && may_be_native && self.messages.last().is_some_and(may_precede_update) {
            let mut content: Vec<_> = message
                .content
                .iter()
                .filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None })
                .filter(|part| !is_blank(&part.text))
                .map(|part| TextBlock { text: Cow::Borrowed(&part.text), cache_control: None })
                .collect();
            if let Some(last) = content.last_mut() {
                last.cache_control = cache_control;
            }
            let content = content.into_iter().map(Block::Text).collect();
            self.messages.push(WireMessage { role: WireRole::System, content });
            return Ok(());
        }
        let text = Cow::Owned(shared::wrap_system_update(&text));
        let block = Block::Text(TextBlock { text, cache_control });
        match self.messages.last_mut() {
            Some(last) if last.role == WireRole::User => last.content.push(block),
            Some(_) | None => self.push(WireRole::User, vec![block]),
        }
        Ok(())
    }

    fn user(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut content = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text(text) => content.extend(self.text(text)),
                Part::Media(part) => {
                    let media = shared::normalize_media(NAME, part)?;
                    content.push(self.media_part(part, media)?);
                }
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                    return Err(shared::unsupported_content(NAME, Role::User, &["text", "media"]));
                }
            }
        }
        self.push(WireRole::User, content);
        Ok(())
    }

    fn assistant(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut content = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text(text) => {
                    if is_blank(&text.text) && self.metadata(part).is_some() {
                        return Err(AIError::invalid_request(format!(
                            "{NAME} cannot send blank assistant text with provider metadata"
                        )));
                    }
                    content.extend(self.text(text));
                }
                Part::Reasoning(reasoning) => content.extend(self.reasoning(part, reasoning)),
                Part::ToolCall(call) => content.push(self.tool_call(call)),
                Part::ToolResult(result) if result.is_provider_executed() => {
                    content.push(self.hosted_result(part, result)?);
                }
                Part::ToolResult(_) | Part::Media(_) => {
                    return Err(shared::unsupported_content(
                        NAME,
                        Role::Assistant,
                        &["text", "reasoning", "tool-call", "hosted tool-result"],
                    ));
                }
            }
        }
        self.trim_trailing_thinking();
        self.push(WireRole::Assistant, content);
        Ok(())
    }

    fn tool(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut content = Vec::with_capacity(message.content.len());
        for part in &message.content {
            let Part::ToolResult(result) = part else {
                return Err(shared::unsupported_content(NAME, Role::Tool, &["tool-result"]));
            };
            self.unanswered.remove(result.id.as_str());
            content.push(Block::ToolResult(ToolResultBlock {
                tool_use_id: scrub(result.id.as_str()),
                content: tool_result(result, self.max_side)?,
                is_error: result.result.is_error(),
                cache_control: self.marks.take(result.cache),
            }));
        }
        match self.messages.last_mut() {
            Some(last) if last.role == WireRole::User && is_only_results(&last.content) => {
                last.content.append(&mut content);
            }
            Some(_) | None => self.push(WireRole::User, content),
        }
        Ok(())
    }

    fn push(&mut self, role: WireRole, content: Vec<Block<'r>>) {
        if content.is_empty() {
            return;
        }
        if role == WireRole::User {
            self.trim_trailing_thinking();
        }
        self.messages.push(WireMessage { role, content });
    }

    /// The provider refuses an assistant message that ends in thinking, which is what an interrupted
    /// answer may leave behind.
    fn trim_trailing_thinking(&mut self) {
        while let Some(last) = self.messages.last_mut() {
            if last.role != WireRole::Assistant {
                return;
            }
            while matches!(last.content.last(), Some(Block::Thinking(_) | Block::Redacted(_))) {
                last.content.pop();
            }
            if !last.content.is_empty() {
                return;
            }
            self.messages.pop();
        }
    }

    fn text(&mut self, part: &'r TextPart) -> Option<Block<'r>> {
        (!is_blank(&part.text)).then(|| {
            Block::Text(TextBlock { text: Cow::Borrowed(&part.text), cache_control: self.marks.take(part.cache) })
        })
    }

    fn media_part(&mut self, part: &'r MediaPart, media: Media) -> Result<Block<'r>, AIError> {
        media_block(media, self.max_side, self.marks.take(part.cache))
    }

    fn reasoning(&self, part: &'r Part, reasoning: &'r ReasoningPart) -> Option<Block<'r>> {
        let metadata = self.metadata(part);
        let text = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str);
        let thinking = reasoning.text.as_str();
        if let Some(signature) = reasoning.encrypted.as_deref().or_else(|| text("signature")) {
            return Some(Block::Thinking(ThinkingBlock { thinking, signature: Some(signature) }));
        }
        if let Some(data) = text("redactedData") {
            return Some(Block::Redacted(RedactedBlock { data }));
        }
        (!self.are_signatures_required && !is_blank(thinking))
            .then_some(Block::Thinking(ThinkingBlock { thinking, signature: None }))
    }

    fn tool_call(&mut self, call: &'r ToolCallPart) -> Block<'r> {
        let is_hosted = call.is_provider_executed();
        if !is_hosted {
            self.unanswered.insert(call.id.as_str());
        }
        let input = match &call.input {
            Value::Object(_) => self.key_maps.send(&call.name, &call.input),
            Value::Null => Cow::Owned(json!({})),
            // The wire takes objects only; nothing a model once said may make history unsendable.
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Cow::Owned(json!({ "input": &call.input }))
            }
        };
        Block::ToolUse(ToolUseBlock {
            kind: if is_hosted { HOSTED_CALL } else { "tool_use" },
            id: scrub(call.id.as_str()),
            name: &call.name,
            input,
            cache_control: self.marks.take(call.cache),
        })
    }

    fn hosted_result(&mut self, part: &'r Part, result: &'r ToolResultPart) -> Result<Block<'r>, AIError> {
        let metadata = self.metadata(part);
        let kind = metadata
            .and_then(|metadata| metadata.get("blockType"))
            .and_then(Value::as_str)
            .or_else(|| hosted_block_type(&result.name))
            .ok_or_else(|| AIError::invalid_request(format!("{NAME} does not know the hosted tool {}", result.name)))?;
        let content = match metadata.and_then(|metadata| metadata.get("result")) {
            Some(content) => Cow::Borrowed(content),
            None => hosted_content(&result.result),
        };
        Ok(Block::HostedResult(HostedResultBlock {
            kind: Cow::Borrowed(kind),
            tool_use_id: scrub(result.id.as_str()),
            content,
            cache_control: self.marks.take(result.cache),
        }))
    }

    fn metadata(&self, part: &'r Part) -> Option<&'r JsonObject> {
        part.provider_metadata()?.get(self.key)
    }
}

fn tool_result(part: &ToolResultPart, max_side: u32) -> Result<ToolResultContent<'_>, AIError> {
    let ToolResultValue::Content(items) = &part.result else {
        let text = shared::tool_result_text(part);
        return Ok(ToolResultContent::Text(if is_blank(&text) { Cow::Borrowed(NO_OUTPUT) } else { text }));
    };
    let mut blocks = Vec::with_capacity(items.len());
    for item in items {
        match item {
            ToolContent::Text { text } if is_blank(text) => {}
            ToolContent::Text { text } => {
                blocks.push(Block::Text(TextBlock { text: Cow::Borrowed(text), cache_control: None }));
            }
            ToolContent::File { uri, mime, .. } => {
                let media = shared::normalize_tool_file(NAME, mime, uri)?;
                blocks.push(media_block(media, max_side, None)?);
            }
        }
    }
    Ok(if blocks.is_empty() {
        ToolResultContent::Text(Cow::Borrowed(NO_OUTPUT))
    } else {
        ToolResultContent::Blocks(blocks)
    })
}

/// An image or a document. An image with a longer side than the provider takes would make it refuse
/// the whole request, also every later one, so a text says that it was left out.
fn media_block<'r>(media: Media, max_side: u32, cache_control: Option<CacheControl>) -> Result<Block<'r>, AIError> {
    let kind = if media.is_image() {
        "image"
    } else if media.is_pdf() {
        "document"
    } else {
        return Err(AIError::invalid_request(format!("{NAME} does not support media type {}", media.mime())));
    };
    let source = match media {
        Media::Inline { mime, base64 } => {
            if let Some((width, height)) = image_size(&base64).filter(|(width, height)| *width.max(height) > max_side) {
                let text = format!(
                    "[image left out: {width} x {height} pixels; no side may be longer than {max_side} in this request]"
                );
                return Ok(Block::Text(TextBlock { text: Cow::Owned(text), cache_control }));
            }
            MediaSource::Base64 { media_type: mime, data: Cow::Owned(base64) }
        }
        Media::Url { url, .. } => MediaSource::Url { url: Cow::Owned(url) },
    };
    Ok(Block::Media(MediaBlock { kind, source, cache_control }))
}

/// The images of a request, those of tool results among them.
fn n_images(request: &LLMRequest) -> usize {
    let is_image = |mime: &str| mime.trim().to_ascii_lowercase().starts_with("image/");
    let parts = request.messages.iter().flat_map(|message| &message.content);
    parts
        .map(|part| match part {
            Part::Media(media) => usize::from(is_image(&media.media_type)),
            Part::ToolResult(ToolResultPart { result: ToolResultValue::Content(items), .. }) => {
                items.iter().filter(|item| matches!(item, ToolContent::File { mime, .. } if is_image(mime))).count()
            }
            Part::Text(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => 0,
        })
        .sum()
}

/// Whether a native system update may stand after a message.
fn may_precede_update(before: &WireMessage<'_>) -> bool {
    match before.role {
        WireRole::User => true,
        WireRole::System => false,
        WireRole::Assistant => {
            matches!(before.content.last(), Some(Block::ToolUse(call)) if call.kind == HOSTED_CALL)
        }
    }
}

fn is_only_results(content: &[Block<'_>]) -> bool {
    content.iter().all(|block| matches!(block, Block::ToolResult(_)))
}

fn hosted_block_type(name: &str) -> Option<&'static str> {
    match name {
        "web_search" => Some("web_search_tool_result"),
        "code_execution" => Some("code_execution_tool_result"),
        "web_fetch" => Some("web_fetch_tool_result"),
        _ => None,
    }
}

fn hosted_content(result: &ToolResultValue) -> Cow<'_, Value> {
    match result {
        ToolResultValue::Json(value) | ToolResultValue::Text(value) | ToolResultValue::Error(value) => {
            Cow::Borrowed(value)
        }
        ToolResultValue::Content(items) => Cow::Owned(serde_json::to_value(items).unwrap_or_default()),
    }
}

/// Call ids may hold letters, digits, `_` and `-` only.
fn scrub(id: &str) -> Cow<'_, str> {
    let is_fit = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if id.chars().all(is_fit) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(id.chars().map(|char| if is_fit(char) { char } else { '_' }).collect())
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn tool_choice(request: &LLMRequest) -> Result<Option<WireToolChoice<'_>>, AIError> {
    let Some(choice) = &request.tool_choice else { return Ok(None) };
    let disable = choice.disable_parallel_tool_use;
    let (kind, name, disable_parallel_tool_use) = match shared::match_tool_choice(NAME, choice)? {
        Choice::Auto => ("auto", None, disable),
        Choice::None => ("none", None, None),
        Choice::Required => ("any", None, disable),
        Choice::Tool(name) => ("tool", Some(name), disable),
    };
    Ok(Some(WireToolChoice { kind, name, disable_parallel_tool_use }))
}

fn thinking(request: &LLMRequest, max_tokens: u64) -> Result<Option<Thinking>, AIError> {
    let Some(option) = request.option("thinking").and_then(Value::as_object) else {
        return Ok(None);
    };
    Ok(match option.get("type").and_then(Value::as_str) {
        Some("adaptive") => {
            let display = match option.get("display").and_then(Value::as_str) {
                Some("summarized") => Some(ThinkingDisplay::Summarized),
                Some("omitted") => Some(ThinkingDisplay::Omitted),
                Some(_) | None => None,
            };
            Some(Thinking::Adaptive { display })
        }
        Some("disabled") => Some(Thinking::Disabled),
        Some("enabled") => {
            let budget =
                ["budgetTokens", "budget_tokens"].iter().find_map(|name| option.get(*name).and_then(Value::as_i64));
            let Some(budget) = budget else {
                return Err(AIError::invalid_request("Anthropic thinking provider option requires budgetTokens"));
            };
            let budget_tokens = shared::fit_thinking_budget(budget, Some(max_tokens), MIN_THINKING_BUDGET);
            Some(Thinking::Enabled { budget_tokens })
        }
        Some(_) | None => None,
    })
}
