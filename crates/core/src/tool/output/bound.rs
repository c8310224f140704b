//! Bounding what the model sees of a result (spec/tools.md 7.1).

use std::path::PathBuf;

use abide_schema::JsonObject;
use abide_schema::tool::{Content, ToolResult, joined_text};

use super::OutputFiles;
use crate::tool::leaf::Keep;

/// Limits of the text of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// The most lines.
    pub lines: usize,
    /// The most bytes.
    pub bytes: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { lines: 2000, bytes: 50 * 1024 }
    }
}

/// The complete output could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("The tool finished but its full output could not be stored: {0}")]
pub(crate) struct RetentionError(#[from] std::io::Error);

/// Cuts the text of a result to the limits, and stores the complete text when it does. `output` stays as it is.
/// Returns the file with the complete text.
pub(crate) async fn bound(
    result: &mut ToolResult,
    keep: Keep,
    limits: OutputLimits,
    files: &OutputFiles,
) -> Result<Option<PathBuf>, RetentionError> {
    if result.metadata.as_ref().is_some_and(|metadata| metadata.contains_key("truncated")) {
        return Ok(None);
    }
    let text = joined_text(&result.content);
    let Some(cut) = cut(&text, keep, limits) else {
        result.metadata.get_or_insert_with(JsonObject::new).insert("truncated".to_owned(), false.into());
        return Ok(None);
    };
    let path = files.write(text.as_bytes()).await?;
    let marker = format!("[{} cut; complete text in {}]", cut.what, path.display());
    let content = std::mem::take(&mut result.content);
    result.content = place(content, &cut, keep, &marker);
    let metadata = result.metadata.get_or_insert_with(JsonObject::new);
    metadata.insert("truncated".to_owned(), true.into());
    metadata.insert("outputPath".to_owned(), path.display().to_string().into());
    if let Some(id) = path.file_name().and_then(|name| name.to_str()) {
        metadata.insert("outputID".to_owned(), id.into());
    }
    Ok(Some(path))
}

/// What is kept of a text.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// Bytes that are kept: at the start, or at the end.
    bytes: usize,
    /// What is missing: "120 lines", "1 byte".
    what: String,
}

/// Returns what is kept of a text that is over the limits.
fn cut(text: &str, keep: Keep, limits: OutputLimits) -> Option<Cut> {
    let n_lines = count_lines(text);
    if n_lines <= limits.lines && text.len() <= limits.bytes {
        return None;
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut kept_lines = 0;
    let mut bytes = 0;
    let mut by_bytes = false;
    let mut next: Box<dyn Iterator<Item = &&str>> = match keep {
        Keep::Head => Box::new(lines.iter()),
        Keep::Tail => Box::new(lines.iter().rev()),
    };
    while kept_lines < limits.lines
        && let Some(line) = next.next()
    {
        // The last line's end does not count, as it is not needed.
        if bytes + line.trim_end_matches('\n').len() > limits.bytes {
            by_bytes = true;
            break;
        }
        bytes += line.len();
        kept_lines += 1;
    }
    drop(next);
    if kept_lines == 0 {
        bytes = match keep {
            Keep::Head => text.floor_char_boundary(limits.bytes),
            Keep::Tail => text.len() - text.ceil_char_boundary(text.len() - limits.bytes.min(text.len())),
        };
    }
    let bytes = bytes.min(text.len());
    let what = if by_bytes { counted(text.len() - bytes, "byte") } else { counted(n_lines - kept_lines, "line") };
    Some(Cut { bytes, what })
}

/// Lines of a text; an empty piece after the last line end is none.
fn count_lines(text: &str) -> usize {
    text.split('\n').count() - usize::from(text.is_empty() || text.ends_with('\n'))
}

fn counted(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// Distributes the kept bytes over the text parts, puts the marker beside them and leaves files where they are.
fn place(content: Vec<Content>, cut: &Cut, keep: Keep, marker: &str) -> Vec<Content> {
    let total: usize = {
        let texts: Vec<usize> = content.iter().filter_map(Content::as_text).map(str::len).collect();
        // The parts were joined by line ends.
        texts.iter().sum::<usize>() + texts.len().saturating_sub(1)
    };
    let (from, to) = match keep {
        Keep::Head => (0, cut.bytes),
        Keep::Tail => (total - cut.bytes, total),
    };
    let mut out = Vec::with_capacity(content.len() + 1);
    let mut at = 0;
    let mut marked = false;
    for part in content {
        let Content::Text { text } = part else {
            out.push(part);
            continue;
        };
        let (start, end) = (at, at + text.len());
        at = end + 1;
        if keep == Keep::Tail && !marked && end > from {
            out.push(Content::text(marker));
            marked = true;
        }
        let kept = text.get(from.clamp(start, end) - start..to.clamp(start, end) - start).unwrap_or_default();
        // Before the marker a line end says nothing.
        let ends_here = keep == Keep::Head && to <= end;
        let kept = if ends_here { kept.strip_suffix('\n').unwrap_or(kept) } else { kept };
        if !kept.is_empty() {
            out.push(Content::text(kept));
        }
        if ends_here && !marked {
            out.push(Content::text(marker));
            marked = true;
        }
    }
    if !marked {
        out.push(Content::text(marker));
    }
    out
}
