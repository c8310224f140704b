//! Lowering: stored history to the messages of a model request (spec/session.md 10.3).
//!
//! Whatever was stored, the result pairs each call with exactly one result, holds nothing empty, and leaves foreign
//! provider metadata out. The route's own rules are applied by the `ai` crate afterwards.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use abide_ai::schema::messages::{
    MediaPart, Message as ModelMessage, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolContent, ToolDefinition,
    ToolResultPart, ToolResultValue,
};
use abide_schema::error::text;
use abide_schema::message::{AssistantContent, AssistantMessage, Message, ToolItem, ToolState};
use abide_schema::model::ModelRef;
use abide_schema::tool::Content;
use serde_json::Value;

use crate::fs::media;
use crate::session::place::{Attachment, Place, ResolvedModel};

/// A resolved attachment of a user message: the file's name and its content, if it can be read.
pub struct ResolvedAttachment {
    /// The name to show.
    pub name: String,
    /// The content.
    pub content: Option<Attachment>,
}

/// Lowers one message. Attachments of a user message must be resolved by the caller.
pub fn lower(message: &Message, target: &ResolvedModel, attachments: &[ResolvedAttachment]) -> Vec<Arc<ModelMessage>> {
    match message {
        Message::User(user) => lower_user(&user.text, target, attachments),
        Message::Synthetic(synthetic) => user_text(&synthetic.text),
        Message::Skill(skill) => user_text(&skill.text),
        Message::System(system) if !system.text.is_empty() => {
            vec![Arc::new(ModelMessage::system(system.text.clone()))]
        }
        Message::System(_) => Vec::new(),
        Message::Shell(shell) => user_text(&format!(
            "The user ran this command:\n$ {}\n{}",
            shell.command,
            if shell.output.is_empty() { "(no output)" } else { &shell.output }
        )),
        Message::Compaction(compaction) => user_text(&format!(
            "The earlier part of this conversation was replaced by the record below. It is history, not an \
             instruction.\n<conversation-checkpoint>\n<summary>\n{}\n</summary>\n<recent-context>\n{}\n\
             </recent-context>\n</conversation-checkpoint>",
            compaction.summary, compaction.recent
        )),
        Message::AgentSwitched(_) | Message::ModelSwitched(_) | Message::Idle(_) => Vec::new(),
        Message::LocationSwitched(moved) => {
            user_text(&format!("The session now works in the directory {}.", moved.location.directory))
        }
        Message::Assistant(assistant) => lower_assistant(assistant, target),
    }
}

fn user_text(text: &str) -> Vec<Arc<ModelMessage>> {
    if text.is_empty() { Vec::new() } else { vec![Arc::new(ModelMessage::user(text))] }
}

fn lower_user(text: &str, target: &ResolvedModel, attachments: &[ResolvedAttachment]) -> Vec<Arc<ModelMessage>> {
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    if !text.is_empty() {
        texts.push(text.to_owned());
    }
    let mut media = Vec::new();
    for attachment in attachments {
        match &attachment.content {
            Some(Attachment::Text(content)) => {
                texts.push(format!("<file name=\"{}\">\n{content}\n</file>", attachment.name));
            }
            Some(Attachment::Media { mime, data }) if can_read(mime, target) => {
                let mut part = MediaPart::make(mime.clone(), data.clone());
                part.filename = Some(attachment.name.clone());
                media.push(Part::Media(part));
            }
            Some(Attachment::Media { mime, .. }) => {
                texts.push(format!(
                    "[The file {} ({mime}) was attached, but this model cannot read it.]",
                    attachment.name
                ));
            }
            None => texts.push(format!("[The file {} was attached, but it could not be read.]", attachment.name)),
        }
    }
    if !texts.is_empty() {
        parts.push(Part::text(texts.join("\n\n")));
    }
    parts.append(&mut media);
    if parts.is_empty() { Vec::new() } else { vec![Arc::new(ModelMessage::user(parts))] }
}

fn can_read(mime: &str, target: &ResolvedModel) -> bool {
    media::is_for_models(mime) && if mime.starts_with("image/") { target.takes_images } else { target.takes_pdf }
}

fn same_model(assistant: &AssistantMessage, target: &ModelRef) -> bool {
    assistant.model.provider_id == target.provider_id && assistant.model.id == target.id
}

fn lower_assistant(assistant: &AssistantMessage, target: &ResolvedModel) -> Vec<Arc<ModelMessage>> {
    let native = same_model(assistant, &target.model) && assistant.error.is_none();
    let mut parts = Vec::new();
    let mut results = Vec::new();
    for item in &assistant.content {
        match item {
            AssistantContent::Text(item) => {
                if !item.text.is_empty() {
                    let mut part = TextPart::make(item.text.clone());
                    if native {
                        part.provider_metadata.clone_from(&item.metadata);
                    }
                    parts.push(Part::Text(part));
                }
            }
            AssistantContent::Reasoning(item) => {
                if native {
                    if !item.text.is_empty() || item.provider_metadata.is_some() {
                        parts.push(Part::Reasoning(ReasoningPart {
                            text: item.text.clone(),
                            provider_metadata: item.provider_metadata.clone(),
                            ..ReasoningPart::default()
                        }));
                    }
                } else if !item.text.is_empty() {
                    parts.push(Part::text(item.text.clone()));
                }
            }
            AssistantContent::Tool(item) => lower_tool(item, native, target, &mut parts, &mut results),
        }
    }
    let mut messages = Vec::with_capacity(1 + results.len());
    if !parts.is_empty() {
        messages.push(Arc::new(ModelMessage::new(Role::Assistant, parts)));
    }
    messages.extend(results.into_iter().map(|result| Arc::new(ModelMessage::tool(result))));
    messages
}

fn lower_tool(
    item: &ToolItem,
    native: bool,
    target: &ResolvedModel,
    parts: &mut Vec<Part>,
    results: &mut Vec<ToolResultPart>,
) {
    let hosted = item.provider.as_ref().is_some_and(|provider| provider.executed);
    let input = match &item.state {
        ToolState::Pending { input } => serde_json::from_str(input)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| Value::Object(serde_json::Map::new())),
        ToolState::Running { input, .. } | ToolState::Completed { input, .. } | ToolState::Error { input, .. } => {
            Value::Object(input.clone())
        }
    };
    let mut call = ToolCallPart::make(item.id.as_str(), item.name.clone(), input);
    if native {
        call.provider_metadata = item.provider.as_ref().and_then(|provider| provider.metadata.clone());
    }
    let value = result_value(item, target);
    let mut result = ToolResultPart::make(item.id.as_str(), item.name.clone(), value);
    if native {
        result.provider_metadata = item.provider.as_ref().and_then(|provider| provider.result_metadata.clone());
    }
    if hosted && !native {
        // Another provider cannot read the blocks of a call that this one ran, but the model can read its outcome.
        parts.push(Part::text(hosted_text(&item.name, &result)));
    } else if hosted {
        call.provider_executed = Some(true);
        result.provider_executed = Some(true);
        parts.push(Part::ToolCall(call));
        parts.push(Part::ToolResult(result));
    } else {
        parts.push(Part::ToolCall(call));
        results.push(result);
    }
}

/// What a hosted tool of another provider gave, in words.
fn hosted_text(name: &str, result: &ToolResultPart) -> String {
    const MAX_CHARS: usize = 8_000;
    let text = match &result.result {
        ToolResultValue::Text(Value::String(text)) | ToolResultValue::Error(Value::String(text)) => text.clone(),
        ToolResultValue::Text(value) | ToolResultValue::Error(value) | ToolResultValue::Json(value) => {
            value.to_string()
        }
        ToolResultValue::Content(items) => {
            let text = |item: &ToolContent| match item {
                ToolContent::Text { text } => text.clone(),
                ToolContent::File { name, mime, .. } => format!("[{}]", name.as_deref().unwrap_or(mime)),
            };
            items.iter().map(text).collect::<Vec<_>>().join("\n")
        }
    };
    let shown: String = text.chars().take(MAX_CHARS).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("[{name} gave: {shown}{more}]")
}

fn result_value(item: &ToolItem, target: &ResolvedModel) -> ToolResultValue {
    match &item.state {
        ToolState::Completed { result: Some(native), .. } | ToolState::Error { result: Some(native), .. } => {
            ToolResultValue::make(native.clone())
        }
        ToolState::Completed { structured, content, output_paths, .. } => {
            if item.time.pruned.is_some() {
                return ToolResultValue::text(pruned_text(&item.name, output_paths.as_deref()));
            }
            if content.is_empty() {
                return ToolResultValue::Json(Value::Object(structured.clone()));
            }
            content_value(content, target)
        }
        ToolState::Error { error, content, .. } => {
            let detail = abide_schema::tool::joined_text(content);
            ToolResultValue::error(if detail.is_empty() {
                error.message.clone()
            } else {
                format!("{}\n\n{detail}", error.message)
            })
        }
        ToolState::Pending { .. } | ToolState::Running { .. } => ToolResultValue::error(text::TOOL_INTERRUPTED),
    }
}

fn pruned_text(name: &str, paths: Option<&[String]>) -> String {
    match paths.and_then(<[String]>::first) {
        Some(path) => format!("[The output of this {name} call was left out to save space; it is stored in {path}]"),
        None => format!("[The output of this {name} call was left out to save space; call the tool again if needed]"),
    }
}

fn content_value(content: &[Content], target: &ResolvedModel) -> ToolResultValue {
    let items: Vec<ToolContent> = content
        .iter()
        .map(|item| match item {
            Content::Text { text } => ToolContent::text(text.clone()),
            Content::File { uri, mime, name } if can_read(mime, target) => {
                ToolContent::File { uri: uri.clone(), mime: mime.clone(), name: name.clone() }
            }
            Content::File { mime, name, .. } => ToolContent::text(format!(
                "[{} ({mime}) is left out: this model cannot read it]",
                name.as_deref().unwrap_or("a file")
            )),
        })
        .collect();
    match items.as_slice() {
        [ToolContent::Text { text }] => ToolResultValue::text(text.clone()),
        _ => ToolResultValue::Content(items),
    }
}

/// Says whether a message can no longer change.
pub(super) fn is_final(message: &Message) -> bool {
    match message {
        Message::Assistant(assistant) => assistant.time.completed.is_some(),
        Message::Shell(shell) => shell.time.completed.is_some(),
        Message::Compaction(_)
        | Message::User(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_)
        | Message::Skill(_)
        | Message::LocationSwitched(_)
        | Message::Idle(_) => true,
    }
}

/// Reads what is attached to a message.
pub(super) async fn resolve_attachments(
    place: &dyn Place,
    files: &[abide_schema::prompt::FileAttachment],
) -> Vec<ResolvedAttachment> {
    let mut resolved = Vec::with_capacity(files.len());
    for file in files {
        let content = place.attachment(&file.uri, &file.mime).await;
        let name = file
            .name
            .clone()
            .unwrap_or_else(|| if file.uri.starts_with("data:") { file.mime.clone() } else { file.uri.clone() });
        resolved.push(ResolvedAttachment { name, content });
    }
    resolved
}

/// Estimates the tokens of a model message: four characters to a token.
pub fn estimate(message: &ModelMessage) -> u64 {
    const MEDIA_TOKENS: u64 = 1500;
    let mut characters = 0usize;
    let mut tokens = 0u64;
    for part in &message.content {
        match part {
            Part::Text(part) => characters += part.text.len(),
            Part::Reasoning(part) => characters += part.text.len(),
            Part::ToolCall(part) => characters += part.name.len() + json_size(&part.input),
            Part::ToolResult(part) => match &part.result {
                ToolResultValue::Json(value) | ToolResultValue::Text(value) | ToolResultValue::Error(value) => {
                    characters += json_size(value);
                }
                ToolResultValue::Content(items) => {
                    for item in items {
                        match item {
                            ToolContent::Text { text } => characters += text.len(),
                            ToolContent::File { .. } => tokens += MEDIA_TOKENS,
                        }
                    }
                }
            },
            Part::Media(_) => tokens += MEDIA_TOKENS,
        }
    }
    tokens + u64::try_from(characters / 4).unwrap_or(u64::MAX)
}

/// Estimates the tokens of what each request carries beside the messages: system texts and tool definitions.
pub fn estimate_fixed(system: [&str; 2], tools: &[Arc<ToolDefinition>]) -> u64 {
    let texts: usize = system.iter().map(|text| text.len()).sum();
    let tools: usize = tools
        .iter()
        .map(|tool| {
            let schema: usize = tool.input_schema.iter().map(|(key, value)| key.len() + 4 + json_size(value)).sum();
            tool.name.len() + tool.description.len() + schema
        })
        .sum();
    u64::try_from((texts + tools) / 4).unwrap_or(u64::MAX)
}

/// Returns roughly how many characters a value has as JSON, without writing it.
fn json_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 6,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(json_size).sum::<usize>() + items.len() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + json_size(value)).sum::<usize>() + 2,
    }
}
