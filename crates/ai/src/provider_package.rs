//! Providers by name: what a catalogue or a configuration file says becomes a model.
//!
//! A package is a path inside this crate: a provider, or a provider and one of its APIs (`openai/chat`,
//! `anthropic/messages`, `openai-compatible`). Settings are one flat object: connection keys of the
//! provider, the common keys, and the request options of the protocol side by side. What a path stands
//! for is in the table of [`packages`].

mod clouds;
mod setup;
mod table;

pub use setup::Setup;
pub use table::{PackageInfo, packages};

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::providers;
use crate::route::host::{Host, ProcessHost};
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::{ModelId, ProviderId};
use crate::schema::model::{Compatibility, LanguageModel};
use crate::schema::options::{GenerationOptions, Limits};

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
    package(spelling).is_some()
}

/// What a package is; none when it is unknown.
pub fn package(spelling: &str) -> Option<&'static PackageInfo> {
    table::find(package_path(spelling)).map(|(package, _)| package)
}

/// The variables a package reads its key from, in order; empty when it needs none or is unknown.
pub fn package_env(spelling: &str) -> &'static [&'static str] {
    match package(spelling) {
        Some(package) if package.needs_key => package.env,
        Some(_) | None => &[],
    }
}

/// The variables that show that a package finds credentials by itself, without a key of its own; they
/// hold none that could be sent.
pub fn package_ambient_env(spelling: &str) -> &'static [&'static str] {
    match package(spelling).map(|package| package.path) {
        Some("amazon-bedrock") => providers::amazon_bedrock::AMBIENT,
        Some("google-vertex") => providers::google_vertex::AMBIENT,
        Some(_) | None => &[],
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

    /// Makes the model with the environment of this process; otherwise as [`ModelEntry::resolve_in`].
    ///
    /// # Errors
    /// When the package is unknown, a setting has the wrong form, or a required one is missing.
    pub fn resolve(&self) -> Result<LanguageModel, ConfigurationError> {
        self.resolve_in(&ProcessHost)
    }

    /// Makes the model. Of the host only variables are read that say where to go (region, project); a
    /// missing key is an error of the call.
    ///
    /// # Errors
    /// When the package is unknown, a setting has the wrong form, or a required one is missing.
    pub fn resolve_in(&self, host: &dyn Host) -> Result<LanguageModel, ConfigurationError> {
        let path = self.path();
        let Some((package, api)) = table::find(path) else {
            return Err(ConfigurationError::new(
                self.provider.clone(),
                format!(
                    "package {path:?} is not supported; use openai-compatible, \
                     anthropic-compatible or a provider this version knows"
                ),
            ));
        };
        (package.make)(Setup::new(self, host)?, api)
    }
}
