// ---------------------------------------------------------------------------------------------
// 5. Request construction
// ---------------------------------------------------------------------------------------------

use std::borrow::Cow;

use serde_json::{Value, json};

use super::NAME;
use super::body::{
    CalledFunction, Function, MistralBody, MistralCall, MistralContent, MistralItem, MistralMessage, MistralTool,
};
use super::ids::CallIds;
use crate::protocols::shared::{
    self, Choice, Media, match_tool_choice, normalize_media, normalize_tool_file, unsupported_content,
};
use crate::schema::errors::AIError;
use crate::schema::messages::{
    Message, Part, ReasoningPart, Role, ToolCallPart, ToolContent, ToolResultPart, ToolResultValue,
};
use crate::schema::request::LLMRequest;

/// Where the thinking of an answer is kept in provider metadata.
pub(super) const META_THINKING: &str = "thinking";
/// What stands for a tool result without any output.
const NO_OUTPUT: &str = "(no output)";
/// The assistant turn between tool and user.
const DONE: &str = "Done.";

/// Builds the body of a request.
pub(super) fn from_request(request: &LLMRequest) -> Result<MistralBody<'_>, AIError> {
    let generation = request.generation();
    let tools = tools(request)?;
    let tool_choice = match (&request.tool_choice, tools.is_empty()) {
        (Some(choice), false) => Some(tool_choice(match_tool_choice(NAME, choice)?)),
        (_, _) => None,
    };
    let disabled = request.tool_choice.as_ref().and_then(|choice| choice.disable_parallel_tool_use);
    let flag = |name: &str| request.option(name).and_then(Value::as_bool);
    let count = |name: &str| request.option(name).and_then(Value::as_u64);
    let word = |name: &str| request.option(name).and_then(Value::as_str);
    let prompt_mode = word("promptMode").filter(|mode| *mode == "reasoning");
    let reasoning_effort = word("reasoningEffort");
    if prompt_mode.is_some() && reasoning_effort.is_some() {
        return Err(AIError::invalid_request(format!(
            "{NAME} takes either reasoningEffort or promptMode; leave one of them out"
        )));
    }
    let mut lowering = Lowering {
        request,
        ids: CallIds::of(request),
        messages: Vec::with_capacity(request.messages.len() + 1),
        bridges_tools: request.model.compatibility.require_assistant_after_tool.unwrap_or(true),
    };
    lowering.system();
    for message in &request.messages {
        lowering.message(message)?;
    }
    lowering.prefix();
    Ok(MistralBody {
        model: request.model.id.as_str(),
        messages: lowering.messages,
        parallel_tool_calls: flag("parallelToolCalls")
            .or(disabled.map(|disabled| !disabled))
            .filter(|_| !tools.is_empty()),
        tools,
        tool_choice,
        stream: true,
        max_tokens: generation.max_tokens,
        temperature: generation.temperature,
        top_p: generation.top_p,
        frequency_penalty: generation.frequency_penalty,
        presence_penalty: generation.presence_penalty,
        random_seed: generation.seed,
        stop: generation.stop,
        safe_prompt: flag("safePrompt"),
        document_image_limit: count("documentImageLimit"),
        document_page_limit: count("documentPageLimit"),
        reasoning_effort,
        prompt_mode,
        prompt_cache_key: match word("promptCacheKey") {
            Some(key) => Some(key.to_owned()),
            None => shared::prompt_cache_key(request),
        },
    })
}

fn tools(request: &LLMRequest) -> Result<Vec<MistralTool<'_>>, AIError> {
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
            Ok(MistralTool {
                kind: "function",
                function: Function {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.input_schema,
                    strict: false,
                },
            })
        })
        .collect()
}

fn tool_choice(choice: Choice<'_>) -> Value {
    match choice {
        Choice::Auto => json!("auto"),
        Choice::None => json!("none"),
        Choice::Required => json!("any"),
        Choice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

struct Lowering<'r> {
    request: &'r LLMRequest,
    ids: CallIds,
    messages: Vec<MistralMessage<'r>>,
    /// No user message may follow a tool message directly.
    bridges_tools: bool,
}

impl<'r> Lowering<'r> {
    fn system(&mut self) {
        let text = shared::join_text(&self.request.system);
        if !text.trim().is_empty() {
            self.messages.push(MistralMessage::System { content: Cow::Owned(text) });
        }
    }

    fn message(&mut self, message: &'r Message) -> Result<(), AIError> {
        match message.role {
            Role::System => self.system_update(message),
            Role::User => self.user(message),
            Role::Assistant => self.assistant(message),
            Role::Tool => self.tool(message),
        }
    }

    fn system_update(&mut self, message: &Message) -> Result<(), AIError> {
        let text = shared::system_update_text(NAME, message)?;
        if text.trim().is_empty() {
            return Ok(());
        }
        let wrapped = shared::wrap_system_update(&text);
        match self.messages.last_mut() {
            Some(MistralMessage::User { content: MistralContent::Text(before) }) => {
                let before = before.to_mut();
                before.push('\n');
                before.push_str(&wrapped);
            }
            Some(MistralMessage::User { content: MistralContent::Items(items) }) => {
                items.push(MistralItem::Text { text: wrapped.into() });
            }
            Some(MistralMessage::System { .. } | MistralMessage::Assistant { .. } | MistralMessage::Tool { .. })
            | None => self.push_user(MistralContent::Text(wrapped.into())),
        }
        Ok(())
    }

    fn user(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut items = Vec::new();
        for part in &message.content {
            match part {
                Part::Text(text) if text.text.trim().is_empty() => {}
                Part::Text(text) => items.push(MistralItem::Text { text: text.text.as_str().into() }),
                Part::Media(media) => items.push(media_item(&normalize_media(NAME, media)?)?),
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                    return Err(unsupported_content(NAME, Role::User, &["text", "media"]));
                }
            }
        }
        if !items.is_empty() {
            self.push_user(plain_or_items(items, ""));
        }
        Ok(())
    }

    fn push_user(&mut self, content: MistralContent<'r>) {
        if self.bridges_tools && matches!(self.messages.last(), Some(MistralMessage::Tool { .. })) {
            let content = MistralContent::Text(DONE.into());
            self.messages.push(MistralMessage::Assistant { content, tool_calls: Vec::new(), prefix: false });
        }
        self.messages.push(MistralMessage::User { content });
    }

    fn assistant(&mut self, message: &'r Message) -> Result<(), AIError> {
        let mut items = Vec::new();
        let mut tool_calls = Vec::new();
        for part in &message.content {
            match part {
                Part::Text(text) if text.text.is_empty() => {}
                Part::Text(text) => items.push(MistralItem::Text { text: text.text.as_str().into() }),
                // Reasoning of another provider is nothing this one could read.
                Part::Reasoning(part) => {
                    items.extend(self.thinking(part).map(|thinking| MistralItem::Thinking { thinking }));
                }
                Part::ToolCall(call) if call.is_provider_executed() => {}
                Part::ToolResult(result) if result.is_provider_executed() => {}
                Part::ToolCall(call) => tool_calls.push(self.tool_call(call)),
                Part::Media(_) | Part::ToolResult(_) => {
                    return Err(unsupported_content(NAME, Role::Assistant, &["text", "reasoning", "tool-call"]));
                }
            }
        }
        let has_text = items.iter().any(|item| matches!(item, MistralItem::Text { text } if !text.trim().is_empty()));
        if has_text || !tool_calls.is_empty() {
            let content = plain_or_items(items, "");
            self.messages.push(MistralMessage::Assistant { content, tool_calls, prefix: false });
        }
        Ok(())
    }

    fn thinking(&self, part: &'r ReasoningPart) -> Option<&'r Value> {
        let own = part.provider_metadata.as_ref()?.get(self.request.model.metadata_key())?;
        own.get(META_THINKING).filter(|thinking| thinking.as_array().is_some_and(|items| !items.is_empty()))
    }

    fn tool_call(&mut self, call: &'r ToolCallPart) -> MistralCall<'r> {
        let arguments = if call.input.is_null() { "{}".to_owned() } else { shared::json_text(&call.input) };
        MistralCall {
            id: self.ids.add(call.id.as_str()),
            kind: "function",
            function: CalledFunction { name: &call.name, arguments },
        }
    }

    fn tool(&mut self, message: &'r Message) -> Result<(), AIError> {
        for part in &message.content {
            match part {
                Part::ToolResult(result) => {
                    let content = result_content(result)?;
                    let tool_call_id = self.ids.add(result.id.as_str());
                    self.messages.push(MistralMessage::Tool { tool_call_id, name: &result.name, content });
                }
                Part::Text(_) | Part::Media(_) | Part::ToolCall(_) | Part::Reasoning(_) => {
                    return Err(unsupported_content(NAME, Role::Tool, &["tool-result"]));
                }
            }
        }
        Ok(())
    }

    /// The model goes on from a trailing text of the assistant.
    fn prefix(&mut self) {
        if let Some(MistralMessage::Assistant { tool_calls, prefix, .. }) = self.messages.last_mut() {
            *prefix = tool_calls.is_empty();
        }
    }
}

/// Text items alone are one string.
fn plain_or_items<'r>(mut items: Vec<MistralItem<'r>>, separator: &str) -> MistralContent<'r> {
    if let [MistralItem::Text { text }] = items.as_mut_slice() {
        return MistralContent::Text(std::mem::take(text));
    }
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        let MistralItem::Text { text } = item else { return MistralContent::Items(items) };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    MistralContent::Text(joined.into())
}

fn result_content(result: &ToolResultPart) -> Result<MistralContent<'_>, AIError> {
    let content = match &result.result {
        ToolResultValue::Content(parts) => {
            let mut items = Vec::new();
            for part in parts {
                match part {
                    ToolContent::Text { text } if text.trim().is_empty() => {}
                    ToolContent::Text { text } => items.push(MistralItem::Text { text: text.as_str().into() }),
                    ToolContent::File { uri, mime, .. } => {
                        items.push(media_item(&normalize_tool_file(NAME, mime, uri)?)?);
                    }
                }
            }
            plain_or_items(items, "\n")
        }
        ToolResultValue::Json(_) | ToolResultValue::Text(_) | ToolResultValue::Error(_) => {
            MistralContent::Text(shared::tool_result_text(result))
        }
    };
    Ok(match content {
        MistralContent::Text(text) if text.trim().is_empty() => MistralContent::Text(NO_OUTPUT.into()),
        content => content,
    })
}

fn media_item(media: &Media) -> Result<MistralItem<'static>, AIError> {
    let is_linked_image = matches!(media, Media::Url { mime, .. } if mime.starts_with("image/"));
    if media.is_image() || is_linked_image {
        return Ok(MistralItem::ImageUrl { image_url: media.url() });
    }
    if media.is_pdf() {
        return Ok(MistralItem::DocumentUrl { document_url: media.url() });
    }
    Err(AIError::invalid_request(format!("{NAME} does not support media type {}", media.mime())))
}
