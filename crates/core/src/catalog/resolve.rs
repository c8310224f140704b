//! From a model to something that can be called.

use abide_ai::provider_package::ModelEntry;
use abide_ai::route::host::Host;
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::{GenerationOptions, Limits};
use abide_schema::JsonObject;
use abide_schema::agent::AgentInfo;
use abide_schema::config::HeaderMap;
use abide_schema::model::ModelRef;
use chrono::{DateTime, Utc};
use serde::Deserialize as _;
use serde_json::Value;

use super::select::Chosen;
use super::{Catalog, Keys, SelectError};
use crate::config::{merge_headers, merge_json};
use crate::session::place::{PriceTier, ResolvedModel};

impl Catalog {
    /// Makes a model callable: settings, headers and body of provider, model, agent and variant, one over the other,
    /// and the key.
    ///
    /// # Errors
    /// [`SelectError`] when it is unknown or cannot be used.
    pub fn resolve(
        &self,
        reference: &ModelRef,
        agent: Option<&AgentInfo>,
        keys: &Keys,
    ) -> Result<ResolvedModel, SelectError> {
        let Chosen { provider, model } = self.find_usable(reference, keys)?;
        let mut settings = provider.settings.clone();
        let mut headers = provider.headers.clone();
        let mut body = provider.body.clone();
        let package = model.package.clone().unwrap_or_else(|| provider.package_name());
        keys.fill(&provider, &package, &mut settings);
        let mut over = |more_settings: &JsonObject, more_headers: &HeaderMap, more_body: &JsonObject| {
            merge_json(&mut settings, more_settings);
            merge_headers(&mut headers, more_headers);
            merge_json(&mut body, more_body);
        };
        over(&model.settings, &model.headers, &model.body);
        over(&model.request_defaults, &HeaderMap::new(), &JsonObject::new());
        if let Some(agent) = agent {
            over(&JsonObject::new(), &agent.request.headers, &agent.request.body);
        }
        let variant = reference.variant.as_deref().filter(|name| *name != ModelRef::DEFAULT_VARIANT);
        if let Some(name) = variant {
            let Some(variant) = model.variants.iter().find(|variant| variant.id == name) else {
                return Err(SelectError::UnknownVariant {
                    model: ModelRef { variant: None, ..reference.clone() },
                    variant: name.to_owned(),
                    known: model.variants.iter().map(|variant| variant.id.clone()).collect(),
                });
            };
            over(&variant.settings, &variant.headers, &variant.body);
        }
        let failed = |reason: String| SelectError::Route { model: reference.clone(), reason };
        let compatibility = Compatibility::deserialize(Value::Object(model.compatibility.clone()))
            .map_err(|error| failed(format!("compatibility: {error}")))?;
        let generation = generation(&mut body);
        let entry = ModelEntry {
            package: Some(package),
            provider: provider.id.as_str().into(),
            model: model.wire_id.as_str().into(),
            settings,
            env: provider.env.clone(),
            headers: headers.into_iter().collect(),
            body,
            limits: Some(Limits {
                context: (!model.is_limit_assumed).then_some(model.limit.context),
                output: Some(model.limit.output),
            }),
            generation,
            compatibility,
        };
        let language = entry.resolve_in(keys).map_err(|error| failed(error.to_string()))?;
        Ok(ResolvedModel {
            model: reference.clone(),
            language,
            context_limit: (!model.is_limit_assumed).then_some(model.limit.context),
            input_limit: model.limit.input,
            output_limit: Some(model.limit.output),
            prices: model
                .cost
                .iter()
                .map(|cost| PriceTier {
                    over: cost.tier.map(|tier| tier.size),
                    input: cost.input,
                    output: cost.output,
                    cache_read: cost.cache.read,
                    cache_write: cost.cache.write,
                })
                .collect(),
            takes_images: model.capabilities.takes("image"),
            takes_pdf: model.capabilities.takes("pdf"),
            takes_tools: model.capabilities.tools,
        })
    }
}

/// What says where to go, a region or a project, comes from the world's environment.
impl Host for Keys {
    fn env(&self, name: &str) -> Option<String> {
        self.world.var(name).map(str::to_owned)
    }

    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.world.now().as_millis()).unwrap_or_default()
    }
}

/// Takes the sampling options out of a body: every protocol has a place of its own for them.
fn generation(body: &mut JsonObject) -> Option<GenerationOptions> {
    let mut take = |key: &str| {
        let value = body.get(key).and_then(Value::as_f64)?;
        body.shift_remove(key);
        Some(value)
    };
    let (temperature, top_p) = (take("temperature"), take("top_p"));
    (temperature.is_some() || top_p.is_some()).then(|| GenerationOptions {
        temperature,
        top_p,
        ..GenerationOptions::make()
    })
}
