//! Making generated schemas plain, without changing what they accept.

use abide_schema::JsonObject;
use serde_json::Value;

/// Keywords whose value is a schema.
const ONE: [&str; 11] = [
    "additionalProperties",
    "items",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "additionalItems",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a map of schemas.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Merges `allOf` where no keyword would be overwritten, puts definitions in the place of references except where a
/// type contains itself, and drops definitions that nothing refers to any more.
pub(super) fn simplify(document: JsonObject) -> JsonObject {
    let definitions = document.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut out = Expander { definitions: &definitions, open: Vec::new() }.object(document);
    let mut rest = out.clone();
    rest.shift_remove("$defs");
    if !refers(&Value::Object(rest)) {
        out.shift_remove("$defs");
    }
    out
}

struct Expander<'d> {
    definitions: &'d JsonObject,
    /// Names on the way down.
    open: Vec<String>,
}

impl Expander<'_> {
    fn value(&mut self, schema: Value) -> Value {
        match schema {
            Value::Object(schema) => Value::Object(self.object(schema)),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => other,
        }
    }

    fn object(&mut self, schema: JsonObject) -> JsonObject {
        let schema = match self.target(&schema) {
            Some((name, target)) => {
                let mut siblings = schema;
                siblings.shift_remove("$ref");
                let siblings = self.children(siblings);
                self.open.push(name);
                let target = self.object(target);
                self.open.pop();
                join(target, siblings)
            }
            None => self.children(schema),
        };
        merge_all_of(schema)
    }

    fn children(&mut self, mut schema: JsonObject) -> JsonObject {
        for (keyword, value) in &mut schema {
            let keyword = keyword.as_str();
            let taken = std::mem::take(value);
            *value = match taken {
                Value::Array(list) if LISTS.contains(&keyword) || keyword == "items" => {
                    Value::Array(list.into_iter().map(|schema| self.value(schema)).collect())
                }
                Value::Object(map) if MAPS.contains(&keyword) => {
                    // Inside its own definition a name stays a reference.
                    let definitions = keyword == "$defs";
                    let expand = |(name, schema): (String, Value)| {
                        if definitions {
                            self.open.push(name.clone());
                        }
                        let schema = self.value(schema);
                        if definitions {
                            self.open.pop();
                        }
                        (name, schema)
                    };
                    Value::Object(map.into_iter().map(expand).collect())
                }
                taken @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_)) => {
                    if ONE.contains(&keyword) {
                        self.value(taken)
                    } else {
                        taken
                    }
                }
            };
        }
        schema
    }

    /// Returns the target of a local reference that is not being expanded.
    fn target(&self, schema: &JsonObject) -> Option<(String, JsonObject)> {
        let name = definition_name(schema.get("$ref")?)?;
        if self.open.contains(&name) {
            return None;
        }
        let target = self.definitions.get(&name)?.as_object()?.clone();
        Some((name, target))
    }
}

fn definition_name(reference: &Value) -> Option<String> {
    let name = reference.as_str()?.strip_prefix("#/$defs/")?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

/// Joins a reference's target with the keywords beside the reference.
fn join(target: JsonObject, siblings: JsonObject) -> JsonObject {
    if siblings.is_empty() {
        return target;
    }
    if siblings.keys().any(|key| target.contains_key(key)) {
        // Annotations may be overwritten: the nearer ones are meant.
        let only_annotations = siblings.keys().filter(|key| target.contains_key(*key)).all(|key| is_annotation(key));
        if only_annotations {
            let mut target = target;
            target.extend(siblings);
            return target;
        }
        let mut out = JsonObject::new();
        out.insert("allOf".to_owned(), Value::Array(vec![Value::Object(target), Value::Object(siblings)]));
        return out;
    }
    let mut out = target;
    out.extend(siblings);
    out
}

fn is_annotation(keyword: &str) -> bool {
    matches!(keyword, "description" | "title" | "default" | "examples")
}

fn merge_all_of(mut schema: JsonObject) -> JsonObject {
    let Some(Value::Array(members)) = schema.get("allOf") else { return schema };
    let mut merged = JsonObject::new();
    for member in members {
        let Some(member) = member.as_object() else { return schema };
        for (keyword, value) in member {
            if schema.contains_key(keyword) || merged.contains_key(keyword) {
                return schema;
            }
            merged.insert(keyword.clone(), value.clone());
        }
    }
    // Keywords about "all the others" may only move to where there are no others.
    let alone = members.len() == 1 && schema.keys().all(|keyword| keyword == "allOf" || is_annotation(keyword));
    if !alone && schema.keys().chain(merged.keys()).any(|keyword| is_about_siblings(keyword)) {
        return schema;
    }
    schema.shift_remove("allOf");
    schema.extend(merged);
    schema
}

/// Keywords whose meaning depends on the others beside them.
fn is_about_siblings(keyword: &str) -> bool {
    matches!(keyword, "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" | "additionalItems")
}

fn refers(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.get("$ref").is_some_and(|target| target.as_str().is_some_and(|target| target.starts_with('#')))
                || map.values().any(refers)
        }
        Value::Array(items) => items.iter().any(refers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Closes every object that says nothing about further properties.
pub(super) fn close_objects(schema: &mut JsonObject) {
    let composed = ["allOf", "anyOf", "oneOf", "$ref", "unevaluatedProperties", "additionalProperties"];
    let is_object = schema.get("type").is_some_and(|kind| kind == "object" || has_type(kind, "object"));
    if is_object && !composed.iter().any(|keyword| schema.contains_key(*keyword)) {
        schema.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    each_child(schema, &mut close_objects);
}

fn has_type(kind: &Value, wanted: &str) -> bool {
    kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
}

/// Returns what the provider is told: without notes of the generator, and with `null` left out where a property may as
/// well be absent (validation still takes it).
pub(super) fn advertised(document: &JsonObject) -> JsonObject {
    let mut out = document.clone();
    out.shift_remove("$schema");
    plain(&mut out);
    out
}

fn plain(schema: &mut JsonObject) {
    schema.shift_remove("title");
    let is_number_format =
        |format: &str| ["int", "uint", "float", "double"].iter().any(|kind| format.starts_with(kind));
    if schema.get("format").and_then(Value::as_str).is_some_and(is_number_format) {
        schema.shift_remove("format");
    }
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            if let Value::Object(property) = property
                && !required.iter().any(|required| required == name)
            {
                drop_null(property);
            }
        }
    }
    each_child(schema, &mut plain);
}

fn drop_null(property: &mut JsonObject) {
    if property.get("default").is_some_and(Value::is_null) {
        property.shift_remove("default");
    }
    if let Some(Value::Array(kinds)) = property.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            property.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(options)) = property.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    let Some(Value::Array(branches)) = property.get_mut("anyOf") else { return };
    branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = branches.as_slice() {
        let only = only.clone();
        property.shift_remove("anyOf");
        let siblings = std::mem::take(property);
        *property = join(only, siblings);
    }
}

fn each_child(schema: &mut JsonObject, visit: &mut impl FnMut(&mut JsonObject)) {
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        match value {
            Value::Object(child) if ONE.contains(&keyword) => visit(child),
            Value::Object(map) if MAPS.contains(&keyword) => {
                map.values_mut().filter_map(Value::as_object_mut).for_each(&mut *visit);
            }
            Value::Array(list) if LISTS.contains(&keyword) || keyword == "items" => {
                list.iter_mut().filter_map(Value::as_object_mut).for_each(&mut *visit);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            }
        }
    }
}
