//! Errors of permissions.

use abide_schema::permission::Rule;
use abide_schema::tool::ToolError;
use abide_schema::{PermissionId, SessionId};
use serde_json::json;

use crate::store::StoreError;
use crate::tool::outcome::ToolFailure;

/// The `name` of a failure's cause that says a rule denied.
pub(crate) const BLOCKED: &str = "PermissionBlocked";

/// What a leaf can learn from asking. A refusal without words is not among it: that call never returns.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PermissionError {
    /// A rule denies it.
    #[error("{}", reason.clone().unwrap_or_else(|| format!("Permission denied: {action}")))]
    Blocked {
        /// The rules that deny; empty when a hook did, or when nothing could be evaluated.
        rules: Vec<Rule>,
        /// The action.
        action: String,
        /// The resources.
        resources: Vec<String>,
        /// Why, when more is known than the rules.
        reason: Option<String>,
    },
    /// The user refused, with words for the model.
    #[error("The user refused this action and said: {feedback}{}", if *together { " (rejected together with another request)" } else { "" })]
    Corrected {
        /// The words.
        feedback: String,
        /// Whether the words were about another request of the session.
        together: bool,
    },
}

impl From<PermissionError> for ToolFailure {
    fn from(error: PermissionError) -> Self {
        let message = error.to_string();
        match error {
            PermissionError::Blocked { rules, action, resources, .. } => Self {
                error: Some(json!({ "name": BLOCKED, "message": message, "permission": action,
                    "resources": resources, "rules": rules })),
                metadata: None,
                message,
            },
            PermissionError::Corrected { feedback, .. } => Self {
                error: Some(json!({ "name": "PermissionCorrected", "message": message, "feedback": feedback })),
                metadata: None,
                message,
            },
        }
    }
}

/// Says whether a failure comes from a rule that denies.
pub(crate) fn is_blocked(failure: &ToolError) -> bool {
    failure.error.as_ref().and_then(|cause| cause.get("name")).is_some_and(|name| name == BLOCKED)
}

/// Why the rules of a session could not be had.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// There is no such session.
    #[error("there is no session {0}")]
    SessionNotFound(SessionId),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] StoreError),
}

/// Why a request could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// It names no resource.
    #[error("a permission request needs at least one resource")]
    NoResource,
    /// The session's rules could not be had.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The id is pending for another session.
    #[error("the permission request {0} is pending in another session")]
    IdTaken(PermissionId),
    /// Too many requests wait.
    #[error("{0} permission requests wait already: answer some of them first")]
    TooMany(usize),
}

/// Why a reply was not taken.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// No such request is pending in this session.
    #[error("no permission request {0} is pending in this session")]
    NotFound(PermissionId),
    /// The rule could not be saved; the request is still pending.
    #[error("the rule could not be saved: {0}")]
    Storage(#[from] StoreError),
}
