//! Providers, models, commands, skills and integrations as clients see them: never with a secret.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{ModelRef, ProviderRequest};
use crate::{AgentId, CredentialId, IntegrationId, JsonObject, ModelId, ProviderId};

/// How a provider is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "ProviderApi")]
pub enum ProviderApi {
    /// By a package of the JavaScript ecosystem; abide maps it to a route of its own.
    Aisdk {
        /// The package.
        package: String,
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Connection settings, without secrets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<JsonObject>,
    },
    /// By a route of abide.
    Native {
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Connection settings, without secrets.
        settings: JsonObject,
    },
}

/// A provider of models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProviderV2Info")]
pub struct ProviderInfo {
    /// Its name in model references.
    pub id: ProviderId,
    /// The integration that holds its credentials.
    #[serde(rename = "integrationID", default, skip_serializing_if = "Option::is_none")]
    pub integration_id: Option<IntegrationId>,
    /// Its name for people.
    pub name: String,
    /// Whether it is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// How it is reached.
    pub api: ProviderApi,
    /// What is merged into each request, without secrets.
    pub request: ProviderRequest,
}

/// How a model is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "ModelApi")]
pub enum ModelApi {
    /// By a package of the JavaScript ecosystem; abide maps it to a route of its own.
    Aisdk {
        /// The id on the wire.
        id: ModelId,
        /// The package.
        package: String,
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Connection settings, without secrets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<JsonObject>,
    },
    /// By a route of abide.
    Native {
        /// The id on the wire.
        id: ModelId,
        /// The base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Connection settings, without secrets.
        settings: JsonObject,
    },
}

/// What a model takes and gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCapabilities {
    /// Whether it can call tools.
    pub tools: bool,
    /// Media it takes: `text`, `image`, `audio`, `video`, `pdf`.
    pub input: Vec<String>,
    /// Media it gives.
    pub output: Vec<String>,
}

impl ModelCapabilities {
    /// Says whether it takes a kind of media.
    pub fn takes(&self, kind: &str) -> bool {
        self.input.iter().any(|known| known == kind)
    }
}

/// What is merged into each request of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequest {
    /// Header name to value, without secrets.
    pub headers: BTreeMap<String, String>,
    /// Body fields, without secrets.
    pub body: JsonObject,
    /// The variant that is used when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A named overlay of a model's request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelVariant {
    /// Its name.
    pub id: String,
    /// Header name to value, without secrets.
    pub headers: BTreeMap<String, String>,
    /// Body fields, without secrets.
    pub body: JsonObject,
}

/// When a model came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelTime {
    /// Milliseconds since 1970; 0 when unknown.
    pub released: i64,
}

/// The kind of a price tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CostTierKind {
    /// By the size of the prompt.
    Context,
}

/// From where on a price holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostTier {
    /// The kind of tier.
    #[serde(rename = "type")]
    pub kind: CostTierKind,
    /// Prompt tokens from which it holds.
    pub size: u64,
}

/// Prices of cached prompt tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheCost {
    /// Read from the provider's cache.
    pub read: f64,
    /// Written to the provider's cache.
    pub write: f64,
}

/// Prices in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCost {
    /// From where on they hold; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<CostTier>,
    /// Uncached input.
    pub input: f64,
    /// Output and reasoning.
    pub output: f64,
    /// Cached input.
    #[serde(default)]
    pub cache: CacheCost,
}

/// How mature a model is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelStatus {
    /// Early.
    Alpha,
    /// Before release.
    Beta,
    /// Going away.
    Deprecated,
    /// In use.
    #[default]
    Active,
}

/// Sizes of a model in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimit {
    /// Prompt and answer together.
    pub context: u64,
    /// The largest prompt, when it is smaller than the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// The largest answer.
    pub output: u64,
}

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ModelV2Info")]
pub struct ModelInfo {
    /// Its name in model references.
    pub id: ModelId,
    /// Its provider.
    #[serde(rename = "providerID")]
    pub provider_id: ProviderId,
    /// The family it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Its name for people.
    pub name: String,
    /// How it is reached.
    pub api: ModelApi,
    /// What it takes and gives.
    pub capabilities: ModelCapabilities,
    /// What is merged into each request.
    pub request: ModelRequest,
    /// Named overlays.
    pub variants: Vec<ModelVariant>,
    /// When it came out.
    pub time: ModelTime,
    /// Prices; empty when unknown.
    pub cost: Vec<ModelCost>,
    /// How mature it is.
    pub status: ModelStatus,
    /// Whether it may be used.
    pub enabled: bool,
    /// Sizes.
    pub limit: ModelLimit,
}

impl ModelInfo {
    /// Returns the reference form, without variant.
    pub fn to_ref(&self) -> ModelRef {
        ModelRef::new(self.provider_id.clone(), self.id.clone())
    }
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CommandV2Info")]
pub struct CommandInfo {
    /// Its name, without the slash.
    pub name: String,
    /// The prompt with its placeholders.
    pub template: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Whether it runs in a child session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtask: Option<bool>,
}

/// A skill: instructions that are loaded when they are needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SkillV2Info")]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// When to use it; a skill without is never offered to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is offered as a slash command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slash: Option<bool>,
    /// The file.
    pub location: String,
    /// Its text, without the front matter.
    pub content: String,
}

/// One way to connect an integration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum IntegrationMethod {
    /// By a key that the user pastes.
    Key {
        /// Its name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// By environment variables.
    Env {
        /// The variables, the first that is set counts.
        names: Vec<String>,
    },
}

/// A connection of an integration; never shows the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(rename = "ConnectionInfo")]
pub enum ConnectionInfo {
    /// A stored credential.
    Credential {
        /// Its id.
        id: CredentialId,
        /// Its name for people.
        label: String,
    },
    /// A variable of the environment that is set.
    Env {
        /// The variable.
        name: String,
    },
}

/// Something that holds credentials, usually a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntegrationInfo {
    /// Its id, usually the provider's.
    pub id: IntegrationId,
    /// Its name for people.
    pub name: String,
    /// How it can be connected.
    pub methods: Vec<IntegrationMethod>,
    /// How it is connected; the first counts.
    pub connections: Vec<ConnectionInfo>,
}
