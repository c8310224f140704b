//! Instructions that lie beside what was read, below the location's own ones (spec/tools.md 11.1).

use std::path::{Path, PathBuf};

use crate::fs::disk::{self, Found};

/// The file of instructions.
const FILE_NAME: &str = "AGENTS.md";
/// Longer instructions are cut, in bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Lists where instructions for a path may lie: in its directories up to the location, which has its own, the nearest
/// last.
pub(super) fn places(real: &Path, is_directory: bool, root: &Path) -> Vec<PathBuf> {
    let first = if is_directory { Some(real) } else { real.parent() };
    let Some(first) = first.filter(|first| first.starts_with(root)) else { return Vec::new() };
    let mut places: Vec<PathBuf> =
        first.ancestors().take_while(|path| *path != root).map(|path| path.join(FILE_NAME)).collect();
    places.retain(|path| path != real);
    places.reverse();
    places
}

/// Reads instructions; `None` for what is none, and for what cannot be read. Blocks.
pub(super) fn text(path: &Path) -> Option<String> {
    let Ok(Found::File(read)) = disk::look(path) else { return None };
    let text = String::from_utf8(read.content).ok()?;
    let text = text.trim();
    let cut = text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default();
    let note = if cut.len() < text.len() { "\n[cut]" } else { "" };
    (!text.is_empty()).then(|| format!("{cut}{note}"))
}
