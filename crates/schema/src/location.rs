//! Where a session's tools act.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ProjectId, WorkspaceId};

/// A directory, and optionally a workspace: where a session's tools act.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LocationRef {
    /// An absolute path.
    pub directory: String,
    /// The workspace, when there is one.
    #[serde(rename = "workspaceID", default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
}

impl LocationRef {
    /// Makes a location without workspace.
    pub fn new(directory: impl Into<String>) -> Self {
        Self { directory: directory.into(), workspace_id: None }
    }
}

/// The project that a location belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectRef {
    /// The project's stable id; `global` outside any repository.
    pub id: ProjectId,
    /// The root of the working tree; `/` outside any repository.
    pub directory: String,
}

/// A location with the project it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocationInfo {
    /// An absolute path.
    pub directory: String,
    /// The workspace, when there is one.
    #[serde(rename = "workspaceID", default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// The project.
    pub project: ProjectRef,
}

impl LocationInfo {
    /// Returns the reference form.
    pub fn to_ref(&self) -> LocationRef {
        LocationRef { directory: self.directory.clone(), workspace_id: self.workspace_id.clone() }
    }
}
