//! Property names outside the set the provider takes. Such a name is replaced in the schema and in
//! replayed calls, and restored in the calls that come back, so that one odd key does not make the
//! provider refuse all tools.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::messages::ToolDefinition;

/// The longest property name the provider takes.
const MAX_NAME_CHARS: usize = 64;

/// Replaced property names by tool. Tools whose names all fit are not in it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyMaps(BTreeMap<String, KeyMap>);

#[derive(Clone, Debug, Default)]
struct KeyMap {
    to_wire: BTreeMap<String, String>,
    to_tool: BTreeMap<String, String>,
}

impl KeyMaps {
    /// The maps of a list of tools; the same tools give the same maps.
    pub(super) fn of(tools: &[Arc<ToolDefinition>]) -> Self {
        Self(
            tools
                .iter()
                .filter_map(|tool| KeyMap::of(&tool.input_schema).map(|map| (tool.name.clone(), map)))
                .collect(),
        )
    }

    /// The schema of a tool as it is sent.
    pub(super) fn schema<'t>(&self, tool: &'t ToolDefinition) -> Cow<'t, JsonObject> {
        match self.0.get(&tool.name) {
            Some(map) => {
                let mut schema = tool.input_schema.clone();
                rename_schema(&mut schema, &map.to_wire);
                Cow::Owned(schema)
            }
            None => Cow::Borrowed(&tool.input_schema),
        }
    }

    /// The arguments of a call as they are sent.
    pub(super) fn send<'v>(&self, tool: &str, input: &'v Value) -> Cow<'v, Value> {
        match self.0.get(tool) {
            Some(map) => {
                let mut input = input.clone();
                rename_keys(&mut input, &map.to_wire);
                Cow::Owned(input)
            }
            None => Cow::Borrowed(input),
        }
    }

    /// Gives the arguments of a call that came back their own names again.
    pub(super) fn restore(&self, tool: &str, input: &mut Value) {
        if let Some(map) = self.0.get(tool) {
            rename_keys(input, &map.to_tool);
        }
    }
}

impl KeyMap {
    fn of(schema: &JsonObject) -> Option<Self> {
        let mut names = Vec::new();
        collect_names(schema, &mut names);
        if names.iter().all(|name| is_fit(name)) {
            return None;
        }
        let mut taken: BTreeSet<String> =
            names.iter().filter(|name| is_fit(name)).map(|name| (*name).to_owned()).collect();
        let mut map = Self::default();
        for name in names {
            if is_fit(name) || map.to_wire.contains_key(name) {
                continue;
            }
            let wire = free_name(name, &taken);
            taken.insert(wire.clone());
            map.to_tool.insert(wire.clone(), name.to_owned());
            map.to_wire.insert(name.to_owned(), wire);
        }
        Some(map)
    }
}

const fn is_fit_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-')
}

fn is_fit(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.chars().all(is_fit_char)
}

fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    let fit = |room: usize| -> String {
        name.chars().map(|char| if is_fit_char(char) { char } else { '_' }).take(room).collect()
    };
    let plain = fit(MAX_NAME_CHARS);
    if !plain.is_empty() && !taken.contains(&plain) {
        return plain;
    }
    let mut number = 2_usize;
    loop {
        let tail = format!("_{number}");
        let candidate = format!("{}{tail}", fit(MAX_NAME_CHARS.saturating_sub(tail.len())));
        if !taken.contains(&candidate) {
            return candidate;
        }
        number = number.saturating_add(1);
    }
}

/// Keywords whose values are data and not schemas.
fn is_data(keyword: &str) -> bool {
    matches!(keyword, "enum" | "const" | "default" | "examples" | "required" | "description")
}

fn collect_names<'s>(schema: &'s JsonObject, names: &mut Vec<&'s str>) {
    for (keyword, value) in schema {
        if let ("properties", Value::Object(properties)) = (keyword.as_str(), value) {
            for (name, property) in properties {
                names.push(name);
                collect_value(property, names);
            }
        } else if !is_data(keyword) {
            collect_value(value, names);
        }
    }
}

fn collect_value<'s>(value: &'s Value, names: &mut Vec<&'s str>) {
    if let Some(schema) = value.as_object() {
        collect_names(schema, names);
    }
    for item in value.as_array().into_iter().flatten() {
        collect_value(item, names);
    }
}

fn rename_schema(schema: &mut JsonObject, to_wire: &BTreeMap<String, String>) {
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                *properties = renamed(std::mem::take(properties), to_wire);
                for property in properties.values_mut() {
                    rename_value(property, to_wire);
                }
            }
            ("required", Value::Array(required)) => {
                for name in required {
                    if let Some(wire) = name.as_str().and_then(|name| to_wire.get(name)) {
                        *name = Value::String(wire.clone());
                    }
                }
            }
            (keyword, value) if !is_data(keyword) => rename_value(value, to_wire),
            _ => {}
        }
    }
}

fn rename_value(value: &mut Value, to_wire: &BTreeMap<String, String>) {
    if let Some(schema) = value.as_object_mut() {
        rename_schema(schema, to_wire);
    } else if let Some(items) = value.as_array_mut() {
        for item in items {
            rename_value(item, to_wire);
        }
    }
}

/// Renames keys of data at any depth, in place of order.
fn rename_keys(value: &mut Value, names: &BTreeMap<String, String>) {
    if let Some(object) = value.as_object_mut() {
        *object = renamed(std::mem::take(object), names);
        for value in object.values_mut() {
            rename_keys(value, names);
        }
    } else if let Some(items) = value.as_array_mut() {
        for item in items {
            rename_keys(item, names);
        }
    }
}

fn renamed(object: JsonObject, names: &BTreeMap<String, String>) -> JsonObject {
    object.into_iter().map(|(name, value)| (names.get(&name).cloned().unwrap_or(name), value)).collect()
}
