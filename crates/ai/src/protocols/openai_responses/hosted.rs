//! Items of tools that OpenAI runs itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::protocols::open_responses::Hosted;
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{ToolContent, ToolResultValue};

/// The canonical name of the tool behind an item type.
pub(super) fn name(item_type: &str) -> Option<&'static str> {
    Some(match item_type {
        "web_search_call" => "web_search",
        "web_search_preview_call" => "web_search_preview",
        "file_search_call" => "file_search",
        "code_interpreter_call" => "code_interpreter",
        "computer_call" | "computer_use_call" => "computer_use",
        "image_generation_call" => "image_generation",
        "mcp_call" => "mcp",
        _ => return None,
    })
}

/// What a finished item means.
///
/// # Errors
/// `InvalidProviderOutput` when an image is not base64.
pub(super) fn read(item_type: &str, item: &JsonObject) -> Result<Option<Hosted>, AIError> {
    let Some(name) = name(item_type) else { return Ok(None) };
    let pick = |names: &[&str]| -> Value {
        names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), item.get(*name)?.clone())))
            .collect::<JsonObject>()
            .into()
    };
    let input = match name {
        "file_search" => pick(&["queries"]),
        "code_interpreter" => pick(&["code", "container_id"]),
        "mcp" => pick(&["server_label", "name", "arguments"]),
        "image_generation" => json!({}),
        _ => item.get("action").filter(|action| !action.is_null()).cloned().unwrap_or_else(|| json!({})),
    };
    Ok(Some(Hosted { name: name.to_owned(), input, result: result(name, item)? }))
}

fn result(name: &str, item: &JsonObject) -> Result<ToolResultValue, AIError> {
    if let Some(error) = item.get("error").filter(|error| !error.is_null()) {
        return Ok(ToolResultValue::Error(error.clone()));
    }
    match item.get("result").and_then(Value::as_str) {
        Some(image) if name == "image_generation" => {
            if let Err(error) = STANDARD.decode(image) {
                return Err(AIError::invalid_output(format!(
                    "OpenAI Responses generated image is not base64: {error}"
                ))
                .with_cause(error));
            }
            let format = item.get("output_format").and_then(Value::as_str).unwrap_or("png");
            let mime = format!("image/{format}");
            let uri = format!("data:{mime};base64,{image}");
            Ok(ToolResultValue::Content(vec![ToolContent::File { uri, mime, name: None }]))
        }
        Some(_) | None => Ok(ToolResultValue::Json(Value::Object(item.clone()))),
    }
}
