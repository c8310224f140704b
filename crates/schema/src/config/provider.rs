//! Providers and models as documents describe them.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::TokenCount;
use crate::catalog::{ModelCost, ModelStatus};
use crate::{JsonObject, ModelId};

/// Header name to value.
pub type HeaderMap = BTreeMap<String, String>;

/// A provider; every field changes what earlier documents or the built-in provider of the name say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The provider whose models it copies when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// Environment variables that hold its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// How it is reached: `openai/responses`, `aisdk:<package>`, or the bare name of a package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Connection settings and options, flat: `baseURL`, `apiKey`, `timeout`, …
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub settings: JsonObject,
    /// Headers of each request.
    #[serde(skip_serializing_if = "HeaderMap::is_empty")]
    pub headers: HeaderMap,
    /// Body fields of each request.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub body: JsonObject,
    /// Models by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub models: IndexMap<ModelId, ModelConfig>,
    /// Whether it is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Models that may be used, all others being switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist: Option<Vec<ModelId>>,
    /// Models that are switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blacklist: Option<Vec<ModelId>>,
}

/// A model; every field changes what earlier documents or the built-in model of the name say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// The id on the wire; absent: its name.
    #[serde(rename = "modelID", skip_serializing_if = "Option::is_none")]
    pub model_id: Option<ModelId>,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The family it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// How it is reached, when not like its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Connection settings and options, over the provider's.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub settings: JsonObject,
    /// Headers of each request, over the provider's.
    #[serde(skip_serializing_if = "HeaderMap::is_empty")]
    pub headers: HeaderMap,
    /// Body fields of each request, over the provider's.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub body: JsonObject,
    /// Overrides of what abide knows about the wire format.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub compatibility: JsonObject,
    /// Options of every request, below those of agent and variant.
    #[serde(rename = "requestDefaults", skip_serializing_if = "JsonObject::is_empty")]
    pub request_defaults: JsonObject,
    /// What it takes and gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilitiesConfig>,
    /// Named overlays, merged by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantConfig>,
    /// Prices: one, or one for each tier.
    #[serde(deserialize_with = "deserialize_costs", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Vec<ModelCost>>,
    /// Whether it is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitConfig>,
    /// When it came out: `2025-08-07`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_date: Option<String>,
    /// How mature it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ModelStatus>,
}

/// What a model takes and gives, as far as it is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CapabilitiesConfig {
    /// Whether it can call tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Whether it can call several tools at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tools: Option<bool>,
    /// Whether it reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Interfaces it is reached by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<String>>,
    /// Media it takes: `text`, `image`, `audio`, `video`, `pdf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<String>>,
    /// Media it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<String>>,
}

/// A named overlay of a model's settings and request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VariantConfig {
    /// Its name.
    pub id: String,
    /// Settings and options over the model's.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub settings: JsonObject,
    /// Headers over the model's.
    #[serde(default, skip_serializing_if = "HeaderMap::is_empty")]
    pub headers: HeaderMap,
    /// Body fields over the model's.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub body: JsonObject,
    /// Whether it is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// Sizes in tokens, as far as they are said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitConfig {
    /// Prompt and answer together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<TokenCount>,
    /// The largest prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<TokenCount>,
    /// The largest answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<TokenCount>,
}

/// Reads one price or a list of them.
///
/// # Errors
/// When the value is neither a price `{input, output, cache?, tier?}` nor a list of prices.
pub fn deserialize_costs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ModelCost>>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match value {
        Value::Null => Ok(None),
        Value::Array(_) => Vec::deserialize(value).map(Some).map_err(serde::de::Error::custom),
        Value::Object(_) => {
            ModelCost::deserialize(value).map(|cost| Some(vec![cost])).map_err(serde::de::Error::custom)
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(serde::de::Error::custom(format!(
            "expected a price {{input, output, cache?, tier?}} or a list of prices, got {value}"
        ))),
    }
}
