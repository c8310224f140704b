//! References written out in place: the model must see the inner fields.

use serde_json::{Value, json};

use super::{Below, below, map_subschemas};
use crate::schema::JsonObject;

/// How often one reference is written out inside itself.
const MAX_LEVELS: usize = 2;
/// The most references of one schema that are written out; the rest become plain objects.
const MAX_EXPANSIONS: usize = 400;
/// The most bytes all written-out references may have.
const MAX_BYTES: usize = 48 * 1024;

/// The schema with its local references written out; `None` when it has none. Recursion ends in an
/// object without properties, and a reference to nothing is dropped.
pub(super) fn inline(schema: &JsonObject) -> Option<JsonObject> {
    if !has_ref(schema) {
        return None;
    }
    let mut inliner = Inliner { root: schema, path: Vec::new(), expansions: 0, bytes: 0 };
    let mut inlined = match inliner.node(&Value::Object(schema.clone())) {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
    };
    for keyword in ["$defs", "definitions", "$schema"] {
        inlined.shift_remove(keyword);
    }
    Some(inlined)
}

fn has_ref(schema: &JsonObject) -> bool {
    let in_value = |value: &Value| value.as_object().is_some_and(has_ref);
    schema.contains_key("$ref")
        || schema.iter().any(|(keyword, value)| match (below(keyword), value) {
            (Below::Schemas, Value::Array(list)) => list.iter().any(in_value),
            (Below::Schemas, one) => in_value(one),
            (Below::Named, Value::Object(named)) => named.values().any(in_value),
            (Below::Named | Below::Data, _) => false,
        })
}

struct Inliner<'s> {
    root: &'s JsonObject,
    /// The references that are being written out.
    path: Vec<String>,
    expansions: usize,
    bytes: usize,
}

impl Inliner<'_> {
    fn node(&mut self, value: &Value) -> Value {
        let Value::Object(schema) = value else { return value.clone() };
        let Some(reference) = schema.get("$ref") else {
            let mut plain = schema.clone();
            if !self.path.is_empty() {
                // Definitions inside a definition were resolved from the root already.
                plain.shift_remove("$defs");
                plain.shift_remove("definitions");
            }
            let is_root = self.path.is_empty() && schema.len() == self.root.len() && schema == self.root;
            if is_root {
                plain.shift_remove("$defs");
                plain.shift_remove("definitions");
            }
            return Value::Object(map_subschemas(&plain, &mut |below| self.node(below)));
        };
        let mut siblings = schema.clone();
        siblings.shift_remove("$ref");
        let mut resolved = match reference.as_str() {
            Some(reference) => self.reference(reference),
            None => JsonObject::new(),
        };
        for (keyword, value) in map_subschemas(&siblings, &mut |below| self.node(below)) {
            resolved.insert(keyword, value);
        }
        Value::Object(resolved)
    }

    fn reference(&mut self, reference: &str) -> JsonObject {
        let Some(target) = self.target(reference) else { return JsonObject::new() };
        let levels = self.path.iter().filter(|known| *known == reference).count();
        if levels >= MAX_LEVELS || self.expansions >= MAX_EXPANSIONS || self.bytes >= MAX_BYTES {
            return plain_object();
        }
        self.expansions += 1;
        self.bytes += target.to_string().len();
        self.path.push(reference.to_owned());
        let node = self.node(&target);
        self.path.pop();
        match node {
            Value::Object(object) => object,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
        }
    }

    fn target(&self, reference: &str) -> Option<Value> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.is_empty() {
            return Some(Value::Object(self.root.clone()));
        }
        let mut parts = pointer.strip_prefix('/')?.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
        let mut value = self.root.get(&parts.next()?)?;
        for part in parts {
            value = match value {
                Value::Object(object) => object.get(&part)?,
                Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        value.is_object().then(|| value.clone())
    }
}

fn plain_object() -> JsonObject {
    JsonObject::from_iter([("type".to_owned(), json!("object"))])
}
