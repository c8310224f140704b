//! What OpenAI's strict form takes: one closed object at the root, no `null` among alternatives.

use serde_json::{Value, json};

use super::root::object_root;
use super::{map_subschemas, on_object};
use crate::schema::JsonObject;

/// The schema in that form. Off by default: a server that validates strictly asks for it.
pub fn strict(schema: &JsonObject) -> JsonObject {
    let is_choice = schema.contains_key("anyOf");
    let mut root = object_root(schema).unwrap_or_else(|| schema.clone());
    if is_choice {
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    map_subschemas(&root, &mut |below| on_object(below, without_null))
}

/// Drops `null` from alternatives; one that is left alone stands in their place.
fn without_null(schema: &JsonObject) -> JsonObject {
    let mut node = map_subschemas(schema, &mut |below| on_object(below, without_null));
    let Some(Value::Array(alternatives)) = node.get("anyOf") else { return node };
    let left: Vec<Value> = alternatives.iter().filter(|one| **one != json!({ "type": "null" })).cloned().collect();
    match left.as_slice() {
        [Value::Object(one)] => {
            let one = one.clone();
            node.shift_remove("anyOf");
            for (keyword, value) in one {
                node.entry(keyword).or_insert(value);
            }
        }
        _ => {
            node.insert("anyOf".to_owned(), Value::Array(left));
        }
    }
    node
}
