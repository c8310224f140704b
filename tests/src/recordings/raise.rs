//! The way back from a recorded body to the canonical request: what a caller says so that the crate
//! sends this body. Only what a caller can say is used; whatever the body holds beyond that must come
//! from the crate itself, or the bodies differ.

mod bedrock;
mod chat;
mod gemini;
mod messages;
mod responses;

use abide_ai::schema::JsonObject;
use abide_ai::schema::messages::{Message, Part, ToolCallPart, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::GenerationOptions;
use abide_ai::{RequestInput, ToolDefinition};
use serde_json::Value;

pub use bedrock::bedrock;
pub use chat::chat;
pub use gemini::gemini;
pub use messages::messages;
pub use responses::responses;

/// A canonical request without its route.
#[derive(Clone, Debug)]
pub struct Raised {
    /// The model id.
    pub model: String,
    /// What the model is told to be compatible with.
    pub compatibility: Compatibility,
    /// The request.
    pub input: RequestInput,
}

fn text(value: &Value, name: &str) -> Result<String, String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("no text {name} in {value}"))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn object(value: &Value, name: &str) -> JsonObject {
    value.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Generation options under their names on the wire.
fn generation(body: &Value, max_tokens: &str) -> Option<GenerationOptions> {
    let options = GenerationOptions {
        max_tokens: body.get(max_tokens).and_then(Value::as_u64),
        temperature: body.get("temperature").and_then(Value::as_f64),
        ..GenerationOptions::default()
    };
    (options != GenerationOptions::default()).then_some(options)
}

fn tool(value: &Value, schema: &str) -> Result<ToolDefinition, String> {
    Ok(ToolDefinition::make(text(value, "name")?, text(value, "description")?, object(value, schema).into()))
}

/// A call whose arguments are JSON text.
fn call(id: String, name: String, arguments: &str) -> Result<Part, String> {
    let input = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
    Ok(Part::ToolCall(ToolCallPart::make(id, name, input)))
}

/// A result as its text says: JSON if it is an object, so that key order is put to the test.
fn result(id: String, messages: &[std::sync::Arc<Message>], content: &str) -> Part {
    let value = match serde_json::from_str(content) {
        Ok(Value::Object(object)) => ToolResultValue::Json(object.into()),
        Ok(_) | Err(_) => ToolResultValue::text(content),
    };
    let name = name_of(&id, messages);
    Part::ToolResult(ToolResultPart::make(id, name, value))
}

/// The name of the tool that a call id belongs to.
fn name_of(id: &str, messages: &[std::sync::Arc<Message>]) -> String {
    messages
        .iter()
        .flat_map(|message| &message.content)
        .find_map(
            |part| if let Part::ToolCall(call) = part { (call.id == *id).then(|| call.name.clone()) } else { None },
        )
        .unwrap_or_default()
}
