//! Projection of tool schemas, applied once to every tool before lowering.
//!
//! Every schema gets a plain object at its root and its references written out; some providers need
//! more and get a sanitizer of their own. What needs no change is passed on untouched.

mod gemini;
mod moonshot;
mod openai;
mod refs;
mod root;

pub use openai::strict;

use std::sync::Arc;

use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::messages::ToolDefinition;
use crate::schema::model::ToolSchemaKind;
use crate::schema::request::{LLMRequest, RequestPatch};

/// Projects the tools of a request; returns the same request when nothing has to change. A tool whose
/// schema is no object cannot be called and is left out.
pub fn project_tools(request: &LLMRequest) -> LLMRequest {
    let sanitizer = sanitizer(request);
    let mut tools = Vec::with_capacity(request.tools.len());
    let mut is_changed = false;
    for tool in &request.tools {
        match project(&tool.input_schema, sanitizer) {
            Projection::Same => tools.push(Arc::clone(tool)),
            Projection::Changed(input_schema) => {
                is_changed = true;
                tools.push(Arc::new(ToolDefinition { input_schema, ..(**tool).clone() }));
            }
            Projection::NoObject => {
                is_changed = true;
                tracing::warn!(tool = %tool.name, "tool left out: its input schema is not an object");
            }
        }
    }
    if is_changed {
        request.update(RequestPatch { tools: Some(tools), ..RequestPatch::default() })
    } else {
        request.clone()
    }
}

/// What becomes of a schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Projection {
    /// It is sent as it is.
    Same,
    /// This is sent instead.
    Changed(JsonObject),
    /// It takes no object and cannot be offered.
    NoObject,
}

/// Projects one schema.
pub fn project(schema: &JsonObject, sanitizer: ToolSchemaKind) -> Projection {
    if !root::may_be_object(schema) {
        return Projection::NoObject;
    }
    let inlined = refs::inline(schema);
    let rooted = root::object_root(inlined.as_ref().unwrap_or(schema)).or(inlined);
    let current = rooted.as_ref().unwrap_or(schema);
    let sanitized = match sanitizer {
        ToolSchemaKind::None => None,
        ToolSchemaKind::Gemini => Some(gemini::sanitize(current)),
        ToolSchemaKind::Moonshot => Some(moonshot::sanitize(current)),
    };
    match sanitized.or(rooted) {
        Some(changed) if changed != *schema => Projection::Changed(changed),
        Some(_) | None => Projection::Same,
    }
}

/// An explicit choice, else the protocol's own, else by the name of the model.
fn sanitizer(request: &LLMRequest) -> ToolSchemaKind {
    let model = &request.model;
    let by_name = || {
        let id = model.id.as_str().to_ascii_lowercase();
        if id.contains("gemini") {
            ToolSchemaKind::Gemini
        } else if id.contains("kimi") {
            ToolSchemaKind::Moonshot
        } else {
            ToolSchemaKind::None
        }
    };
    model.compatibility.tool_schema.or_else(|| model.route.protocol().tool_schema()).unwrap_or_else(by_name)
}

/// What stands below a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// One schema, or a list of schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// Plain data, never a schema.
    Data,
}

fn below(keyword: &str) -> Below {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => Below::Named,
        "items"
        | "prefixItems"
        | "additionalItems"
        | "unevaluatedItems"
        | "contains"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "anyOf"
        | "oneOf"
        | "allOf"
        | "not"
        | "if"
        | "then"
        | "else" => Below::Schemas,
        _ => Below::Data,
    }
}

/// Applies a function to an object; anything else stays.
fn on_object(value: &Value, map: impl FnOnce(&JsonObject) -> JsonObject) -> Value {
    value.as_object().map_or_else(|| value.clone(), |object| Value::Object(map(object)))
}

/// Applies a function to every direct subschema.
fn map_subschemas(schema: &JsonObject, map: &mut dyn FnMut(&Value) -> Value) -> JsonObject {
    schema
        .iter()
        .map(|(keyword, value)| {
            let mapped = match (below(keyword), value) {
                (Below::Schemas, Value::Array(list)) => Value::Array(list.iter().map(&mut *map).collect()),
                (Below::Schemas, one) => map(one),
                (Below::Named, Value::Object(named)) => {
                    Value::Object(named.iter().map(|(name, schema)| (name.clone(), map(schema))).collect())
                }
                (Below::Named | Below::Data, other) => other.clone(),
            };
            (keyword.clone(), mapped)
        })
        .collect()
}
