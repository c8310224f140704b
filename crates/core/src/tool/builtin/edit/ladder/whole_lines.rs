//! The two rungs that match whole lines.

use std::ops::Range;

use super::Match;
use super::mapped::Mapped;

/// A line of a text: where it is, and its content without the line end.
struct Line<'a> {
    start: usize,
    content: &'a str,
}

impl Line<'_> {
    fn end(&self) -> usize {
        self.start + self.content.len()
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let found = Line { start, content: line.strip_suffix('\n').unwrap_or(line) };
            start += line.len();
            found
        })
        .collect()
}

/// The lines to find, and whether the last line end is part of them.
struct Wanted<'a> {
    lines: Vec<&'a str>,
    consumes_end: bool,
}

impl<'a> Wanted<'a> {
    fn of(old: &'a str) -> Option<Self> {
        let lines: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
        let useful = lines.iter().any(|line| !line.trim().is_empty());
        useful.then_some(Self { lines, consumes_end: old.ends_with('\n') })
    }

    /// Makes the match of some lines. Where the last one has no line end, none is added.
    fn matched(&self, text: &str, found: &[Line<'_>], new: &str) -> Option<Match> {
        let range = found.first()?.start..found.last()?.end();
        if !self.consumes_end {
            return Some(Match { range, new: new.to_owned() });
        }
        let has_end = text.get(range.end..).is_some_and(|rest| rest.starts_with('\n'));
        let range: Range<usize> = if has_end { range.start..range.end + 1 } else { range };
        let new = if has_end { new } else { new.strip_suffix('\n').unwrap_or(new) };
        Some(Match { range, new: new.to_owned() })
    }
}

/// Finds whole lines that are the same but for white space at their ends, and quotes and dashes.
pub(super) fn trimmed(text: &str, old: &str, new: &str) -> Vec<Match> {
    let Some(wanted) = Wanted::of(old) else { return Vec::new() };
    let wanted_forms: Vec<String> = wanted.lines.iter().map(|line| trimmed_form(line)).collect();
    let Some(first) = wanted_forms.first() else { return Vec::new() };
    let lines = lines(text);
    let forms: Vec<String> = lines.iter().map(|line| trimmed_form(line.content)).collect();
    let mut matches = Vec::new();
    let mut at = 0;
    while let Some(window) = forms.get(at..at + wanted_forms.len()) {
        if window.first() == Some(first) && window == wanted_forms.as_slice() {
            let found = lines.get(at..at + wanted_forms.len()).unwrap_or_default();
            matches.extend(wanted.matched(text, found, new));
            at += wanted_forms.len();
        } else {
            at += 1;
        }
    }
    matches
}

fn trimmed_form(line: &str) -> String {
    Mapped::plain(line.trim_end()).text.into_owned()
}

/// One more or one less indentation for all lines.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shift<'a> {
    More(&'a str),
    Less(&'a str),
}

/// Finds the only place where at least two lines that are not blank are the same but for one and the same indentation
/// before each; the new lines get it too.
pub(super) fn indented(text: &str, old: &str, new: &str) -> Option<Match> {
    let wanted = Wanted::of(old)?;
    if wanted.lines.iter().filter(|line| !line.trim().is_empty()).count() < 2 {
        return None;
    }
    let lines = lines(text);
    let mut found = lines
        .windows(wanted.lines.len())
        .filter_map(|window| shift(window, &wanted.lines).map(|shift| (window, shift)));
    let (window, shift) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    wanted.matched(text, window, &shifted(new, &shift)?)
}

fn shift<'a>(window: &[Line<'a>], wanted: &[&'a str]) -> Option<Shift<'a>> {
    let mut common: Option<Shift<'a>> = None;
    for (line, wanted) in window.iter().zip(wanted) {
        let (there, wanted) = (line.content.trim_end(), wanted.trim_end());
        if there.is_empty() && wanted.is_empty() {
            continue;
        }
        let own = if let Some(more) = there.strip_suffix(wanted) {
            Shift::More(more)
        } else {
            Shift::Less(wanted.strip_suffix(there)?)
        };
        let (Shift::More(space) | Shift::Less(space)) = &own;
        if there.is_empty() || wanted.is_empty() || !space.chars().all(|c| c == ' ' || c == '\t') {
            return None;
        }
        if common.as_ref().is_some_and(|known| *known != own) {
            return None;
        }
        common = Some(own);
    }
    common
}

/// Shifts the new lines; `None` when a line has less indentation than is to go.
fn shifted(new: &str, shift: &Shift<'_>) -> Option<String> {
    let line = |line: &str| match shift {
        _ if line.trim().is_empty() => Some(line.to_owned()),
        Shift::More(space) => Some(format!("{space}{line}")),
        Shift::Less(space) => line.strip_prefix(space).map(str::to_owned),
    };
    Some(new.split('\n').map(line).collect::<Option<Vec<_>>>()?.join("\n"))
}
