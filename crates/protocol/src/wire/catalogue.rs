//! Models, providers, commands, skills, references.

use std::collections::BTreeMap;

use abide_schema::json::JsonObject;
use abide_schema::model::{ModelRef, ProviderRequest};
use abide_schema::{AgentId, ModelId, ProviderId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a model's provider is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ModelApi {
    /// By a package of the reference implementation; abide maps known ones to its own protocols.
    Aisdk {
        /// The model's id at the provider.
        id: ModelId,
        /// The package.
        package: String,
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Settings, secrets left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<JsonObject>,
    },
    /// By a protocol of abide.
    Native {
        /// The model's id at the provider.
        id: ModelId,
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Settings, secrets left out.
        settings: JsonObject,
    },
}

/// What a model can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCapabilities {
    /// Whether it calls tools.
    pub tools: bool,
    /// What it takes: `text`, `image`, `audio`, `video`, `pdf`.
    pub input: Vec<String>,
    /// What it makes.
    pub output: Vec<String>,
}

/// What is merged into each request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequest {
    /// Header name to value, secrets left out.
    pub headers: BTreeMap<String, String>,
    /// Body fields.
    pub body: JsonObject,
    /// The variant that is used by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A named set of settings of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelVariant {
    /// Its name.
    pub id: String,
    /// Header name to value, secrets left out.
    pub headers: BTreeMap<String, String>,
    /// Body fields.
    pub body: JsonObject,
}

/// When a model appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelTime {
    /// Its release.
    pub released: Timestamp,
}

/// Prices of cached tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCostCache {
    /// Read.
    pub read: f64,
    /// Written.
    pub write: f64,
}

/// What a tier depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TierKind {
    /// The size of the prompt.
    #[default]
    Context,
}

/// From where prices hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCostTier {
    /// What it depends on.
    #[serde(rename = "type")]
    pub kind: TierKind,
    /// Prompts larger than this many tokens.
    pub size: u64,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCost {
    /// From where they hold; absent for all prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<ModelCostTier>,
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Cached input.
    pub cache: ModelCostCache,
}

/// How far along a model is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelStatus {
    /// Early.
    Alpha,
    /// Nearly done.
    Beta,
    /// On its way out.
    Deprecated,
    /// In use.
    #[default]
    Active,
}

/// Limits of a model, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimit {
    /// The context window; 0 when unknown.
    pub context: u64,
    /// The largest prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// The largest answer; 0 when unknown.
    pub output: u64,
}

/// A model of a usable provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ModelV2Info")]
pub struct ModelInfo {
    /// The model.
    pub id: ModelId,
    /// Its provider.
    #[serde(rename = "providerID")]
    pub provider_id: ProviderId,
    /// Its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// What people see.
    pub name: String,
    /// How it is reached.
    pub api: ModelApi,
    /// What it can do.
    pub capabilities: ModelCapabilities,
    /// What is merged into each request.
    pub request: ModelRequest,
    /// Named settings.
    pub variants: Vec<ModelVariant>,
    /// When it appeared.
    pub time: ModelTime,
    /// Prices, the general ones first.
    pub cost: Vec<ModelCost>,
    /// How far along it is.
    pub status: ModelStatus,
    /// Whether it may be used.
    pub enabled: bool,
    /// Its limits.
    pub limit: ModelLimit,
}

/// How a provider is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ProviderApi {
    /// By a package of the reference implementation; abide maps known ones to its own protocols.
    #[schemars(title = "ProviderAISDK")]
    Aisdk {
        /// The package.
        package: String,
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Settings, secrets left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<JsonObject>,
    },
    /// By a protocol of abide.
    #[schemars(title = "ProviderNative")]
    Native {
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Settings, secrets left out.
        settings: JsonObject,
    },
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProviderV2Info")]
pub struct ProviderInfo {
    /// The provider.
    pub id: ProviderId,
    /// The integration that holds its credentials.
    #[serde(rename = "integrationID", default, skip_serializing_if = "Option::is_none")]
    pub integration_id: Option<String>,
    /// What people see.
    pub name: String,
    /// Whether it is turned off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// How it is reached.
    pub api: ProviderApi,
    /// What is merged into each request, secrets left out.
    pub request: ProviderRequest,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CommandV2Info")]
pub struct CommandInfo {
    /// Its name.
    pub name: String,
    /// The text, with placeholders.
    pub template: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The model that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Whether it runs in a child session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtask: Option<bool>,
}

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SkillV2Info")]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is offered as a slash command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slash: Option<bool>,
    /// The file that it comes from.
    pub location: String,
    /// Its text.
    pub content: String,
}

/// Where a reference comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ReferenceSource {
    /// A directory of this machine.
    Local {
        /// Its path.
        path: String,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Whether lists for people leave it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hidden: Option<bool>,
    },
    /// A repository.
    Git {
        /// Its URL.
        repository: String,
        /// Its branch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Whether lists for people leave it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hidden: Option<bool>,
    },
}

/// A directory that is offered to the model for reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceInfo {
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether lists for people leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Where it comes from.
    pub source: ReferenceSource,
}
