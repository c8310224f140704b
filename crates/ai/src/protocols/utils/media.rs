//! Media of messages and tool results: one checked form for every protocol.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::schema::errors::AIError;
use crate::schema::messages::MediaPart;

/// The most decoded bytes of one piece of media.
pub const MAX_MEDIA_BYTES: usize = 20 * 1024 * 1024;
/// The most base64 bytes of one piece of media.
pub const MAX_MEDIA_BASE64: usize = 28 * 1024 * 1024;

/// Checked media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Media {
    /// Inline bytes.
    Inline {
        /// Lower-case media type; `image/jpg` is `image/jpeg`.
        mime: String,
        /// Canonical base64.
        base64: String,
    },
    /// An `http(s)` URL.
    Url {
        /// Lower-case media type.
        mime: String,
        /// The URL.
        url: String,
    },
}

impl Media {
    /// The media type.
    pub fn mime(&self) -> &str {
        match self {
            Self::Inline { mime, .. } | Self::Url { mime, .. } => mime,
        }
    }

    /// The `data:` URL of inline media, or the URL.
    pub fn url(&self) -> String {
        match self {
            Self::Inline { mime, base64 } => format!("data:{mime};base64,{base64}"),
            Self::Url { url, .. } => url.clone(),
        }
    }

    /// Whether it is an image every protocol knows.
    pub fn is_image(&self) -> bool {
        matches!(self.mime(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
    }

    /// Whether it is a PDF.
    pub fn is_pdf(&self) -> bool {
        self.mime() == "application/pdf"
    }

    /// The base64 of inline media.
    ///
    /// # Errors
    /// `InvalidRequest` when it is a URL.
    pub fn inline(&self, route: &str) -> Result<&str, AIError> {
        match self {
            Self::Inline { base64, .. } => Ok(base64),
            Self::Url { mime, .. } => {
                Err(AIError::invalid_request(format!("{route} requires inline media, got a URL for {mime}")))
            }
        }
    }
}

/// Checks a media part of a message.
///
/// # Errors
/// `InvalidRequest` for a media type that contradicts its `data:` URL, base64 that is not canonical,
/// SVG, or too many bytes.
pub fn normalize_media(route: &str, part: &MediaPart) -> Result<Media, AIError> {
    normalize(route, &part.media_type, &part.data, true)
}

/// Checks a file of a tool result; the declared type wins over the one of a `data:` URL.
///
/// # Errors
/// As [`normalize_media`], except for contradicting types.
pub fn normalize_tool_file(route: &str, mime: &str, uri: &str) -> Result<Media, AIError> {
    normalize(route, mime, uri, false)
}

fn normalize(route: &str, mime: &str, data: &str, is_type_checked: bool) -> Result<Media, AIError> {
    let mime = canonical_mime(mime);
    if mime == "image/svg+xml" {
        return Err(AIError::invalid_request(format!("{route} does not support media type {mime}")));
    }
    if data.starts_with("http://") || data.starts_with("https://") {
        return Ok(Media::Url { mime, url: data.to_owned() });
    }
    let base64 = match data.strip_prefix("data:") {
        None => data,
        Some(rest) => {
            let Some((declared, base64)) = rest.split_once(";base64,") else {
                return Err(AIError::invalid_request(format!(
                    "{route} media of type {mime} has a data URL that is not base64"
                )));
            };
            let declared = canonical_mime(declared.split(';').next().unwrap_or_default());
            if is_type_checked && declared != mime {
                return Err(AIError::invalid_request(format!(
                    "{route} media type {mime} contradicts its data URL of type {declared}"
                )));
            }
            base64
        }
    };
    check_base64(route, &mime, base64)?;
    Ok(Media::Inline { mime, base64: base64.to_owned() })
}

fn canonical_mime(mime: &str) -> String {
    let mime = mime.trim().to_ascii_lowercase();
    if mime == "image/jpg" { "image/jpeg".to_owned() } else { mime }
}

fn check_base64(route: &str, mime: &str, base64: &str) -> Result<(), AIError> {
    if base64.len() > MAX_MEDIA_BASE64 || base64.len() / 4 * 3 > MAX_MEDIA_BYTES + 2 {
        return Err(AIError::invalid_request(format!("{route} media of type {mime} exceeds {MAX_MEDIA_BYTES} bytes")));
    }
    match STANDARD.decode(base64) {
        Ok(bytes) if bytes.is_empty() => {
            Err(AIError::invalid_request(format!("{route} media of type {mime} is empty")))
        }
        Ok(bytes) if bytes.len() > MAX_MEDIA_BYTES => {
            Err(AIError::invalid_request(format!("{route} media of type {mime} exceeds {MAX_MEDIA_BYTES} bytes")))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            Err(AIError::invalid_request(format!("{route} media of type {mime} is not canonical base64: {error}"))
                .with_cause(error))
        }
    }
}
