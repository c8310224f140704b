//! What Gemini takes: one type a node, text enums, known names only.

use serde_json::{Value, json};

use super::{map_subschemas, on_object};
use crate::schema::JsonObject;

const KEPT: [&str; 12] = [
    "description",
    "required",
    "format",
    "type",
    "nullable",
    "enum",
    "properties",
    "items",
    "allOf",
    "anyOf",
    "oneOf",
    "minLength",
];
const COMBINERS: [&str; 3] = ["anyOf", "oneOf", "allOf"];
/// Keywords that say what an item is.
const INTENT: [&str; 15] = [
    "type",
    "properties",
    "items",
    "prefixItems",
    "enum",
    "const",
    "$ref",
    "additionalProperties",
    "patternProperties",
    "required",
    "not",
    "if",
    "then",
    "else",
    "anyOf",
];

pub(super) fn sanitize(schema: &JsonObject) -> JsonObject {
    project(&mend(schema))
}

/// Mends what Gemini would refuse.
fn mend(schema: &JsonObject) -> JsonObject {
    let mut node =
        map_subschemas(schema, &mut |below| if below.is_boolean() { json!({}) } else { on_object(below, mend) });
    if let Some(Value::Array(values)) = node.get("enum") {
        let texts: Vec<Value> = values.iter().map(|value| Value::from(text(value))).collect();
        node.insert("enum".to_owned(), Value::Array(texts));
        if matches!(node.get("type").and_then(Value::as_str), Some("integer" | "number" | "boolean")) {
            node.insert("type".to_owned(), json!("string"));
        }
    }
    let has_combiner = COMBINERS.iter().any(|keyword| node.contains_key(*keyword));
    let is = |node: &JsonObject, kind: &str| match node.get("type") {
        Some(Value::String(known)) => known == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|known| known == kind),
        Some(_) | None => false,
    };
    if let (Some(Value::Array(required)), Some(Value::Object(properties))) =
        (node.get("required"), node.get("properties"))
    {
        let known = |name: &&Value| name.as_str().is_some_and(|name| properties.contains_key(name));
        let required: Vec<Value> = required.iter().filter(known).cloned().collect();
        node.insert("required".to_owned(), Value::Array(required));
    } else if is(&node, "object") {
        node.shift_remove("required");
    }
    if is(&node, "array") && !has_combiner {
        let mut items = match node.get("items") {
            Some(Value::Object(items)) => items.clone(),
            Some(Value::Array(tuple)) => tuple.first().and_then(Value::as_object).cloned().unwrap_or_default(),
            Some(_) | None => JsonObject::new(),
        };
        if !INTENT.iter().chain(&COMBINERS).any(|keyword| items.contains_key(*keyword)) {
            items.insert("type".to_owned(), json!("string"));
        }
        node.insert("items".to_owned(), Value::Object(items));
    }
    if matches!(node.get("type").and_then(Value::as_str), Some("string" | "integer" | "number" | "boolean")) {
        node.shift_remove("properties");
        node.shift_remove("required");
    }
    node
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Keeps what Gemini knows.
fn project(schema: &JsonObject) -> JsonObject {
    let node = map_subschemas(schema, &mut |below| on_object(below, project));
    let mut kept = JsonObject::new();
    for (keyword, value) in node {
        match (keyword.as_str(), value) {
            ("const", value) => {
                kept.insert("enum".to_owned(), json!([text(&value)]));
                kept.entry("type").or_insert_with(|| json!("string"));
            }
            ("type", Value::Array(kinds)) => types(&mut kept, &kinds),
            (keyword, value) if KEPT.contains(&keyword) => {
                kept.insert(keyword.to_owned(), value);
            }
            (_, _) => {}
        }
    }
    let is_empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    if kept.get("required").is_some_and(is_empty_list) {
        kept.shift_remove("required");
    }
    kept
}

/// One type: `null` becomes `nullable`, several others become alternatives.
fn types(kept: &mut JsonObject, kinds: &[Value]) {
    let others: Vec<&Value> = kinds.iter().filter(|kind| *kind != "null").collect();
    if others.len() < kinds.len() {
        kept.insert("nullable".to_owned(), json!(true));
    }
    match others.as_slice() {
        [] => {}
        [one] => {
            kept.insert("type".to_owned(), (*one).clone());
        }
        many => {
            let alternatives: Vec<Value> = many.iter().map(|kind| json!({ "type": kind })).collect();
            kept.insert("anyOf".to_owned(), Value::Array(alternatives));
        }
    }
}
