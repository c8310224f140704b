//! Messages bodies.

use std::sync::Arc;

use abide_ai::schema::messages::{
    Content, MediaPart, Part, Role, ToolCallPart, ToolContent, ToolResultPart, ToolResultValue,
};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::{CacheMarks, CachePolicy, MessageMarks};
use abide_ai::{Message, RequestInput, SystemPart, ToolChoice};
use serde_json::Value;

use super::{Raised, generation, list, name_of, result, text, tool};

/// A Messages body; the name of the recording says which cache marks were asked for.
///
/// # Errors
/// What of the body is not understood.
pub fn messages(body: &Value, name: &str) -> Result<Raised, String> {
    let is_session = name.starts_with("session/");
    let mut input = RequestInput {
        cache: cache(name),
        // The session did not name a cap; the crate must send its own.
        generation: generation(body, if is_session { "" } else { "max_tokens" }),
        ..RequestInput::default()
    };
    for part in list(body, "system") {
        input.system.push(SystemPart::make(text(part, "text")?));
    }
    for message in list(body, "messages") {
        let content = list(message, "content");
        let is_tool = content.first().is_some_and(|block| block.get("type").is_some_and(|kind| kind == "tool_result"));
        let role = match (text(message, "role")?.as_str(), is_tool) {
            ("user", true) => Role::Tool,
            ("user", false) => Role::User,
            ("assistant", _) => Role::Assistant,
            (other, _) => return Err(format!("unknown role {other}")),
        };
        let parts = content.iter().map(|part| block(part, &input.messages)).collect::<Result<Vec<_>, _>>()?;
        input.messages.push(Arc::new(Message::new(role, Content(parts))));
    }
    for definition in list(body, "tools") {
        input.tools.push(Arc::new(tool(definition, "input_schema")?));
    }
    if let Some(choice) = body.get("tool_choice") {
        input.tool_choice = Some(ToolChoice::named(text(choice, "name")?));
    }
    Ok(Raised { model: text(body, "model")?, compatibility: Compatibility::default(), input })
}

fn cache(name: &str) -> CachePolicy {
    let latest_user = Some(MessageMarks::LatestUserMessage);
    if name.starts_with("anthropic-messages-cache/") {
        CachePolicy::Marks(CacheMarks { system: true, ..CacheMarks::default() })
    } else if name.starts_with("anthropic-messages/accepts-malformed") {
        CachePolicy::Marks(CacheMarks { messages: latest_user, ..CacheMarks::default() })
    } else if name.starts_with("session/") {
        CachePolicy::Marks(CacheMarks { tools: true, system: true, messages: latest_user, ttl_seconds: None })
    } else {
        CachePolicy::None
    }
}

fn block(value: &Value, messages: &[Arc<Message>]) -> Result<Part, String> {
    match text(value, "type")?.as_str() {
        "text" => Ok(Part::text(text(value, "text")?)),
        "image" => {
            let source = value.get("source").unwrap_or(&Value::Null);
            Ok(Part::Media(MediaPart::make(text(source, "media_type")?, text(source, "data")?)))
        }
        "tool_use" => {
            let input = value.get("input").cloned().unwrap_or_default();
            Ok(Part::ToolCall(ToolCallPart::make(text(value, "id")?, text(value, "name")?, input)))
        }
        "tool_result" => {
            let id = text(value, "tool_use_id")?;
            if let Some(content) = value.get("content").and_then(Value::as_str) {
                return Ok(result(id, messages, content));
            }
            let items = list(value, "content").iter().map(tool_content).collect::<Result<Vec<_>, _>>()?;
            let name = name_of(&id, messages);
            Ok(Part::ToolResult(ToolResultPart::make(id, name, ToolResultValue::Content(items))))
        }
        other => Err(format!("unknown block type {other}")),
    }
}

fn tool_content(value: &Value) -> Result<ToolContent, String> {
    if let Some(source) = value.get("source") {
        let mime = text(source, "media_type")?;
        let uri = format!("data:{mime};base64,{}", text(source, "data")?);
        return Ok(ToolContent::File { uri, mime, name: None });
    }
    Ok(ToolContent::text(text(value, "text")?))
}
