//! A plain object at the root, as most APIs want it.

use serde_json::{Value, json};

use crate::schema::JsonObject;

const COMBINERS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Whether the schema can describe an object at all.
pub(super) fn may_be_object(schema: &JsonObject) -> bool {
    match schema.get("type") {
        None | Some(Value::Null) => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => true,
    }
}

/// The schema as one plain object; `None` when it is one.
pub(super) fn object_root(schema: &JsonObject) -> Option<JsonObject> {
    let is_object = schema.get("type") == Some(&json!("object"));
    let has_combiner = COMBINERS.iter().any(|keyword| schema.contains_key(*keyword));
    if is_object && !has_combiner {
        return None;
    }
    let mut root = JsonObject::new();
    root.insert("type".to_owned(), json!("object"));
    for (keyword, value) in schema {
        if keyword != "type" && !COMBINERS.contains(&keyword.as_str()) {
            root.insert(keyword.clone(), value.clone());
        }
    }
    for keyword in COMBINERS {
        if let Some(Value::Array(branches)) = schema.get(keyword) {
            flatten(&mut root, branches, keyword == "allOf");
        }
    }
    Some(root)
}

/// Offers the properties of all branches. Of alternatives only what each of them requires stays
/// required; the original schema still decides what is valid.
fn flatten(root: &mut JsonObject, branches: &[Value], is_all: bool) {
    if branches.contains(&json!({ "type": "object" })) {
        return;
    }
    let objects: Vec<&JsonObject> = branches.iter().filter_map(Value::as_object).collect();
    for branch in &objects {
        for (name, schema) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
            add_property(root, name, schema);
        }
    }
    let required_of = |branch: &JsonObject| -> Vec<String> {
        let list = branch.get("required").and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut required: Vec<Vec<String>> = objects.iter().map(|branch| required_of(branch)).collect();
    let wanted: Vec<String> = if is_all {
        required.concat()
    } else {
        let first = required.pop().unwrap_or_default();
        first.into_iter().filter(|name| required.iter().all(|names| names.contains(name))).collect()
    };
    let mut all = required_of(root);
    for name in wanted {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    if !all.is_empty() {
        root.insert("required".to_owned(), json!(all));
    }
}

fn add_property(root: &mut JsonObject, name: &str, schema: &Value) {
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else { return };
    match properties.get_mut(name) {
        None => {
            properties.insert(name.to_owned(), schema.clone());
        }
        Some(known) if known == schema => {}
        Some(known) => match known.get_mut("anyOf") {
            Some(Value::Array(alternatives)) if !alternatives.contains(schema) => alternatives.push(schema.clone()),
            Some(_) => {}
            None => *known = json!({ "anyOf": [known.clone(), schema] }),
        },
    }
}
