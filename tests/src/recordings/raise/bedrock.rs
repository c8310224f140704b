//! Bedrock Converse bodies.

use std::sync::Arc;

use abide_ai::schema::messages::{Content, Part, Role, ToolCallPart, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::CachePolicy;
use abide_ai::{Message, RequestInput, SystemPart, ToolChoice};
use serde_json::Value;

use super::{Raised, generation, list, name_of, text, tool};

/// A Converse body.
///
/// # Errors
/// What of the body is not understood.
pub fn bedrock(body: &Value) -> Result<Raised, String> {
    let mut input = RequestInput {
        cache: CachePolicy::None,
        generation: body.get("inferenceConfig").and_then(|config| generation(config, "maxTokens")),
        ..RequestInput::default()
    };
    for part in list(body, "system") {
        input.system.push(SystemPart::make(text(part, "text")?));
    }
    for message in list(body, "messages") {
        let content = list(message, "content");
        let is_tool = content.first().is_some_and(|block| block.get("toolResult").is_some());
        let role = match (text(message, "role")?.as_str(), is_tool) {
            ("user", true) => Role::Tool,
            ("user", false) => Role::User,
            ("assistant", _) => Role::Assistant,
            (other, _) => return Err(format!("unknown role {other}")),
        };
        let parts = content.iter().map(|part| block(part, &input.messages)).collect::<Result<Vec<_>, _>>()?;
        input.messages.push(Arc::new(Message::new(role, Content(parts))));
    }
    let config = body.get("toolConfig").unwrap_or(&Value::Null);
    for definition in list(config, "tools") {
        let spec = definition.get("toolSpec").unwrap_or(&Value::Null);
        let mut tool = tool(spec, "inputSchema")?;
        tool.input_schema = super::object(spec.get("inputSchema").unwrap_or(&Value::Null), "json");
        input.tools.push(Arc::new(tool));
    }
    if let Some(choice) = config.pointer("/toolChoice/tool") {
        input.tool_choice = Some(ToolChoice::named(text(choice, "name")?));
    }
    Ok(Raised { model: text(body, "modelId")?, compatibility: Compatibility::default(), input })
}

fn block(value: &Value, messages: &[Arc<Message>]) -> Result<Part, String> {
    if let Some(call) = value.get("toolUse") {
        let input = call.get("input").cloned().unwrap_or_default();
        return Ok(Part::ToolCall(ToolCallPart::make(text(call, "toolUseId")?, text(call, "name")?, input)));
    }
    if let Some(result) = value.get("toolResult") {
        let id = text(result, "toolUseId")?;
        let json = result.pointer("/content/0/json").cloned().ok_or_else(|| format!("no JSON result in {result}"))?;
        let name = name_of(&id, messages);
        return Ok(Part::ToolResult(ToolResultPart::make(id, name, ToolResultValue::Json(json))));
    }
    Ok(Part::text(text(value, "text")?))
}
