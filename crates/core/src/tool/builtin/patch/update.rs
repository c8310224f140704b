//! Applying the chunks of an update to the text of a file: pure, line by line. Lines that no chunk removes stay byte for
//! byte, with their line ends.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::ops::Range;

use super::super::edit::near;
use super::super::edit::plain_char;
use super::parse::{Chunk, Line};

/// How many of the lines that were not found a message repeats.
const MAX_SHOWN: usize = 20;

/// Why a chunk has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The context line is not there.
    Context(String),
    /// The lines are not there.
    Lines {
        lines: Vec<String>,
        /// Where something alike is.
        hint: Option<String>,
    },
}

impl NoPlace {
    /// Says so for a file.
    pub(super) fn message(&self, path: &str) -> String {
        match self {
            Self::Context(context) => format!("Context '{context}' not found in {path}"),
            Self::Lines { lines, hint } => {
                let mut text = format!("Expected lines not found in {path}:");
                for line in lines.iter().take(MAX_SHOWN) {
                    text.push('\n');
                    text.push_str(line);
                }
                if let Some(more) = lines.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
                    // Writing to a string does not fail.
                    let _ok = write!(text, "\n[{more} more]");
                }
                if let Some(hint) = hint {
                    text.push('\n');
                    text.push_str(hint);
                }
                text
            }
        }
    }
}

/// Applies chunks in order and returns the new text.
pub(super) fn apply(text: &str, chunks: &[Chunk]) -> Result<String, NoPlace> {
    let file = File::of(text);
    let mut cursor = 0;
    let mut edits: Vec<Edit<'_>> = Vec::new();
    for chunk in chunks {
        let mut after_context = None;
        if let Some(context) = &chunk.context {
            let at = file.seek(&[context], cursor, false).ok_or_else(|| NoPlace::Context(context.clone()))?;
            cursor = at + 1;
            after_context = Some(cursor);
        }
        place(&file, chunk, after_context, &mut cursor, &mut edits)?;
    }
    edits.sort_by_key(|edit| (edit.lines.start, edit.lines.end));
    Ok(file.edited(&edits))
}

/// Lines of the file that go, and what comes there.
struct Edit<'a> {
    lines: Range<usize>,
    new: Vec<&'a str>,
}

/// Finds the place of a chunk and notes what changes there.
fn place<'a>(
    file: &File<'_>,
    chunk: &'a Chunk,
    after_context: Option<usize>,
    cursor: &mut usize,
    edits: &mut Vec<Edit<'a>>,
) -> Result<(), NoPlace> {
    let lines: Vec<&Line> = chunk.lines.iter().collect();
    let old = old_lines(&lines);
    if old.is_empty() {
        let new: Vec<&str> = lines.iter().filter_map(|line| inserted(line)).collect();
        let at = if chunk.at_end { file.lines.len() } else { after_context.unwrap_or(file.lines.len()) };
        if !new.is_empty() {
            edits.push(Edit { lines: at..at, new });
        }
        return Ok(());
    }
    if let Some(at) = file.seek(&old, *cursor, chunk.at_end) {
        *cursor = at + old.len();
        note(at, &lines, edits);
        return Ok(());
    }
    // An empty line at the end may be one of the patch alone.
    let shorter = without_last_empty(&lines);
    let old = shorter.as_deref().map(old_lines).filter(|old| !old.is_empty());
    if let (Some(lines), Some(old)) = (&shorter, old)
        && let Some(at) = file.seek(&old, *cursor, chunk.at_end)
    {
        *cursor = at + old.len();
        note(at, lines, edits);
        return Ok(());
    }
    let lines: Vec<String> = old_lines(&lines).into_iter().map(str::to_owned).collect();
    let hint = near(&file.joined(*cursor), &lines.join("\n"), "the patch", *cursor);
    Err(NoPlace::Lines { lines, hint })
}

/// Notes the changes of a chunk from a line of the file on.
fn note<'a>(at: usize, lines: &[&'a Line], edits: &mut Vec<Edit<'a>>) {
    let mut here = at;
    let mut open: Option<Edit<'a>> = None;
    for line in lines {
        if let Line::Keep(_) = line {
            edits.extend(open.take());
            here += 1;
            continue;
        }
        let edit = open.get_or_insert_with(|| Edit { lines: here..here, new: Vec::new() });
        match line {
            Line::Insert(text) => edit.new.push(text),
            Line::Remove(_) | Line::Keep(_) => {
                here += 1;
                edit.lines.end = here;
            }
        }
    }
    edits.extend(open);
}

fn old_lines<'a>(lines: &[&'a Line]) -> Vec<&'a str> {
    let old = |line: &&'a Line| match line {
        Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
        Line::Insert(_) => None,
    };
    lines.iter().filter_map(old).collect()
}

fn inserted(line: &Line) -> Option<&str> {
    match line {
        Line::Insert(text) => Some(text),
        Line::Keep(_) | Line::Remove(_) => None,
    }
}

/// Leaves out the last line that has to be there when it is empty, and with a removed one the empty line that comes for
/// it.
fn without_last_empty<'a>(lines: &[&'a Line]) -> Option<Vec<&'a Line>> {
    let last = lines.iter().rposition(|line| inserted(line).is_none())?;
    let mut rest = lines.to_vec();
    match lines.get(last)? {
        Line::Keep(text) if text.is_empty() && last + 1 == lines.len() => {
            rest.pop();
        }
        Line::Remove(text) if text.is_empty() => {
            rest.remove(last);
            if rest.last().and_then(|line| inserted(line)) == Some("") {
                rest.pop();
            }
        }
        Line::Keep(_) | Line::Remove(_) | Line::Insert(_) => return None,
    }
    Some(rest)
}

/// A text as lines, each with its own end.
struct File<'a> {
    /// Text and line end; the last line may have none.
    lines: Vec<(&'a str, &'a str)>,
    /// The lines as the passes compare them, made when they are needed.
    forms: [OnceCell<Vec<Cow<'a, str>>>; PASSES.len()],
}

/// How a line is compared: exact; without trailing white space; trimmed; trimmed and with plain punctuation.
const PASSES: [fn(&str) -> Cow<'_, str>; 4] = [
    |line| Cow::Borrowed(line),
    |line| Cow::Borrowed(line.trim_end()),
    |line| Cow::Borrowed(line.trim()),
    |line| plain(line.trim()),
];

impl<'a> File<'a> {
    fn of(text: &'a str) -> Self {
        // CR alone ends lines only where there is no LF.
        let end = if text.contains('\n') { '\n' } else { '\r' };
        let lines = text.split_inclusive(end).map(|line| {
            let body = line.strip_suffix("\r\n").or_else(|| line.strip_suffix(end)).unwrap_or(line);
            line.split_at(body.len())
        });
        Self { lines: lines.collect(), forms: Default::default() }
    }

    /// Finds lines from a line on; the first pass that finds them wins.
    fn seek(&self, wanted: &[&str], from: usize, at_end: bool) -> Option<usize> {
        let last = self.lines.len().checked_sub(wanted.len())?;
        let first = if at_end { last.max(from) } else { from };
        PASSES.iter().zip(&self.forms).find_map(|(form, cell)| {
            let wanted: Vec<Cow<'_, str>> = wanted.iter().map(|line| form(line)).collect();
            let lines = cell.get_or_init(|| self.lines.iter().map(|(line, _)| form(line)).collect());
            (first..=last).find(|at| lines.get(*at..*at + wanted.len()) == Some(wanted.as_slice()))
        })
    }

    /// Returns the lines from one on, with LF between them.
    fn joined(&self, from: usize) -> String {
        self.lines.get(from..).unwrap_or_default().iter().map(|(line, _)| *line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the text with edits, which are in order and apart.
    fn edited(&self, edits: &[Edit<'_>]) -> String {
        let mut out: Vec<(&str, &str)> = Vec::with_capacity(self.lines.len());
        let mut from = 0;
        for edit in edits {
            out.extend(self.lines.get(from..edit.lines.start).unwrap_or_default());
            let end = self.line_end_at(edit.lines.start);
            out.extend(edit.new.iter().map(|line| (*line, end)));
            from = edit.lines.end.max(from);
        }
        out.extend(self.lines.get(from..).unwrap_or_default());
        // A line that was the last one without an end may stand in the middle now.
        let n = out.len();
        let mut text = String::new();
        for (at, (line, end)) in out.into_iter().enumerate() {
            text.push_str(line);
            let needs_one = end.is_empty() && at + 1 < n;
            text.push_str(if needs_one { self.line_end_at(self.lines.len()) } else { end });
        }
        text
    }

    /// Returns the line end of new lines before a line: that line's own, else that of the line before.
    fn line_end_at(&self, at: usize) -> &'a str {
        let ends = |range: &[(&'a str, &'a str)]| range.iter().rev().map(|(_, end)| *end).find(|end| !end.is_empty());
        let own = self.lines.get(at).map(|(_, end)| *end).filter(|end| !end.is_empty());
        own.or_else(|| ends(self.lines.get(..at).unwrap_or_default())).unwrap_or("\n")
    }
}

/// Takes typographic quotes, dashes, spaces and dots for plain ones.
fn plain(line: &str) -> Cow<'_, str> {
    let plain_space = |c: char| match c {
        '\u{00A0}' | '\u{2002}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        c => plain_char(c),
    };
    if !line.chars().any(|c| plain_space(c) != c || c == '…') {
        return Cow::Borrowed(line);
    }
    Cow::Owned(line.chars().map(plain_space).collect::<String>().replace('…', "..."))
}
