//! Reading an event stream: bytes to frames.

/// A frame: what stands between two empty lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// The last `id:` line.
    pub(super) id: Option<String>,
    /// The `data:` lines, joined.
    pub(super) data: String,
}

/// The largest frame, in bytes: an event with a large prompt or output in it.
const MAX_FRAME: usize = 256 << 20;

/// The frame is larger than the reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {MAX_FRAME} bytes")]
pub(super) struct TooLarge;

/// Cuts a stream into frames, wherever the chunks end. Comments and unknown fields are skipped.
#[derive(Debug, Default)]
pub(super) struct Frames {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    after_return: bool,
}

impl Frames {
    /// Takes a chunk; returns the frames that it completes.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Frame>, TooLarge> {
        let mut out = Vec::new();
        for part in chunk.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match part.split_last() {
                Some((end @ (b'\n' | b'\r'), text)) => (text, Some(*end)),
                Some(_) | None => (part, None),
            };
            // The second half of a line end of two characters.
            if std::mem::take(&mut self.after_return) && text.is_empty() && end == Some(b'\n') {
                continue;
            }
            if self.line.len().saturating_add(self.frame.data.len()).saturating_add(text.len()) > MAX_FRAME {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(text);
            let Some(end) = end else { continue };
            self.after_return = end == b'\r';
            let line = std::mem::take(&mut self.line);
            out.extend(self.take_line(&String::from_utf8_lossy(&line)));
        }
        Ok(out)
    }

    fn take_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "id" => self.frame.id = Some(value.to_owned()),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;
