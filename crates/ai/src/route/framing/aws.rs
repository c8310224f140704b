//! AWS event streams: binary messages with headers, payload and checksums.
//!
//! Wire format: Amazon Transcribe and Bedrock developer guides, "Event stream encoding". The messages
//! are read by Amazon's own decoder; limits, skipping and the text of errors are ours.

use std::collections::VecDeque;

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::{HeaderValue, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Frame, MAX_FRAME_BYTES, valid};
use crate::protocols::shared::json_text;
use crate::schema::JsonObject;
use crate::schema::errors::{AIError, AIErrorKind};

/// The most bytes of the headers of one message.
const MAX_HEADER_BYTES: u32 = 128 * 1024;
/// Length, header length and checksum.
const PRELUDE_BYTES: usize = 12;
/// A message without headers and payload.
const MIN_MESSAGE_BYTES: usize = 16;
/// The most bytes of a damaged message that are kept.
const MAX_DAMAGED_BYTES: usize = 64 * 1024;
/// The name of the frame of an exception.
pub(crate) const EXCEPTION: &str = "exception";

#[derive(Debug, Default)]
pub(super) struct AwsDecoder {
    buffer: BytesMut,
    has_begun: bool,
    /// The body is a JSON or HTML document: no message begins like one.
    is_document: bool,
}

impl AwsDecoder {
    pub(super) fn push(&mut self, chunk: &Bytes, out: &mut VecDeque<Frame>) -> Result<(), AIError> {
        if !self.has_begun && !chunk.is_empty() {
            self.has_begun = true;
            self.is_document = matches!(chunk.first(), Some(b'{' | b'[' | b'<'));
        }
        if self.is_document {
            return Ok(());
        }
        self.buffer.extend_from_slice(chunk);
        while let Some(len) = self.message_len()? {
            let bytes = self.buffer.split_to(len).freeze();
            let message = read_message_from(bytes.clone()).map_err(|error| damaged(&bytes, error.to_string()))?;
            out.extend(frame(&message)?);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), AIError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        Err(AIError::incomplete_stream("The provider response ended inside an event."))
    }

    /// The length of the next message, if it is here as a whole.
    fn message_len(&self) -> Result<Option<usize>, AIError> {
        let Some(prelude) = self.buffer.first_chunk::<PRELUDE_BYTES>() else { return Ok(None) };
        let number = |at: usize| {
            let bytes = prelude.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let (lengths, _checksum) = prelude.split_at(8);
        if crc32fast::hash(lengths) != number(8) {
            return Err(damaged(&self.buffer, "the checksum of the lengths is wrong".to_owned()));
        }
        let len = usize::try_from(number(0)).unwrap_or(usize::MAX);
        let header_len = number(4);
        if !(MIN_MESSAGE_BYTES..=MAX_FRAME_BYTES).contains(&len) || header_len > MAX_HEADER_BYTES {
            let problem = format!("a message of {len} bytes with headers of {header_len} bytes is not allowed");
            return Err(damaged(&self.buffer, problem));
        }
        Ok((self.buffer.len() >= len).then_some(len))
    }
}

fn damaged(bytes: &[u8], problem: String) -> AIError {
    let shown = bytes.get(..MAX_DAMAGED_BYTES).unwrap_or(bytes);
    AIError::new(AIErrorKind::MALFORMED_EVENT, format!("invalid AWS event stream message: {problem}"))
        .with_body(STANDARD.encode(shown))
}

/// The frame of a message; none for messages of no concern.
fn frame(message: &Message) -> Result<Option<Frame>, AIError> {
    let header = |name: &str| {
        message.headers().iter().find(|header| header.name().as_str() == name).and_then(|header| match header.value() {
            HeaderValue::String(value) => Some(value.as_str()),
            _ => None,
        })
    };
    let payload = message.payload();
    let whole = |name: &str, data: Bytes| {
        let headers = Bytes::from(json_text(&Value::Object(headers(message))));
        Frame { name: Bytes::copy_from_slice(name.as_bytes()), data, headers: Some(headers), is_cut: false }
    };
    match (header(":message-type"), header(":event-type")) {
        (Some("event"), Some(kind)) if !payload.is_empty() => Ok(Some(whole(kind, valid(payload.to_vec())))),
        (Some("exception"), _) if !payload.is_empty() => {
            let text = String::from_utf8_lossy(payload);
            let details: Value = serde_json::from_str(&text).unwrap_or_else(|_| text.into_owned().into());
            let kind = header(":exception-type").unwrap_or(EXCEPTION);
            let exception = json!({ EXCEPTION: { "type": kind, "details": details } });
            let mut frame = whole(EXCEPTION, Bytes::from(json_text(&exception)));
            frame.name = Bytes::from_static(EXCEPTION.as_bytes());
            Ok(Some(frame))
        }
        (Some("error"), _) => {
            let message = match (header(":error-code"), header(":error-message")) {
                (Some(code), Some(text)) => format!("{code}: {text}"),
                (Some(text), None) | (None, Some(text)) => text.to_owned(),
                (None, None) => "Bedrock Converse event-stream error".to_owned(),
            };
            Err(AIError::invalid_output(message).with_body(whole("error", valid(payload.to_vec())).text()))
        }
        (_, _) => Ok(None),
    }
}

fn headers(message: &Message) -> JsonObject {
    let value = |value: &HeaderValue| match value {
        HeaderValue::Bool(value) => json!(value),
        HeaderValue::Byte(value) => json!(value),
        HeaderValue::Int16(value) => json!(value),
        HeaderValue::Int32(value) => json!(value),
        HeaderValue::Int64(value) => json!(value),
        HeaderValue::ByteArray(value) => json!(STANDARD.encode(value)),
        HeaderValue::String(value) => json!(value.as_str()),
        HeaderValue::Timestamp(value) => json!(value.to_millis().unwrap_or_default()),
        HeaderValue::Uuid(value) => json!(format!("{value:032x}")),
        _ => Value::Null,
    };
    message.headers().iter().map(|header| (header.name().as_str().to_owned(), value(header.value()))).collect()
}
