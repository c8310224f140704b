//! Authorization flows of integrations.

use abide_schema::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an authorization flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttemptMode {
    /// By itself.
    Auto,
    /// With a code that the user brings.
    Code,
}

/// When an authorization flow began and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptTime {
    /// Begin.
    pub created: Timestamp,
    /// Latest end.
    pub expires: Timestamp,
}

/// An authorization flow under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IntegrationAttempt")]
pub struct Attempt {
    /// The attempt.
    #[serde(rename = "attemptID")]
    pub attempt_id: String,
    /// Where the user goes.
    pub url: String,
    /// What the user does there.
    pub instructions: String,
    /// How it ends.
    pub mode: AttemptMode,
    /// When.
    pub time: AttemptTime,
}

/// Where an authorization flow stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
#[schemars(rename = "IntegrationAttemptStatus")]
pub enum AttemptStatus {
    /// Under way.
    Pending {
        /// When.
        time: AttemptTime,
    },
    /// Done.
    Complete {
        /// When.
        time: AttemptTime,
    },
    /// It failed.
    Failed {
        /// Why.
        message: String,
        /// When.
        time: AttemptTime,
    },
    /// It took too long.
    Expired {
        /// When.
        time: AttemptTime,
    },
}
