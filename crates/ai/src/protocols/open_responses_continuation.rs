//! What a server that keeps the last response need not be told again.
//!
//! A checkpoint holds the request of a completed response and its output. If the next request is the same
//! but for more input behind both, only the new input is sent.

use std::sync::Arc;

use serde_json::{Value, json};

use super::shared::same_json;
use crate::route::transport::websocket_channel::Checkpoint;
use crate::schema::JsonObject;

/// Names the form of these checkpoints.
const PROTOCOL: &str = "open-responses.websocket.v1";
/// Fields that a continuation changes.
const CHANGING: [&str; 3] = ["type", "input", "previous_response_id"];

/// The checkpoint of a completed response.
pub(super) fn checkpoint(id: &str, request: JsonObject, output: Vec<Value>) -> Checkpoint {
    let mut value = JsonObject::new();
    value.insert("version".to_owned(), json!(1));
    value.insert("responseID".to_owned(), id.into());
    value.insert("request".to_owned(), Value::Object(request));
    value.insert("output".to_owned(), output.into());
    Checkpoint { protocol: PROTOCOL, value: Arc::new(Value::Object(value)) }
}

/// The response to build on and the input it does not hold; `None` when the request must be sent whole.
pub(super) fn rest(checkpoint: &Checkpoint, request: &JsonObject) -> Option<(String, Vec<Value>)> {
    let value = &*checkpoint.value;
    if checkpoint.protocol != PROTOCOL || value.get("version")? != 1 || request.contains_key("previous_response_id") {
        return None;
    }
    let id = value.get("responseID")?.as_str()?;
    let before = value.get("request")?.as_object()?;
    if !same_fields(before, request) {
        return None;
    }
    let known: Vec<&Value> = before.get("input")?.as_array()?.iter().chain(value.get("output")?.as_array()?).collect();
    let input = request.get("input")?.as_array()?;
    let (repeated, new) = input.split_at_checked(known.len())?;
    if new.is_empty() || !known.into_iter().zip(repeated).all(|(known, repeated)| same_item(known, repeated)) {
        return None;
    }
    Some((id.to_owned(), new.to_vec()))
}

fn same_fields(a: &JsonObject, b: &JsonObject) -> bool {
    let fields = |object: &JsonObject| object.keys().filter(|name| !CHANGING.contains(&name.as_str())).count();
    let is_same = |(name, value): (&String, &Value)| {
        CHANGING.contains(&name.as_str()) || b.get(name).is_some_and(|other| same_json(value, other))
    };
    fields(a) == fields(b) && a.iter().all(is_same)
}

/// Whether two items say the same, although a server adds ids, states and empty lists to its own.
fn same_item(a: &Value, b: &Value) -> bool {
    let (kind_a, kind_b) = (kind(a), kind(b));
    if kind_a != kind_b {
        return false;
    }
    let same = |name: &str| same_json(field(a, name), field(b, name));
    match kind_a {
        "message" if field(a, "role") == "assistant" => {
            same("role") && same("phase") && same_list(field(a, "content"), field(b, "content"), same_text)
        }
        "function_call" => {
            same("call_id") && same("name") && same_arguments(field(a, "arguments"), field(b, "arguments"))
        }
        "reasoning" => same("encrypted_content") && same_list(field(a, "summary"), field(b, "summary"), same_text),
        _ => same_json(a, b),
    }
}

/// An item without a type and with a role is a message.
fn kind(item: &Value) -> &str {
    match item.get("type").and_then(Value::as_str) {
        Some(kind) => kind,
        None if item.get("role").is_some() => "message",
        None => "",
    }
}

fn field<'v>(item: &'v Value, name: &str) -> &'v Value {
    item.get(name).unwrap_or(&Value::Null)
}

fn same_list(a: &Value, b: &Value, same: fn(&Value, &Value) -> bool) -> bool {
    let items = |value: &Value| value.as_array().map_or(0, Vec::len);
    items(a) == items(b)
        && a.as_array().into_iter().flatten().zip(b.as_array().into_iter().flatten()).all(|(a, b)| same(a, b))
}

/// Text parts by type and text; a server adds empty annotations.
fn same_text(a: &Value, b: &Value) -> bool {
    ["type", "text", "refusal"].into_iter().all(|name| field(a, name) == field(b, name))
}

fn same_arguments(a: &Value, b: &Value) -> bool {
    let parse = |value: &Value| serde_json::from_str::<Value>(value.as_str()?).ok();
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => same_json(&a, &b),
        (_, _) => a == b,
    }
}
