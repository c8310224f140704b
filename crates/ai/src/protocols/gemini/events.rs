//! Stream events on the wire. Text borrows from the frame.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocols::shared;
use crate::protocols::utils::borrowed::Str;
use crate::route::framing::Frame;
use crate::route::protocol::DecodeError;
use crate::schema::JsonObject;

/// One event of the stream: a piece of the answer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event<'f> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'f>>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<PromptFeedback<'f>>,
    pub(super) usage_metadata: Option<JsonObject>,
    #[serde(borrow)]
    pub(super) error: Option<&'f RawValue>,
}

/// One of the answers; only one is ever asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Candidate<'f> {
    #[serde(borrow)]
    pub(super) content: Option<Content<'f>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Str<'f>>,
    #[serde(borrow)]
    pub(super) finish_message: Option<Str<'f>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content<'f> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<EventPart<'f>>>,
}

/// A part; kinds that this crate does not know have none of these fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EventPart<'f> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'f>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<Str<'f>>,
    #[serde(borrow)]
    pub(super) function_call: Option<EventCall<'f>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EventCall<'f> {
    #[serde(borrow, default)]
    pub(super) id: Option<Str<'f>>,
    #[serde(borrow)]
    pub(super) name: Str<'f>,
    #[serde(default)]
    pub(super) args: Option<Value>,
}

/// Why the prompt was not answered at all.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PromptFeedback<'f> {
    #[serde(borrow)]
    pub(super) block_reason: Option<Str<'f>>,
}

/// The failure inside an `error` event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Failed {
    #[serde(deserialize_with = "shared::lenient")]
    pub(super) code: Option<u16>,
    #[serde(deserialize_with = "shared::lenient")]
    pub(super) status: Option<String>,
    #[serde(deserialize_with = "shared::lenient")]
    pub(super) message: Option<String>,
}

pub(super) fn decode(frame: &Frame) -> Result<Event<'_>, DecodeError> {
    shared::decode(frame)
}
