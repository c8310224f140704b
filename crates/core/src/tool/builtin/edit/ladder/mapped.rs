//! Texts in another form, with the way back to the original offsets.

use std::borrow::Cow;

use super::Match;

/// A text with LF line ends only.
pub(super) struct Normalized<'a> {
    original: &'a str,
    pub(super) text: Cow<'a, str>,
    /// The offsets, in the new text, of LFs that had a CR before them; sorted.
    crlf: Vec<usize>,
    /// Whether CR alone ends lines.
    cr_only: bool,
}

impl<'a> Normalized<'a> {
    pub(super) fn of(original: &'a str) -> Self {
        if !original.contains('\r') {
            return Self { original, text: Cow::Borrowed(original), crlf: Vec::new(), cr_only: false };
        }
        if !original.contains('\n') {
            let text = Cow::Owned(original.replace('\r', "\n"));
            return Self { original, text, crlf: Vec::new(), cr_only: true };
        }
        let mut text = String::with_capacity(original.len());
        let mut crlf = Vec::new();
        let mut pieces = original.split("\r\n");
        text.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            crlf.push(text.len());
            text.push('\n');
            text.push_str(piece);
        }
        Self { original, text: Cow::Owned(text), crlf, cr_only: false }
    }

    /// Brings another text to the same form.
    pub(super) fn normalize(&self, text: &str) -> String {
        let text = text.replace("\r\n", "\n");
        if self.cr_only { text.replace('\r', "\n") } else { text }
    }

    /// Returns the number, from 1, of the line at an offset.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        self.text.get(..offset).unwrap_or_default().matches('\n').count() + 1
    }

    /// Returns the original text with `matches`, which are in order and apart, replaced.
    pub(super) fn replaced(&self, matches: &[Match]) -> String {
        let mut out = String::with_capacity(self.original.len());
        let mut from = 0;
        for found in matches {
            let there = self.text.get(found.range.clone()).unwrap_or_default();
            // What is the same at both ends is left alone, with its line ends.
            let (head, tail) = common(there, &found.new);
            let start = found.range.start + head;
            let end = found.range.end - tail;
            out.push_str(self.original.get(from..self.original_offset(start)).unwrap_or_default());
            let new = found.new.get(head..found.new.len() - tail).unwrap_or_default();
            out.push_str(&new.replace('\n', self.line_end_near(start)));
            from = self.original_offset(end);
        }
        out.push_str(self.original.get(from..).unwrap_or_default());
        out
    }

    fn original_offset(&self, offset: usize) -> usize {
        offset + self.crlf.partition_point(|at| *at < offset)
    }

    /// Returns the line end of the line at an offset: its own, else that of the line before.
    fn line_end_near(&self, offset: usize) -> &'static str {
        if self.cr_only {
            return "\r";
        }
        let after = self.text.get(offset..).and_then(|rest| rest.find('\n')).map(|at| at + offset);
        let near = after.or_else(|| self.text.get(..offset).and_then(|rest| rest.rfind('\n')));
        if near.is_some_and(|at| self.crlf.binary_search(&at).is_ok()) { "\r\n" } else { "\n" }
    }
}

/// Returns how many bytes two texts share at the start and, of the rest, at the end; in whole characters.
fn common(one: &str, other: &str) -> (usize, usize) {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    let head = same(&mut one.chars().zip(other.chars()));
    let (one, other) = (one.get(head..).unwrap_or_default(), other.get(head..).unwrap_or_default());
    let tail = same(&mut one.chars().rev().zip(other.chars().rev()));
    (head, tail)
}

/// A text whose typographic quotes and dashes are plain.
pub(super) struct Mapped<'a> {
    pub(super) text: Cow<'a, str>,
    /// After each changed character: the offset in the new text and in the original.
    shifts: Vec<(usize, usize)>,
}

impl<'a> Mapped<'a> {
    pub(super) fn plain(original: &'a str) -> Self {
        if !original.chars().any(|c| plain_char(c) != c) {
            return Self { text: Cow::Borrowed(original), shifts: Vec::new() };
        }
        let mut text = String::with_capacity(original.len());
        let mut shifts = Vec::new();
        for (at, c) in original.char_indices() {
            text.push(plain_char(c));
            if plain_char(c) != c {
                shifts.push((text.len(), at + c.len_utf8()));
            }
        }
        Self { text: Cow::Owned(text), shifts }
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.shifts.is_empty()
    }

    /// Returns the offset in the original of a character boundary of the new text.
    pub(super) fn original(&self, offset: usize) -> usize {
        let before = self.shifts.partition_point(|(at, _)| *at <= offset);
        match before.checked_sub(1).and_then(|last| self.shifts.get(last)) {
            Some((at, original)) => original + (offset - at),
            None => offset,
        }
    }
}

/// Takes a quote or dash for its plain form. Spaces stay: an odd space is named to the model instead of replaced.
pub(crate) fn plain_char(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        _ => c,
    }
}
