//! Walking directories as searches do: what version control ignores is left out, links are not followed.

use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

/// Makes a walk below `root`, in the order of names. `.git` is never part of it; hidden entries only with `hidden`.
pub(crate) fn walk(root: &Path, hidden: bool) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(!hidden)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .sort_by_file_name(Ord::cmp);
    builder
}

/// Says whether an entry of a walk is a regular file; a link is not.
pub(crate) fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}
