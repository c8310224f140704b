//! Providers by name: what a catalogue or a configuration file says becomes a model.
//!
//! A package is a path inside this crate (`openai/chat`, `anthropic/messages`, `openai-compatible`).
//! Settings are one flat object: connection keys of the provider, the common keys, and the request
//! options of the protocol side by side.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::providers::openai::Api;
use crate::providers::{self, Provider, ProviderOptions};
use crate::route::ModelSelection;
use crate::route::auth::Secret;
use crate::route::auth_options::ProviderAuthOption;
use crate::route::headers::Headers;
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::{ModelId, ProviderId};
use crate::schema::model::{Compatibility, Defaults, LanguageModel};
use crate::schema::options::{GenerationOptions, HttpOptions, Limits, Timeout};

/// Keys of settings that are not request options; other layers read those this crate does not.
const NOT_OPTIONS: [&str; 8] = [
    "timeout",
    "transport",
    "modelDiscovery",
    "outputTokenBudget",
    "compaction",
    "setCacheKey",
    "includeUsage",
    "name",
];

/// A model as a catalogue or a configuration file describes it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelEntry {
    /// The package: a path, `aisdk:<npm>` or an npm name. Absent: `openai-compatible` when there is
    /// a base URL, else the provider id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The provider id.
    pub provider: ProviderId,
    /// The model id on the wire.
    pub model: ModelId,
    /// Connection keys and request options, flat.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub settings: JsonObject,
    /// Environment variables of the credential, instead of the package's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Extra headers.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// Fields laid over the request body.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub body: JsonObject,
    /// Sizes of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Sampling and length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<GenerationOptions>,
    /// Overrides of detection.
    pub compatibility: Compatibility,
}

impl fmt::Debug for ModelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings, headers and body may hold keys.
        f.debug_struct("ModelEntry")
            .field("package", &self.package)
            .field("provider", &self.provider)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// A known package.
#[derive(Clone, Copy, Debug)]
enum Package {
    Anthropic,
    AnthropicCompatible,
    OpenAi(Api),
    OpenAiCompatible,
    OpenAiCompatibleResponses,
    /// A named provider that needs nothing beyond the common options.
    Named(fn(ProviderOptions) -> Provider),
    /// An address of the Chat protocol without a file of its own.
    At(&'static str),
}

fn package(path: &str) -> Option<Package> {
    Some(match path {
        "anthropic" | "anthropic/messages" => Package::Anthropic,
        "anthropic-compatible" | "anthropic-compatible/messages" => Package::AnthropicCompatible,
        "openai" | "openai/responses" => Package::OpenAi(Api::Responses),
        "openai/chat" => Package::OpenAi(Api::Chat),
        "openai-compatible/responses" | "openai-compatible-responses" => Package::OpenAiCompatibleResponses,
        "openai-compatible" | "openai-compatible/chat" => Package::OpenAiCompatible,
        "ollama" => Package::Named(providers::ollama::configure),
        "lmstudio" => Package::Named(providers::lmstudio::configure),
        "llama.cpp" | "llamacpp" | "llama-cpp" => Package::Named(providers::llama_cpp::configure),
        "vllm" => Package::Named(providers::vllm::configure),
        "google" | "google/gemini" => Package::Named(providers::google::configure),
        "mistral" | "mistral/chat" => Package::Named(providers::mistral::configure),
        "groq" => Package::Named(providers::groq::configure),
        "deepseek" => Package::Named(providers::deepseek::configure),
        "togetherai" => Package::Named(providers::togetherai::configure),
        "cerebras" => Package::Named(providers::cerebras::configure),
        "baseten" => Package::Named(providers::baseten::configure),
        "deepinfra" => Package::Named(providers::deepinfra::configure),
        "fireworks" => Package::Named(providers::fireworks::configure),
        "perplexity" => Package::At("https://api.perplexity.ai"),
        "vercel" => Package::At("https://api.v0.dev/v1"),
        "venice" => Package::At("https://api.venice.ai/api/v1"),
        _ => return None,
    })
}

/// The path an npm package stands for.
fn npm_path(name: &str) -> Option<&'static str> {
    Some(match name {
        "@ai-sdk/openai" => "openai/responses",
        "@ai-sdk/anthropic" => "anthropic/messages",
        "@ai-sdk/google" => "google",
        "@ai-sdk/google-vertex" => "google-vertex",
        "@ai-sdk/google-vertex/anthropic" => "google-vertex/messages",
        "@ai-sdk/azure" => "azure/responses",
        "@ai-sdk/amazon-bedrock" => "amazon-bedrock/converse",
        "@ai-sdk/xai" => "xai",
        "@ai-sdk/groq" => "groq",
        "@ai-sdk/cerebras" => "cerebras",
        "@ai-sdk/deepinfra" => "deepinfra",
        "@ai-sdk/togetherai" => "togetherai",
        "@ai-sdk/mistral" => "mistral",
        "@ai-sdk/openai-compatible" => "openai-compatible",
        "@openrouter/ai-sdk-provider" => "openrouter",
        "@ai-sdk/github-copilot" => "github-copilot",
        "@ai-sdk/gateway" => "vercel-ai-gateway",
        "ai-gateway-provider" => "cloudflare-ai-gateway",
        "@ai-sdk/alibaba" => "alibaba",
        "@ai-sdk/perplexity" => "perplexity",
        "@ai-sdk/vercel" => "vercel",
        "venice-ai-sdk-provider" => "venice",
        _ => return None,
    })
}

/// The path a spelling of a package stands for: a path stays, npm names (also as `aisdk:<npm>`) are
/// mapped; an npm name without a counterpart stays as it is and is unknown.
pub fn package_path(spelling: &str) -> &str {
    let name = spelling.strip_prefix("aisdk:").unwrap_or(spelling);
    npm_path(name).unwrap_or(name)
}

/// Whether this version can run a package.
pub fn is_known_package(spelling: &str) -> bool {
    package(package_path(spelling)).is_some()
}

/// The variables a package reads its key from, in order; empty when it needs none or is unknown.
pub fn package_env(spelling: &str) -> &'static [&'static str] {
    match package_path(spelling) {
        "anthropic" | "anthropic/messages" => providers::anthropic::ENV,
        "openai" | "openai/chat" | "openai/responses" => providers::openai::ENV,
        "google" | "google/gemini" => providers::google::ENV,
        "mistral" | "mistral/chat" => providers::mistral::ENV,
        "groq" => providers::groq::ENV,
        "deepseek" => providers::deepseek::ENV,
        "togetherai" => providers::togetherai::ENV,
        "cerebras" => providers::cerebras::ENV,
        "baseten" => providers::baseten::ENV,
        "deepinfra" => providers::deepinfra::ENV,
        "fireworks" => providers::fireworks::ENV,
        _ => &[],
    }
}

impl ModelEntry {
    /// The path of the package.
    pub fn path(&self) -> &str {
        match &self.package {
            Some(spelling) => package_path(spelling),
            None if self.settings.contains_key("baseURL") => "openai-compatible",
            None => self.provider.as_str(),
        }
    }

    /// Makes the model. No I/O: a missing key is an error of the call.
    ///
    /// # Errors
    /// When the package is unknown, a setting has the wrong form, or a required one is missing.
    pub fn resolve(&self) -> Result<LanguageModel, ConfigurationError> {
        let path = self.path();
        let Some(package) = package(path) else {
            return Err(ConfigurationError::new(
                self.provider.clone(),
                format!(
                    "package {path:?} is not supported; use openai-compatible, \
                     anthropic-compatible or a provider this version knows"
                ),
            ));
        };
        let mut settings = Settings { provider: &self.provider, rest: self.settings.clone() };
        let mut common = ProviderOptions {
            provider: Some(self.provider.clone()),
            base_url: settings.text("baseURL")?,
            auth: ProviderAuthOption::from_key(settings.text("apiKey")?),
            headers: Headers::new(),
            query: settings.map("queryParams")?,
            env: self.env.clone(),
        };
        let http = settings.http(self)?;
        let auth_token = settings.text("authToken")?.map(Secret::from);
        let organization = settings.text("organization")?;
        let project = settings.text("project")?;
        for key in NOT_OPTIONS {
            settings.rest.shift_remove(key);
        }
        let selection = ModelSelection {
            id: self.model.clone(),
            provider: Some(self.provider.clone()),
            defaults: Defaults {
                generation: self.generation.clone(),
                provider_options: (!settings.rest.is_empty()).then_some(settings.rest),
                http: (!http.is_empty()).then_some(http),
                limits: self.limits,
            },
            compatibility: self.compatibility.clone(),
        };
        match package {
            Package::Anthropic => {
                let options = providers::anthropic::Options { common, auth_token };
                providers::anthropic::configure(options).select(selection)
            }
            Package::AnthropicCompatible => {
                let options = providers::anthropic::Options { common, auth_token };
                providers::anthropic_compatible::configure(options)?.select(selection)
            }
            Package::OpenAi(api) => {
                let options = providers::openai::Options { common, organization, project };
                providers::openai::configure(options).select(api, selection)
            }
            Package::OpenAiCompatible => providers::openai_compatible::configure(common).select(selection),
            Package::OpenAiCompatibleResponses => {
                providers::openai_compatible::configure_responses(common).select(selection)
            }
            Package::Named(configure) => configure(common).select(selection),
            Package::At(base_url) => {
                common.base_url.get_or_insert_with(|| base_url.to_owned());
                providers::openai_compatible::configure(common).select(selection)
            }
        }
    }
}

/// Settings that are taken out one by one; the rest are request options.
struct Settings<'a> {
    provider: &'a ProviderId,
    rest: JsonObject,
}

impl Settings<'_> {
    fn wrong(&self, key: &str, wanted: &str, value: &Value) -> ConfigurationError {
        // The value may be a key in the wrong place, so only its kind is named.
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        ConfigurationError::new(self.provider.clone(), format!("setting {key} must be {wanted}, got {kind}"))
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "a string", &other)),
        }
    }

    fn map(&mut self, key: &str) -> Result<IndexMap<String, String>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(IndexMap::new()),
            Some(value) => {
                serde_json::from_value(value.clone()).map_err(|_| self.wrong(key, "an object of strings", &value))
            }
        }
    }

    fn object(&mut self, key: &str) -> Result<JsonObject, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(JsonObject::new()),
            Some(Value::Object(object)) => Ok(object),
            Some(other) => Err(self.wrong(key, "an object", &other)),
        }
    }

    fn timeout(&mut self, key: &str) -> Result<Option<Timeout>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value.clone())
                .map(Some)
                .map_err(|_| self.wrong(key, "milliseconds above 0 or false", &value)),
        }
    }

    /// The common keys, with those of the entry laid over them.
    fn http(&mut self, entry: &ModelEntry) -> Result<HttpOptions, ConfigurationError> {
        let whole = self.timeout("timeout")?;
        let mut body = self.object("body")?;
        crate::schema::options::merge_json(&mut body, &entry.body);
        let settings = HttpOptions {
            body: (!body.is_empty()).then_some(body),
            headers: Some(self.map("headers")?),
            query: None,
            header_timeout: self.timeout("headerTimeout")?.or(whole),
            chunk_timeout: self.timeout("chunkTimeout")?,
        };
        let own = HttpOptions { headers: Some(entry.headers.clone()), ..HttpOptions::default() };
        Ok(settings.merge(&own))
    }
}
