//! Gemini bodies.

use std::sync::Arc;

use abide_ai::schema::messages::{Content, MediaPart, Part};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::CachePolicy;
use abide_ai::{Message, RequestInput, SystemPart, ToolChoice};
use serde_json::Value;

use super::{Raised, generation, list, text, tool};

/// A Gemini body of one turn of the user; the URL names the model.
///
/// # Errors
/// What of the body is not understood.
pub fn gemini(body: &Value, model: &str) -> Result<Raised, String> {
    let mut input = RequestInput {
        cache: CachePolicy::None,
        generation: body.get("generationConfig").and_then(|config| generation(config, "maxOutputTokens")),
        ..RequestInput::default()
    };
    for part in body.get("systemInstruction").map(|system| list(system, "parts")).unwrap_or_default() {
        input.system.push(SystemPart::make(text(part, "text")?));
    }
    for turn in list(body, "contents") {
        if text(turn, "role")? != "user" {
            return Err(format!("unknown turn {turn}"));
        }
        let parts = list(turn, "parts").iter().map(part).collect::<Result<Vec<_>, _>>()?;
        input.messages.push(Arc::new(Message::user(Content(parts))));
    }
    for tools in list(body, "tools") {
        for declaration in list(tools, "functionDeclarations") {
            input.tools.push(Arc::new(tool(declaration, "parameters")?));
        }
    }
    if let Some(Value::String(name)) = body.pointer("/toolConfig/functionCallingConfig/allowedFunctionNames/0") {
        input.tool_choice = Some(ToolChoice::named(name.as_str()));
    }
    Ok(Raised { model: model.to_owned(), compatibility: Compatibility::default(), input })
}

fn part(value: &Value) -> Result<Part, String> {
    match value.get("inlineData") {
        Some(data) => Ok(Part::Media(MediaPart::make(text(data, "mimeType")?, text(data, "data")?))),
        None => Ok(Part::text(text(value, "text")?)),
    }
}
