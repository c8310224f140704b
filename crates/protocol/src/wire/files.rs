//! Files and terminals.

use abide_schema::PtyId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::openapi::Components;
use crate::route::Reply;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl EntryKind {
    /// Returns the word of the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FileSystemEntry")]
pub struct FileEntry {
    /// Its path relative to the location; a directory's ends in `/`.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
}

/// The bytes of a file.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

impl Reply for Bytes {
    const MEDIA: Option<&'static str> = Some("application/octet-stream");
    fn schema(_: &mut Components) -> Value {
        json!({ "type": "string", "format": "binary" })
    }
}

/// Where a terminal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtyStatus {
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
}

/// A terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pty {
    /// The terminal.
    pub id: PtyId,
    /// What people see.
    pub title: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// Where it stands.
    pub status: PtyStatus,
    /// Its process.
    pub pid: u32,
    /// How its process ended.
    #[serde(rename = "exitCode", default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u32>,
}

/// A ticket to join a terminal once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PtyTicketConnectToken")]
pub struct ConnectToken {
    /// The ticket.
    pub ticket: String,
    /// For how many seconds it holds.
    pub expires_in: std::num::NonZeroU32,
}
