//! Projection of tool schemas, applied once to every tool before lowering.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::JsonObject;
use crate::schema::messages::ToolDefinition;

/// Gives a schema an object root; returns the same value when nothing has to change.
pub fn project(tool: &Arc<ToolDefinition>) -> Arc<ToolDefinition> {
    match object_root(&tool.input_schema) {
        None => Arc::clone(tool),
        Some(input_schema) => Arc::new(ToolDefinition { input_schema, ..(**tool).clone() }),
    }
}

/// The schema with `type: object` at the root, if it lacks a type; a root `anyOf` that has a plain
/// object among its branches says nothing more then and is dropped.
fn object_root(schema: &JsonObject) -> Option<JsonObject> {
    if schema.contains_key("type") {
        return None;
    }
    let mut fixed = JsonObject::new();
    fixed.insert("type".to_owned(), Value::from("object"));
    let plain = json!({ "type": "object" });
    for (key, value) in schema {
        let is_noise = key == "anyOf" && value.as_array().is_some_and(|branches| branches.contains(&plain));
        if !is_noise {
            fixed.insert(key.clone(), value.clone());
        }
    }
    Some(fixed)
}
