//! Agents in the older form, from `agent`, `mode` and markdown files.

use std::path::Path;

use abide_schema::JsonObject;
use abide_schema::config::AgentConfig;
use serde_json::{Value, json};

use super::permission;
use crate::config::fields::fields;
use crate::config::report::{Report, join};

/// Older keys with a meaning of their own; every other unknown key goes into the request body.
const OLDER: [&str; 10] =
    ["name", "prompt", "temperature", "top_p", "maxSteps", "options", "permission", "disable", "tools", "variant"];

/// Says whether an agent uses keys that the present form does not have.
pub(crate) fn is_older_agent(agent: &JsonObject) -> bool {
    let known = fields::<AgentConfig>();
    agent.keys().any(|key| !known.contains(&key.as_str()))
}

/// Converts one agent.
pub(crate) fn agent(mut old: JsonObject, home: &Path, pointer: &str, report: &mut Report) -> JsonObject {
    let mut new = JsonObject::new();
    let mut body = JsonObject::new();
    let mut rules = Vec::new();
    old.retain(|_, value| !value.is_null());
    if let Some(tools) = old.remove("tools") {
        // Claude-style files write a list of names.
        let tools = match tools {
            Value::String(names) => names
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(|name| (name.to_lowercase(), json!(true)))
                .collect::<JsonObject>()
                .into(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => tools,
        };
        permission::push_tools(&tools, &join(pointer, "tools"), &mut rules, report);
    }
    for key in ["permission", "permissions"] {
        if let Some(value) = old.remove(key) {
            permission::push_rules(&value, &join(pointer, key), home, &mut rules, report);
        }
    }
    join_variant(&mut old);
    if let Some(Value::Object(options)) = old.remove("options") {
        body.extend(options);
    }
    for (from, to) in [("prompt", "system"), ("disable", "disabled"), ("maxSteps", "steps")] {
        if let Some(value) = old.remove(from) {
            old.entry(to).or_insert(value);
        }
    }
    let known = fields::<AgentConfig>();
    for (key, value) in old {
        if known.contains(&key.as_str()) {
            new.insert(key, value);
        } else if !OLDER.contains(&key.as_str()) || key == "temperature" || key == "top_p" {
            body.insert(key, value);
        }
    }
    if !rules.is_empty() {
        for (index, (_, old)) in rules.iter().enumerate() {
            report.moved(format!("{pointer}/permissions/{index}"), old.clone());
        }
        new.insert("permissions".to_owned(), rules.into_iter().map(|(rule, _)| rule).collect());
    }
    if !body.is_empty() {
        let request = new.entry("request").or_insert_with(|| json!({ "headers": {}, "body": {} }));
        if let Some(there) = request.get_mut("body").and_then(Value::as_object_mut) {
            for (key, value) in body {
                there.entry(key).or_insert(value);
            }
        }
    }
    new
}

/// `model` and `variant` become `model#variant`.
pub(super) fn join_variant(entry: &mut JsonObject) {
    let Some(Value::String(variant)) = entry.remove("variant") else { return };
    if let Some(Value::String(model)) = entry.get_mut("model")
        && !model.contains('#')
        && !variant.is_empty()
    {
        *model = format!("{model}#{variant}");
    }
}
