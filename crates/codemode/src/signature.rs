//! TypeScript signatures from JSON Schemas. Writing one never fails: what cannot be said is `unknown`.

use serde_json::{Map, Value};

use crate::tree::{Tool, expression, is_identifier};

/// Nested types below this depth are `unknown`.
pub const MAX_DEPTH: usize = 8;
/// Types that one signature may hold: references can multiply a small schema without end.
const MAX_TYPES: usize = 2000;

/// Writes the signature of a tool: `tools.files.read(input: { path: string }): Promise<string | null>`.
pub fn signature(tool: &Tool) -> String {
    let output = tool.output.as_ref().map_or_else(|| "string | null".to_owned(), type_of);
    format!("{}(input: {}): Promise<{output}>", expression(&tool.path), type_of(&tool.input))
}

/// Writes the type of a schema, on one line. Local references are followed; recursive ones are `unknown`.
pub fn type_of(schema: &Value) -> String {
    Writer { root: schema, open: Vec::new(), left: MAX_TYPES }.of(schema, 0).text
}

/// A type, and whether it must stand in parentheses inside an intersection.
struct Type {
    text: String,
    is_union: bool,
}

impl Type {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_union: false }
    }

    fn unknown() -> Self {
        Self::plain("unknown")
    }
}

struct Writer<'a> {
    root: &'a Value,
    /// References that are being written.
    open: Vec<&'a str>,
    left: usize,
}

impl<'a> Writer<'a> {
    fn of(&mut self, schema: &'a Value, depth: usize) -> Type {
        if depth > MAX_DEPTH || self.left == 0 {
            return Type::unknown();
        }
        self.left -= 1;
        match schema {
            Value::Bool(false) => Type::plain("never"),
            Value::Object(map) => self.of_map(map, depth),
            Value::Bool(true) | Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => Type::unknown(),
        }
    }

    fn of_map(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type {
        if let Some(value) = map.get("const") {
            return Type::plain(value.to_string());
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            return union(values.iter().map(|value| Type::plain(value.to_string())));
        }
        let mut parts = Vec::new();
        if let Some(Value::String(reference)) = map.get("$ref") {
            parts.push(self.of_reference(reference, depth));
        }
        if let Some(Value::Array(schemas)) = map.get("allOf") {
            parts.extend(schemas.iter().map(|schema| self.of(schema, depth + 1)));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(schemas)) = map.get(key) {
                let types: Vec<Type> = schemas.iter().map(|schema| self.of(schema, depth + 1)).collect();
                parts.push(union(types));
            }
        }
        // Beside other parts the bare word `object` says nothing.
        if (parts.is_empty() || map.contains_key("properties"))
            && let Some(base) = self.of_base(map, depth)
        {
            parts.insert(0, base);
        }
        let all = intersection(parts);
        if map.get("nullable") == Some(&Value::Bool(true)) { union([all, Type::plain("null")]) } else { all }
    }

    /// Writes what `type` says, or what the other keywords imply.
    fn of_base(&mut self, map: &'a Map<String, Value>, depth: usize) -> Option<Type> {
        match map.get("type") {
            Some(Value::String(name)) => Some(self.of_name(name, map, depth)),
            Some(Value::Array(names)) => {
                let types: Vec<Type> =
                    names.iter().filter_map(Value::as_str).map(|name| self.of_name(name, map, depth)).collect();
                Some(union(types))
            }
            _ if map.contains_key("properties") || map.contains_key("additionalProperties") => {
                Some(self.object(map, depth))
            }
            _ if map.contains_key("items") || map.contains_key("prefixItems") => Some(self.array(map, depth)),
            _ => None,
        }
    }

    fn of_name(&mut self, name: &str, map: &'a Map<String, Value>, depth: usize) -> Type {
        match name {
            "string" | "boolean" | "null" => Type::plain(name),
            "number" | "integer" => Type::plain("number"),
            "array" => self.array(map, depth),
            "object" => self.object(map, depth),
            _ => Type::unknown(),
        }
    }

    fn of_reference(&mut self, reference: &'a str, depth: usize) -> Type {
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) else {
            return Type::unknown();
        };
        if self.open.contains(&reference) || self.open.len() >= MAX_DEPTH {
            return Type::unknown();
        }
        self.open.push(reference);
        let written = self.of(target, depth);
        self.open.pop();
        written
    }

    fn array(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type {
        if let Some(Value::Array(first)) = map.get("prefixItems") {
            let mut items: Vec<String> = first.iter().map(|schema| self.of(schema, depth + 1).text).collect();
            match map.get("items") {
                None | Some(Value::Bool(_)) => {}
                Some(rest) => items.push(format!("...Array<{}>", self.of(rest, depth + 1).text)),
            }
            return Type::plain(format!("[{}]", items.join(", ")));
        }
        let item = map.get("items").map_or_else(Type::unknown, |items| self.of(items, depth + 1));
        Type::plain(format!("Array<{}>", item.text))
    }

    fn object(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type {
        let required: Vec<&str> = match map.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut fields = Vec::new();
        if let Some(Value::Object(properties)) = map.get("properties") {
            for (name, schema) in properties {
                let mut field = comment(schema);
                if is_identifier(name) {
                    field.push_str(name);
                } else {
                    field.push_str(&Value::from(name.as_str()).to_string());
                }
                field.push_str(if required.contains(&name.as_str()) { ": " } else { "?: " });
                field.push_str(&self.of(schema, depth + 1).text);
                fields.push(field);
            }
        }
        let rest = match map.get("additionalProperties") {
            None => fields.is_empty().then(|| "unknown".to_owned()),
            Some(Value::Bool(allowed)) => allowed.then(|| "unknown".to_owned()),
            // An index signature must hold for the named fields too.
            Some(_) if !fields.is_empty() => Some("unknown".to_owned()),
            Some(schema) => Some(self.of(schema, depth + 1).text),
        };
        if let Some(rest) = rest {
            fields.push(format!("[key: string]: {rest}"));
        }
        if fields.is_empty() { Type::plain("{}") } else { Type::plain(format!("{{ {} }}", fields.join("; "))) }
    }
}

fn union(types: impl IntoIterator<Item = Type>) -> Type {
    let mut texts: Vec<String> = Vec::new();
    let mut is_union = false;
    for written in types {
        is_union |= written.is_union;
        if !texts.contains(&written.text) {
            texts.push(written.text);
        }
    }
    if texts.is_empty() {
        return Type::plain("never");
    }
    Type { is_union: is_union || texts.len() > 1, text: texts.join(" | ") }
}

fn intersection(mut parts: Vec<Type>) -> Type {
    if parts.len() > 1 {
        parts.retain(|part| part.text != "unknown");
    }
    if parts.len() > 1 {
        let texts: Vec<String> =
            parts.into_iter().map(|part| if part.is_union { format!("({})", part.text) } else { part.text }).collect();
        return Type::plain(texts.join(" & "));
    }
    parts.pop().unwrap_or_else(Type::unknown)
}

/// Writes the comment of a field, with a space behind it; empty when there is nothing to say.
fn comment(schema: &Value) -> String {
    let mut words = Vec::new();
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        words.extend(text.split_whitespace().map(str::to_owned));
    }
    if schema.get("deprecated") == Some(&Value::Bool(true)) {
        words.push("@deprecated".to_owned());
    }
    for key in ["default", "format", "minItems", "maxItems"] {
        match schema.get(key) {
            None => {}
            Some(Value::String(text)) if key == "format" => words.push(format!("@{key} {text}")),
            Some(value) => words.push(format!("@{key} {value}")),
        }
    }
    if words.is_empty() { String::new() } else { format!("/** {} */ ", words.join(" ").replace("*/", "*\\/")) }
}

#[cfg(test)]
mod tests;
