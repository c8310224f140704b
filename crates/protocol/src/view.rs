//! The two views of our data: the contract's JSON, and everything.

use abide_schema::agent::AgentInfo;
use abide_schema::event::{EventData, SessionCreated, StoredEvent, Visibility, names};
use abide_schema::live::LiveEvent;
use abide_schema::message::{CompactionStatus, Message, Revert};
use abide_schema::permission::PermissionRequest;
use abide_schema::question::QuestionRequest;
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{EventId, Seq};
use schemars::JsonSchema;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::openapi::Components;
use crate::shape::{self, Shape};
use crate::wire::{PageName, Wire};

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewKind {
    /// What the 1.18 contract knows; events are counted by contract position.
    #[default]
    Contract,
    /// Everything that is public; events are counted by log position.
    Full,
}

/// Data whose contract view has a shape.
pub trait Shaped: Serialize + JsonSchema {
    /// The shape.
    const SHAPE: &'static Shape;
}

macro_rules! shaped {
    ($( $ty:ty = $shape:ident ),* $(,)?) => { $(
        impl Shaped for $ty {
            const SHAPE: &'static Shape = &shape::$shape;
        }
    )* };
}
shaped!(
    SessionInfo = SESSION,
    Message = MESSAGE,
    Revert = REVERT,
    Admitted = ADMITTED,
    PermissionRequest = PERMISSION_REQUEST,
    QuestionRequest = QUESTION_REQUEST,
    AgentInfo = AGENT,
);

/// A value, and how much of it is shown. Decoding takes whatever came.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown<T> {
    /// The value.
    pub value: T,
    /// How much of it is shown.
    pub view: ViewKind,
}

impl<T> Shown<T> {
    /// Shows what the contract knows.
    pub const fn new(value: T) -> Self {
        Self { value, view: ViewKind::Contract }
    }

    /// Shows as much as `view` says.
    pub const fn with(value: T, view: ViewKind) -> Self {
        Self { value, view }
    }
}

impl<T: Shaped> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.view {
            ViewKind::Full => self.value.serialize(serializer),
            ViewKind::Contract => {
                let mut value = serde_json::to_value(&self.value).map_err(S::Error::custom)?;
                T::SHAPE.prune(&mut value);
                value.serialize(serializer)
            }
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(|value| Self { value, view: ViewKind::Full })
    }
}

impl<T: Shaped> Wire for Shown<T> {
    fn schema(components: &mut Components) -> Value {
        components.shaped::<T>(T::SHAPE)
    }
}

impl PageName for Shown<SessionInfo> {
    const PAGE: &'static str = "SessionsResponse";
}

impl PageName for Shown<Message> {
    const PAGE: &'static str = "SessionMessagesResponse";
}

/// Says whether the contract knows a message: `idle`, `skill`, `location-switched` and compactions that are not
/// complete are additions of abide.
pub const fn is_contract_message(message: &Message) -> bool {
    match message {
        Message::User(_)
        | Message::Assistant(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::Shell(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_) => true,
        Message::Compaction(compaction) => matches!(compaction.status, CompactionStatus::Completed),
        Message::Skill(_) | Message::LocationSwitched(_) | Message::Idle(_) => false,
    }
}

/// An event of a stream or a history, encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct EventView {
    /// Its position in the view's counting; `None` for ephemeral events.
    pub seq: Option<Seq>,
    /// The envelope.
    pub json: Value,
}

impl Serialize for EventView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl Wire for EventView {
    fn schema(components: &mut Components) -> Value {
        crate::openapi::events::session_union(components)
    }
}

/// The key of the envelope's metadata that never leaves the server: the hash of a prompt's raw request.
const INPUT_HASH: &str = "inputHash";

/// Shows an event of one session's history or stream; `None` when the view does not have it.
///
/// # Errors
/// Only when a value cannot be JSON.
pub fn stored(event: &StoredEvent, view: ViewKind) -> Result<Option<EventView>, serde_json::Error> {
    match (view, event.data.def().visibility) {
        (ViewKind::Contract, Visibility::Contract) => contract_event(event),
        (ViewKind::Contract, Visibility::Counted | Visibility::Extension | Visibility::Internal) => Ok(None),
        (ViewKind::Full, Visibility::Internal) => Ok(None),
        (ViewKind::Full, Visibility::Contract | Visibility::Counted | Visibility::Extension) => {
            let mut json = serde_json::to_value(event.to_log_record()?)?;
            drop_input_hash(&mut json);
            Ok(Some(EventView { seq: Some(event.seq), json }))
        }
    }
}

/// Shows a committed event of the instance-wide stream; `None` when the view does not have it.
///
/// # Errors
/// Only when a value cannot be JSON.
pub fn stored_on_instance(event: &StoredEvent, view: ViewKind) -> Result<Option<EventView>, serde_json::Error> {
    if let (ViewKind::Contract, EventData::SessionCreated(data)) = (view, &event.data) {
        return Ok(envelope(event, session_created(data)));
    }
    stored(event, view)
}

/// Shows an ephemeral event; `None` when the view does not have it.
///
/// # Errors
/// Only when a value cannot be JSON.
pub fn live(event: &LiveEvent, view: ViewKind) -> Result<Option<EventView>, serde_json::Error> {
    let name = event.data.name();
    let mut data = event.data.to_value()?;
    match (view, shape::live_shape(name)) {
        (ViewKind::Contract, None) => return Ok(None),
        (ViewKind::Contract, Some(shape)) => shape.prune(&mut data),
        (ViewKind::Full, _) => {}
    }
    let mut json = json!({ "id": event.id, "type": name });
    if let (Some(location), Value::Object(map)) = (&event.location, &mut json) {
        map.insert("location".to_owned(), serde_json::to_value(location)?);
    }
    if let Value::Object(map) = &mut json {
        map.insert("data".to_owned(), data);
    }
    Ok(Some(EventView { seq: None, json }))
}

/// The first event of the instance-wide stream.
pub fn server_connected(id: &EventId) -> EventView {
    EventView { seq: None, json: json!({ "id": id, "type": names::SERVER_CONNECTED, "data": {} }) }
}

/// The type of the mark at the end of a log's replay.
pub const LOG_SYNCED: &str = "log.synced";

fn contract_event(event: &StoredEvent) -> Result<Option<EventView>, serde_json::Error> {
    let Some(shape) = shape::event_shape(event.data.def().name) else { return Ok(None) };
    let mut data = event.data.to_value()?;
    shape.prune(&mut data);
    Ok(envelope(event, data))
}

fn envelope(event: &StoredEvent, data: Value) -> Option<EventView> {
    let seq = event.contract_seq?;
    let def = event.data.def();
    let mut json = serde_json::Map::new();
    json.insert("id".to_owned(), json!(event.id));
    json.insert("type".to_owned(), json!(def.name));
    json.insert("durable".to_owned(), json!({ "aggregateID": event.session_id(), "seq": seq, "version": def.version }));
    if let Some(location) = &event.location {
        json.insert("location".to_owned(), json!(location));
    }
    if let Some(metadata) = &event.metadata {
        json.insert("metadata".to_owned(), json!(metadata));
    }
    json.insert("data".to_owned(), data);
    let mut json = Value::Object(json);
    drop_input_hash(&mut json);
    Some(EventView { seq: Some(seq), json })
}

fn drop_input_hash(envelope: &mut Value) {
    let Value::Object(envelope) = envelope else { return };
    let Some(Value::Object(metadata)) = envelope.get_mut("metadata") else { return };
    metadata.shift_remove(INPUT_HASH);
    if metadata.is_empty() {
        envelope.shift_remove("metadata");
    }
}

/// The older session record that the contract's `session.created` carries.
fn session_created(data: &SessionCreated) -> Value {
    let mut info = json!({
        "id": data.session_id,
        "slug": data.slug,
        "projectID": data.project_id,
        "directory": data.location.directory,
        "title": data.title,
        "version": data.version,
        "cost": 0,
        "tokens": abide_schema::model::Tokens::default(),
        "time": { "created": data.timestamp, "updated": data.timestamp },
    });
    if let Value::Object(map) = &mut info {
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };
        put("workspaceID", data.location.workspace_id.as_ref().map(|id| json!(id)));
        put("path", data.subpath.as_ref().map(|path| json!(path)));
        put("parentID", data.parent_id.as_ref().map(|id| json!(id)));
        put("agent", data.agent.as_ref().map(|agent| json!(agent)));
        put("model", data.model.as_ref().map(|model| json!(model.with_explicit_variant())));
        put("metadata", data.metadata.as_ref().map(|metadata| json!(metadata)));
    }
    json!({ "sessionID": data.session_id, "info": info })
}

#[cfg(test)]
mod tests;
