//! Providers and models: a small built-in table, changed and joined by configuration, narrowed by policies
//! (spec/config.md section 17).
//!
//! A [`Catalog`] is made of configuration alone and never changes; whether a provider can be used also depends on
//! the [`Keys`] of the moment.

mod build;
mod local;
mod resolve;
mod select;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_ai::route::auth::Secret;
use abide_schema::catalog::{ConnectionInfo, ModelCapabilities, ModelCost, ModelLimit, ModelStatus};
use abide_schema::config::{HeaderMap, VariantConfig};
use abide_schema::model::ModelRef;
use abide_schema::{IntegrationId, JsonObject, ModelId, ProviderId, Timestamp};
use indexmap::IndexMap;

use crate::credential::Credentials;
use crate::world::World;

pub use local::{LocalModels, LocalServer, local_servers};
pub use select::SelectError;

/// A provider with its models.
#[derive(Clone, PartialEq)]
pub struct Provider {
    /// Its name in model references.
    pub id: ProviderId,
    /// Its name for people.
    pub name: String,
    /// Environment variables of its key; with them it has an integration.
    pub env: Vec<String>,
    /// How it is reached; absent: by its base URL, else by its own name.
    pub package: Option<String>,
    /// Connection settings and options. May hold a key.
    pub settings: JsonObject,
    /// Headers of each request. May hold a key.
    pub headers: HeaderMap,
    /// Body fields of each request.
    pub body: JsonObject,
    /// Whether configuration switched it off.
    pub is_disabled: bool,
    /// Whether it is a server on this machine that is only there when somebody started it.
    pub is_local: bool,
    /// Whether models that are not listed may be named: the list is not complete.
    pub is_open: bool,
    /// Its models.
    pub models: IndexMap<ModelId, Model>,
}

/// A model.
#[derive(Clone, PartialEq)]
pub struct Model {
    /// Its name in model references.
    pub id: ModelId,
    /// The id on the wire.
    pub wire_id: ModelId,
    /// Its name for people.
    pub name: String,
    /// The family it belongs to.
    pub family: Option<String>,
    /// How it is reached, when not like its provider.
    pub package: Option<String>,
    /// Settings over the provider's.
    pub settings: JsonObject,
    /// Headers over the provider's.
    pub headers: HeaderMap,
    /// Body fields over the provider's.
    pub body: JsonObject,
    /// Overrides of what abide knows about the wire format.
    pub compatibility: JsonObject,
    /// Options of every request.
    pub request_defaults: JsonObject,
    /// What it takes and gives.
    pub capabilities: ModelCapabilities,
    /// Named overlays.
    pub variants: Vec<VariantConfig>,
    /// When it came out; 0 when unknown.
    pub released: Timestamp,
    /// Prices; empty when unknown.
    pub cost: Vec<ModelCost>,
    /// How mature it is.
    pub status: ModelStatus,
    /// Whether it may be used.
    pub is_enabled: bool,
    /// Sizes.
    pub limit: ModelLimit,
    /// Whether the sizes are only assumed.
    pub is_limit_assumed: bool,
}

// Settings and headers may hold keys.
impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("id", &self.id).field("models", &self.models.keys()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("id", &self.id).finish_non_exhaustive()
    }
}

/// All providers that policies allow. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog {
    providers: Arc<IndexMap<ProviderId, Provider>>,
    /// The configured model.
    configured: Option<ModelRef>,
    /// Providers that a policy hides.
    denied: Arc<[ProviderId]>,
}

impl Catalog {
    /// Returns the providers that policies allow, usable or not.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// Finds a provider that policies allow.
    pub fn provider(&self, id: &ProviderId) -> Option<&Provider> {
        self.providers.get(id)
    }

    /// Returns the configured model.
    pub fn configured(&self) -> Option<&ModelRef> {
        self.configured.as_ref()
    }
}

/// The keys of the moment: environment variables and stored credentials.
#[derive(Clone)]
pub struct Keys {
    world: World,
    credentials: Credentials,
}

/// Whether a provider can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It has a key, or needs none.
    Usable,
    /// It is switched off.
    Disabled,
    /// It needs a key and has none.
    NoKey {
        /// Environment variables that would give one.
        env: Vec<String>,
    },
    /// This version cannot talk to it.
    Unsupported {
        /// The package it asks for.
        package: String,
    },
}

impl Keys {
    /// Joins the environment and the stored credentials.
    pub fn new(world: &World, credentials: Credentials) -> Self {
        Self { world: world.clone(), credentials }
    }

    /// Returns the key of a provider and where it comes from: its settings, a stored credential, a variable.
    pub fn of(&self, provider: &Provider) -> Option<Secret> {
        let configured = provider.settings.get("apiKey").and_then(serde_json::Value::as_str).map(str::trim);
        if let Some(key) = configured.filter(|key| !key.is_empty()) {
            return Some(Secret::new(key));
        }
        self.credentials
            .key(&provider.integration_id())
            .or_else(|| provider.env.iter().find_map(|name| self.world.var(name)).map(|key| Secret::new(key.trim())))
    }

    /// Returns every value that lets somebody call a provider: what no output may show.
    pub fn values<'p>(&self, providers: impl Iterator<Item = &'p Provider>) -> Vec<String> {
        let mut values = self.credentials.values();
        for provider in providers {
            values.extend(provider.env.iter().filter_map(|name| self.world.var(name)).map(ToOwned::to_owned));
            let settings = provider.settings.iter().filter(|(name, _)| crate::config::effective::is_secret(name));
            values.extend(settings.filter_map(|(_, value)| value.as_str()).map(ToOwned::to_owned));
            let headers = provider.headers.iter().filter(|(name, _)| crate::config::effective::is_secret(name));
            values.extend(headers.map(|(_, value)| value.trim_start_matches("Bearer ").to_owned()));
        }
        values
    }

    /// Puts the key of a provider, and what else its package may take from the environment, into settings.
    pub(super) fn fill(&self, provider: &Provider, package: &str, settings: &mut JsonObject) {
        let info = abide_ai::provider_package::package(package);
        let slot = info.map_or("apiKey", |info| info.key_setting);
        // A package with two keys gets the one that was configured, and no other unasked.
        let has_key = ["apiKey", slot].iter().any(|name| settings.get(*name).is_some_and(|key| key != ""));
        if !has_key && let Some(key) = self.of(provider) {
            settings.insert(slot.to_owned(), key.expose().into());
        }
        if settings.contains_key("baseURL") {
            return;
        }
        for (setting, variables) in info.map_or(&[][..], |info| info.settings_env) {
            if let Some(value) = variables.iter().find_map(|name| self.world.var(name)) {
                settings.entry(*setting).or_insert_with(|| value.trim().into());
            }
        }
    }

    /// Lists the connections of a provider's integration; the first counts.
    pub fn connections(&self, provider: &Provider) -> Vec<ConnectionInfo> {
        let mut out = self.credentials.connections(&provider.integration_id());
        out.extend(
            provider
                .env
                .iter()
                .filter(|name| self.world.var(name).is_some())
                .map(|name| ConnectionInfo::Env { name: name.clone() }),
        );
        out
    }

    /// Says whether a provider can be used. A local server is usable by name, also when it is not running.
    pub fn availability(&self, provider: &Provider) -> Availability {
        if provider.is_disabled {
            return Availability::Disabled;
        }
        let package = provider.package_name();
        if !abide_ai::provider_package::is_known_package(&package) {
            return Availability::Unsupported { package };
        }
        // Clouds have credentials of their own kind, which their package finds by itself.
        let ambient = abide_ai::provider_package::package_ambient_env(&package);
        let has_ambient = ambient.iter().any(|name| self.world.var(name).is_some())
            || ["accessKeyId", "credentials", "profile", "accessToken"]
                .iter()
                .any(|key| provider.settings.contains_key(*key));
        let has_own = provider
            .headers
            .keys()
            .any(|name| crate::config::effective::is_secret(name) || name.eq_ignore_ascii_case("x-api-key"));
        // A key that was meant to be there and is empty is a missing key, not a provider without one.
        let wants_key = provider.has_integration() || provider.settings.contains_key("apiKey");
        let slot = abide_ai::provider_package::package(&package).map_or("apiKey", |package| package.key_setting);
        let has_other =
            ["authToken", slot].iter().any(|name| *name != "apiKey" && provider.settings.contains_key(*name));
        if !wants_key || has_own || has_ambient || self.of(provider).is_some() || has_other {
            return Availability::Usable;
        }
        let ambient = ambient.iter().map(|name| (*name).to_owned());
        Availability::NoKey { env: provider.env.iter().cloned().chain(ambient).collect() }
    }
}

impl Provider {
    /// Says whether it has an integration: a place for credentials.
    pub fn has_integration(&self) -> bool {
        !self.env.is_empty()
    }

    /// Returns the id of its integration.
    pub fn integration_id(&self) -> IntegrationId {
        IntegrationId::from(self.id.as_str())
    }

    /// Returns the package it is reached by.
    pub(crate) fn package_name(&self) -> String {
        match &self.package {
            Some(package) => package.clone(),
            None if self.settings.contains_key("baseURL") => "openai-compatible".to_owned(),
            None => self.id.as_str().to_owned(),
        }
    }
}

/// Header names without those that hold a secret.
pub(crate) fn public_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    headers
        .iter()
        .filter(|(name, _)| !crate::config::effective::is_secret(name) && !name.to_ascii_lowercase().contains("key"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
