//! Bytes to frames, incrementally and within limits.

mod aws;
mod sse;

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::Value;

use crate::schema::errors::AIError;

pub(crate) use aws::EXCEPTION;

/// The most bytes of one frame.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// One frame of a response body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The event name of an SSE frame; empty when unnamed.
    pub name: Bytes,
    /// The payload, valid UTF-8.
    pub data: Bytes,
    /// The headers of a binary frame, as a JSON object.
    pub headers: Option<Bytes>,
    /// Whether the body ended inside this frame.
    pub is_cut: bool,
}

impl Frame {
    /// An unnamed frame.
    pub fn data(data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// The payload as text, for errors; of a binary frame headers and payload.
    pub fn text(&self) -> Cow<'_, str> {
        let data = String::from_utf8_lossy(&self.data);
        match &self.headers {
            None => data,
            Some(headers) => {
                let (headers, body) = (String::from_utf8_lossy(headers), Value::from(data));
                Cow::Owned(format!("{{\"headers\":{headers},\"body\":{body}}}"))
            }
        }
    }
}

/// How a response body is cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events; `[DONE]` is dropped.
    Sse,
    /// Server-sent events; `[DONE]` is a frame.
    SseWithDone,
    /// Server-sent events of these names only; an unnamed event is called `message`.
    SseEvents(&'static [&'static str]),
    /// Binary messages of AWS.
    AwsEventStream,
    /// One JSON value a line.
    Lines,
    /// The whole body is one frame.
    Document,
    /// Each piece of the body is one frame: a message of a WebSocket.
    Message,
}

impl Framing {
    /// A decoder for one body.
    pub fn decoder(self) -> FrameDecoder {
        FrameDecoder {
            framing: self,
            sse: sse::SseDecoder::default(),
            aws: aws::AwsDecoder::default(),
            buffer: Vec::new(),
        }
    }

    /// The media type a client asks for.
    pub const fn accept(self) -> &'static str {
        match self {
            Self::Sse | Self::SseWithDone | Self::SseEvents(_) => "text/event-stream",
            Self::AwsEventStream => "application/vnd.amazon.eventstream",
            Self::Lines => "application/x-ndjson",
            Self::Document | Self::Message => "application/json",
        }
    }
}

/// Cuts one body into frames.
#[derive(Debug)]
pub struct FrameDecoder {
    framing: Framing,
    sse: sse::SseDecoder,
    aws: aws::AwsDecoder,
    buffer: Vec<u8>,
}

impl FrameDecoder {
    /// Takes the next piece of the body and appends the frames it completes. Frames point into the
    /// piece where they can.
    ///
    /// # Errors
    /// `InvalidProviderOutput` when a frame exceeds [`MAX_FRAME_BYTES`], is damaged, or reports a failure.
    pub fn push(&mut self, chunk: &Bytes, out: &mut VecDeque<Frame>) -> Result<(), AIError> {
        match self.framing {
            Framing::Sse | Framing::SseWithDone | Framing::SseEvents(_) => {
                let framing = self.framing;
                self.sse.push(chunk, &mut |frame| keep(framing, frame, out))
            }
            Framing::AwsEventStream => self.aws.push(chunk, out),
            Framing::Message => {
                limit(chunk.len())?;
                out.push_back(Frame::data(chunk.clone()));
                Ok(())
            }
            Framing::Lines => self.lines(chunk, out),
            Framing::Document => {
                limit(self.buffer.len() + chunk.len())?;
                self.buffer.extend_from_slice(chunk);
                Ok(())
            }
        }
    }

    /// Ends the body and appends what is left.
    ///
    /// # Errors
    /// As [`FrameDecoder::push`], and when a binary message is cut.
    pub fn finish(&mut self, out: &mut VecDeque<Frame>) -> Result<(), AIError> {
        match self.framing {
            Framing::Sse | Framing::SseWithDone | Framing::SseEvents(_) => {
                let framing = self.framing;
                self.sse.finish(&mut |frame| keep(framing, frame, out))
            }
            Framing::AwsEventStream => self.aws.finish(),
            Framing::Lines | Framing::Document | Framing::Message => {
                let rest = std::mem::take(&mut self.buffer);
                if !rest.trim_ascii().is_empty() {
                    let is_cut = self.framing == Framing::Lines;
                    out.push_back(Frame { is_cut, ..Frame::data(valid(rest)) });
                }
                Ok(())
            }
        }
    }

    fn lines(&mut self, chunk: &Bytes, out: &mut VecDeque<Frame>) -> Result<(), AIError> {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            limit(self.buffer.len() + piece.len())?;
            self.buffer.extend_from_slice(piece);
            if self.buffer.ends_with(b"\n") {
                let line = std::mem::take(&mut self.buffer);
                if !line.trim_ascii().is_empty() {
                    out.push_back(Frame::data(valid(line.trim_ascii().to_vec())));
                }
            }
        }
        Ok(())
    }
}

fn keep(framing: Framing, frame: Frame, out: &mut VecDeque<Frame>) {
    let wanted = match framing {
        Framing::Sse => &*frame.data != b"[DONE]",
        Framing::SseWithDone | Framing::AwsEventStream | Framing::Lines | Framing::Document | Framing::Message => true,
        Framing::SseEvents(names) => {
            let name: &[u8] = if frame.name.is_empty() { b"message" } else { &frame.name };
            names.iter().any(|known| known.as_bytes() == name)
        }
    };
    if wanted {
        out.push_back(frame);
    }
}

fn limit(len: usize) -> Result<(), AIError> {
    if len > MAX_FRAME_BYTES {
        return Err(AIError::invalid_output(format!("provider stream event exceeds {MAX_FRAME_BYTES} bytes")));
    }
    Ok(())
}

/// The bytes as valid UTF-8; invalid sequences become U+FFFD.
fn valid(bytes: Vec<u8>) -> Bytes {
    match String::from_utf8(bytes) {
        Ok(text) => Bytes::from(text),
        Err(error) => Bytes::from(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}
