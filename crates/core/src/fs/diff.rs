//! Line diffs in the unified format: three lines of context, exact to the byte.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use abide_schema::message::FileStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, DiffTag};

/// How long a diff may be sought; after that it is coarser, and still right.
const TIME: Duration = Duration::from_millis(500);

/// Texts over this size get counts only.
const MAX_BYTES: usize = 1024 * 1024;

const CONTEXT: usize = 3;

/// A changed file as tools report it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// The file, as rules name it.
    pub file: String,
    /// A unified diff; empty for large files and for what is no text.
    pub patch: String,
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// How it changed.
    pub status: FileStatus,
}

/// Compares two texts of a file; an absent one means that there is no file. Byte order marks are no part of the texts.
pub fn diff(file: &str, before: Option<&str>, after: Option<&str>) -> FileDiff {
    let status = match (before, after) {
        (None, _) => FileStatus::Added,
        (Some(_), None) => FileStatus::Deleted,
        (Some(_), Some(_)) => FileStatus::Modified,
    };
    let (old, new) = (lines(before.unwrap_or_default()), lines(after.unwrap_or_default()));
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Instant::now().checked_add(TIME));
    let (mut additions, mut deletions) = (0, 0);
    for op in &ops {
        if op.tag() != DiffTag::Equal {
            additions += count(op.new_range().len());
            deletions += count(op.old_range().len());
        }
    }
    let too_much = [before, after].iter().flatten().any(|text| text.len() > MAX_BYTES || text.contains('\0'));
    let patch = if too_much || ops.iter().all(|op| op.tag() == DiffTag::Equal) {
        String::new()
    } else {
        unified(file, status, &old, &new, ops)
    };
    FileDiff { file: file.to_owned(), patch, additions, deletions, status }
}

/// Compares two contents of a file of which at least one is no text: counts of lines only.
pub fn binary_diff(file: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (before, after) = (text(before), text(after));
    FileDiff { patch: String::new(), ..diff(file, before.as_deref(), after.as_deref()) }
}

/// Splits at LF only, so that a CR belongs to its line and applying the diff gives the same bytes.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn unified(file: &str, status: FileStatus, old: &[&str], new: &[&str], ops: Vec<DiffOp>) -> String {
    let name = |side: char| header_name(&format!("{side}/{file}"));
    let (from, to) = match status {
        FileStatus::Added => ("/dev/null".to_owned(), name('b')),
        FileStatus::Deleted => (name('a'), "/dev/null".to_owned()),
        FileStatus::Modified => (name('a'), name('b')),
    };
    let mut out = format!("--- {from}\n+++ {to}\n");
    for group in similar::group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        // Writing to a string does not fail.
        let _ok = writeln!(out, "@@ -{} +{} @@", position(&old_range), position(&new_range));
        for op in &group {
            if op.tag() == DiffTag::Equal {
                push_lines(&mut out, ' ', old.get(op.old_range()));
            } else {
                push_lines(&mut out, '-', old.get(op.old_range()));
                push_lines(&mut out, '+', new.get(op.new_range()));
            }
        }
    }
    out
}

fn position(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        n => format!("{},{n}", range.start + 1),
    }
}

fn push_lines(out: &mut String, mark: char, lines: Option<&[&str]>) {
    for line in lines.unwrap_or_default() {
        out.push(mark);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Quotes a name that would break the header, as git does.
fn header_name(name: &str) -> String {
    if name.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        format!("\"{}\"", name.escape_default())
    } else {
        name.to_owned()
    }
}
