//! Stream events on the wire. Text borrows from the frame; whatever is read only once per block is
//! kept as raw JSON until its type is known.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocols::utils::borrowed::Str;
use crate::route::framing::Frame;
use crate::route::protocol::DecodeError;
use crate::schema::JsonObject;

/// The event names the framing lets through; `ping` and unknown names never reach the parser.
pub(super) const EVENT_NAMES: &[&str] = &[
    "message",
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "error",
];

/// The delta types this parser reads; the fields of others are of no concern.
const DELTA_TYPES: &[&str] = &["text_delta", "thinking_delta", "signature_delta", "input_json_delta"];

/// One event of the stream.
#[derive(Debug)]
pub enum Event<'f> {
    /// The message begins.
    MessageStart {
        /// Counters so far.
        usage: Option<JsonObject>,
    },
    /// A block begins.
    BlockStart {
        /// The position of the block.
        index: u64,
        /// The block as raw JSON.
        block: &'f RawValue,
    },
    /// A block grows.
    BlockDelta {
        /// The position of the block.
        index: u64,
        /// What is added.
        delta: Delta<'f>,
    },
    /// A block is complete.
    BlockStop {
        /// The position of the block.
        index: u64,
    },
    /// The message is about to end.
    MessageDelta {
        /// Why, in the provider's word.
        stop_reason: Option<Cow<'f, str>>,
        /// The stop sequence that was met.
        stop_sequence: Option<Cow<'f, str>>,
        /// Counters so far.
        usage: Option<JsonObject>,
    },
    /// The message is complete.
    MessageStop,
    /// The provider failed.
    Error {
        /// The error object, whatever it is.
        error: Option<&'f RawValue>,
    },
    /// An event of no concern.
    Ignored,
}

/// What a block delta adds.
#[derive(Debug)]
pub enum Delta<'f> {
    /// Visible text.
    Text(Cow<'f, str>),
    /// Thinking.
    Thinking(Cow<'f, str>),
    /// The signature of the thinking.
    Signature(Cow<'f, str>),
    /// A fragment of arguments.
    InputJson(Cow<'f, str>),
}

/// The union of all event fields, so that one pass reads any event.
#[derive(Deserialize)]
struct WireEvent<'f> {
    #[serde(borrow, rename = "type")]
    kind: Str<'f>,
    index: Option<u64>,
    #[serde(borrow, default)]
    content_block: Option<&'f RawValue>,
    #[serde(borrow, default)]
    delta: Option<WireDelta<'f>>,
    #[serde(default)]
    message: Option<WireMessage>,
    #[serde(default)]
    usage: Option<JsonObject>,
    #[serde(borrow, default)]
    error: Option<&'f RawValue>,
}

#[derive(Deserialize)]
struct WireDelta<'f> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Str<'f>>,
    #[serde(borrow, default)]
    text: Option<Str<'f>>,
    #[serde(borrow, default)]
    thinking: Option<Str<'f>>,
    #[serde(borrow, default)]
    signature: Option<Str<'f>>,
    #[serde(borrow, default)]
    partial_json: Option<Str<'f>>,
    #[serde(borrow, default)]
    stop_reason: Option<Str<'f>>,
    #[serde(borrow, default)]
    stop_sequence: Option<Str<'f>>,
}

#[derive(Deserialize)]
struct WireMessage {
    #[serde(default)]
    usage: Option<JsonObject>,
}

/// Only the types of an event, for one whose fields do not decode.
#[derive(Deserialize)]
struct Kinds<'f> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Str<'f>>,
    #[serde(borrow, default)]
    delta: Option<&'f RawValue>,
}

#[derive(Deserialize)]
struct DeltaKind<'f> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Str<'f>>,
}

/// Reads one frame. Events and deltas of unknown types are ignored whatever they hold; a known one
/// with a malformed field is an error.
pub(super) fn decode(frame: &Frame) -> Result<Event<'_>, DecodeError> {
    match serde_json::from_slice::<WireEvent<'_>>(&frame.data) {
        Ok(event) => read(event),
        Err(error) => {
            if is_foreign(&frame.data) {
                return Ok(Event::Ignored);
            }
            Err(error.into())
        }
    }
}

fn read(event: WireEvent<'_>) -> Result<Event<'_>, DecodeError> {
    Ok(match &*event.kind {
        "content_block_delta" => {
            let index = event.index.ok_or("content_block_delta is missing index")?;
            let delta = event.delta.ok_or("content_block_delta is missing delta")?;
            match read_delta(delta)? {
                Some(delta) => Event::BlockDelta { index, delta },
                None => Event::Ignored,
            }
        }
        "content_block_start" => Event::BlockStart {
            index: event.index.ok_or("content_block_start is missing index")?,
            block: event.content_block.ok_or("content_block_start is missing content_block")?,
        },
        "content_block_stop" => Event::BlockStop { index: event.index.ok_or("content_block_stop is missing index")? },
        "message_start" => Event::MessageStart { usage: event.message.and_then(|message| message.usage) },
        "message_delta" => {
            let (stop_reason, stop_sequence) =
                event.delta.map(|delta| (delta.stop_reason, delta.stop_sequence)).unwrap_or_default();
            Event::MessageDelta {
                stop_reason: stop_reason.map(|reason| reason.0),
                stop_sequence: stop_sequence.map(|sequence| sequence.0),
                usage: event.usage,
            }
        }
        "message_stop" => Event::MessageStop,
        "error" => Event::Error { error: event.error },
        _ => Event::Ignored,
    })
}

fn read_delta(delta: WireDelta<'_>) -> Result<Option<Delta<'_>>, DecodeError> {
    let kind = delta.kind.ok_or("content_block_delta has a delta without type")?;
    Ok(match &*kind {
        "text_delta" => delta.text.map(|text| Delta::Text(text.0)),
        "thinking_delta" => delta.thinking.map(|text| Delta::Thinking(text.0)),
        "signature_delta" => delta.signature.map(|text| Delta::Signature(text.0)),
        "input_json_delta" => delta.partial_json.map(|text| Delta::InputJson(text.0)),
        _ => None,
    })
}

/// Whether the data is an event, or a delta, of a type this parser does not know.
fn is_foreign(data: &[u8]) -> bool {
    let Ok(kinds) = serde_json::from_slice::<Kinds<'_>>(data) else { return false };
    let Some(kind) = kinds.kind else { return false };
    if !EVENT_NAMES.contains(&&*kind) {
        return true;
    }
    if &*kind != "content_block_delta" {
        return false;
    }
    kinds
        .delta
        .and_then(|delta| serde_json::from_str::<DeltaKind<'_>>(delta.get()).ok())
        .and_then(|delta| delta.kind)
        .is_some_and(|kind| !DELTA_TYPES.contains(&&*kind))
}

/// A content block as it begins.
#[derive(Deserialize)]
pub(super) struct WireBlock<'f> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) text: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) data: Option<Str<'f>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'f RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Str<'f>>,
    #[serde(default)]
    pub(super) content: Option<serde_json::Value>,
}

/// The type of a content block.
#[derive(Deserialize)]
pub(super) struct BlockKind<'f> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'f>,
}
