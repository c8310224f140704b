//! Models as sessions name them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::JsonObject;
use crate::{ModelId, ProviderId};

/// Names a model of a provider, and optionally a variant of its settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ModelRef {
    /// The model.
    pub id: ModelId,
    /// Its provider.
    #[serde(rename = "providerID")]
    pub provider_id: ProviderId,
    /// The variant; absent means `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl ModelRef {
    /// The name of the variant that is meant when none is given.
    pub const DEFAULT_VARIANT: &'static str = "default";

    /// Makes a reference without variant.
    pub fn new(provider_id: ProviderId, id: ModelId) -> Self {
        Self { id, provider_id, variant: None }
    }

    /// Reads `provider/model` or `provider/model#variant`; see [`std::str::FromStr`] for the reason of a refusal.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// Returns the variant, `default` when none is named.
    pub fn variant_or_default(&self) -> &str {
        self.variant.as_deref().unwrap_or(Self::DEFAULT_VARIANT)
    }

    /// Says whether both mean the same model with the same settings.
    pub fn same(&self, other: &Self) -> bool {
        self.id == other.id
            && self.provider_id == other.provider_id
            && self.variant_or_default() == other.variant_or_default()
    }

    /// Returns the reference with its variant spelled out.
    #[must_use]
    pub fn with_explicit_variant(&self) -> Self {
        Self { variant: Some(self.variant_or_default().to_owned()), ..self.clone() }
    }
}

/// Why a text does not name a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a model: {reason}; write provider/model or provider/model#variant")]
pub struct ModelRefError {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub reason: &'static str,
}

/// Splits at the first `/`, then at the first `#` of the rest: the model part may hold more slashes.
impl std::str::FromStr for ModelRef {
    type Err = ModelRefError;

    fn from_str(text: &str) -> Result<Self, ModelRefError> {
        let fail = |reason| Err(ModelRefError { text: text.to_owned(), reason });
        let Some((provider, rest)) = text.split_once('/') else {
            return fail("it has no slash");
        };
        let (model, variant) = match rest.split_once('#') {
            Some((model, variant)) => (model, Some(variant)),
            None => (rest, None),
        };
        match (provider, model, variant) {
            ("", _, _) => fail("the provider is empty"),
            (_, "", _) => fail("the model is empty"),
            (_, _, Some("")) => fail("the variant after # is empty"),
            (_, _, Some(variant)) if variant.contains('#') => fail("it has a second #"),
            (provider, model, variant) => {
                Ok(Self { id: model.into(), provider_id: provider.into(), variant: variant.map(str::to_owned) })
            }
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider_id, self.id)?;
        match &self.variant {
            Some(variant) if variant != Self::DEFAULT_VARIANT => write!(f, "#{variant}"),
            Some(_) | None => Ok(()),
        }
    }
}

/// Counts of tokens; `input` is without cached tokens, `output` without reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Prompt tokens that were not cached.
    pub input: u64,
    /// Visible output tokens.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    /// Cached prompt tokens.
    pub cache: CacheTokens,
}

/// Counts of cached prompt tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheTokens {
    /// Read from the provider's cache.
    pub read: u64,
    /// Written to the provider's cache.
    pub write: u64,
}

impl Tokens {
    /// Adds `other`, saturating.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.cache.read = self.cache.read.saturating_add(other.cache.read);
        self.cache.write = self.cache.write.saturating_add(other.cache.write);
    }

    /// Returns the number of prompt tokens, cached ones included.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache.read).saturating_add(self.cache.write)
    }

    /// Returns all tokens.
    pub fn total(&self) -> u64 {
        self.context().saturating_add(self.output).saturating_add(self.reasoning)
    }
}

/// Headers and body fields that are merged into each request to a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderRequest {
    /// Header name to value.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body fields.
    #[serde(default)]
    pub body: JsonObject,
}

/// Opaque facts of a provider, keyed by provider family: `{"anthropic":{"signature":"…"}}`.
pub type ProviderMetadata = BTreeMap<String, JsonObject>;
