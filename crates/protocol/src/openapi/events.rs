//! The event types of the document.

use abide_schema::event::{EVENTS, Visibility, names};
use abide_schema::live::LIVE_EVENTS;
use abide_schema::location::LocationRef;
use serde_json::{Map, Value, json};

use super::Components;
use crate::shape;
use crate::wire::{Pty, Wire as _};

/// Names the component of an event: `session.next.step.ended` is `SessionNextStepEnded`.
fn component(event: &str) -> String {
    // The one that the contract's document leaves as it is, because the plain name is taken by its data.
    if event == names::SESSION_STATUS {
        return event.to_owned();
    }
    event
        .split('.')
        .map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
        })
        .collect()
}

fn envelope(components: &mut Components, event: &str, make: impl FnOnce(&mut Components) -> Value) -> Value {
    components.define(&component(event), |components| {
        let data = make(components);
        let location = components.add::<LocationRef>();
        let durable = json!({
            "type": "object",
            "properties": {
                "aggregateID": { "type": "string" },
                "seq": { "type": "integer" },
                "version": { "type": "integer" },
            },
            "required": ["aggregateID", "seq", "version"],
            "additionalProperties": false,
        });
        json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "pattern": "^evt_" },
                "metadata": { "type": "object" },
                "type": { "type": "string", "enum": [event] },
                "durable": durable,
                "location": location,
                "data": data,
            },
            "required": ["id", "type", "data"],
            "additionalProperties": false,
        })
    })
}

fn durable(components: &mut Components) -> Vec<Value> {
    EVENTS
        .iter()
        .filter(|def| def.visibility == Visibility::Contract)
        .filter_map(|def| {
            let shape = shape::event_shape(def.name)?;
            Some(envelope(components, def.name, |components| components.event_data(def.schema, shape)))
        })
        .collect()
}

/// The events of one session's history and stream.
pub(crate) fn session_union(components: &mut Components) -> Value {
    components.define("SessionDurableEvent", |components| json!({ "oneOf": durable(components) }))
}

/// The events of the instance-wide stream.
pub(crate) fn instance_union(components: &mut Components) -> Value {
    components.define("V2Event", |components| {
        let mut all = durable(components);
        all.push(envelope(components, names::SESSION_CREATED, session_created));
        for name in shape::live_names() {
            all.push(envelope(components, name, |components| live_data(components, name)));
        }
        json!({ "anyOf": all })
    })
}

fn live_data(components: &mut Components, name: &str) -> Value {
    let typed = LIVE_EVENTS.iter().find(|def| def.name == name).zip(shape::live_shape(name));
    if let Some((def, shape)) = typed {
        return components.event_data(def.schema, shape);
    }
    let mut properties = Map::new();
    match name {
        names::PTY_CREATED | names::PTY_UPDATED => {
            properties.insert("info".to_owned(), Pty::schema(components));
        }
        names::PTY_EXITED => {
            properties.insert("id".to_owned(), json!({ "type": "string", "pattern": "^pty" }));
            properties.insert("exitCode".to_owned(), json!({ "type": "integer", "minimum": 0 }));
        }
        names::PTY_DELETED => {
            properties.insert("id".to_owned(), json!({ "type": "string", "pattern": "^pty" }));
        }
        names::INTEGRATION_CONNECTION_UPDATED => {
            properties.insert("integrationID".to_owned(), json!({ "type": "string" }));
        }
        // The others carry nothing.
        _ => {}
    }
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The older session record of `session.created`.
fn session_created(components: &mut Components) -> Value {
    let info = components.define("Session", |components| {
        let text = json!({ "type": "string" });
        let number = json!({ "type": "number" });
        let id = |prefix: &str| json!({ "type": "string", "pattern": format!("^{prefix}") });
        let tokens = components.add::<abide_schema::model::Tokens>();
        let model = components.add::<abide_schema::model::ModelRef>();
        json!({
            "type": "object",
            "properties": {
                "id": id("ses"), "slug": text, "projectID": text, "workspaceID": id("wrk"), "directory": text,
                "path": text, "parentID": id("ses"), "cost": number, "tokens": tokens, "title": text, "agent": text,
                "model": model, "version": text, "metadata": { "type": "object" },
                "time": {
                    "type": "object",
                    "properties": {
                        "created": { "type": "integer", "minimum": 0 },
                        "updated": { "type": "integer", "minimum": 0 },
                        "archived": number,
                    },
                    "required": ["created", "updated"],
                    "additionalProperties": false,
                },
            },
            "required": ["id", "slug", "projectID", "directory", "title", "version", "time"],
            "additionalProperties": false,
        })
    });
    json!({
        "type": "object",
        "properties": { "sessionID": { "type": "string", "pattern": "^ses" }, "info": info },
        "required": ["sessionID", "info"],
        "additionalProperties": false,
    })
}

/// One record of a session's whole log.
pub(crate) fn log_record(components: &mut Components) -> Value {
    components.define("LogRecord", |components| {
        let location = components.add::<LocationRef>();
        let durable = components.add::<abide_schema::event::DurableMark>();
        json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "pattern": "^evt_" },
                "type": { "type": "string" },
                "created": { "type": "integer" },
                "durable": durable,
                "contractSeq": { "type": "integer" },
                "location": location,
                "metadata": { "type": "object" },
                "data": { "type": "object" },
            },
            "required": ["type"],
        })
    })
}
