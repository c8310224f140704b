//! What clients see of the catalogue: never a secret.

use abide_schema::JsonObject;
use abide_schema::catalog::{
    IntegrationInfo, IntegrationMethod, ModelApi, ModelInfo, ModelRequest, ModelTime, ModelVariant, ProviderApi,
    ProviderInfo,
};
use abide_schema::model::ProviderRequest;
use serde_json::Value;

use super::{Catalog, Keys, LocalModels, Model, Provider, public_headers};
use crate::config::effective::is_secret;

impl Catalog {
    /// Lists the models of local servers.
    pub fn local_infos(&self, local: &LocalModels) -> Vec<ModelInfo> {
        local
            .found
            .iter()
            .filter_map(|(id, models)| Some((self.provider(id)?, models)))
            .flat_map(|(provider, models)| {
                models
                    .iter()
                    .filter(|id| !provider.models.contains_key(*id))
                    .map(|id| Model::unlisted(id.clone()).info(provider))
            })
            .collect()
    }

    /// Lists the integrations, by name.
    pub fn integrations(&self, keys: &Keys) -> Vec<IntegrationInfo> {
        let mut out: Vec<IntegrationInfo> = self
            .providers()
            .filter(|provider| provider.has_integration())
            .map(|provider| provider.integration(keys))
            .collect();
        out.sort_by(|a, b| a.name.cmp(&b.name));
        out
    }
}

impl Provider {
    /// Returns what clients see.
    pub fn info(&self) -> ProviderInfo {
        ProviderInfo {
            id: self.id.clone(),
            integration_id: self.has_integration().then(|| self.integration_id()),
            name: self.name.clone(),
            disabled: self.is_disabled.then_some(true),
            api: self.api(),
            request: ProviderRequest { headers: public_headers(&self.headers), body: public(&self.body) },
        }
    }

    fn api(&self) -> ProviderApi {
        let (url, settings) = address(&self.settings);
        match javascript_package(&self.package_name()) {
            Some(package) => ProviderApi::Aisdk { package, url, settings: (!settings.is_empty()).then_some(settings) },
            None => ProviderApi::Native { url, settings },
        }
    }

    /// Returns its integration with the connections of the moment.
    pub fn integration(&self, keys: &Keys) -> IntegrationInfo {
        IntegrationInfo {
            id: self.integration_id(),
            name: self.name.clone(),
            methods: vec![
                IntegrationMethod::Key { label: Some("API key".to_owned()) },
                IntegrationMethod::Env { names: self.env.clone() },
            ],
            connections: keys.connections(self),
        }
    }
}

impl Model {
    /// Returns what clients see.
    pub fn info(&self, provider: &Provider) -> ModelInfo {
        let mut settings = provider.settings.clone();
        crate::config::merge_json(&mut settings, &self.settings);
        let (url, settings) = address(&settings);
        let package = self.package.clone().unwrap_or_else(|| provider.package_name());
        let id = self.wire_id.clone();
        ModelInfo {
            id: self.id.clone(),
            provider_id: provider.id.clone(),
            family: self.family.clone(),
            name: self.name.clone(),
            api: match javascript_package(&package) {
                Some(package) => {
                    ModelApi::Aisdk { id, package, url, settings: (!settings.is_empty()).then_some(settings) }
                }
                None => ModelApi::Native { id, url, settings },
            },
            capabilities: self.capabilities.clone(),
            request: ModelRequest { headers: public_headers(&self.headers), body: public(&self.body), variant: None },
            variants: self
                .variants
                .iter()
                .map(|variant| ModelVariant {
                    id: variant.id.clone(),
                    headers: public_headers(&variant.headers),
                    body: public(&variant.body),
                })
                .collect(),
            time: ModelTime { released: self.released.as_millis() },
            cost: self.cost.clone(),
            status: self.status,
            enabled: self.is_enabled,
            limit: self.limit,
        }
    }
}

/// The base URL, and the other settings, without secrets.
fn address(settings: &JsonObject) -> (Option<String>, JsonObject) {
    let mut settings = public(settings);
    let url = settings.shift_remove("baseURL").and_then(|url| url.as_str().map(without_user));
    (url, settings)
}

/// An object without the fields that hold a secret.
fn public(object: &JsonObject) -> JsonObject {
    object.iter().filter(|(key, _)| !is_secret(key)).map(|(key, value)| (key.clone(), public_value(value))).collect()
}

fn public_value(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(public(object)),
        Value::Array(items) => Value::Array(items.iter().map(public_value).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// An address without user and password.
fn without_user(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            // Both fail only for addresses that cannot have a user.
            let _cannot_fail = (url.set_username(""), url.set_password(None));
            url.to_string()
        }
        Ok(_) | Err(_) => address.to_owned(),
    }
}

/// The package of the JavaScript ecosystem that a spelling names, if it does.
fn javascript_package(spelling: &str) -> Option<String> {
    let name = spelling.strip_prefix("aisdk:").unwrap_or(spelling);
    (spelling != name || name.starts_with('@')).then(|| name.to_owned())
}
