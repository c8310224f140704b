//! Every wire form, there and back: examples are made from the JSON schema of each type, at their least and at their
//! fullest, decoded, encoded, and compared with what is written down in the snapshots.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::event::{EVENTS, EventData};
use crate::live::{LIVE_EVENTS, LiveData};

/// How deep examples go; some types hold themselves.
const DEPTH: usize = 8;

/// Makes values that a schema describes.
struct Examples<'a> {
    definitions: &'a Map<String, Value>,
    full: bool,
}

impl Examples<'_> {
    /// Returns one value for each alternative at the top, else one.
    fn all(&self, schema: &Value) -> Vec<Value> {
        let schema = self.resolved(schema);
        match alternatives(&schema) {
            Some(choices) => choices.iter().flat_map(|choice| self.all(&merged(&schema, choice))).collect(),
            None => match schema.get("enum").and_then(Value::as_array) {
                Some(words) => words.clone(),
                None => vec![self.one(&schema, DEPTH)],
            },
        }
    }

    /// Follows a reference; what stands beside it holds as well.
    fn resolved(&self, schema: &Value) -> Value {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
        match name.and_then(|name| self.definitions.get(name)) {
            Some(definition) => self.resolved(&merged(schema, definition)),
            None => schema.clone(),
        }
    }

    fn one(&self, schema: &Value, depth: usize) -> Value {
        let schema = &self.resolved(schema);
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|words| words.first()) {
            return first.clone();
        }
        if let Some(choices) = alternatives(schema) {
            // Null is an alternative of what is optional; the fullest example has a value.
            let chosen = choices.iter().find(|choice| choice.get("type") != Some(&json!("null")));
            return chosen.map_or(Value::Null, |choice| self.one(&merged(schema, choice), depth));
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().find_map(|kind| kind.as_str().filter(|kind| *kind != "null")),
            Some(Value::String(kind)) => Some(kind.as_str()),
            _ => None,
        };
        match kind {
            Some("string") => json!(text(schema)),
            Some("integer") => json!(7),
            Some("number") => json!(1.5),
            Some("boolean") => json!(true),
            Some("array") if self.full && depth > 0 => match schema.get("items") {
                Some(items) => json!([self.one(items, depth - 1)]),
                None => json!([]),
            },
            Some("array") => json!([]),
            Some("object") => self.object(schema, depth),
            Some(_) | None if schema.get("properties").is_some() => self.object(schema, depth),
            Some(_) | None => json!({ "any": "thing" }),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let mut map = Map::new();
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&name.as_str()) || (self.full && depth > 0) {
                map.insert(name.clone(), self.one(property, depth.saturating_sub(1)));
            }
        }
        if let Some(values @ Value::Object(_)) = schema.get("additionalProperties")
            && self.full
            && depth > 0
        {
            map.insert("key".to_owned(), self.one(values, depth - 1));
        }
        Value::Object(map)
    }
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|word| schema.get(*word).and_then(Value::as_array))
}

/// What stands beside the alternatives holds for each.
fn merged(schema: &Value, choice: &Value) -> Value {
    let mut map = choice.as_object().cloned().unwrap_or_default();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match (key.as_str(), map.get_mut(key)) {
            ("oneOf" | "anyOf" | "$ref" | "$defs" | "description" | "title", _) => {}
            ("properties", Some(Value::Object(own))) => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    own.entry(name.clone()).or_insert_with(|| property.clone());
                }
            }
            ("required", Some(Value::Array(own))) => own.extend(value.as_array().into_iter().flatten().cloned()),
            (_, Some(_)) => {}
            (_, None) => drop(map.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(map)
}

/// A string that fits: ids have their prefix as the pattern.
fn text(schema: &Value) -> String {
    let prefix = schema.get("pattern").and_then(Value::as_str).map(|pattern| pattern.trim_start_matches('^'));
    prefix.map_or_else(|| "text".to_owned(), |prefix| format!("{}1", prefix.trim_end_matches('$')))
}

fn examples(make: impl Fn(&mut SchemaGenerator) -> Schema) -> Vec<Value> {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let schema = make(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let mut values = Vec::new();
    for full in [false, true] {
        for value in (Examples { definitions: &definitions, full }).all(&schema) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    values
}

/// Says whether `encoded` holds all of `example`, unchanged: what has a default may come on top.
fn holds(example: &Value, encoded: &Value) -> bool {
    match (example, encoded) {
        (Value::Object(example), Value::Object(encoded)) => {
            example.iter().all(|(key, value)| encoded.get(key).is_some_and(|other| holds(value, other)))
        }
        (Value::Array(example), Value::Array(encoded)) => {
            example.len() == encoded.len() && example.iter().zip(encoded).all(|(one, two)| holds(one, two))
        }
        (example, encoded) => example == encoded,
    }
}

/// Decodes and encodes; the two must be alike. Returns the line of the snapshot.
#[track_caller]
fn check<T: Serialize + DeserializeOwned>(name: &str, example: &Value) -> String {
    let decoded: T = match serde_json::from_value(example.clone()) {
        Ok(decoded) => decoded,
        Err(error) => panic!("{name}: {example} cannot be decoded: {error}"),
    };
    let encoded = serde_json::to_value(&decoded).unwrap();
    assert!(holds(example, &encoded), "{name}: {example} comes back as {encoded}");
    // And from text, which borrows; from then on it stays as it is.
    let decoded: T = serde_json::from_str(&encoded.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&decoded).unwrap(), encoded, "{name}, from text");
    format!("{name} {encoded}")
}

#[track_caller]
fn check_all<T: Serialize + DeserializeOwned + JsonSchema>(lines: &mut Vec<String>) {
    let name = T::schema_name().into_owned();
    for example in examples(T::json_schema) {
        lines.push(check::<T>(&name, &example));
    }
}

#[test]
fn every_durable_event_comes_back() {
    let mut lines = Vec::new();
    for def in EVENTS {
        for example in examples(def.schema) {
            let kind = def.stored_type();
            let data = EventData::decode(&kind, &example.to_string());
            let data = data.unwrap_or_else(|error| panic!("{kind}: {example} cannot be decoded: {error}"));
            assert_eq!((data.def().name, data.def().version), (def.name, def.version));
            let encoded: Value = serde_json::from_str(&data.encode().unwrap()).unwrap();
            assert!(holds(&example, &encoded), "{kind}: {example} comes back as {encoded}");
            assert_eq!(data.to_value().unwrap(), encoded);
            assert_eq!(EventData::decode(&kind, &encoded.to_string()).unwrap(), data);
            lines.push(format!("{kind} {encoded}"));
        }
    }
    insta::assert_snapshot!("durable events", lines.join("\n"));
}

#[test]
fn every_live_event_comes_back() {
    let mut lines = Vec::new();
    for def in LIVE_EVENTS {
        for example in examples(def.schema) {
            let data = LiveData::decode(def.name, example.clone());
            let data = data.unwrap_or_else(|error| panic!("{}: {example} cannot be decoded: {error}", def.name));
            let data = data.unwrap_or_else(|| panic!("{} is not known", def.name));
            assert_eq!(data.name(), def.name);
            let encoded = data.to_value().unwrap();
            assert!(holds(&example, &encoded), "{}: {example} comes back as {encoded}", def.name);
            lines.push(format!("{} {encoded}", def.name));
        }
    }
    insta::assert_snapshot!("live events", lines.join("\n"));
}

macro_rules! types {
    ($test:ident, $snapshot:literal: $($ty:ty),+ $(,)?) => {
        #[test]
        fn $test() {
            let mut lines = Vec::new();
            $( check_all::<$ty>(&mut lines); )+
            insta::assert_snapshot!($snapshot, lines.join("\n"));
        }
    };
}

types! { messages_come_back, "messages":
    crate::message::Message, crate::message::AssistantContent, crate::message::ToolState, crate::message::Finish,
    crate::message::CompactionStatus, crate::message::FileDiff, crate::message::Revert, crate::message::StepSnapshot,
    crate::message::RetryState, crate::message::ToolItem, crate::message::CallProvider,
}

types! { prompts_come_back, "prompts":
    crate::prompt::Prompt, crate::prompt::FileAttachment, crate::prompt::AgentAttachment, crate::prompt::PromptSource,
    crate::prompt::Delivery, crate::todo::Todo,
}

types! { tools_come_back, "tools":
    crate::tool::Content, crate::tool::ToolResult, crate::tool::ToolError, crate::tool::ToolOptions,
    crate::tool::Verdict, crate::tool::Effects,
}

types! { permissions_and_questions_come_back, "permissions and questions":
    crate::permission::Effect, crate::permission::Rule, crate::permission::Source,
    crate::permission::PermissionRequest, crate::permission::Reply, crate::permission::SavedPermission,
    crate::question::QuestionInfo, crate::question::QuestionRequest, crate::question::QuestionTool,
}

types! { sessions_come_back, "sessions":
    crate::session::SessionInfo, crate::session::SessionTime, crate::session::Outcome, crate::session::ForkInfo,
    crate::session::Admitted, crate::location::LocationRef, crate::location::LocationInfo, crate::agent::AgentInfo,
    crate::agent::AgentMode, crate::model::ModelRef, crate::model::Tokens, crate::model::ProviderRequest,
    crate::error::SessionError, crate::error::ErrorCode, crate::error::RetryError,
}

#[test]
fn what_a_type_does_not_know_is_left_out_and_what_it_needs_is_asked_for() {
    for def in EVENTS {
        for example in examples(def.schema) {
            let mut more = example.clone();
            more["somethingNewer"] = json!(1);
            let data = EventData::decode(&def.stored_type(), &more.to_string()).unwrap();
            assert_eq!(data, EventData::decode(&def.stored_type(), &example.to_string()).unwrap(), "{}", def.name);
            let mut less = example.clone();
            if let Some(map) = less.as_object_mut() {
                map.remove("sessionID");
            }
            let error = EventData::decode(&def.stored_type(), &less.to_string()).unwrap_err().to_string();
            assert!(error.contains("sessionID") && error.contains(def.name), "{error}");
        }
    }
}
