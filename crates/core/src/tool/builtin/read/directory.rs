//! The entries of a directory.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::page::Window;
use super::{ListOutput, ReadOutput};
use crate::fs::access::{Target, inside};
use crate::fs::browse::{Entry, EntryKind};
use crate::tool::builtin::files::{FileTools, blocking};
use crate::tool::failure::caused;
use crate::tool::leaf::ToolReturn;
use crate::tool::outcome::ToolFailure;

pub(super) async fn read(
    files: &FileTools,
    target: &Target,
    window: &Window,
) -> Result<ToolReturn<ReadOutput>, ToolFailure> {
    let real = target.real.clone();
    let names = blocking(move || names(&real)).await;
    let names = names.map_err(|error| caused(format!("Could not read {}", target.requested), &error))?;
    let (offset, limit) = (usize_of(window.offset), usize_of(window.limit));
    if offset > names.len() && !(offset == 1 && names.is_empty()) {
        return Err(ToolFailure::new(format!(
            "Offset {offset} is past the end: {} has {} entries",
            target.resource,
            names.len()
        )));
    }
    let shown: Vec<_> = names.iter().skip(offset - 1).take(limit).collect();
    let end = offset - 1 + shown.len();
    let next = (end < names.len()).then_some(end as u64 + 1);

    let folder =
        if target.resource == "." { String::new() } else { format!("{}/", target.resource.trim_end_matches('/')) };
    let header =
        if target.resource == "." { files.access.directory().display().to_string() } else { target.resource.clone() };
    let header = header.trim_end_matches('/');
    let mut text =
        if shown.is_empty() { format!("{header}/ (empty)") } else { format!("{header}/ (entries {offset}-{end})") };
    for (kind, name) in &shown {
        let mark = if *kind == EntryKind::Directory { "/" } else { "" };
        // Writing to a string does not fail.
        let _ok = write!(text, "\n{name}{mark}");
    }
    if let Some(next) = next {
        let _ok = write!(text, "\n[more available: continue with offset {next}]");
    }
    let entries = shown
        .into_iter()
        .map(|(kind, name)| {
            let mark = if *kind == EntryKind::Directory { "/" } else { "" };
            Entry { path: format!("{folder}{name}{mark}"), kind: *kind }
        })
        .collect();
    let truncated = next.is_some();
    Ok(ToolReturn::new(ReadOutput::List(ListOutput { entries, truncated, next })).with_text(text).bounded(truncated))
}

/// Lists what is there: directories first, then by the bytes of the names. Links that lead out of the directory or to
/// nothing are left out.
fn names(directory: &Path) -> io::Result<Vec<(EntryKind, String)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path: PathBuf = entry.path();
        let is_directory = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => match path.canonicalize() {
                Ok(real) if inside(&real, directory) => real.is_dir(),
                Ok(_) | Err(_) => continue,
            },
            Ok(kind) => kind.is_dir(),
            Err(_) => continue,
        };
        let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
        names.push((kind, entry.file_name().to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
