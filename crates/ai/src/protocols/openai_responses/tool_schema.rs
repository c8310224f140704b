//! Tool schemas as OpenAI takes them: a plain object at the root.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::schema::JsonObject;

const COMBINERS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Flattens a choice at the root: the properties of all alternatives are offered, and only what every
/// alternative requires is required. The checked input is still held against the original schema.
pub(super) fn flat_root(schema: &JsonObject) -> Cow<'_, JsonObject> {
    if !COMBINERS.iter().any(|name| schema.contains_key(*name)) {
        return Cow::Borrowed(schema);
    }
    let mut flat: JsonObject = schema
        .iter()
        .filter(|(name, _)| !COMBINERS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    flat.insert("type".to_owned(), json!("object"));
    let mut properties = object(schema.get("properties"));
    let mut required = names(schema.get("required"));
    for combiner in COMBINERS {
        let branches: Vec<&JsonObject> =
            schema.get(combiner).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect();
        for branch in &branches {
            for (name, property) in object(branch.get("properties")) {
                properties.entry(name).or_insert(property);
            }
        }
        let lists = branches.iter().map(|branch| names(branch.get("required")));
        let more = if combiner == "allOf" {
            lists.flatten().collect()
        } else {
            lists.reduce(|all, list| all.into_iter().filter(|name| list.contains(name)).collect()).unwrap_or_default()
        };
        for name in more {
            if !required.contains(&name) {
                required.push(name);
            }
        }
    }
    flat.insert("properties".to_owned(), properties.into());
    if required.is_empty() {
        flat.shift_remove("required");
    } else {
        flat.insert("required".to_owned(), required.into());
    }
    Cow::Owned(flat)
}

fn object(value: Option<&Value>) -> JsonObject {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

fn names(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
