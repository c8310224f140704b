//! Named providers: endpoint, auth defaults and route set-up of each.
//!
//! `configure` fixes endpoint and credentials; selectors then take only a model id. A missing key is
//! an error of the call that needs it, not of the configuration.

pub mod anthropic;
pub mod anthropic_compatible;
pub mod baseten;
pub mod cerebras;
pub mod deepinfra;
pub mod deepseek;
pub mod discovery;
pub mod fireworks;
pub mod google;
pub mod groq;
pub mod llama_cpp;
pub mod lmstudio;
pub mod mistral;
pub mod ollama;
pub mod openai;
pub mod openai_compatible;
pub mod togetherai;
pub mod vllm;

use indexmap::IndexMap;

use crate::route::Route;
use crate::route::auth_options::ProviderAuthOption;
use crate::route::endpoint::EndpointPatch;
use crate::route::headers::Headers;
use crate::route::{ModelSelection, RoutePatch};
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::{ModelId, ProviderId};
use crate::schema::model::{Compatibility, LanguageModel};

/// What every provider can be configured with.
#[derive(Clone, Debug, Default)]
pub struct ProviderOptions {
    /// Another id than the provider's own, for a second account or a proxy.
    pub provider: Option<ProviderId>,
    /// Another address than the provider's own.
    pub base_url: Option<String>,
    /// Credentials.
    pub auth: ProviderAuthOption,
    /// Extra headers.
    pub headers: Headers,
    /// Extra query parameters.
    pub query: IndexMap<String, String>,
    /// Environment variables of the credential, instead of the provider's own.
    pub env: Vec<String>,
}

impl ProviderOptions {
    /// Only a base URL.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self { base_url: Some(base_url.into()), ..Self::default() }
    }

    /// Only an API key.
    pub fn key(api_key: impl Into<String>) -> Self {
        Self { auth: ProviderAuthOption::from_key(Some(api_key.into())), ..Self::default() }
    }

    /// The variables of the credential: the configured ones, else these.
    pub(crate) fn env_or<'a>(&'a self, own: &[&'a str]) -> Vec<&'a str> {
        if self.env.is_empty() { own.to_vec() } else { self.env.iter().map(String::as_str).collect() }
    }
}

/// A provider with one API: a route and the differences of its models.
#[derive(Clone, Debug)]
pub struct Provider {
    route: Route,
    compatibility: Compatibility,
}

impl Provider {
    /// Puts options onto a base route.
    pub(crate) fn new(
        id: &str,
        base: &Route,
        options: ProviderOptions,
        auth: crate::route::auth::Auth,
        compatibility: Compatibility,
    ) -> Self {
        let route = base.with(RoutePatch {
            provider: Some(options.provider.unwrap_or_else(|| ProviderId::from(id))),
            endpoint: EndpointPatch { base_url: options.base_url, path: None, query: options.query },
            auth: Some(auth),
            headers: (options.headers != Headers::new()).then_some(options.headers),
            ..RoutePatch::default()
        });
        Self { route, compatibility }
    }

    /// The same with another base route, for providers with several APIs.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Selects a model.
    ///
    /// # Errors
    /// When no base URL is set.
    pub fn model(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(ModelSelection::new(id))
    }

    /// Selects a model with defaults and overrides of its own.
    ///
    /// # Errors
    /// When no base URL is set.
    pub fn select(&self, mut selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        selection.compatibility = self.compatibility.merge(&selection.compatibility);
        self.route.model(selection)
    }
}
