//! What the API answers, as far as the schema crate does not have it: envelopes, catalogue, integrations, files,
//! terminals.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use abide_schema::event::InboxKind;
use abide_schema::location::LocationInfo;
use abide_schema::permission::{Effect, SavedPermission};
use abide_schema::project::{InputPayload, InputRow};
use abide_schema::prompt::{Delivery, Prompt};
use abide_schema::{JsonObject, MessageId, PermissionId, Seq, SessionId, Timestamp};

use crate::openapi::Components;
use crate::route::Reply;

mod catalogue;
mod files;
mod integration;

pub use abide_schema::catalog::{CommandInfo, IntegrationInfo, ModelInfo, ProviderInfo, SkillInfo};
pub use catalogue::{ReferenceInfo, ReferenceSource};
pub use files::{Bytes, ConnectToken, EntryKind, FileEntry, Pty, PtyStatus};
pub use integration::{Attempt, AttemptMode, AttemptStatus, AttemptTime};

/// Something that a JSON answer holds.
pub trait Wire {
    /// Describes it.
    fn schema(components: &mut Components) -> Value;
}

macro_rules! wire {
    ($( $name:ty ),* $(,)?) => { $(
        impl Wire for $name {
            fn schema(components: &mut Components) -> Value {
                components.add::<Self>()
            }
        }
    )* };
}
wire!(
    LocationInfo,
    SavedPermission,
    ModelInfo,
    ProviderInfo,
    CommandInfo,
    SkillInfo,
    ReferenceInfo,
    IntegrationInfo,
    Attempt,
    AttemptStatus,
    FileEntry,
    Pty,
    ConnectToken,
    SessionActive,
    InboxEntry,
);

impl<T: Wire> Wire for Vec<T> {
    fn schema(components: &mut Components) -> Value {
        json!({ "type": "array", "items": T::schema(components) })
    }
}

impl Reply for LocationInfo {
    fn schema(components: &mut Components) -> Value {
        <Self as Wire>::schema(components)
    }
}

fn object<const N: usize>(properties: [(&str, Value); N], required: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A pending input of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxEntry {
    /// The input; of a prompt also the message that it becomes.
    pub id: MessageId,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: InboxKind,
    /// When it joins.
    pub delivery: Delivery,
    /// What the user says, for a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
    /// Its content, for anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<JsonObject>,
    /// The log position of its admission.
    pub admitted: Seq,
    /// When it was admitted.
    pub time_created: Timestamp,
}

impl From<InputRow> for InboxEntry {
    fn from(row: InputRow) -> Self {
        let (prompt, payload) = match row.payload {
            InputPayload::Prompt { prompt } => (Some(prompt), None),
            InputPayload::Item { payload } => (None, Some(payload)),
        };
        Self {
            id: row.id,
            session_id: row.session_id,
            kind: row.kind,
            delivery: row.delivery,
            prompt,
            payload,
            admitted: row.admitted_seq,
            time_created: row.time_created,
        }
    }
}

/// No body.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct NoContent;

impl Reply for NoContent {
    const STATUS: u16 = 204;
    const MEDIA: Option<&'static str> = None;
    fn schema(_: &mut Components) -> Value {
        Value::Null
    }
}

/// The server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Always true.
    pub healthy: bool,
}

impl Reply for Health {
    fn schema(_: &mut Components) -> Value {
        object([("healthy", json!({ "type": "boolean", "enum": [true] }))], &["healthy"])
    }
}

/// A JSON value of any shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnyJson(pub Value);

impl Reply for AnyJson {
    fn schema(_: &mut Components) -> Value {
        json!({ "type": "object" })
    }
}

/// An answer about a session or the whole instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Data<T> {
    /// What was asked for.
    pub data: T,
}

impl<T: Wire + Send> Reply for Data<T> {
    fn schema(components: &mut Components) -> Value {
        object([("data", T::schema(components))], &["data"])
    }
}

/// An answer about a location.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Located<T> {
    /// The location that was selected.
    pub location: LocationInfo,
    /// What was asked for.
    pub data: T,
}

impl<T: Wire + Send> Reply for Located<T> {
    fn schema(components: &mut Components) -> Value {
        let location = <LocationInfo as Wire>::schema(components);
        object([("location", location), ("data", T::schema(components))], &["location", "data"])
    }
}

/// Where the pages before and after begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCursor {
    /// The page before; absent on an empty page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The page after; absent on an empty page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of a list. `T` names the component of the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPage<T> {
    /// The items.
    pub data: Vec<T>,
    /// Where to go on.
    pub cursor: PageCursor,
}

impl<T: Wire + PageName + Send> Reply for ListPage<T> {
    fn schema(components: &mut Components) -> Value {
        components.define(T::PAGE, |components| {
            let text = json!({ "type": "string" });
            let cursor = json!({
                "type": "object",
                "properties": { "previous": text, "next": text },
                "additionalProperties": false,
            });
            object([("data", Vec::<T>::schema(components)), ("cursor", cursor)], &["data", "cursor"])
        })
    }
}

/// Something that comes in pages.
pub trait PageName {
    /// The component that a page of it is.
    const PAGE: &'static str;
}

/// A page of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History<T> {
    /// The events, oldest first.
    pub data: Vec<T>,
    /// Whether more follow.
    pub has_more: bool,
}

impl<T: Wire + Send> Reply for History<T> {
    fn schema(components: &mut Components) -> Value {
        components.define("SessionHistory", |components| {
            let data = Vec::<T>::schema(components);
            object([("data", data), ("hasMore", json!({ "type": "boolean" }))], &["data", "hasMore"])
        })
    }
}

/// A running session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SessionActive {
    /// It executes.
    #[default]
    Running,
}

/// The running sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActiveSessions(pub IndexMap<SessionId, SessionActive>);

impl Wire for ActiveSessions {
    fn schema(components: &mut Components) -> Value {
        json!({ "type": "object", "patternProperties": { "^ses": SessionActive::schema(components) } })
    }
}

/// What became of a permission request that a client made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionOutcome {
    /// The request.
    pub id: PermissionId,
    /// What the rules say; `ask` means that it waits for the user.
    pub effect: Effect,
}

impl Wire for PermissionOutcome {
    fn schema(components: &mut Components) -> Value {
        let effect = components.add::<Effect>();
        object([("id", json!({ "type": "string", "pattern": "^per" })), ("effect", effect)], &["id", "effect"])
    }
}

/// One session's events, as a stream.
#[derive(Clone, Copy, Debug)]
pub struct SessionEvents;

impl Reply for SessionEvents {
    const MEDIA: Option<&'static str> = Some("text/event-stream");
    fn schema(components: &mut Components) -> Value {
        let event = crate::openapi::events::session_union(components);
        let data = components.define(
            "SessionDurableEventStream",
            |_| json!({ "type": "string", "contentSchema": event, "contentMediaType": "application/json" }),
        );
        let text = json!({ "type": "string" });
        object([("id", text.clone()), ("event", text), ("data", data)], &["id", "event", "data"])
    }
}

/// All events, as a stream.
#[derive(Clone, Copy, Debug)]
pub struct InstanceEvents;

impl Reply for InstanceEvents {
    const MEDIA: Option<&'static str> = Some("text/event-stream");
    fn schema(components: &mut Components) -> Value {
        crate::openapi::events::instance_union(components)
    }
}

/// One session's log, as a stream.
#[derive(Clone, Copy, Debug)]
pub struct LogStream;

impl Reply for LogStream {
    const MEDIA: Option<&'static str> = Some("text/event-stream");
    fn schema(components: &mut Components) -> Value {
        crate::openapi::events::log_record(components)
    }
}

/// A change of protocol to WebSocket; the published document says it as a boolean.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade;

impl Reply for Upgrade {
    fn schema(_: &mut Components) -> Value {
        json!({ "type": "boolean" })
    }
}
