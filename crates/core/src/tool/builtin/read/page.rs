//! Some lines of a text, read without reading the rest.

use std::fmt::Write as _;
use std::io::{self, BufRead};

use super::{MAX_LIMIT, ReadInput};
use crate::fs::text::{is_control, without_marks};

/// The longest shown line, in characters.
const MAX_LINE_CHARS: usize = 2000;

/// The most bytes of one page, line numbers included; leaves room for the header within 50 KiB.
const MAX_PAGE_BYTES: usize = 50 * 1024 - 1024;

/// No character needs more bytes, so that a longer line is kept only this far.
const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4 + 4;

/// How far a text is searched for the wanted lines.
const MAX_SCANNED_BYTES: usize = 2 * 1024 * 1024 * 1024;

const CUT: &str = " [line cut at 2000 chars]";

/// Which lines or entries are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The first, from 1.
    pub(super) offset: u64,
    /// How many.
    pub(super) limit: u64,
}

impl Window {
    pub(super) fn of(input: &ReadInput) -> Self {
        Self { offset: input.offset.unwrap_or(1).max(1), limit: input.limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT) }
    }
}

/// Some lines, without their ends.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) offset: u64,
    pub(super) lines: Vec<String>,
    /// The first line that is not shown.
    pub(super) next: Option<u64>,
    /// The encoding, when it is worth a word.
    pub(super) encoding: Option<&'static str>,
}

/// Why there are no lines.
#[derive(Debug)]
pub(super) enum NotAPage {
    Binary,
    NotUtf8 { offset: usize, byte: u8 },
    PastEnd { offset: u64, n_lines: u64 },
    Io(io::Error),
}

impl From<io::Error> for NotAPage {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Page {
    /// Returns what the header says besides the lines.
    pub(super) fn note(&self) -> Option<String> {
        self.encoding.map(|encoding| format!("decoded from {encoding}"))
    }

    /// Writes the page for the model.
    pub(super) fn render(&self, path: &str, note: Option<&str>) -> String {
        let note = note.map(|note| format!(", {note}")).unwrap_or_default();
        if self.lines.is_empty() {
            return format!("{path} (empty{note})");
        }
        let last = self.offset + self.lines.len() as u64 - 1;
        let mut out = format!("{path} (lines {}-{last}{note})", self.offset);
        for (line, n) in self.lines.iter().zip(self.offset..) {
            // Writing to a string does not fail.
            let _ok = write!(out, "\n{n}: {line}");
        }
        if let Some(next) = self.next {
            let _ok = write!(out, "\n[more available: continue with offset {next}]");
        }
        out
    }
}

/// Reads the wanted lines of a UTF-8 text, and one byte more to know whether that was all.
pub(super) fn read(mut reader: impl BufRead, window: &Window) -> Result<Page, NotAPage> {
    let mut page = Page { offset: window.offset, lines: Vec::new(), next: None, encoding: None };
    let (mut position, mut n_controls, mut n_looked_at) = (0usize, 0usize, 0usize);
    let mut n_bytes = 0;
    let mut number = 0u64;
    loop {
        if reader.fill_buf()?.is_empty() {
            break;
        }
        number += 1;
        if page.lines.len() as u64 == window.limit {
            page.next = Some(number);
            break;
        }
        let start = position;
        let line = read_line(&mut reader, &mut position)?;
        n_looked_at += line.kept.len() + 1;
        n_controls += line.kept.iter().filter(|byte| is_control(**byte)).count();
        if line.kept.contains(&0) {
            return Err(NotAPage::Binary);
        }
        if number < window.offset {
            continue;
        }
        let text = line.text(start)?;
        let text = if number == 1 { without_marks(&text).to_owned() } else { text };
        n_bytes += text.len() + number.to_string().len() + ": \n".len();
        if n_bytes > MAX_PAGE_BYTES && !page.lines.is_empty() {
            page.next = Some(number);
            break;
        }
        page.lines.push(text);
    }
    if n_controls * 10 > n_looked_at * 3 {
        return Err(NotAPage::Binary);
    }
    if page.lines.is_empty() && !(window.offset == 1 && number == 0) {
        return Err(NotAPage::PastEnd { offset: window.offset, n_lines: number });
    }
    Ok(page)
}

struct Line {
    /// Its first bytes, without the line end.
    kept: Vec<u8>,
    is_cut: bool,
}

/// Reads a line to its end and keeps as much as can be shown.
fn read_line(reader: &mut impl BufRead, position: &mut usize) -> io::Result<Line> {
    let mut line = Line { kept: Vec::new(), is_cut: false };
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', buffer);
        let piece = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = MAX_LINE_BYTES.saturating_sub(line.kept.len());
        line.kept.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
        line.is_cut |= piece.len() > room;
        let n_used = piece.len() + usize::from(end.is_some());
        reader.consume(n_used);
        *position += n_used;
        if *position > MAX_SCANNED_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the lines are too far from its start"));
        }
        if end.is_some() {
            break;
        }
    }
    if !line.is_cut && line.kept.last() == Some(&b'\r') {
        line.kept.pop();
    }
    Ok(line)
}

impl Line {
    fn text(self, start: usize) -> Result<String, NotAPage> {
        let text = match std::str::from_utf8(&self.kept) {
            Ok(text) => text,
            // Cut in the middle of a character.
            Err(error) if self.is_cut && error.error_len().is_none() => {
                std::str::from_utf8(self.kept.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
            }
            Err(error) => {
                let at = error.valid_up_to();
                let byte = self.kept.get(at).copied().unwrap_or_default();
                return Err(NotAPage::NotUtf8 { offset: start + at, byte });
            }
        };
        match text.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => Ok(text.get(..end).unwrap_or_default().to_owned() + CUT),
            None if self.is_cut => Ok(text.to_owned() + CUT),
            None => Ok(text.to_owned()),
        }
    }
}
