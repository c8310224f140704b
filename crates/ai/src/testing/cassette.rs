//! The cassette file, version 1.

use std::fmt;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::schema::JsonObject;

/// A recorded scenario: all its interactions in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cassette {
    /// Always 1.
    pub version: u32,
    /// Name, date, tags and the like.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub metadata: JsonObject,
    /// In call order.
    pub interactions: Vec<Interaction>,
}

/// One recorded exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "lowercase")]
pub enum Interaction {
    /// Over HTTP.
    Http {
        /// What was asked.
        request: RecordedRequest,
        /// What came back.
        response: RecordedResponse,
    },
    /// Over a WebSocket.
    Websocket {
        /// The handshake.
        open: RecordedOpen,
        /// Frames of both sides in order.
        events: Vec<RecordedFrame>,
    },
}

/// A recorded HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The URL after redaction.
    pub url: String,
    /// Allow-listed headers, names lower-case.
    pub headers: IndexMap<String, String>,
    /// The body text.
    pub body: String,
}

/// How a recorded body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyEncoding {
    /// As text.
    Text,
    /// As base64.
    Base64,
}

/// A recorded HTTP response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResponse {
    /// The status.
    pub status: u16,
    /// Allow-listed headers.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// The body.
    pub body: String,
    /// How the body is written; text when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_encoding: Option<BodyEncoding>,
}

impl RecordedResponse {
    /// The bytes of the body.
    ///
    /// # Errors
    /// When it is not the base64 it claims to be.
    pub fn bytes(&self) -> Result<Bytes, CassetteError> {
        match self.body_encoding {
            None | Some(BodyEncoding::Text) => Ok(Bytes::from(self.body.clone())),
            Some(BodyEncoding::Base64) => STANDARD
                .decode(&self.body)
                .map(Bytes::from)
                .map_err(|error| CassetteError::Body { reason: error.to_string() }),
        }
    }
}

/// A recorded WebSocket handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOpen {
    /// The URL after redaction.
    pub url: String,
    /// Allow-listed headers.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
}

/// A recorded WebSocket frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFrame {
    /// `client` or `server`.
    pub direction: String,
    /// `text` or `binary`.
    pub kind: String,
    /// The payload.
    pub body: String,
    /// How the payload is written; text when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_encoding: Option<BodyEncoding>,
}

/// A cassette that cannot be read, matched or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The name leaves the folder.
    #[error("cassette name {name:?} is not a plain relative path")]
    Name {
        /// The name.
        name: String,
    },
    /// There is no such file.
    #[error("cassette {path:?} does not exist; record it locally with RECORD=true")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("cassette {path:?}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a cassette.
    #[error("cassette {path:?} is not a version 1 cassette: {reason}")]
    Format {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A body is not the base64 it claims to be.
    #[error("a recorded body is not base64: {reason}")]
    Body {
        /// Why.
        reason: String,
    },
    /// A text looks as if it held a secret.
    #[error("refusing to write a cassette: {at} {reason}")]
    Secret {
        /// Where in the cassette.
        at: String,
        /// What it looks like.
        reason: String,
    },
    /// No unused interaction equals the request.
    #[error("no recorded interaction matches the request\n{difference}")]
    Unmatched {
        /// The differences to the closest one.
        difference: String,
    },
    /// Interactions were left over.
    #[error("{unused} of {total} recorded interactions were not used")]
    Unused {
        /// How many.
        unused: usize,
        /// Of how many.
        total: usize,
    },
    /// Frames of a socket were left over.
    #[error("{unused} of {total} recorded frames of interaction {interaction} were not used")]
    UnusedFrames {
        /// Which interaction.
        interaction: usize,
        /// How many.
        unused: usize,
        /// Of how many.
        total: usize,
    },
    /// Two tests have one name.
    #[error("two recorded tests have the cassette {name:?}; give one of them another name")]
    Duplicate {
        /// The cassette.
        name: String,
    },
}

impl Cassette {
    /// The path of a cassette below a folder.
    ///
    /// # Errors
    /// When the name is not a plain relative path.
    pub fn path(dir: &Path, name: &str) -> Result<PathBuf, CassetteError> {
        let relative = Path::new(name);
        let is_plain = !name.is_empty() && relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain {
            return Err(CassetteError::Name { name: name.to_owned() });
        }
        Ok(dir.join(format!("{name}.json")))
    }

    /// Reads a cassette.
    ///
    /// # Errors
    /// `Name`, `Missing`, `Io` or `Format`.
    pub fn load(dir: &Path, name: &str) -> Result<Self, CassetteError> {
        let path = Self::path(dir, name)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CassetteError::Missing { path });
            }
            Err(source) => return Err(CassetteError::Io { path, source }),
        };
        let cassette: Self = serde_json::from_str(&text)
            .map_err(|error| CassetteError::Format { path: path.clone(), reason: error.to_string() })?;
        if cassette.version != 1 {
            let reason = format!("version {}", cassette.version);
            return Err(CassetteError::Format { path, reason });
        }
        Ok(cassette)
    }

    /// Writes a cassette atomically.
    ///
    /// # Errors
    /// `Name`, `Secret` or `Io`.
    pub fn save(&self, dir: &Path, name: &str, env: &[(String, String)]) -> Result<PathBuf, CassetteError> {
        let path = Self::path(dir, name)?;
        super::redact::refuse_secrets(self, env)?;
        let io = |source| CassetteError::Io { path: path.clone(), source };
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| CassetteError::Format { path: path.clone(), reason: error.to_string() })?;
        text.push(b'\n');
        let folder = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(folder).map_err(io)?;
        let draft = path.with_extension("json.new");
        let mut file = std::fs::File::create(&draft).map_err(io)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
        std::fs::rename(&draft, &path).map_err(io)?;
        Ok(path)
    }
}

impl fmt::Display for Interaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { request, .. } => write!(f, "{} {}", request.method, request.url),
            Self::Websocket { open, .. } => write!(f, "WEBSOCKET {}", open.url),
        }
    }
}
