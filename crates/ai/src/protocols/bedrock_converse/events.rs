//! Stream events on the wire: the name of a frame says which it is. Text borrows from the frame.

use serde::Deserialize;
use serde_json::Value;

use crate::protocols::shared;
use crate::protocols::utils::borrowed::Str;
use crate::route::framing::{EXCEPTION, Frame};
use crate::route::protocol::DecodeError;
use crate::schema::JsonObject;

/// Exceptions that may also come under their own names.
const EXCEPTIONS: [&str; 5] = [
    "internalServerException",
    "modelStreamErrorException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
];

/// One event of the stream.
#[derive(Debug)]
pub enum Event<'f> {
    /// A block begins.
    #[expect(private_interfaces, reason = "only the parser reads it")]
    BlockStart(BlockStart<'f>),
    /// A block grows.
    #[expect(private_interfaces, reason = "only the parser reads it")]
    BlockDelta(BlockDelta<'f>),
    /// A block is complete.
    #[expect(private_interfaces, reason = "only the parser reads it")]
    BlockStop(BlockStop),
    /// The message is complete.
    #[expect(private_interfaces, reason = "only the parser reads it")]
    MessageStop(MessageStop<'f>),
    /// Counters.
    #[expect(private_interfaces, reason = "only the parser reads it")]
    Metadata(Metadata),
    /// The provider failed.
    Exception {
        /// The name of the exception.
        kind: String,
        /// What the provider says about it.
        message: Option<String>,
    },
    /// An event of no concern.
    Ignored,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockStart<'f> {
    pub(super) content_block_index: u64,
    #[serde(borrow, default)]
    pub(super) start: Option<Start<'f>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Start<'f> {
    #[serde(borrow)]
    pub(super) tool_use: Option<StartedTool<'f>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartedTool<'f> {
    #[serde(borrow)]
    pub(super) tool_use_id: Str<'f>,
    #[serde(borrow)]
    pub(super) name: Str<'f>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockDelta<'f> {
    pub(super) content_block_index: u64,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'f>>,
}

/// What is added; kinds that this crate does not know have none of these fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Delta<'f> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'f>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<ReasoningDelta<'f>>,
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolDelta<'f>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReasoningDelta<'f> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'f>>,
    #[serde(borrow)]
    pub(super) signature: Option<Str<'f>>,
    #[serde(borrow)]
    pub(super) redacted_content: Option<Str<'f>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolDelta<'f> {
    #[serde(borrow)]
    pub(super) input: Option<Str<'f>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockStop {
    pub(super) content_block_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageStop<'f> {
    #[serde(borrow)]
    pub(super) stop_reason: Str<'f>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) usage: Option<JsonObject>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wrapped {
    exception: WireException,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireException {
    #[serde(rename = "type", deserialize_with = "shared::lenient")]
    kind: Option<String>,
    details: Value,
}

/// Reads one frame. A known event with a malformed field is an error, an unknown one is ignored.
pub(super) fn decode(frame: &Frame) -> Result<Event<'_>, DecodeError> {
    let name = std::str::from_utf8(&frame.name)?;
    Ok(match name {
        "contentBlockStart" => Event::BlockStart(shared::decode(frame)?),
        "contentBlockDelta" => Event::BlockDelta(shared::decode(frame)?),
        "contentBlockStop" => Event::BlockStop(shared::decode(frame)?),
        "messageStop" => Event::MessageStop(shared::decode(frame)?),
        "metadata" => Event::Metadata(shared::decode(frame)?),
        EXCEPTION => {
            let Wrapped { exception } = shared::decode(frame)?;
            Event::Exception {
                kind: exception.kind.unwrap_or_else(|| EXCEPTION.to_owned()),
                message: said(&exception.details),
            }
        }
        name if EXCEPTIONS.contains(&name) => {
            Event::Exception { kind: name.to_owned(), message: said(&shared::decode(frame)?) }
        }
        // Not a message of this framing: an answer that is one document.
        "" => return Err("an event without a name".into()),
        _ => Event::Ignored,
    })
}

/// The words of an exception.
fn said(details: &Value) -> Option<String> {
    let text = ["message", "Message", "originalMessage"].iter().find_map(|name| details.get(*name)?.as_str());
    text.or(details.as_str()).filter(|text| !text.trim().is_empty()).map(str::to_owned)
}
