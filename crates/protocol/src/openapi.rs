//! The OpenAPI document, made from the route table and the types it names.

pub mod events;

use indexmap::IndexMap;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::ErrorTag;
use crate::route::{BodyUse, Method, Origin, Param, ParamKind, Route, Served};
use crate::routes::ROUTES;
use crate::shape::{ObjectShape, Shape};

/// Names of our types, and the contract's names of the same things.
const RENAMES: &[(&str, &str)] = &[
    ("AgentAttachment", "PromptAgentAttachment"),
    ("FileAttachment", "PromptFileAttachment"),
    ("Rule", "PermissionV2Rule"),
    ("Effect", "PermissionV2Effect"),
    ("Reply", "PermissionV2Reply"),
    ("SavedPermission", "PermissionSavedInfo"),
    ("Source", "PermissionV2Source"),
];

fn contract_name(name: &str) -> &str {
    RENAMES.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| theirs)
}

/// The components of a document while it is made.
#[derive(Debug, Default)]
pub struct Components {
    schemas: IndexMap<String, Value>,
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A schema together with the definitions that it refers to.
struct Source<'a> {
    definitions: &'a Map<String, Value>,
}

impl Source<'_> {
    /// Follows a reference; properties beside it are added to what it refers to.
    fn resolve(&self, schema: &Value) -> Value {
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else { return schema.clone() };
        let name = target.rsplit('/').next().unwrap_or_default();
        let mut resolved = self.resolve(self.definitions.get(name).unwrap_or(&Value::Null));
        let (Value::Object(base), Value::Object(beside)) = (&mut resolved, schema) else { return resolved };
        for (key, value) in beside.iter().filter(|(key, _)| *key != "$ref") {
            match (base.get_mut(key), value) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    old.extend(new.iter().map(|(k, v)| (k.clone(), v.clone())));
                }
                (Some(Value::Array(old)), Value::Array(new)) => old.extend(new.iter().cloned()),
                (Some(_), _) => {}
                (None, value) => {
                    base.insert(key.clone(), value.clone());
                }
            }
        }
        resolved
    }
}

/// Leaves out the `null` of an optional property: such a property is absent, never null.
fn without_null(schema: &Value) -> Value {
    if let Some(Value::Array(options)) = schema.get("anyOf") {
        let rest: Vec<&Value> = options.iter().filter(|option| option.get("type") != Some(&json!("null"))).collect();
        if let ([only], true) = (rest.as_slice(), rest.len() < options.len()) {
            return (*only).clone();
        }
    }
    let mut schema = schema.clone();
    if let Some(Value::Array(types)) = schema.get("type") {
        let rest: Vec<Value> = types.iter().filter(|kind| *kind != "null").cloned().collect();
        if let (Value::Object(map), Some(first)) = (&mut schema, rest.first()) {
            map.insert("type".to_owned(), if rest.len() == 1 { first.clone() } else { Value::Array(rest) });
        }
    }
    schema
}

impl Components {
    /// Defines a component once, and returns a reference to it.
    pub fn define(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.schemas.contains_key(name) {
            self.schemas.insert(name.to_owned(), Value::Null);
            let schema = make(self);
            self.schemas.insert(name.to_owned(), schema);
        }
        reference(name)
    }

    /// Adds a type, and returns its schema: a reference when the type has a name.
    pub fn add<T: JsonSchema>(&mut self) -> Value {
        let mut generator = generator();
        let schema = generator.subschema_for::<T>();
        self.take(generator, schema, None)
    }

    /// Returns the schema of a type in place, without making a component of it.
    pub fn inline<T: JsonSchema>(&mut self) -> Value {
        let mut generator = generator();
        let schema = T::json_schema(&mut generator);
        self.take(generator, schema, None)
    }

    /// Adds what a shape leaves of a type.
    pub fn shaped<T: JsonSchema>(&mut self, shape: &Shape) -> Value {
        let mut generator = generator();
        let schema = generator.subschema_for::<T>();
        self.take(generator, schema, Some(shape))
    }

    /// Adds what a shape leaves of an event's data.
    fn event_data(&mut self, make: fn(&mut SchemaGenerator) -> Schema, shape: &'static ObjectShape) -> Value {
        let mut generator = generator();
        let schema = make(&mut generator);
        self.take(generator, schema, Some(&Shape::Object(shape)))
    }

    fn take(&mut self, mut generator: SchemaGenerator, schema: Schema, shape: Option<&Shape>) -> Value {
        let definitions = generator.take_definitions(true);
        let source = Source { definitions: &definitions };
        self.put(&source, &schema.to_value(), shape.unwrap_or(&Shape::Any))
    }

    fn put(&mut self, source: &Source<'_>, schema: &Value, shape: &Shape) -> Value {
        match shape {
            Shape::Any => self.plain(source, schema),
            Shape::List(item) => {
                let schema = source.resolve(&without_null(schema));
                let items = self.put(source, schema.get("items").unwrap_or(&Value::Null), item);
                json!({ "type": "array", "items": items })
            }
            Shape::Object(object) => self.object(source, &without_null(schema), object),
            Shape::Tagged(tagged) => {
                let schema = source.resolve(&without_null(schema));
                let make = |components: &mut Self| {
                    let options = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
                    let all: Vec<Value> = options
                        .map_or(std::slice::from_ref(&schema), Vec::as_slice)
                        .iter()
                        .filter_map(|option| {
                            let option = source.resolve(option);
                            let tag = option.pointer(&format!("/properties/{}/const", tagged.tag))?.as_str()?;
                            let (_, object) = tagged.variants.iter().find(|(name, _)| *name == tag)?;
                            Some(components.object(source, &option, object))
                        })
                        .collect();
                    match all.as_slice() {
                        [only] => only.clone(),
                        [] | [_, ..] => json!({ "anyOf": all }),
                    }
                };
                match tagged.component {
                    Some(name) => self.define(name, make),
                    None => make(self),
                }
            }
        }
    }

    fn object(&mut self, source: &Source<'_>, schema: &Value, object: &ObjectShape) -> Value {
        let schema = source.resolve(schema);
        let make = |components: &mut Self| {
            let mut properties = Map::new();
            for (name, shape) in object.fields {
                if let Some(property) = schema.pointer(&format!("/properties/{name}")) {
                    properties.insert((*name).to_owned(), components.put(source, &without_null(property), shape));
                }
            }
            let required: Vec<&Value> = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|name| name.as_str().is_some_and(|name| object.field(name).is_some()))
                .collect();
            let mut out = json!({ "type": "object", "properties": properties });
            if let (false, Value::Object(out)) = (required.is_empty(), &mut out) {
                out.insert("required".to_owned(), json!(required));
            }
            if let Value::Object(out) = &mut out {
                out.insert("additionalProperties".to_owned(), json!(false));
            }
            out
        };
        match object.component {
            Some(name) => self.define(name, make),
            None => make(self),
        }
    }

    /// Takes a schema as it is, with its references.
    fn plain(&mut self, source: &Source<'_>, schema: &Value) -> Value {
        match schema {
            Value::Object(map) => {
                if let (Some(Value::String(target)), 1) = (map.get("$ref"), map.len()) {
                    let ours = target.rsplit('/').next().unwrap_or_default();
                    let Some(definition) = source.definitions.get(ours) else { return schema.clone() };
                    return self.define(contract_name(ours), |components| components.plain(source, definition));
                }
                if map.contains_key("$ref") {
                    let resolved = source.resolve(schema);
                    return self.plain(source, &resolved);
                }
                let Value::Object(map) = without_null(schema) else { return without_null(schema) };
                if map.contains_key("$ref") {
                    return self.plain(source, &Value::Object(map));
                }
                map.iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "default" | "$schema" | "$defs"))
                    .map(|(key, value)| (key.clone(), self.plain(source, value)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            Value::Array(items) => items.iter().map(|item| self.plain(source, item)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        }
    }

    fn error(&mut self, tag: ErrorTag) -> Value {
        // The contract's document has another, older error under the plain name.
        let name = if tag == ErrorTag::Unknown { "UnknownError1" } else { tag.as_str() };
        self.define(name, |_| {
            let mut properties = Map::new();
            properties.insert("_tag".to_owned(), json!({ "type": "string", "enum": [tag.as_str()] }));
            properties.insert("message".to_owned(), json!({ "type": "string" }));
            let mut required = vec!["_tag", "message"];
            for (field, always) in tag.fields() {
                properties.insert((*field).to_owned(), json!({ "type": "string" }));
                if *always {
                    required.push(field);
                }
            }
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        })
    }
}

/// Makes the OpenAPI 3.1 document of every route.
pub fn document() -> Value {
    let mut components = Components::default();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut components);
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(item) = item {
            item.insert(route.method.as_str().to_ascii_lowercase(), operation);
        }
    }
    components.schemas.sort_unstable_keys();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "abide", "version": env!("CARGO_PKG_VERSION"),
            "description": "The HTTP API of abide: the published 1.18 contract and additions." },
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "securitySchemes": { "basic": { "type": "http", "scheme": "basic" } },
        },
        "security": [{}, { "basic": [] }],
    })
}

fn operation(route: &Route, components: &mut Components) -> Value {
    let mut out = Map::new();
    out.insert("operationId".to_owned(), json!(route.id));
    out.insert("summary".to_owned(), json!(route.doc.trim()));
    out.insert("parameters".to_owned(), Value::Array(parameters(route)));
    if route.body != BodyUse::None {
        let schema = (route.schemas.body)(components);
        let required = route.body == BodyUse::Required;
        let content = json!({ "application/json": { "schema": schema } });
        out.insert("requestBody".to_owned(), json!({ "required": required, "content": content }));
    }
    out.insert("responses".to_owned(), responses(route, components));
    match route.served {
        Served::Yes => {}
        Served::NotYet => {
            out.insert("x-abide-served".to_owned(), json!(false));
        }
    }
    match route.origin {
        Origin::Contract => {}
        Origin::Abide => {
            out.insert("x-abide-extension".to_owned(), json!(true));
        }
    }
    Value::Object(out)
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut out: Vec<Value> = route
        .params()
        .map(|name| {
            let prefix = match name {
                "sessionID" => Some("ses"),
                "messageID" => Some("msg_"),
                "ptyID" => Some("pty"),
                "requestID" if route.path.contains("/permission/") => Some("per"),
                "requestID" => Some("que"),
                _ => None,
            };
            let schema = prefix.map_or(
                json!({ "type": "string" }),
                |prefix| json!({ "type": "string", "pattern": format!("^{prefix}") }),
            );
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    if route.located {
        let text = json!({ "type": "string" });
        let schema = json!({
            "type": "object",
            "properties": { "directory": text, "workspace": text },
            "additionalProperties": false,
        });
        out.push(json!({
            "name": "location", "in": "query", "required": false, "schema": schema, "style": "deepObject",
            "explode": true,
        }));
    }
    out.extend(route.query.iter().map(parameter));
    out
}

fn parameter(param: &Param) -> Value {
    let schema = match param.kind {
        ParamKind::Text | ParamKind::NumberText => json!({ "type": "string" }),
        ParamKind::Number => json!({ "type": "number" }),
        ParamKind::Flag => json!({ "type": "boolean" }),
        ParamKind::Words(words) => json!({ "type": "string", "enum": words }),
        ParamKind::Id(prefix) => json!({ "type": "string", "pattern": format!("^{prefix}") }),
    };
    let mut out = json!({
        "name": param.name, "in": "query", "required": param.required, "description": param.doc, "schema": schema,
    });
    if let (true, Value::Object(out)) = (param.extension, &mut out) {
        out.insert("x-abide-extension".to_owned(), json!(true));
    }
    out
}

fn responses(route: &Route, components: &mut Components) -> Value {
    let mut out = Map::new();
    let mut success = json!({ "description": "Done." });
    if let Some(media) = route.media {
        let schema = (route.schemas.reply)(components);
        success = json!({ "description": "Done.", "content": { media: { "schema": schema } } });
    }
    out.insert(route.status.to_string(), success);
    let mut tags = route.all_errors();
    if route.method != Method::GET {
        tags.push(ErrorTag::Forbidden);
    }
    if route.body != BodyUse::None {
        tags.push(ErrorTag::PayloadTooLarge);
    }
    if route.served == Served::NotYet {
        tags.push(ErrorTag::ServiceUnavailable);
    }
    tags.sort_by_key(|tag| (tag.status(), tag.as_str()));
    tags.dedup();
    for group in tags.chunk_by(|a, b| a.status() == b.status()) {
        let mut schemas: Vec<Value> = group.iter().map(|tag| components.error(*tag)).collect();
        let schema = if schemas.len() == 1 { schemas.remove(0) } else { json!({ "anyOf": schemas }) };
        if let Some(tag) = group.first() {
            let words = group.iter().map(|tag| tag.as_str()).collect::<Vec<_>>().join(" or ");
            let content = json!({ "application/json": { "schema": schema } });
            out.insert(tag.status().to_string(), json!({ "description": words, "content": content }));
        }
    }
    if route.body != BodyUse::None {
        let content = json!({ "text/plain": { "schema": { "type": "string" } } });
        out.insert("415".to_owned(), json!({ "description": "The body is no JSON.", "content": content }));
    }
    Value::Object(out)
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod tests;
