//! Responses bodies.

use std::sync::Arc;

use abide_ai::schema::messages::{Content, Part, ReasoningPart, Role, ToolContent, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::{Compatibility, SystemPlacement};
use abide_ai::schema::options::CachePolicy;
use abide_ai::schema::{JsonObject, provider_metadata};
use abide_ai::{Message, RequestInput, SystemPart, ToolChoice};
use serde_json::{Value, json};

use super::{Raised, call, generation, list, name_of, result, text, tool};

/// A Responses body.
///
/// # Errors
/// What of the body is not understood.
pub fn responses(body: &Value) -> Result<Raised, String> {
    let prompt_cache_key = body.get("prompt_cache_key").and_then(Value::as_str).map(str::to_owned);
    let mut input = RequestInput {
        cache: if prompt_cache_key.is_some() { CachePolicy::Auto } else { CachePolicy::None },
        prompt_cache_key,
        generation: generation(body, "max_output_tokens"),
        provider_options: options(body),
        ..RequestInput::default()
    };
    let mut placement = SystemPlacement::Input;
    if let Some(instructions) = body.get("instructions").and_then(Value::as_str) {
        placement = SystemPlacement::Instructions;
        input.system.extend(instructions.split('\n').map(SystemPart::make));
    }
    for item in list(body, "input") {
        match item.get("role").and_then(Value::as_str) {
            Some("system") => input.system.push(SystemPart::make(text(item, "content")?)),
            Some("user") => {
                let parts = texts(item)?;
                input.messages.push(Arc::new(Message::user(Content(parts))));
            }
            Some("assistant") => {
                for part in texts(item)? {
                    assistant(&mut input, part);
                }
            }
            Some(other) => return Err(format!("unknown role {other}")),
            None => other_item(&mut input, item)?,
        }
    }
    for definition in list(body, "tools") {
        input.tools.push(Arc::new(tool(definition, "parameters")?));
    }
    if let Some(choice) = body.get("tool_choice") {
        input.tool_choice = Some(ToolChoice::named(text(choice, "name")?));
    }
    let compatibility = Compatibility { system_placement: Some(placement), ..Compatibility::default() };
    Ok(Raised { model: text(body, "model")?, compatibility, input })
}

fn options(body: &Value) -> Option<JsonObject> {
    let reasoning = body.get("reasoning").unwrap_or(&Value::Null);
    let options: JsonObject = [
        ("store", body.get("store")),
        ("include", body.get("include")),
        ("reasoningEffort", reasoning.get("effort")),
        ("reasoningSummary", reasoning.get("summary")),
        ("textVerbosity", body.get("text").and_then(|text| text.get("verbosity"))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())))
    .collect();
    (!options.is_empty()).then_some(options)
}

fn texts(item: &Value) -> Result<Vec<Part>, String> {
    list(item, "content").iter().map(|part| Ok(Part::text(text(part, "text")?))).collect()
}

/// Adds a part to the answer in progress, or begins one.
fn assistant(input: &mut RequestInput, part: Part) {
    match input.messages.last_mut() {
        Some(last) if last.role == Role::Assistant => Arc::make_mut(last).content.push(part),
        Some(_) | None => input.messages.push(Arc::new(Message::assistant(part))),
    }
}

fn other_item(input: &mut RequestInput, item: &Value) -> Result<(), String> {
    match text(item, "type")?.as_str() {
        "reasoning" => {
            let mut values = JsonObject::new();
            values.insert("reasoningEncryptedContent".to_owned(), json!(text(item, "encrypted_content")?));
            let part =
                ReasoningPart { provider_metadata: provider_metadata("openai", values), ..ReasoningPart::default() };
            assistant(input, Part::Reasoning(part));
        }
        "function_call" => {
            let part = call(text(item, "call_id")?, text(item, "name")?, &text(item, "arguments")?)?;
            assistant(input, part);
        }
        "function_call_output" => {
            let id = text(item, "call_id")?;
            let part = if let Some(output) = item.get("output").and_then(Value::as_str) {
                result(id, &input.messages, output)
            } else {
                let items = list(item, "output").iter().map(tool_content).collect::<Result<Vec<_>, _>>()?;
                let name = name_of(&id, &input.messages);
                Part::ToolResult(ToolResultPart::make(id, name, ToolResultValue::Content(items)))
            };
            input.messages.push(Arc::new(Message::new(Role::Tool, part)));
        }
        other => return Err(format!("unknown item type {other}")),
    }
    Ok(())
}

fn tool_content(value: &Value) -> Result<ToolContent, String> {
    if let Some(url) = value.get("image_url").and_then(Value::as_str) {
        let mime = url.strip_prefix("data:").and_then(|url| url.split(';').next()).unwrap_or_default();
        return Ok(ToolContent::File { uri: url.to_owned(), mime: mime.to_owned(), name: None });
    }
    Ok(ToolContent::text(text(value, "text")?))
}
