//! Width and height of an image, read from its header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Width and height in pixels of base64 data; none when the header is not understood.
pub fn image_size(base64: &str) -> Option<(u32, u32)> {
    let bytes = STANDARD.decode(base64).ok()?;
    png(&bytes).or_else(|| gif(&bytes)).or_else(|| webp(&bytes)).or_else(|| jpeg(&bytes))
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

fn le24(bytes: &[u8], at: usize) -> Option<u32> {
    let [a, b, c]: [u8; 3] = bytes.get(at..at.checked_add(3)?)?.try_into().ok()?;
    Some(u32::from_le_bytes([a, b, c, 0]))
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return None;
    }
    let side = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some((side(16)?, side(20)?))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    if !bytes.starts_with(b"GIF8") {
        return None;
    }
    Some((le16(bytes, 6)?, le16(bytes, 8)?))
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    if !bytes.starts_with(b"RIFF") || bytes.get(8..12)? != b"WEBP" {
        return None;
    }
    match bytes.get(12..16)? {
        b"VP8X" => Some((le24(bytes, 24)?.saturating_add(1), le24(bytes, 27)?.saturating_add(1))),
        b"VP8 " => Some((le16(bytes, 26)? & 0x3fff, le16(bytes, 28)? & 0x3fff)),
        b"VP8L" => {
            let bits = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
            Some(((bits & 0x3fff).saturating_add(1), ((bits >> 14) & 0x3fff).saturating_add(1)))
        }
        _ => None,
    }
}

/// Walks the segments up to the one that holds the frame.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    if !bytes.starts_with(b"\xff\xd8") {
        return None;
    }
    let mut at = 2_usize;
    loop {
        let [0xff, marker] = bytes.get(at..at.checked_add(2)?)? else { return None };
        match marker {
            // Fill bytes, and markers without a length.
            0xff => at = at.checked_add(1)?,
            0x01 | 0xd0..=0xd8 => at = at.checked_add(2)?,
            // Frames, but not the tables whose numbers lie among theirs.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((be16(bytes, at.checked_add(7)?)?, be16(bytes, at.checked_add(5)?)?));
            }
            _ => {
                let length = usize::try_from(be16(bytes, at.checked_add(2)?)?).ok()?;
                at = at.checked_add(2)?.checked_add(length)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], wanted: Option<(u32, u32)>) {
        assert_eq!(image_size(&STANDARD.encode(bytes)), wanted);
        for end in 0..bytes.len() {
            // A cut header gives nothing or the same, and never a panic.
            let cut = image_size(&STANDARD.encode(&bytes[..end]));
            assert!(cut.is_none() || cut == wanted, "cut at {end}");
        }
    }

    #[test]
    fn headers() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x0f\xa0\0\0\0\x0a\x08";
        check(png, Some((4000, 10)));
        check(b"GIF89a\x0a\x00\x14\x00\xf7", Some((10, 20)));
        check(b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x63\0\0\xc7\0\0", Some((100, 200)));
        check(b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x64\x00\xc8\x00", Some((100, 200)));
        check(b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x63\xc0\x31\x00", Some((100, 200)));
        check(b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc0\x00\x0b\x08\x00\xc8\x00\x64", Some((100, 200)));
        check(b"\xff\xd8\x00", None);
        check(b"plain text", None);
        check(b"", None);
    }
}
