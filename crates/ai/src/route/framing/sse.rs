//! Server-sent events, byte by byte if need be.

use std::ops::Range;

use bytes::Bytes;
use memchr::{memchr, memchr2};

use super::{Frame, MAX_FRAME_BYTES, limit, valid};
use crate::schema::errors::AIError;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Cuts a byte stream into events. Lines end with LF, CRLF or CR, also when the two bytes of a CRLF
/// arrive apart; one leading byte order mark is dropped; comments, empty events and data that is
/// no more than a keep-alive comment are skipped.
#[derive(Debug)]
pub(super) struct SseDecoder {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// Whether an LF belongs to the CR before it.
    is_after_cr: bool,
    /// Whether no line was seen yet.
    is_at_start: bool,
    event: Event,
}

#[derive(Debug, Default)]
struct Event {
    name: Bytes,
    data: Option<Bytes>,
    /// More than one data line, joined.
    joined: Vec<u8>,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self { line: Vec::new(), is_after_cr: false, is_at_start: true, event: Event::default() }
    }
}

impl SseDecoder {
    pub(super) fn push(&mut self, chunk: &Bytes, emit: &mut dyn FnMut(Frame)) -> Result<(), AIError> {
        let bytes: &[u8] = chunk;
        let mut start = 0;
        if self.is_after_cr && !bytes.is_empty() {
            self.is_after_cr = false;
            if bytes.first() == Some(&b'\n') {
                start = 1;
            }
        }
        while let Some(rest) = bytes.get(start..).filter(|rest| !rest.is_empty()) {
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                limit(self.event.len() + self.line.len() + rest.len())?;
                self.line.extend_from_slice(rest);
                return Ok(());
            };
            let end = start + length;
            if self.line.is_empty() {
                self.take_line(chunk, start..end, emit)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(rest.get(..length).unwrap_or_default());
                let line = Bytes::from(line);
                self.take_line(&line, 0..line.len(), emit)?;
            }
            start = end + 1;
            if bytes.get(end) == Some(&b'\r') {
                match bytes.get(start) {
                    Some(b'\n') => start += 1,
                    Some(_) => {}
                    None => self.is_after_cr = true,
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(Frame)) -> Result<(), AIError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            let line = Bytes::from(line);
            self.take_line(&line, 0..line.len(), emit)?;
        }
        self.event.dispatch(true, emit);
        Ok(())
    }

    /// Takes the line in a range of a buffer; only what is kept is cut out of it.
    fn take_line(&mut self, buffer: &Bytes, range: Range<usize>, emit: &mut dyn FnMut(Frame)) -> Result<(), AIError> {
        let Range { start: mut from, end: to } = range;
        let mut line = buffer.get(from..to).unwrap_or_default();
        if self.is_at_start {
            self.is_at_start = false;
            if let Some(rest) = line.strip_prefix(BOM) {
                from += BOM.len();
                line = rest;
            }
        }
        if line.is_empty() {
            self.event.dispatch(false, emit);
            return Ok(());
        }
        let (field, value) = match memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (line.get(..colon).unwrap_or_default(), from + colon + 1 + space..to)
            }
            None => (line, to..to),
        };
        match field {
            b"data" => self.event.add(buffer.slice(value)),
            b"event" => {
                self.event.name = buffer.slice(value);
                Ok(())
            }
            // `id` and `retry` mean a reconnect that never happens; the rest is unknown.
            _ => Ok(()),
        }
    }
}

impl Event {
    fn len(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len) + self.joined.len()
    }

    fn add(&mut self, value: Bytes) -> Result<(), AIError> {
        limit(self.len() + value.len())?;
        match self.data.take() {
            None if self.joined.is_empty() => self.data = Some(value),
            first => {
                if let Some(first) = first {
                    self.joined.reserve(first.len() + value.len() + 1);
                    self.joined.extend_from_slice(&first);
                }
                self.joined.push(b'\n');
                self.joined.extend_from_slice(&value);
            }
        }
        debug_assert!(self.len() <= MAX_FRAME_BYTES + 1, "the limit was checked above");
        Ok(())
    }

    fn dispatch(&mut self, is_cut: bool, emit: &mut dyn FnMut(Frame)) {
        let event = std::mem::take(self);
        let data = match event.data {
            Some(data) => data,
            None => Bytes::from(event.joined),
        };
        // A value that starts with a colon is a keep-alive that was wrongly sent as data.
        if data.trim_ascii().is_empty() || data.first() == Some(&b':') {
            return;
        }
        let data = match std::str::from_utf8(&data) {
            Ok(_) => data,
            Err(_) => valid(data.to_vec()),
        };
        emit(Frame { name: event.name, data, headers: None, is_cut });
    }
}
