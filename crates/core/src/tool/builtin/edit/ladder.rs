//! Finding the text to replace, and replacing it: pure functions on texts (spec/tools.md 11.3).
//!
//! Rungs, the first with a match wins: the exact text; the same with typographic quotes and dashes taken for plain
//! ones; whole lines without their trailing white space; whole lines with one other indentation. Nothing is guessed by
//! likeness. Line ends never count for matching: a new line gets the line end of its place, and all else stays.

mod hint;
mod mapped;
mod whole_lines;

#[cfg(test)]
mod tests;

use std::ops::Range;

use mapped::{Mapped, Normalized};

pub(crate) use hint::near;
pub(crate) use mapped::plain_char;

/// How a text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// As given.
    Exact,
    /// With plain quotes and dashes.
    Plain,
    /// By whole lines, without trailing white space.
    Lines,
    /// By whole lines, with another indentation.
    Indent,
}

/// A changed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// The whole text.
    pub(crate) text: String,
    /// How many places were changed.
    pub(crate) replacements: usize,
    /// How they were found.
    pub(crate) rung: Rung,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoReplacement {
    /// The new text differs from the old one in line ends only, which a file keeps.
    OnlyLineEnds,
    /// The text is not there.
    NotFound {
        /// Where something alike is, for the model.
        hint: Option<String>,
    },
    /// The text is there several times.
    Several {
        /// How often.
        count: usize,
        /// The lines of the first ones, from 1.
        lines: Vec<usize>,
    },
}

/// How many places are named when a text occurs several times.
const MAX_PLACES: usize = 10;

/// A place in the normalized text, and what comes there.
struct Match {
    range: Range<usize>,
    new: String,
}

/// Replaces `old` by `new` in `text`: its only place, or with `all` every one, left to right without overlaps.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Replaced, NoReplacement> {
    let file = Normalized::of(text);
    let (old, new) = (file.normalize(old), file.normalize(new));
    if old == new {
        return Err(NoReplacement::OnlyLineEnds);
    }
    let (rung, matches) = find(&file.text, &old, &new, all);
    match matches.len() {
        0 => Err(NoReplacement::NotFound { hint: near(&file.text, &old, "oldString", 0) }),
        count if count > 1 && !all => Err(NoReplacement::Several {
            count,
            lines: matches.iter().take(MAX_PLACES).map(|found| file.line_at(found.range.start)).collect(),
        }),
        replacements => Ok(Replaced { text: file.replaced(&matches), replacements, rung }),
    }
}

fn find(text: &str, old: &str, new: &str, all: bool) -> (Rung, Vec<Match>) {
    let exact = occurrences(text, old, new);
    if !exact.is_empty() {
        return (Rung::Exact, exact);
    }
    let (plain_text, plain_old) = (Mapped::plain(text), Mapped::plain(old));
    if plain_text.is_changed() || plain_old.is_changed() {
        let mut plain = occurrences(&plain_text.text, &plain_old.text, new);
        if !plain.is_empty() {
            for found in &mut plain {
                found.range = plain_text.original(found.range.start)..plain_text.original(found.range.end);
            }
            return (Rung::Plain, plain);
        }
    }
    let lines = whole_lines::trimmed(text, old, new);
    if !lines.is_empty() {
        return (Rung::Lines, lines);
    }
    let indented = if all { None } else { whole_lines::indented(text, old, new) };
    (Rung::Indent, indented.into_iter().collect())
}

fn occurrences(text: &str, old: &str, new: &str) -> Vec<Match> {
    if old.is_empty() {
        return Vec::new();
    }
    text.match_indices(old).map(|(at, found)| Match { range: at..at + found.len(), new: new.to_owned() }).collect()
}

/// Replaces ASCII text, or text that can be told from its own bytes, in a file whose encoding is not known. Only exact
/// text is found; every other byte stays.
pub(crate) fn replace_bytes(bytes: &[u8], old: &str, new: &str, all: bool) -> Result<(Vec<u8>, usize), BytesFailure> {
    let crlf = memchr::memmem::find(bytes, b"\r\n").is_some();
    let ends = |text: &str| {
        let text = text.replace("\r\n", "\n");
        if crlf { text.replace('\n', "\r\n") } else { text }
    };
    let (old, new) = (ends(old), ends(new));
    if old == new {
        return Err(BytesFailure::No(NoReplacement::OnlyLineEnds));
    }
    for codec in [encoding_rs::UTF_8, encoding_rs::WINDOWS_1252] {
        let (wanted, _, unmappable) = codec.encode(&old);
        if unmappable {
            continue;
        }
        let places: Vec<usize> = memchr::memmem::find_iter(bytes, wanted.as_ref()).collect();
        if places.is_empty() {
            continue;
        }
        if places.len() > 1 && !all {
            let line = |at: usize| memchr::memchr_iter(b'\n', bytes.get(..at).unwrap_or_default()).count() + 1;
            let lines = places.iter().take(MAX_PLACES).map(|at| line(*at)).collect();
            return Err(BytesFailure::No(NoReplacement::Several { count: places.len(), lines }));
        }
        // The old text vouches for the encoding only with what it has beyond ASCII itself.
        let (written, _, unmappable) = codec.encode(&new);
        if unmappable || (old.is_ascii() && !new.is_ascii()) {
            return Err(BytesFailure::Encoding);
        }
        let mut out = Vec::with_capacity(bytes.len() + new.len());
        let mut from = 0;
        for at in &places {
            out.extend_from_slice(bytes.get(from..*at).unwrap_or_default());
            out.extend_from_slice(written.as_ref());
            from = at + wanted.len();
        }
        out.extend_from_slice(bytes.get(from..).unwrap_or_default());
        return Ok((out, places.len()));
    }
    Err(BytesFailure::No(NoReplacement::NotFound { hint: None }))
}

/// Why nothing was changed in a file whose encoding is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BytesFailure {
    /// As in a text.
    No(NoReplacement),
    /// The new text has characters of which it is not known how the file writes them.
    Encoding,
}
