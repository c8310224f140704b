//! Stream events on the wire. Text borrows from the frame; items and responses are kept as raw JSON
//! until their type is known.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocols::utils::borrowed::Str;
use crate::route::framing::Frame;
use crate::route::protocol::DecodeError;
use crate::schema::JsonObject;

/// Where an event belongs.
#[derive(Clone, Debug)]
pub struct Place<'f> {
    /// The event type.
    pub(super) kind: &'static str,
    pub(super) item_id: Option<Cow<'f, str>>,
    pub(super) output_index: Option<u64>,
}

/// One event of the stream.
#[derive(Debug)]
pub enum Event<'f> {
    /// Visible text, or a refusal, grows.
    TextDelta(Place<'f>, Cow<'f, str>),
    /// Visible text, or a refusal, is complete.
    TextDone(Place<'f>, Cow<'f, str>),
    /// Part n of reasoning grows.
    ReasoningDelta(Place<'f>, u64, Cow<'f, str>),
    /// Part n of reasoning is complete.
    ReasoningDone(Place<'f>, u64, Cow<'f, str>),
    /// Part n of reasoning begins.
    ReasoningPart(Place<'f>, u64),
    /// Arguments grow.
    ArgumentsDelta(Place<'f>, Cow<'f, str>),
    /// Arguments are complete.
    ArgumentsDone(Place<'f>, Cow<'f, str>),
    /// An item begins.
    ItemAdded(Option<u64>, &'f RawValue),
    /// An item is complete.
    ItemDone(Option<u64>, &'f RawValue),
    /// The response is complete.
    Completed(Option<&'f RawValue>),
    /// The response was cut.
    Incomplete(Option<&'f RawValue>),
    /// The response failed.
    Failed,
    /// The stream failed.
    Error,
    /// An event of no concern.
    Ignored,
}

/// The union of all event fields, so that one pass reads any event.
#[derive(Deserialize)]
struct WireEvent<'f> {
    #[serde(borrow, rename = "type")]
    kind: Str<'f>,
    #[serde(borrow, default)]
    item_id: Option<Str<'f>>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default)]
    summary_index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Str<'f>>,
    #[serde(borrow, default)]
    text: Option<Str<'f>>,
    #[serde(borrow, default)]
    refusal: Option<Str<'f>>,
    #[serde(borrow, default)]
    arguments: Option<Str<'f>>,
    #[serde(borrow, default)]
    item: Option<&'f RawValue>,
    #[serde(borrow, default)]
    response: Option<&'f RawValue>,
}

/// Only the type of an event, for one whose fields do not decode.
#[derive(Deserialize)]
struct Kind<'f> {
    #[serde(borrow, rename = "type")]
    kind: Str<'f>,
}

/// The event types this parser reads. The two of raw reasoning text count only where the dialect
/// reads them.
const KNOWN: &[&str] = &[
    "response.output_text.delta",
    "response.refusal.delta",
    "response.output_text.done",
    "response.refusal.done",
    "response.reasoning_summary_text.delta",
    "response.reasoning.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning.done",
    "response.reasoning_text.done",
    "response.reasoning_summary_part.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.added",
    "response.output_item.done",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
];

/// Reads one frame. Events of unknown types are ignored whatever they hold; a known one with a
/// malformed field is an error.
pub(super) fn decode(frame: &Frame, reads_reasoning_text: bool) -> Result<Event<'_>, DecodeError> {
    let data = &*frame.data;
    match serde_json::from_slice::<WireEvent<'_>>(data) {
        Ok(event) => read(event, reads_reasoning_text),
        Err(error) => match serde_json::from_slice::<Kind<'_>>(data) {
            // The fields of a failure may have any shape; they are read where it is reported.
            Ok(Kind { kind }) if &*kind == "error" => Ok(Event::Error),
            Ok(Kind { kind }) if &*kind == "response.failed" => Ok(Event::Failed),
            Ok(Kind { kind }) if !KNOWN.contains(&&*kind) => Ok(Event::Ignored),
            Ok(_) | Err(_) => Err(error.into()),
        },
    }
}

fn read(event: WireEvent<'_>, reads_reasoning_text: bool) -> Result<Event<'_>, DecodeError> {
    let Some(kind) = KNOWN.iter().copied().find(|known| *known == &*event.kind) else {
        return Ok(Event::Ignored);
    };
    let place = Place { kind, item_id: event.item_id.map(|id| id.0), output_index: event.output_index };
    let part = event.summary_index.unwrap_or(0);
    let delta = || event.delta.map(|text| text.0).ok_or_else(|| missing(kind, "delta"));
    let text = || event.text.map(|text| text.0).ok_or_else(|| missing(kind, "text"));
    Ok(match kind {
        "response.output_text.delta" | "response.refusal.delta" => Event::TextDelta(place, delta()?),
        "response.output_text.done" => Event::TextDone(place, text()?),
        "response.refusal.done" => {
            Event::TextDone(place, event.refusal.map(|text| text.0).ok_or_else(|| missing(kind, "refusal"))?)
        }
        "response.reasoning_text.delta" | "response.reasoning_text.done" if !reads_reasoning_text => Event::Ignored,
        "response.reasoning_summary_text.delta" | "response.reasoning.delta" | "response.reasoning_text.delta" => {
            Event::ReasoningDelta(place, part, delta()?)
        }
        "response.reasoning_summary_text.done" | "response.reasoning.done" | "response.reasoning_text.done" => {
            Event::ReasoningDone(place, part, text()?)
        }
        "response.reasoning_summary_part.added" => Event::ReasoningPart(place, part),
        "response.function_call_arguments.delta" => Event::ArgumentsDelta(place, delta()?),
        "response.function_call_arguments.done" => {
            let arguments = event.arguments.map(|text| text.0).ok_or_else(|| missing(kind, "arguments"))?;
            Event::ArgumentsDone(place, arguments)
        }
        "response.output_item.added" => {
            Event::ItemAdded(event.output_index, event.item.ok_or_else(|| missing(kind, "item"))?)
        }
        "response.output_item.done" => {
            Event::ItemDone(event.output_index, event.item.ok_or_else(|| missing(kind, "item"))?)
        }
        "response.completed" => Event::Completed(event.response),
        "response.incomplete" => Event::Incomplete(event.response),
        "response.failed" => Event::Failed,
        "error" => Event::Error,
        _ => Event::Ignored,
    })
}

fn missing(kind: &str, field: &str) -> DecodeError {
    format!("{kind} is missing {field}").into()
}

/// The type of an item.
#[derive(Deserialize)]
pub(super) struct ItemKind<'f> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'f>,
}

/// A message item.
#[derive(Deserialize)]
pub(super) struct WireMessage<'f> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) phase: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<WirePart<'f>>>,
}

/// A part of an item.
#[derive(Deserialize)]
pub(super) struct WirePart<'f> {
    #[serde(borrow, default)]
    pub(super) text: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Str<'f>>,
}

/// A reasoning item.
#[derive(Deserialize)]
pub(super) struct WireReasoning<'f> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<WirePart<'f>>>,
}

/// A function call item.
#[derive(Deserialize)]
pub(super) struct WireCall<'f> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Str<'f>>,
}

/// The response in a terminal event.
#[derive(Default, Deserialize)]
pub(super) struct WireResponse<'f> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) service_tier: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<WireIncomplete<'f>>,
    #[serde(default)]
    pub(super) usage: Option<JsonObject>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'f RawValue>>,
}

/// Why a response was cut.
#[derive(Deserialize)]
pub(super) struct WireIncomplete<'f> {
    #[serde(borrow, default)]
    pub(super) reason: Option<Str<'f>>,
}
