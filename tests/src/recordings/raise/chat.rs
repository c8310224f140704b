//! Chat bodies.

use std::sync::Arc;

use abide_ai::schema::messages::{Content, Part};
use abide_ai::schema::model::{Compatibility, MaxTokensField};
use abide_ai::schema::options::CachePolicy;
use abide_ai::{Message, RequestInput, SystemPart, ToolChoice};
use serde_json::Value;

use super::{Raised, call, generation, list, result, text, tool};

/// A Chat body.
///
/// # Errors
/// What of the body is not understood.
pub fn chat(body: &Value) -> Result<Raised, String> {
    let mut input = RequestInput {
        cache: CachePolicy::None,
        generation: generation(body, "max_tokens"),
        ..RequestInput::default()
    };
    for message in list(body, "messages") {
        let message = match text(message, "role")?.as_str() {
            "system" => {
                input.system.push(SystemPart::make(text(message, "content")?));
                continue;
            }
            "user" => Message::user(text(message, "content")?),
            "assistant" => assistant(message)?,
            "tool" => {
                let id = text(message, "tool_call_id")?;
                let part = result(id, &input.messages, &text(message, "content")?);
                Message::new(abide_ai::schema::messages::Role::Tool, part)
            }
            other => return Err(format!("unknown role {other}")),
        };
        input.messages.push(Arc::new(message));
    }
    for definition in list(body, "tools") {
        let function = definition.get("function").unwrap_or(&Value::Null);
        input.tools.push(Arc::new(tool(function, "parameters")?));
    }
    if let Some(function) = body.get("tool_choice").and_then(|choice| choice.get("function")) {
        input.tool_choice = Some(ToolChoice::named(text(function, "name")?));
    }
    Ok(Raised {
        model: text(body, "model")?,
        compatibility: Compatibility {
            max_tokens_field: Some(MaxTokensField::MaxTokens),
            supports_store: Some(false),
            supports_strict_mode: Some(false),
            ..Compatibility::default()
        },
        input,
    })
}

fn assistant(message: &Value) -> Result<Message, String> {
    let mut parts: Vec<Part> = Vec::new();
    parts.extend(message.get("content").and_then(Value::as_str).map(Part::text));
    for entry in list(message, "tool_calls") {
        let function = entry.get("function").unwrap_or(&Value::Null);
        parts.push(call(text(entry, "id")?, text(function, "name")?, &text(function, "arguments")?)?);
    }
    Ok(Message::assistant(Content(parts)))
}
