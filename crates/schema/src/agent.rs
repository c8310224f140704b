//! Agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AgentId;
use crate::model::{ModelRef, ProviderRequest};
use crate::permission::Rule;

/// Where an agent may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// Only below another agent.
    Subagent,
    /// Only as a session's agent.
    Primary,
    /// Both.
    #[default]
    All,
}

/// An agent: a system prompt, a model, rules, limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// Its name.
    pub id: AgentId,
    /// The model it prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// What is merged into each of its requests.
    pub request: ProviderRequest,
    /// Its system prompt; absent means the built-in base prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it may be used.
    pub mode: AgentMode,
    /// Whether lists for people leave it out.
    pub hidden: bool,
    /// `#rrggbb`, or a name of the theme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The most steps of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Its rules, in order; the last that matches decides.
    pub permissions: Vec<Rule>,
}
