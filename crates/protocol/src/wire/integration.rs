//! Integrations: where credentials come from.

use abide_schema::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenOp {
    /// Equal.
    Eq,
    /// Not equal.
    Neq,
}

/// When a prompt is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntegrationWhen {
    /// The earlier answer.
    pub key: String,
    /// How it compares.
    pub op: WhenOp,
    /// With what.
    pub value: String,
}

/// A choice of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptOption {
    /// What people see.
    pub label: String,
    /// What is sent.
    pub value: String,
    /// More for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What an authorization method asks first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum IntegrationPrompt {
    /// Free text.
    Text {
        /// The name of the answer.
        key: String,
        /// The question.
        message: String,
        /// An example.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placeholder: Option<String>,
        /// When it is shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<IntegrationWhen>,
    },
    /// A choice.
    Select {
        /// The name of the answer.
        key: String,
        /// The question.
        message: String,
        /// The choices.
        options: Vec<PromptOption>,
        /// When it is shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<IntegrationWhen>,
    },
}

/// How an integration is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum IntegrationMethod {
    /// By an authorization flow.
    Oauth {
        /// The method.
        id: String,
        /// What people see.
        label: String,
        /// What it asks first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompts: Option<Vec<IntegrationPrompt>>,
    },
    /// By a key.
    Key {
        /// What people see.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// By variables of the environment.
    Env {
        /// Their names.
        names: Vec<String>,
    },
}

/// A connection of an integration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "ConnectionInfo")]
pub enum Connection {
    /// A stored credential.
    Credential {
        /// The credential.
        id: String,
        /// What people see.
        label: String,
    },
    /// A variable of the environment.
    Env {
        /// Its name.
        name: String,
    },
}

/// An integration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntegrationInfo {
    /// The integration.
    pub id: String,
    /// What people see.
    pub name: String,
    /// How it is connected.
    pub methods: Vec<IntegrationMethod>,
    /// How it is connected now.
    pub connections: Vec<Connection>,
}

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
