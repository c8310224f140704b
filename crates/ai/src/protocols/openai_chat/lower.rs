// ---------------------------------------------------------------------------------------------
// 5. Request construction
// ---------------------------------------------------------------------------------------------

use std::sync::Arc;

use serde_json::{Value, json};

use super::body::{
    CacheControl, CalledFunction, ChatBody, ChatContent, ChatMessage, ChatPart, ChatTool, ChatToolCall, FileData,
    Function, ImageUrl, StreamOptions,
};
use super::quirks::Quirks;
use super::reasoning::replay;
use super::tool_ids::ToolIds;
use super::{NAME, ReasoningReplay};
use crate::cache_policy::MAX_CACHE_MARKS;
use crate::protocols::shared::{
    self, Choice, Media, match_tool_choice, normalize_media, normalize_tool_file, unsupported_content,
};
use crate::schema::errors::AIError;
use crate::schema::messages::{Message, Part, Role, ToolCallPart, ToolContent, ToolResultPart, ToolResultValue};
use crate::schema::model::MaxTokensField;
use crate::schema::options::CacheHint;
use crate::schema::request::LLMRequest;

/// What stands for a tool result without any output: some servers refuse empty messages.
const NO_OUTPUT: &str = "(no output)";
/// The assistant turn some servers want between tool and user.
const DONE: &str = "Done.";

/// Builds the body of a request.
pub(super) fn from_request(
    request: &LLMRequest,
    replay: ReasoningReplay,
    has_marks: bool,
) -> Result<ChatBody, AIError> {
    let quirks = Quirks::of(request);
    let generation = request.generation();
    let has_history_calls =
        request.messages.iter().any(|message| message.content.iter().any(|part| matches!(part, Part::ToolCall(_))));
    // Marks are spent on tools first, then system, then messages.
    let mut marks = Marks { left: if has_marks { MAX_CACHE_MARKS } else { 0 } };
    let tools = tools(request, &quirks, &mut marks)?;
    let tool_choice = match (&request.tool_choice, tools.is_empty()) {
        (Some(choice), false) => Some(tool_choice(match_tool_choice(NAME, choice)?)),
        (_, _) => None,
    };
    let mut lowering = Lowering {
        request,
        quirks: &quirks,
        replay,
        ids: ToolIds::new(quirks.call_ids),
        marks,
        messages: Vec::with_capacity(request.messages.len() + 1),
        attachments: Vec::new(),
    };
    lowering.system();
    for message in &request.messages {
        lowering.message(message)?;
    }
    lowering.flush_attachments();
    let messages = lowering.messages;
    let (max_completion_tokens, max_tokens) = match quirks.max_tokens_field {
        MaxTokensField::MaxTokens => (None, generation.max_tokens),
        MaxTokensField::MaxCompletionTokens | MaxTokensField::Other(_) => (generation.max_tokens, None),
    };
    let store = request.option("store").and_then(Value::as_bool).unwrap_or(false);
    Ok(ChatBody {
        model: request.model.id.to_string(),
        messages,
        tool_stream: (quirks.needs_tool_stream && !tools.is_empty()).then_some(true),
        tools: if tools.is_empty() {
            (quirks.needs_tools_with_history && has_history_calls).then(Vec::new)
        } else {
            Some(tools)
        },
        tool_choice,
        stream: true,
        stream_options: quirks.has_stream_usage.then_some(StreamOptions { include_usage: true }),
        store: quirks.has_store.then_some(store),
        prompt_cache_key: if quirks.has_cache_key { shared::prompt_cache_key(request) } else { None },
        prompt_cache_retention: request.option("promptCacheRetention").filter(|v| v.is_string()).cloned(),
        prompt_cache_options: request.option("promptCacheOptions").filter(|v| v.is_object()).cloned(),
        reasoning_effort: request.option("reasoningEffort").and_then(Value::as_str).map(str::to_owned),
        max_completion_tokens,
        max_tokens,
        temperature: generation.temperature,
        top_p: generation.top_p,
        frequency_penalty: generation.frequency_penalty,
        presence_penalty: generation.presence_penalty,
        seed: generation.seed,
        stop: generation.stop,
    })
}

/// The cache marks that are left.
#[derive(Debug)]
struct Marks {
    left: usize,
}

impl Marks {
    fn spend(&mut self, hint: Option<CacheHint>) -> Option<CacheControl> {
        let hint = hint?;
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(CacheControl { kind: "ephemeral", ttl: hint.is_one_hour().then_some("1h") })
    }
}

fn tools(request: &LLMRequest, quirks: &Quirks, marks: &mut Marks) -> Result<Vec<ChatTool>, AIError> {
    request
        .tools
        .iter()
        .map(|tool| {
            if tool.native.as_ref().is_some_and(|native| native.contains_key(request.model.metadata_key())) {
                return Err(AIError::invalid_request(format!(
                    "{NAME} does not support provider-native tool {}",
                    tool.name
                )));
            }
            Ok(ChatTool {
                kind: "function",
                function: Function { definition: Arc::clone(tool), strict: quirks.has_strict.then_some(false) },
                cache_control: marks.spend(tool.cache),
            })
        })
        .collect()
}

fn tool_choice(choice: Choice<'_>) -> Value {
    match choice {
        Choice::Auto => json!("auto"),
        Choice::None => json!("none"),
        Choice::Required => json!("required"),
        Choice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

struct Lowering<'r> {
    request: &'r LLMRequest,
    quirks: &'r Quirks,
    replay: ReasoningReplay,
    ids: ToolIds,
    marks: Marks,
    messages: Vec<ChatMessage>,
    /// Files of tool results: sent as one user message after the whole run of tool messages.
    attachments: Vec<ChatPart>,
}

impl Lowering<'_> {
    fn system(&mut self) {
        let parts = &self.request.system;
        if parts.iter().all(|part| part.text.trim().is_empty()) {
            return;
        }
        let has_marks = self.marks.left > 0 && parts.iter().any(|part| part.cache.is_some());
        let content = if has_marks {
            let texts = parts.iter().filter(|part| !part.text.trim().is_empty());
            ChatContent::Parts(
                texts
                    .map(|part| ChatPart::Text { text: part.text.clone(), cache_control: self.marks.spend(part.cache) })
                    .collect(),
            )
        } else {
            ChatContent::Text(shared::join_text(parts))
        };
        self.messages.push(ChatMessage::System { content });
    }

    fn message(&mut self, message: &Message) -> Result<(), AIError> {
        match message.role {
            Role::System => self.system_update(message),
            Role::User => {
                self.flush_attachments();
                self.user(message)
            }
            Role::Assistant => {
                self.flush_attachments();
                self.assistant(message)
            }
            Role::Tool => self.tool(message),
        }
    }

    fn system_update(&mut self, message: &Message) -> Result<(), AIError> {
        let text = shared::system_update_text(NAME, message)?;
        if text.trim().is_empty() {
            return Ok(());
        }
        let wrapped = shared::wrap_system_update(&text);
        if !self.attachments.is_empty() {
            self.attachments.push(ChatPart::Text { text: wrapped, cache_control: None });
            return Ok(());
        }
        match self.messages.last_mut() {
            Some(ChatMessage::User { content }) => append_text(content, &wrapped, "\n"),
            Some(ChatMessage::System { .. } | ChatMessage::Assistant { .. } | ChatMessage::Tool { .. }) | None => {
                self.push_user(ChatContent::Text(wrapped));
            }
        }
        Ok(())
    }

    fn user(&mut self, message: &Message) -> Result<(), AIError> {
        let has_marks = self.marks.left > 0;
        let is_plain = message.content.iter().all(|part| match part {
            Part::Text(text) => !has_marks || text.cache.is_none(),
            Part::Media(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => false,
        });
        let mut text = String::new();
        let mut parts = Vec::new();
        for part in &message.content {
            match part {
                Part::Text(part) if is_plain => text.push_str(&part.text),
                Part::Text(part) => {
                    if !part.text.trim().is_empty() {
                        parts.push(ChatPart::Text {
                            text: part.text.clone(),
                            cache_control: self.marks.spend(part.cache),
                        });
                    }
                }
                Part::Media(media) => {
                    let checked = normalize_media(NAME, media)?;
                    parts.push(media_part(&checked, media.filename.as_deref())?);
                }
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                    return Err(unsupported_content(NAME, Role::User, &["text", "media"]));
                }
            }
        }
        if is_plain && !text.trim().is_empty() {
            self.push_user(ChatContent::Text(text));
        } else if !parts.is_empty() {
            self.push_user(ChatContent::Parts(parts));
        }
        Ok(())
    }

    fn push_user(&mut self, content: ChatContent) {
        if self.quirks.needs_assistant_after_tool && matches!(self.messages.last(), Some(ChatMessage::Tool { .. })) {
            self.messages.push(ChatMessage::assistant(DONE));
        }
        match self.messages.last_mut() {
            Some(ChatMessage::User { content: before }) if self.quirks.needs_alternation => {
                join(before, content);
            }
            Some(
                ChatMessage::User { .. }
                | ChatMessage::System { .. }
                | ChatMessage::Assistant { .. }
                | ChatMessage::Tool { .. },
            )
            | None => self.messages.push(ChatMessage::User { content }),
        }
    }

    fn assistant(&mut self, message: &Message) -> Result<(), AIError> {
        let mut text = String::new();
        let mut tool_calls = Vec::new();
        let mut reasoning = Vec::new();
        let mut hint = None;
        for part in &message.content {
            hint = part.cache().or(hint);
            match part {
                Part::Text(part) => text.push_str(&part.text),
                Part::Reasoning(part) => reasoning.push(part),
                // Hosted calls and their results live on the provider's side.
                Part::ToolCall(call) if call.is_provider_executed() => {}
                Part::ToolResult(result) if result.is_provider_executed() => {}
                Part::ToolCall(call) => tool_calls.push(self.tool_call(call)),
                Part::Media(_) | Part::ToolResult(_) => {
                    return Err(unsupported_content(NAME, Role::Assistant, &["text", "reasoning", "tool-call"]));
                }
            }
        }
        // A turn that was cut before it said anything is no message.
        if text.trim().is_empty() && tool_calls.is_empty() {
            return Ok(());
        }
        let replayed = replay(self.request, self.quirks, self.replay, message, &reasoning)?;
        self.messages.push(ChatMessage::Assistant {
            content: (!text.trim().is_empty()).then_some(text),
            tool_calls,
            reasoning: replayed.field,
            reasoning_details: replayed.details,
            cache_control: self.marks.spend(hint),
        });
        Ok(())
    }

    fn tool_call(&mut self, call: &ToolCallPart) -> ChatToolCall {
        let arguments = if call.input.is_null() { "{}".to_owned() } else { shared::json_text(&call.input) };
        ChatToolCall {
            id: self.ids.wire(call.id.as_str()),
            kind: "function",
            function: CalledFunction { name: call.name.clone(), arguments },
        }
    }

    fn tool(&mut self, message: &Message) -> Result<(), AIError> {
        for part in &message.content {
            match part {
                Part::ToolResult(result) => self.tool_result(result)?,
                Part::Text(_) | Part::Media(_) | Part::ToolCall(_) | Part::Reasoning(_) => {
                    return Err(unsupported_content(NAME, Role::Tool, &["tool-result"]));
                }
            }
        }
        Ok(())
    }

    fn tool_result(&mut self, result: &ToolResultPart) -> Result<(), AIError> {
        let content = match &result.result {
            ToolResultValue::Content(items) => self.content_text(items)?,
            ToolResultValue::Json(_) | ToolResultValue::Text(_) | ToolResultValue::Error(_) => {
                not_blank(shared::tool_result_text(result).into_owned())
            }
        };
        let cache_control = self.marks.spend(result.cache);
        self.messages.push(ChatMessage::Tool {
            tool_call_id: self.ids.wire(result.id.as_str()),
            content,
            cache_control,
        });
        Ok(())
    }

    /// The texts of a content result; its files wait for the end of the run.
    fn content_text(&mut self, items: &[ToolContent]) -> Result<String, AIError> {
        let mut texts = Vec::new();
        let mut has_files = false;
        for item in items {
            match item {
                ToolContent::Text { text } => texts.push(text.as_str()),
                ToolContent::File { uri, mime, name } => {
                    let media = normalize_tool_file(NAME, mime, uri)?;
                    self.attachments.push(media_part(&media, name.as_deref())?);
                    has_files = true;
                }
            }
        }
        let text = texts.join("\n");
        Ok(if has_files { text } else { not_blank(text) })
    }

    fn flush_attachments(&mut self) {
        let parts = std::mem::take(&mut self.attachments);
        if !parts.is_empty() {
            self.push_user(ChatContent::Parts(parts));
        }
    }
}

fn not_blank(text: String) -> String {
    if text.trim().is_empty() { NO_OUTPUT.to_owned() } else { text }
}

fn media_part(media: &Media, name: Option<&str>) -> Result<ChatPart, AIError> {
    let is_linked_image = matches!(media, Media::Url { mime, .. } if mime.starts_with("image/"));
    if media.is_image() || is_linked_image {
        return Ok(ChatPart::ImageUrl { image_url: ImageUrl { url: media.url() } });
    }
    if media.is_pdf() {
        return Ok(ChatPart::File {
            file: FileData { filename: name.unwrap_or("document.pdf").to_owned(), file_data: media.url() },
        });
    }
    Err(AIError::invalid_request(format!("{NAME} does not support media type {}", media.mime())))
}

fn append_text(content: &mut ChatContent, text: &str, separator: &str) {
    match content {
        ChatContent::Text(before) => {
            before.push_str(separator);
            before.push_str(text);
        }
        ChatContent::Parts(parts) => {
            parts.push(ChatPart::Text { text: text.to_owned(), cache_control: None });
        }
    }
}

fn join(before: &mut ChatContent, after: ChatContent) {
    match (before, after) {
        (before, ChatContent::Text(text)) => append_text(before, &text, "\n\n"),
        (ChatContent::Parts(before), ChatContent::Parts(after)) => before.extend(after),
        (before @ ChatContent::Text(_), ChatContent::Parts(after)) => {
            let text = match std::mem::replace(before, ChatContent::Parts(Vec::new())) {
                ChatContent::Text(text) => text,
                ChatContent::Parts(_) => String::new(),
            };
            let mut parts = vec![ChatPart::Text { text, cache_control: None }];
            parts.extend(after);
            *before = ChatContent::Parts(parts);
        }
    }
}
