//! Named providers: endpoint, auth defaults and route set-up of each.
//!
//! `configure` fixes endpoint and credentials; selectors then take only a model id. A missing key is
//! an error of the call that needs it, not of the configuration.

pub mod alibaba;
pub mod amazon_bedrock;
pub mod anthropic;
pub mod anthropic_compatible;
pub mod azure;
pub mod baseten;
pub mod cerebras;
pub mod cloudflare_ai_gateway;
pub mod cloudflare_workers_ai;
pub mod deepinfra;
pub mod deepseek;
pub mod digitalocean;
pub mod discovery;
pub mod fireworks;
pub mod github_copilot;
pub mod google;
pub mod google_vertex;
pub mod groq;
pub mod llama_cpp;
pub mod lmstudio;
pub mod meta;
pub mod minimax;
pub mod mistral;
pub mod moonshotai;
pub mod ollama;
pub mod openai;
pub mod openai_compatible;
pub mod openrouter;
pub mod togetherai;
pub mod vercel_ai_gateway;
pub mod vllm;
pub mod xai;
pub mod zai;
pub mod zai_coding_plan;

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

/// The base route of a provider: its own id, namespace and address on a route of its protocol.
pub(crate) fn own_route(base: &Route, id: &str, provider: &str, base_url: Option<&str>) -> Route {
    base.with(RoutePatch {
        id: Some(id.into()),
        provider: Some(provider.into()),
        metadata_key: Some(provider.to_owned()),
        endpoint: EndpointPatch { base_url: base_url.map(str::to_owned), ..EndpointPatch::default() },
        ..RoutePatch::default()
    })
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

/// An API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
    /// Messages.
    Messages,
    /// Gemini.
    Gemini,
    /// Converse.
    Converse,
}

impl Api {
    /// Its name in package paths and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Converse => "converse",
        }
    }
}

/// A provider with several APIs. Its default API may depend on the model.
#[derive(Clone)]
pub struct Apis {
    provider: ProviderId,
    /// The APIs it has, with their routes.
    known: Vec<(Api, Provider)>,
    default: fn(&str) -> Api,
}

impl Apis {
    pub(crate) fn new(
        provider: impl Into<ProviderId>,
        default: fn(&str) -> Api,
        apis: impl IntoIterator<Item = (Api, Provider)>,
    ) -> Self {
        Self { provider: provider.into(), known: apis.into_iter().collect(), default }
    }

    /// Selects a model of the default API.
    ///
    /// # Errors
    /// When no base URL is set.
    pub fn model(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(None, ModelSelection::new(id))
    }

    /// Selects a model of the Chat API.
    ///
    /// # Errors
    /// When the provider has no such API or no base URL is set.
    pub fn chat(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Some(Api::Chat), ModelSelection::new(id))
    }

    /// Selects a model of the Responses API.
    ///
    /// # Errors
    /// When the provider has no such API or no base URL is set.
    pub fn responses(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Some(Api::Responses), ModelSelection::new(id))
    }

    /// Selects a model of the Messages API.
    ///
    /// # Errors
    /// When the provider has no such API or no base URL is set.
    pub fn messages(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Some(Api::Messages), ModelSelection::new(id))
    }

    /// Selects a model with defaults and overrides of its own; without an API the default one.
    ///
    /// # Errors
    /// When the provider has no such API or no base URL is set.
    pub fn select(&self, api: Option<Api>, selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        let api = api.unwrap_or_else(|| (self.default)(selection.id.as_str()));
        match self.known.iter().find(|(known, _)| *known == api) {
            Some((_, provider)) => provider.select(selection),
            None => {
                let known: Vec<&str> = self.known.iter().map(|(api, _)| api.name()).collect();
                let message = format!("there is no API {}; known are {}", api.name(), known.join(", "));
                Err(ConfigurationError::new(self.provider.clone(), message))
            }
        }
    }
}

impl std::fmt::Debug for Apis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apis").field("provider", &self.provider).field("apis", &self.known).finish_non_exhaustive()
    }
}
