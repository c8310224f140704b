//! Media types: by name, by the first bytes, else text or bytes.

use std::path::Path;

use super::text::{self, Encoding};

/// Text without a better name.
pub const TEXT: &str = "text/plain";

/// Bytes without a better name.
pub const BYTES: &str = "application/octet-stream";

/// Says whether models take this type as a file; any other picture would make a provider refuse the request.
pub fn is_for_models(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "application/pdf")
}

/// Media that models take as files, by their first bytes whatever the name says.
pub fn by_content(bytes: &[u8]) -> Option<&'static str> {
    let webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ if webp => Some("image/webp"),
        _ => None,
    }
}

/// Names the type of a file from its name, and from its first bytes where the name says nothing. Source code is plain
/// text.
pub fn of(path: &Path, first_bytes: &[u8]) -> &'static str {
    if let Some(known) = by_name(path) {
        return known;
    }
    let is_text = match Encoding::of(first_bytes) {
        Encoding::Utf16Le | Encoding::Utf16Be => true,
        Encoding::Utf8 | Encoding::Utf8Bom => {
            !text::looks_binary(first_bytes)
                // The piece may end in the middle of a character.
                && std::str::from_utf8(first_bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
        }
    };
    by_content(first_bytes).unwrap_or(if is_text { TEXT } else { BYTES })
}

/// Names the type of a file from its name alone.
pub fn by_name(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match extension.as_str() {
        "json" | "map" | "webmanifest" => "application/json",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" | "cjs" => "text/javascript",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "ico" => "image/x-icon",
        "pdf" => "application/pdf",
        "wasm" => "application/wasm",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes() {
        for (name, bytes, expect) in [
            ("a.json", b"".as_slice(), "application/json"),
            ("a.rs", b"fn", TEXT),
            ("a.toml", b"", TEXT),
            ("Makefile", b"all:", TEXT),
            ("a.ts", "h\u{e9}".as_bytes(), TEXT),
            ("cut", b"h\xC3", TEXT),
            ("latin", b"h\xE9llo", BYTES),
            ("a.dat", b"\0\x01\x02\xfd\xfe\xff", BYTES),
            ("a.unknown", b"\x89PNG\r\n\x1a\n", "image/png"),
            ("u16", b"\xFF\xFEh\0", TEXT),
            ("A.PNG", b"", "image/png"),
        ] {
            assert_eq!(of(Path::new(name), bytes), expect, "{name}");
        }
        assert_eq!(by_content(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(by_content(b"RIFF\0\0\0\0WAVE"), None);
    }
}
