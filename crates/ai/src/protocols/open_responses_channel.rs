//! Responses over a WebSocket: the message that opens one, and what the messages of the server mean.
//!
//! The frames of a response are the events of the HTTP stream, so the parser is the same. What may be left
//! out of the next request is the concern of [`super::open_responses_continuation`].

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use super::open_responses_continuation as continuation;
use super::shared;
use super::utils::borrowed::Str;
use crate::route::headers::Headers;
use crate::route::transport::websocket::socket_details;
use crate::route::transport::websocket_channel::{
    ChannelDriver, ChannelOptions, Checkpoint, CreateMessage, MessageMode, Observation,
};
use crate::schema::JsonObject;
use crate::schema::errors::{
    AIError, Delivery, TransportDetails, TransportOperation, TransportPhase, TransportRecovery,
};

/// Fields that HTTP needs and a message must not have.
const HTTP_FIELDS: [&str; 3] = ["stream", "stream_options", "background"];
/// The header that asks OpenAI for sockets.
const BETA: (&str, &str) = ("openai-beta", "responses_websockets=2026-02-06");

/// A channel with continuation.
pub const fn options(id: &'static str, name: &'static str, rotate_after: Duration) -> ChannelOptions {
    ChannelOptions { id, name, rotate_after: Some(rotate_after), prepare: None, enabled: None, driver }
}

/// The channel of OpenAI, whose sockets live for an hour.
pub const fn openai() -> ChannelOptions {
    ChannelOptions {
        prepare: Some(ask_for_sockets),
        ..options("openai-responses-websocket", "OpenAI Responses", Duration::from_mins(55))
    }
}

fn ask_for_sockets(_url: &mut Url, headers: &mut Headers) {
    if headers.get(BETA.0).is_none() {
        headers.set(BETA.0, BETA.1);
    }
}

fn driver(name: &str, body: &[u8]) -> Result<Box<dyn ChannelDriver>, AIError> {
    Driver::new(name, body).map(|driver| Box::new(driver) as Box<dyn ChannelDriver>)
}

/// The messages of one call.
#[derive(Debug)]
struct Driver {
    name: String,
    /// The request: the body of the HTTP request without what only HTTP needs.
    request: JsonObject,
    response: Option<String>,
    output: Vec<Value>,
    is_over: bool,
}

/// What of an event counts here.
#[derive(Deserialize)]
struct Event<'f> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Str<'f>>,
    #[serde(borrow, default)]
    response: Option<&'f RawValue>,
    #[serde(borrow, default)]
    item: Option<&'f RawValue>,
    #[serde(borrow, default)]
    error: Option<&'f RawValue>,
    #[serde(default)]
    code: Option<Value>,
    #[serde(default)]
    message: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    code: Option<Value>,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

impl Driver {
    fn new(name: &str, body: &[u8]) -> Result<Self, AIError> {
        let Ok(Value::Object(mut request)) = serde_json::from_slice(body) else {
            return Err(AIError::invalid_request("Open Responses WebSocket body must be a JSON object"));
        };
        for field in HTTP_FIELDS {
            request.shift_remove(field);
        }
        Ok(Self { name: name.to_owned(), request, response: None, output: Vec::new(), is_over: false })
    }

    fn violation(&self, what: &str, frame: &Bytes) -> Observation {
        let error = AIError::invalid_output(format!("{}: {what}", self.name));
        Observation::Violation(error.with_body(String::from_utf8_lossy(frame)))
    }

    fn created(&mut self, id: Option<String>, frame: &Bytes) -> Observation {
        match (id.filter(|id| !id.trim().is_empty()), &self.response) {
            (_, Some(_)) => self.violation("response.created came twice", frame),
            (None, None) => self.violation("response.created has no id", frame),
            (Some(id), None) => {
                self.response = Some(id);
                Observation::Frame
            }
        }
    }

    fn refused(&mut self, event: &Event<'_>, frame: &Bytes) -> Observation {
        let own = Details { code: event.code.clone(), message: event.message.clone(), ..Details::default() };
        let nested = [event.error, event.response].into_iter().flatten().map(details).flat_map(|details| {
            let below = details.error.clone().and_then(|error| serde_json::from_value(error).ok());
            [Some(details), below].into_iter().flatten()
        });
        let found = std::iter::once(own).chain(nested).find_map(|details: Details| {
            let recovery = match details.code.as_ref()?.as_str()? {
                "previous_response_not_found" => TransportRecovery::RetryFull,
                "websocket_connection_limit_reached" => TransportRecovery::RotateAndRetryFull,
                _ => return None,
            };
            Some((recovery, details.message.and_then(|message| message.as_str().map(str::to_owned))))
        });
        self.is_over = true;
        let Some((recovery, message)) = found else { return Observation::Failed };
        let reason = TransportDetails {
            phase: Some(TransportPhase::Receive),
            delivery: Some(Delivery::Rejected),
            recovery: Some(recovery),
            ..socket_details(TransportOperation::Read, None)
        };
        let message = message.unwrap_or_else(|| format!("{} refused the request", self.name));
        let error = AIError::transport(reason, message).with_body(String::from_utf8_lossy(frame));
        Observation::Rejected { error, recovery }
    }

    /// The next call may leave out what this one said and got.
    fn checkpoint(&mut self) -> Option<Checkpoint> {
        let id = self.response.take()?;
        let output = std::mem::take(&mut self.output);
        Some(continuation::checkpoint(&id, std::mem::take(&mut self.request), output))
    }
}

fn details(raw: &RawValue) -> Details {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn response_id(event: &Event<'_>) -> Option<String> {
    event.response.map(details)?.id?.as_str().map(str::to_owned)
}

/// Whether a message is a piece of text or arguments: the many that need no second look.
fn is_delta(frame: &[u8]) -> bool {
    let Some(rest) = frame.strip_prefix(br#"{"type":""#) else { return false };
    let end = memchr::memchr(b'"', rest).unwrap_or_default();
    rest.get(..end).is_some_and(|kind| kind.starts_with(b"response.") && kind.ends_with(b".delta"))
}

impl ChannelDriver for Driver {
    fn create(&mut self, checkpoint: Option<&Checkpoint>) -> Result<CreateMessage, AIError> {
        self.response = None;
        self.output.clear();
        self.is_over = false;
        let rest = checkpoint.and_then(|checkpoint| continuation::rest(checkpoint, &self.request));
        let mut message = JsonObject::new();
        message.insert("type".to_owned(), Value::from("response.create"));
        let mode = match rest {
            None => {
                message.extend(self.request.clone());
                MessageMode::Full
            }
            Some((id, input)) => {
                let same = self.request.iter().filter(|(name, _)| *name != "input");
                message.extend(same.map(|(name, value)| (name.clone(), value.clone())));
                message.insert("previous_response_id".to_owned(), id.into());
                message.insert("input".to_owned(), input.into());
                MessageMode::Incremental
            }
        };
        Ok(CreateMessage { message: shared::json_text(&Value::Object(message)).into(), mode })
    }

    fn observe(&mut self, frame: &Bytes) -> Observation {
        if self.is_over {
            return self.violation("a message came after the end of the response", frame);
        }
        if self.response.is_some() && is_delta(frame) {
            return Observation::Frame;
        }
        let event: Event<'_> = match serde_json::from_slice(frame) {
            Ok(event) => event,
            // The parser says what is wrong with it.
            Err(_) if self.response.is_some() => return Observation::Frame,
            Err(_) => return self.violation("a message is not an event", frame),
        };
        let kind = event.kind.as_deref().unwrap_or_default();
        match (kind, &self.response) {
            ("error" | "response.failed", _) => return self.refused(&event, frame),
            ("response.created", _) => return self.created(response_id(&event), frame),
            (_, None) => return self.violation(&format!("{kind:?} came before response.created"), frame),
            (_, Some(known)) => {
                if let Some(id) = response_id(&event)
                    && id != *known
                {
                    return self.violation("the id of the response changed", frame);
                }
            }
        }
        match kind {
            "response.output_item.done" => {
                let item = event.item.and_then(|item| serde_json::from_str(item.get()).ok());
                self.output.extend(item);
                Observation::Frame
            }
            "response.completed" => {
                self.is_over = true;
                Observation::Completed(self.checkpoint())
            }
            "response.incomplete" => {
                self.is_over = true;
                Observation::Incomplete
            }
            _ => Observation::Frame,
        }
    }
}
