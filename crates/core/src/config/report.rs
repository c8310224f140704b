//! Findings of one document with their places in its text.

use std::collections::HashMap;
use std::path::PathBuf;

use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};

/// Where the values of a document stand in its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    /// JSON pointer to (line, column), both from 1.
    places: HashMap<String, (usize, usize)>,
}

impl Positions {
    pub(crate) fn insert(&mut self, pointer: String, place: (usize, usize)) {
        self.places.insert(pointer, place);
    }

    /// Finds a pointer, else the nearest one above it.
    pub(crate) fn find(&self, pointer: &str) -> Option<(usize, usize)> {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.places.get(pointer) {
                return Some(*place);
            }
            pointer = pointer.rsplit_once('/')?.0;
        }
    }
}

/// Collects findings of one document.
#[derive(Debug, Default)]
pub(crate) struct Report {
    path: Option<PathBuf>,
    positions: Positions,
    /// Prefixes of pointers after and before the conversion of old keys.
    moved: Vec<(String, String)>,
    found: Vec<Diagnostic>,
}

impl Report {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, ..Self::default() }
    }

    pub(crate) fn set_positions(&mut self, positions: Positions) {
        self.positions = positions;
    }

    /// Notes that the value now at `new` was at `old`.
    pub(crate) fn moved(&mut self, new: impl Into<String>, old: impl Into<String>) {
        self.moved.push((new.into(), old.into()));
    }

    pub(crate) fn add(&mut self, severity: Severity, kind: DiagnosticKind, pointer: &str, message: String) {
        self.push(Diagnostic::new(severity, kind, message).at(pointer));
    }

    pub(crate) fn push(&mut self, mut diagnostic: Diagnostic) {
        if diagnostic.path.is_none() {
            diagnostic.path.clone_from(&self.path);
        }
        if diagnostic.line.is_none()
            && let Some(pointer) = &diagnostic.pointer
        {
            let original = self.original(pointer);
            if let Some((line, column)) = self.positions.find(&original) {
                diagnostic.line = Some(line);
                diagnostic.column = Some(column);
            }
        }
        self.found.push(diagnostic);
    }

    /// Returns the place of a value by its pointer after conversion.
    pub(crate) fn place(&self, pointer: &str) -> Option<(usize, usize)> {
        self.positions.find(&self.original(pointer))
    }

    /// The pointer before conversion.
    fn original(&self, pointer: &str) -> String {
        self.moved
            .iter()
            .filter_map(|(new, old)| Some((new, old, pointer.strip_prefix(new.as_str())?)))
            .filter(|(_, _, rest)| rest.is_empty() || rest.starts_with('/'))
            .max_by_key(|(new, _, _)| new.len())
            .map_or_else(|| pointer.to_owned(), |(_, old, rest)| format!("{old}{rest}"))
    }

    pub(crate) fn take_found(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.found)
    }
}

/// Adds a key to a JSON pointer.
pub(crate) fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Finds the known name that is nearest to a wrong one, for hints.
pub(crate) fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wrong.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|name| (distance(wrong, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Number of insertions, removals, replacements and swaps of neighbours that make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let width = b.len() + 1;
    let mut rows: Vec<usize> = (0..width).collect();
    let mut before: Vec<usize> = rows.clone();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let get = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best = (get(&rows, j) + usize::from(from != to)).min(get(&rows, j + 1) + 1).min(get(&row, j) + 1);
            if i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from) {
                best = best.min(get(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut rows, row);
    }
    rows.last().copied().unwrap_or(0)
}
