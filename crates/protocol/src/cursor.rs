//! Opaque places in lists: base64url of JSON.

use abide_schema::{MessageId, ProjectId, SessionId, Timestamp, WorkspaceId};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::query::ListOrder;

/// On which side of its anchor a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Before it, in the requested order.
    Previous,
    /// After it.
    Next,
}

/// The session that a page goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAnchor {
    /// The session.
    pub id: SessionId,
    /// Its creation time.
    pub time: Timestamp,
    /// On which side of it the page lies.
    pub direction: Direction,
}

/// A place in a list of sessions, with the filters of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCursor {
    /// Filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// Filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// Filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subpath: Option<String>,
    /// Filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The order.
    pub order: ListOrder,
    /// The place.
    pub anchor: SessionAnchor,
}

/// A place in a list of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCursor {
    /// The message that the page goes on from.
    pub id: MessageId,
    /// The order.
    pub order: ListOrder,
    /// On which side of the message the page lies.
    pub direction: Direction,
}

fn encode<T: Serialize>(value: &T) -> String {
    // These are structs of strings and numbers: they always are JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(value).unwrap_or_default())
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    let invalid = || ApiError::InvalidCursor { message: "the cursor is none that this server made".to_owned() };
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| invalid())?;
    serde_json::from_slice(&bytes).map_err(|_| invalid())
}

impl SessionCursor {
    /// Writes the opaque form.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads the opaque form.
    ///
    /// # Errors
    /// [`ApiError::InvalidCursor`].
    pub fn decode(text: &str) -> Result<Self, ApiError> {
        decode(text)
    }
}

impl MessageCursor {
    /// Writes the opaque form.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads the opaque form.
    ///
    /// # Errors
    /// [`ApiError::InvalidCursor`].
    pub fn decode(text: &str) -> Result<Self, ApiError> {
        decode(text)
    }
}
