//! Building the request.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::body::{
    Block, Body, Document, Image, InferenceConfig, InputSchema, Reasoning, ReasoningText, Source, Tool, ToolChoice,
    ToolConfig, ToolResult, ToolSpec, ToolUse, WireMessage, WireRole,
};
use super::{NAME, names};
use crate::protocols::shared::{self, Choice, Media};
use crate::protocols::utils::marks::Marks;
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{
    Message, Part, ReasoningPart, Role, ToolCallPart, ToolContent, ToolResultPart, ToolResultValue,
};
use crate::schema::options::CacheHint;
use crate::schema::request::LLMRequest;

/// The smallest thinking budget of Claude.
const MIN_THINKING_BUDGET: i64 = 1024;
/// What a silent tool says; the provider refuses empty content.
const NO_OUTPUT: &str = "(no output)";
/// What stands beside a document of the user; the provider refuses one without text.
const ATTACHED: &str = "(attached)";

/// Builds the body of a request.
#[tracing::instrument(name = "BedrockConverse.fromRequest", level = "debug", skip_all)]
pub(super) fn from_request(request: &LLMRequest) -> Result<Body<'_>, AIError> {
    let id = request.model.id.as_str();
    let mut lowering = Lowering {
        key: request.model.metadata_key(),
        // Thinking that was cut before its signature came is refused by Claude.
        are_signatures_required: names::is_claude(id) && request.model.compatibility.require_signature != Some(false),
        are_calls_texts: request.tools.is_empty(),
        marks: Marks::default(),
        messages: Vec::new(),
    };
    // Marks are spent in this order: tools, system, messages.
    let tools = lowering.tools(request)?;
    let system = lowering.system(request);
    for message in &request.messages {
        lowering.message(message)?;
    }
    lowering.trim_trailing_reasoning();
    lowering.marks.warn_about_surplus();
    Ok(Body {
        model_id: id,
        system,
        inference_config: inference_config(request),
        tool_config: tool_config(request, tools, has_calls(&lowering.messages))?,
        additional_model_request_fields: additional_fields(request)?,
        messages: lowering.messages,
    })
}

struct Lowering<'r> {
    /// The namespace in provider metadata.
    key: &'r str,
    are_signatures_required: bool,
    /// The provider refuses blocks of calls in a request that offers no tools.
    are_calls_texts: bool,
    marks: Marks,
    messages: Vec<WireMessage<'r>>,
}

impl<'r> Lowering<'r> {
    fn tools(&mut self, request: &'r LLMRequest) -> Result<Vec<Tool<'r>>, AIError> {
        let mut tools = Vec::with_capacity(request.tools.len());
        for tool in &request.tools {
            if tool.native.as_ref().is_some_and(|native| native.contains_key(self.key)) {
                return Err(AIError::invalid_request(format!(
                    "{NAME} does not support provider-native tool {}",
                    tool.name
                )));
            }
            tools.push(Tool::ToolSpec(ToolSpec {
                name: &tool.name,
                description: tool.description.trim(),
                input_schema: InputSchema { json: &tool.input_schema },
            }));
            tools.extend(self.marks.take(tool.cache).map(Tool::CachePoint));
        }
        Ok(tools)
    }

    fn system(&mut self, request: &'r LLMRequest) -> Vec<Block<'r>> {
        let mut blocks = Vec::new();
        for part in request.system.iter().filter(|part| !is_blank(&part.text)) {
            blocks.push(Block::Text(Cow::Borrowed(&part.text)));
            self.mark(part.cache, &mut blocks);
        }
        blocks
    }

    fn mark(&mut self, hint: Option<CacheHint>, blocks: &mut Vec<Block<'r>>) {
        blocks.extend(self.marks.take(hint).map(Block::CachePoint));
    }

    fn message(&mut self, message: &'r Message) -> Result<(), AIError> {
        match message.role {
            Role::System => self.system_update(message),
            Role::User => self.user(message),
            Role::Assistant => self.assistant(message),
            Role::Tool => self.tool(message),
        }
    }

    fn system_update(&mut self, message: &'r Message) -> Result<(), AIError> {
        let text = shared::system_update_text(NAME, message)?;
        if !is_blank(&text) {
            let mut blocks = vec![Block::Text(Cow::Owned(shared::wrap_system_update(&text)))];
            self.mark(message.content.iter().rev().find_map(Part::cache), &mut blocks);
            self.push(WireRole::User, blocks);
        }
        Ok(())
    }

    fn user(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut blocks = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text(text) if is_blank(&text.text) => continue,
                Part::Text(text) => blocks.push(Block::Text(Cow::Borrowed(&text.text))),
                Part::Media(part) => {
                    blocks.push(media(&shared::normalize_media(NAME, part)?, part.filename.as_deref())?);
                }
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                    return Err(shared::unsupported_content(NAME, Role::User, &["text", "media"]));
                }
            }
            self.mark(part.cache(), &mut blocks);
        }
        let has = |is: fn(&Block<'_>) -> bool| blocks.iter().any(is);
        if has(|block| matches!(block, Block::Document(_))) && !has(|block| matches!(block, Block::Text(_))) {
            blocks.insert(0, Block::Text(Cow::Borrowed(ATTACHED)));
        }
        self.push(WireRole::User, blocks);
        Ok(())
    }

    fn assistant(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut blocks = Vec::with_capacity(message.content.len());
        for part in &message.content {
            match part {
                Part::Text(text) if is_blank(&text.text) => continue,
                Part::Text(text) => blocks.push(Block::Text(Cow::Borrowed(&text.text))),
                Part::Reasoning(reasoning) => {
                    blocks.extend(self.reasoning(part, reasoning).map(Block::ReasoningContent));
                    continue;
                }
                // Hosted calls and their results live on another provider's side.
                Part::ToolCall(call) if call.is_provider_executed() => continue,
                Part::ToolResult(result) if result.is_provider_executed() => continue,
                Part::ToolCall(call) => blocks.push(self.tool_call(call)),
                Part::ToolResult(_) | Part::Media(_) => {
                    return Err(shared::unsupported_content(
                        NAME,
                        Role::Assistant,
                        &["text", "reasoning", "tool-call"],
                    ));
                }
            }
            self.mark(part.cache(), &mut blocks);
        }
        self.push(WireRole::Assistant, blocks);
        Ok(())
    }

    fn reasoning(&self, part: &'r Part, reasoning: &'r ReasoningPart) -> Option<Reasoning<'r>> {
        let metadata = part.provider_metadata().and_then(|metadata| metadata.get(self.key));
        let value = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str);
        let text = reasoning.text.as_str();
        if let Some(signature) = reasoning.encrypted.as_deref().or_else(|| value("signature")) {
            return Some(Reasoning::ReasoningText(ReasoningText { text, signature: Some(signature) }));
        }
        if let Some(data) = value("redactedData") {
            return Some(Reasoning::RedactedContent(data));
        }
        (!self.are_signatures_required && !is_blank(text))
            .then_some(Reasoning::ReasoningText(ReasoningText { text, signature: None }))
    }

    fn tool_call(&self, call: &'r ToolCallPart) -> Block<'r> {
        if self.are_calls_texts {
            let input = shared::json_text(&call.input);
            return Block::Text(Cow::Owned(format!("[called the tool {} with {input}]", call.name)));
        }
        let input = match &call.input {
            Value::Object(_) => Cow::Borrowed(&call.input),
            Value::Null => Cow::Owned(json!({})),
            // The wire takes objects only; nothing a model once said may make history unsendable.
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Cow::Owned(json!({ "input": &call.input }))
            }
        };
        Block::ToolUse(ToolUse { id: names::call_id(call.id.as_str()), name: &call.name, input })
    }

    fn tool(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut blocks = Vec::with_capacity(message.content.len());
        for part in &message.content {
            let Part::ToolResult(result) = part else {
                return Err(shared::unsupported_content(NAME, Role::Tool, &["tool-result"]));
            };
            let mut content = tool_result(result)?;
            if self.are_calls_texts {
                blocks.push(Block::Text(Cow::Owned(format!("[result of the tool {}:]", result.name))));
                blocks.append(&mut content);
            } else {
                blocks.push(Block::ToolResult(ToolResult {
                    tool_use_id: names::call_id(result.id.as_str()),
                    content,
                    status: if result.result.is_error() { "error" } else { "success" },
                }));
            }
            self.mark(result.cache, &mut blocks);
        }
        self.push(WireRole::User, blocks);
        Ok(())
    }

    /// Appends blocks; the wire wants user and assistant to alternate.
    fn push(&mut self, role: WireRole, mut blocks: Vec<Block<'r>>) {
        if blocks.is_empty() {
            return;
        }
        if role == WireRole::User {
            self.trim_trailing_reasoning();
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.append(&mut blocks),
            Some(_) | None => self.messages.push(WireMessage { role, content: blocks }),
        }
    }

    /// The provider refuses an assistant message that ends in thinking, which is what an interrupted
    /// answer may leave behind.
    fn trim_trailing_reasoning(&mut self) {
        let Some(last) = self.messages.last_mut().filter(|last| last.role == WireRole::Assistant) else { return };
        while matches!(last.content.last(), Some(Block::ReasoningContent(_))) {
            last.content.pop();
        }
        if last.content.is_empty() {
            self.messages.pop();
        }
    }
}

fn tool_result(part: &ToolResultPart) -> Result<Vec<Block<'_>>, AIError> {
    let mut blocks = Vec::new();
    match &part.result {
        ToolResultValue::Json(value) if value.is_object() => blocks.push(Block::Json(Cow::Borrowed(value))),
        ToolResultValue::Json(_) | ToolResultValue::Text(_) | ToolResultValue::Error(_) => {
            let text = shared::tool_result_text(part);
            if !is_blank(&text) {
                blocks.push(Block::Text(text));
            }
        }
        ToolResultValue::Content(items) => {
            for item in items {
                match item {
                    ToolContent::Text { text } if is_blank(text) => {}
                    ToolContent::Text { text } => blocks.push(Block::Text(Cow::Borrowed(text))),
                    ToolContent::File { uri, mime, name } => {
                        blocks.push(media(&shared::normalize_tool_file(NAME, mime, uri)?, name.as_deref())?);
                    }
                }
            }
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text(Cow::Borrowed(NO_OUTPUT)));
    }
    Ok(blocks)
}

fn media<'r>(media: &Media, filename: Option<&str>) -> Result<Block<'r>, AIError> {
    let mime = media.mime();
    let image = match mime {
        "image/png" => Some("png"),
        "image/jpeg" => Some("jpeg"),
        "image/gif" => Some("gif"),
        "image/webp" => Some("webp"),
        _ => None,
    };
    if let Some(format) = image {
        return Ok(Block::Image(Image { format, source: Source { bytes: media.inline(NAME)?.to_owned() } }));
    }
    if mime.starts_with("image/") {
        return Err(AIError::invalid_request(format!("{NAME} does not support image type {mime}")));
    }
    let Some(format) = document_format(mime) else {
        return Err(AIError::invalid_request(format!("{NAME} does not support media type {mime}")));
    };
    let name = filename.map(names::document_name).filter(|name| !name.is_empty());
    Ok(Block::Document(Document {
        format,
        name: name.unwrap_or_else(|| names::document_name(&format!("document.{format}"))),
        source: Source { bytes: media.inline(NAME)?.to_owned() },
    }))
}

fn document_format(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "application/pdf" => "pdf",
        "text/csv" => "csv",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "text/html" => "html",
        "text/plain" => "txt",
        "text/markdown" => "md",
        _ => return None,
    })
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn has_calls(messages: &[WireMessage<'_>]) -> bool {
    let mut blocks = messages.iter().flat_map(|message| &message.content);
    blocks.any(|block| matches!(block, Block::ToolUse(_) | Block::ToolResult(_)))
}

/// The tools and the choice. Without calls to come there are no tools, unless history has some: the
/// provider wants the tools of the calls it sees.
fn tool_config<'r>(
    request: &'r LLMRequest,
    tools: Vec<Tool<'r>>,
    has_calls: bool,
) -> Result<Option<ToolConfig<'r>>, AIError> {
    if tools.is_empty() {
        return Ok(None);
    }
    let tool_choice = match &request.tool_choice {
        None => None,
        Some(choice) => match shared::match_tool_choice(NAME, choice)? {
            Choice::Auto => Some(ToolChoice::Auto {}),
            Choice::None if has_calls => None,
            Choice::None => return Ok(None),
            Choice::Required => Some(ToolChoice::Any {}),
            Choice::Tool(name) => Some(ToolChoice::Tool { name }),
        },
    };
    Ok(Some(ToolConfig { tools, tool_choice }))
}

fn inference_config(request: &LLMRequest) -> InferenceConfig<'_> {
    let Some(generation) = &request.generation else { return InferenceConfig::default() };
    InferenceConfig {
        max_tokens: generation.max_tokens,
        temperature: generation.temperature,
        top_p: generation.top_p,
        stop_sequences: generation.stop.as_deref(),
    }
}

fn additional_fields(request: &LLMRequest) -> Result<JsonObject, AIError> {
    let generation = request.generation.as_ref();
    let mut fields = JsonObject::new();
    if let Some(top_k) = generation.and_then(|generation| generation.top_k) {
        fields.insert("top_k".to_owned(), top_k.into());
    }
    let option = request.option("thinking").and_then(Value::as_object);
    if let Some(option) = option.filter(|_| names::is_claude(request.model.id.as_str())) {
        let thinking = match option.get("type").and_then(Value::as_str) {
            Some(kind @ ("adaptive" | "disabled")) => Some(json!({ "type": kind })),
            Some("enabled") => {
                let budget =
                    ["budgetTokens", "budget_tokens"].iter().find_map(|name| option.get(*name).and_then(Value::as_i64));
                let Some(budget) = budget else {
                    return Err(AIError::invalid_request("Bedrock thinking provider option requires budgetTokens"));
                };
                let max_tokens = generation.and_then(|generation| generation.max_tokens);
                let budget = shared::fit_thinking_budget(budget, max_tokens, MIN_THINKING_BUDGET);
                Some(json!({ "type": "enabled", "budget_tokens": budget }))
            }
            Some(_) | None => None,
        };
        fields.extend(thinking.map(|thinking| ("thinking".to_owned(), thinking)));
    }
    Ok(fields)
}
