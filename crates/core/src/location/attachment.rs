//! The content of what a user attaches to a prompt.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;

use crate::fs::media;
use crate::session::place::Attachment;

/// The most text of one attachment, in bytes.
const MAX_TEXT: usize = 256 << 10;
/// The largest image or document, in bytes.
const MAX_MEDIA: u64 = 20 << 20;
/// The most entries of a directory.
const MAX_ENTRIES: usize = 1000;

/// Reads an attachment: a `data:` URI, a `file:` URI or a path relative to the location. `None` when there is nothing to
/// be read. Blocks.
pub(super) fn read(directory: &Path, uri: &str, mime: &str) -> Option<Attachment> {
    if let Some(data) = uri.strip_prefix("data:") {
        return inline(data, mime);
    }
    let (path, lines) = locate(directory, uri)?;
    if path.is_dir() {
        return listing(&path).map(Attachment::Text);
    }
    let size = path.metadata().ok()?.len();
    let first = head(&path)?;
    let kind = media::by_content(&first).map_or_else(|| mime.to_owned(), str::to_owned);
    if media::is_for_models(&kind) {
        if size > MAX_MEDIA {
            return Some(Attachment::Text(format!("[{} is too large to be shown: {size} bytes]", path.display())));
        }
        let data = STANDARD.encode(std::fs::read(&path).ok()?);
        return Some(Attachment::Media { mime: kind, data });
    }
    text(&path, lines).map(Attachment::Text)
}

fn inline(data: &str, mime: &str) -> Option<Attachment> {
    let (head, body) = data.split_once(',')?;
    let kind = head.split(';').next().filter(|kind| !kind.is_empty()).unwrap_or(mime).to_owned();
    let is_base64 = head.split(';').any(|part| part == "base64");
    if media::is_for_models(&kind) {
        let data =
            if is_base64 { body.to_owned() } else { STANDARD.encode(percent_decode_str(body).collect::<Vec<_>>()) };
        return Some(Attachment::Media { mime: kind, data });
    }
    let bytes = if is_base64 { STANDARD.decode(body).ok()? } else { percent_decode_str(body).collect() };
    if bytes.contains(&0) {
        return Some(Attachment::Text(format!("[an attached {kind} file, which no model can read]")));
    }
    Some(Attachment::Text(cut(String::from_utf8_lossy(&bytes).into_owned())))
}

/// Finds the path, and the lines when the URI names some.
fn locate(directory: &Path, uri: &str) -> Option<(PathBuf, Option<(usize, usize)>)> {
    let Some(rest) = uri.strip_prefix("file://") else {
        return (!uri.contains("://")).then(|| (directory.join(uri), None));
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.split('#').next().unwrap_or(path);
    let path = percent_decode_str(path).decode_utf8().ok()?.into_owned();
    let number = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).and_then(|text| text.parse().ok())
    };
    let lines = number("start").map(|start: usize| (start.max(1), number("end").unwrap_or(usize::MAX)));
    Some((directory.join(path), lines))
}

fn head(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut out = Vec::with_capacity(512);
    std::fs::File::open(path).ok()?.take(512).read_to_end(&mut out).ok()?;
    Some(out)
}

fn text(path: &Path, lines: Option<(usize, usize)>) -> Option<String> {
    use std::io::Read as _;
    let limit = u64::try_from(MAX_TEXT * 4).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return Some(format!("[{} is a binary file]", path.display()));
    }
    let all = String::from_utf8_lossy(&bytes).into_owned();
    Some(cut(match lines {
        Some((start, end)) => {
            let count = end.saturating_sub(start).saturating_add(1);
            all.lines().skip(start - 1).take(count).collect::<Vec<_>>().join("\n")
        }
        None => all,
    }))
}

fn listing(path: &Path) -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .ok()?
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() { format!("{name}/") } else { name }
        })
        .collect();
    names.sort_unstable();
    let all = names.len();
    names.truncate(MAX_ENTRIES);
    if names.len() < all {
        names.push(format!("[{} more]", all - MAX_ENTRIES));
    }
    Some(names.join("\n"))
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n[The rest is left out: it is too long. Read the file for more.]");
    }
    text
}
