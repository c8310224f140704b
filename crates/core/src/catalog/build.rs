//! Putting the catalogue together.

use std::sync::{Arc, LazyLock};

use abide_ai::provider_package::{package_env, packages};
use abide_schema::catalog::{ModelCapabilities, ModelLimit, ModelStatus};
use abide_schema::config::{
    Diagnostic, DiagnosticKind, ModelConfig, PolicyEffect, PolicyStatement, ProviderConfig, Severity,
};
use abide_schema::{ModelId, ProviderId, Timestamp};
use indexmap::IndexMap;

use super::{Catalog, Model, Provider, local_servers};
use crate::config::{Config, patch_provider};
use crate::permission::matches;

/// The built-in table, in the form of configuration: it is the lowest document. Providers that need a key
/// and are not in it are known by name, without models.
static BUILTIN: LazyLock<IndexMap<ProviderId, ProviderConfig>> = LazyLock::new(|| {
    let mut table: IndexMap<ProviderId, ProviderConfig> =
        serde_json::from_str(include_str!("builtin.json")).unwrap_or_default();
    for package in packages().iter().filter(|package| package.needs_key && !package.env.is_empty()) {
        table.entry(ProviderId::from(package.path)).or_insert_with(|| ProviderConfig {
            name: Some(package.name.to_owned()),
            package: Some(package.path.to_owned()),
            ..ProviderConfig::default()
        });
    }
    table
});

/// Sizes of a model that nothing is known of.
const ASSUMED_CONTEXT: u64 = 200_000;
const ASSUMED_OUTPUT: u64 = 32_000;

impl Catalog {
    /// Makes the catalogue of a configuration. What is wrong is added to `diagnostics`.
    pub fn new(config: &Config, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let mut documents = BUILTIN.clone();
        for (id, own) in config.providers() {
            if let Some(canonical) = own.canonical.as_deref().filter(|_| own.models.is_empty())
                && let Some(source) = BUILTIN.get(canonical)
            {
                documents.entry(id.clone()).or_default().models.clone_from(&source.models);
            }
            patch_provider(documents.entry(id).or_default(), &own);
        }
        let policies = config.policies();
        let (mut providers, mut denied) = (IndexMap::new(), Vec::new());
        for (id, document) in documents {
            if is_denied(&policies, &id) {
                denied.push(id);
            } else {
                providers.insert(id.clone(), provider(id, document));
            }
        }
        report(config, &providers, diagnostics);
        Self { providers: Arc::new(providers), configured: config.model().cloned(), denied: denied.into() }
    }
}

fn is_denied(policies: &[PolicyStatement], id: &ProviderId) -> bool {
    policies
        .iter()
        .rev()
        .find(|policy| matches("provider.use", &policy.action) && matches(id.as_str(), &policy.resource))
        .is_some_and(|policy| policy.effect == PolicyEffect::Deny)
}

fn provider(id: ProviderId, document: ProviderConfig) -> Provider {
    let is_builtin = BUILTIN.contains_key(&id);
    let is_local = is_builtin && local_servers().iter().any(|server| server.provider == id);
    let env = document.env.clone().unwrap_or_else(|| {
        let package = document.package.as_deref().unwrap_or(id.as_str());
        // A server that is reached by another address is not asked for the key of the original, and a project of
        // a cloud is not entered with a key that names none.
        let is_elsewhere = ["baseURL", "project", "location"].iter().any(|key| document.settings.contains_key(*key));
        if is_elsewhere { Vec::new() } else { package_env(package).iter().map(|name| (*name).to_owned()).collect() }
    });
    let allowed = |model: &ModelId| {
        document.whitelist.as_ref().is_none_or(|list| list.contains(model))
            && !document.blacklist.as_ref().is_some_and(|list| list.contains(model))
    };
    Provider {
        name: document.name.unwrap_or_else(|| id.to_string()),
        env,
        package: document.package,
        settings: document.settings,
        headers: document.headers,
        body: document.body,
        is_disabled: document.disabled.unwrap_or(false),
        is_local,
        is_open: is_builtin || document.models.is_empty(),
        models: document
            .models
            .iter()
            .map(|(id, model)| {
                let mut made = Model::new(id.clone(), model.clone());
                made.is_enabled &= allowed(id);
                (id.clone(), made)
            })
            .collect(),
        id,
    }
}

impl Model {
    /// Makes a model of what documents say, with defaults for the rest.
    pub(super) fn new(id: ModelId, document: ModelConfig) -> Self {
        let capabilities = document.capabilities.unwrap_or_default();
        let limit = document.limit.unwrap_or_default();
        let list = |given: Option<Vec<String>>, default: &[&str]| {
            given
                .filter(|list| !list.is_empty())
                .unwrap_or_else(|| default.iter().map(|kind| (*kind).to_owned()).collect())
        };
        Self {
            wire_id: document.model_id.unwrap_or_else(|| id.clone()),
            name: document.name.unwrap_or_else(|| id.to_string()),
            family: document.family,
            package: document.package,
            settings: document.settings,
            headers: document.headers,
            body: document.body,
            compatibility: document.compatibility,
            request_defaults: document.request_defaults,
            capabilities: ModelCapabilities {
                tools: capabilities.tools.unwrap_or(true),
                input: list(capabilities.input, &["text", "image"]),
                output: list(capabilities.output, &["text"]),
            },
            variants: document.variants.into_iter().filter(|variant| variant.disabled != Some(true)).collect(),
            released: released(document.release_date.as_deref()),
            cost: document.cost.unwrap_or_default(),
            status: document.status.unwrap_or(ModelStatus::Active),
            is_enabled: document.disabled != Some(true),
            limit: ModelLimit {
                context: limit.context.map_or(ASSUMED_CONTEXT, |tokens| tokens.0),
                input: limit.input.map(|tokens| tokens.0),
                output: limit.output.map_or(ASSUMED_OUTPUT, |tokens| tokens.0),
            },
            is_limit_assumed: limit.context.is_none(),
            id,
        }
    }

    /// A model that is named and not listed.
    pub(super) fn unlisted(id: ModelId) -> Self {
        Self::new(id, ModelConfig::default())
    }
}

/// `2025-08-07` or `2025-08` as an instant.
fn released(date: Option<&str>) -> Timestamp {
    let parse = |text: &str| chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let date = date.and_then(|text| parse(text).or_else(|| parse(&format!("{text}-01"))));
    let instant = date.and_then(|date| date.and_hms_opt(0, 0, 0)).map(|time| time.and_utc().timestamp_millis());
    Timestamp::from_millis(instant.unwrap_or(0))
}

/// Says what of the configuration cannot work.
fn report(config: &Config, providers: &IndexMap<ProviderId, Provider>, diagnostics: &mut Vec<Diagnostic>) {
    for document in &config.documents {
        for id in document.info.providers.keys() {
            let Some(provider) = providers.get(id) else { continue };
            let package = provider.package_name();
            if !provider.is_disabled && !abide_ai::provider_package::is_known_package(&package) {
                let message = format!("the provider {id} asks for the package {package:?}, which abide does not have");
                let mut diagnostic = Diagnostic::new(Severity::Warning, DiagnosticKind::Unsupported, message)
                    .at(format!("/providers/{id}/package"))
                    .hint("use openai-compatible or anthropic-compatible with a baseURL, if the service offers one");
                diagnostic.path.clone_from(&document.origin.path);
                if !diagnostics.contains(&diagnostic) {
                    diagnostics.push(diagnostic);
                }
            }
        }
        for policy in document.info.experimental.iter().flat_map(|experimental| &experimental.policies) {
            if !matches("provider.use", &policy.action) {
                let message = format!("the policy about {:?} has no effect: only provider.use is known", policy.action);
                let mut diagnostic = Diagnostic::new(Severity::Warning, DiagnosticKind::Unsupported, message)
                    .at("/experimental/policies");
                diagnostic.path.clone_from(&document.origin.path);
                diagnostics.push(diagnostic);
            }
        }
    }
}
