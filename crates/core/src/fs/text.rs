//! Text and its bytes: encodings, byte order marks, and what is no text at all.

#[cfg(test)]
mod tests;

/// How many bytes of a file decide whether it is text.
pub const SNIFF_BYTES: usize = 64 * 1024;

const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";
const UTF16_LE_BOM: &[u8] = b"\xFF\xFE";
const UTF16_BE_BOM: &[u8] = b"\xFE\xFF";

/// How a text is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8 without a mark.
    Utf8,
    /// UTF-8 after a byte order mark.
    Utf8Bom,
    /// UTF-16, little end first, after a byte order mark.
    Utf16Le,
    /// UTF-16, big end first, after a byte order mark.
    Utf16Be,
}

impl Encoding {
    /// Guesses from the first bytes: a mark, else UTF-8.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(UTF8_BOM) {
            Self::Utf8Bom
        } else if bytes.starts_with(UTF16_LE_BOM) {
            Self::Utf16Le
        } else if bytes.starts_with(UTF16_BE_BOM) {
            Self::Utf16Be
        } else {
            Self::Utf8
        }
    }

    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8 | Self::Utf8Bom => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
        }
    }
}

/// Why bytes are no text that can be changed as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// It holds NUL bytes.
    #[error("it is a binary file")]
    Binary,
    /// It is not UTF-8, and no mark says what it is.
    #[error("its encoding is not UTF-8 (byte 0x{byte:02X} at offset {offset})")]
    UnknownEncoding {
        /// Where the first wrong byte is.
        offset: usize,
        /// The byte.
        byte: u8,
    },
    /// Its mark says UTF-16 and its bytes do not fit.
    #[error("its encoding is damaged UTF-16")]
    DamagedUtf16,
}

/// A text without its byte order mark, and how it is stored. Encoding it again gives the same bytes, but for repeated
/// marks, of which one is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub text: String,
    /// How it is stored.
    pub encoding: Encoding,
}

impl Text {
    /// Decodes the bytes of a file.
    ///
    /// # Errors
    /// [`NotText`].
    pub fn decode(bytes: &[u8]) -> Result<Self, NotText> {
        let encoding = Encoding::of(bytes);
        let text = match encoding {
            Encoding::Utf8 | Encoding::Utf8Bom => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(error) => {
                    let offset = error.valid_up_to();
                    return Err(match bytes.get(offset) {
                        Some(_) if has_nul(bytes) => NotText::Binary,
                        Some(byte) => NotText::UnknownEncoding { offset, byte: *byte },
                        None => NotText::Binary,
                    });
                }
            },
            Encoding::Utf16Le | Encoding::Utf16Be => {
                let codec = if encoding == Encoding::Utf16Le { encoding_rs::UTF_16LE } else { encoding_rs::UTF_16BE };
                let text = codec.decode_without_bom_handling_and_without_replacement(bytes);
                text.ok_or(NotText::DamagedUtf16)?.into_owned()
            }
        };
        if text.contains('\0') {
            return Err(NotText::Binary);
        }
        Ok(Self { text: without_marks(&text).to_owned(), encoding })
    }

    /// Encodes another text as this one is stored.
    pub fn encode(&self, text: &str) -> Vec<u8> {
        encode(text, self.encoding)
    }
}

/// Encodes a text; leading marks in it are dropped, and one is written where the encoding has one.
pub fn encode(text: &str, encoding: Encoding) -> Vec<u8> {
    let text = without_marks(text);
    match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Utf8Bom => [UTF8_BOM, text.as_bytes()].concat(),
        Encoding::Utf16Le => {
            UTF16_LE_BOM.iter().copied().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
        }
        Encoding::Utf16Be => {
            UTF16_BE_BOM.iter().copied().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect()
        }
    }
}

/// Encodes the whole new text of a file: in the encoding of what was there, with one mark when the old bytes or the
/// new text have one.
pub fn encode_over(old: Option<&[u8]>, text: &str) -> Vec<u8> {
    let marked = text.starts_with('\u{FEFF}');
    let known = old.map_or(Encoding::Utf8, Encoding::of);
    let encoding = if known == Encoding::Utf8 && marked { Encoding::Utf8Bom } else { known };
    encode(text, encoding)
}

/// Returns a text without its leading byte order marks.
pub fn without_marks(text: &str) -> &str {
    text.trim_start_matches('\u{FEFF}')
}

/// Says whether a piece of a file is binary: it has a NUL byte, or more than 30 % control bytes. Pieces of UTF-16 are
/// not to be asked about.
pub fn looks_binary(bytes: &[u8]) -> bool {
    let controls = bytes.iter().filter(|byte| is_control(**byte)).count();
    has_nul(bytes) || controls * 10 > bytes.len() * 3
}

/// Says whether a byte is a control character that texts do not have.
pub(crate) const fn is_control(byte: u8) -> bool {
    byte < 9 || (byte > 13 && byte < 32)
}

fn has_nul(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

/// The line ends of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// None at all.
    None,
    /// LF.
    Lf,
    /// CR LF.
    CrLf,
    /// CR alone.
    Cr,
    /// LF and CR LF.
    Mixed,
}

impl LineEnds {
    /// Looks at a text. CR alone counts only where there is no LF.
    pub fn of(text: &str) -> Self {
        let lf = text.matches('\n').count();
        let crlf = text.matches("\r\n").count();
        match (lf, crlf) {
            (0, _) if text.contains('\r') => Self::Cr,
            (0, _) => Self::None,
            (_, 0) => Self::Lf,
            (lf, crlf) if lf == crlf => Self::CrLf,
            _ => Self::Mixed,
        }
    }

    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no line ends",
            Self::Lf => "LF",
            Self::CrLf => "CRLF",
            Self::Cr => "CR",
            Self::Mixed => "mixed line ends",
        }
    }
}
