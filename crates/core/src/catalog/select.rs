//! Which model is used.

use abide_schema::catalog::ModelStatus;
use abide_schema::model::ModelRef;
use abide_schema::{ModelId, ProviderId};

use super::{Availability, Catalog, Keys, LocalModels, Model, Provider};
use crate::config::nearest;

/// Why a model cannot be used; each text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// A policy hides the provider.
    #[error("the provider {provider} is switched off by a policy (experimental.policies); use another model")]
    Denied {
        /// The provider.
        provider: ProviderId,
    },
    /// No provider has this name.
    #[error("there is no provider {provider:?}{}; `abide models` lists what can be used", suggestion(.nearest.as_deref()))]
    UnknownProvider {
        /// The name.
        provider: String,
        /// A name that is like it.
        nearest: Option<String>,
    },
    /// The provider has no model of this name.
    #[error("the provider {provider} has no model {model:?}{}; `abide models` lists what can be used", suggestion(.nearest.as_deref()))]
    UnknownModel {
        /// The provider.
        provider: ProviderId,
        /// The name.
        model: String,
        /// A name that is like it.
        nearest: Option<String>,
    },
    /// The model is switched off.
    #[error("the model {model} is switched off in the configuration")]
    DisabledModel {
        /// The model.
        model: ModelRef,
    },
    /// The provider is switched off.
    #[error("the provider {provider} is switched off in the configuration (providers.{provider}.disabled)")]
    DisabledProvider {
        /// The provider.
        provider: ProviderId,
    },
    /// The provider has no key.
    #[error("the provider {provider} has no key: {}", key_advice(.provider, .env))]
    NoKey {
        /// The provider.
        provider: ProviderId,
        /// Variables that would give one.
        env: Vec<String>,
    },
    /// This version cannot talk to the provider.
    #[error(
        "the provider {provider} asks for the package {package:?}, which abide does not have; use openai-compatible or \
         anthropic-compatible with a baseURL, if the service offers one"
    )]
    Unsupported {
        /// The provider.
        provider: ProviderId,
        /// The package.
        package: String,
    },
    /// The model has no variant of this name.
    #[error("the model {model} has no variant {variant:?}; {}", known_variants(.known))]
    UnknownVariant {
        /// The model.
        model: ModelRef,
        /// The name.
        variant: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The route cannot be made of the settings.
    #[error("the model {model} cannot be used: {reason}")]
    Route {
        /// The model.
        model: ModelRef,
        /// Why.
        reason: String,
    },
    /// Nothing can be used.
    #[error("{}", no_model(.keyed))]
    NoModel {
        /// Providers that have a key and no listed model.
        keyed: Vec<ProviderId>,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default()
}

fn key_advice(provider: &ProviderId, env: &[String]) -> String {
    match env.first() {
        Some(name) => format!("set {name}, or providers.{provider}.settings.apiKey"),
        None => format!("set providers.{provider}.settings.apiKey, for example to \"{{env:MY_KEY}}\""),
    }
}

fn known_variants(known: &[String]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("known: {}", known.join(", ")) }
}

fn no_model(keyed: &[ProviderId]) -> String {
    let mut text = "no model can be used. Three ways to go on: (1) set a key, for example ANTHROPIC_API_KEY or \
                    OPENAI_API_KEY; (2) start a model server on this machine: Ollama, LM \
                    Studio, llama.cpp or vLLM; (3) name a provider and a model in abide.json (`abide config show` \
                    says which files count)"
        .to_owned();
    if let Some(provider) = keyed.first() {
        text = format!("{text}. There is a key for {provider}: name one of its models, {provider}/MODEL");
    }
    text
}

/// A model with its provider.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) provider: Provider,
    pub(crate) model: Model,
}

impl Catalog {
    /// Finds a model by reference, whether or not its provider has a key.
    pub(crate) fn find(&self, reference: &ModelRef) -> Result<Chosen, SelectError> {
        let provider = self.known_provider(&reference.provider_id)?;
        let model = match provider.models.get(&reference.id) {
            Some(model) if model.is_enabled => model.clone(),
            Some(_) => return Err(SelectError::DisabledModel { model: reference.clone() }),
            None if provider.is_open => Model::unlisted(reference.id.clone()),
            None => {
                let known = provider.models.keys().map(ModelId::as_str);
                return Err(SelectError::UnknownModel {
                    provider: provider.id.clone(),
                    model: reference.id.to_string(),
                    nearest: nearest(reference.id.as_str(), known).map(str::to_owned),
                });
            }
        };
        Ok(Chosen { provider: provider.clone(), model })
    }

    fn known_provider(&self, id: &ProviderId) -> Result<&Provider, SelectError> {
        if self.denied.contains(id) {
            return Err(SelectError::Denied { provider: id.clone() });
        }
        self.providers.get(id).ok_or_else(|| SelectError::UnknownProvider {
            provider: id.to_string(),
            nearest: nearest(id.as_str(), self.providers.keys().map(ProviderId::as_str)).map(str::to_owned),
        })
    }

    /// Finds a model by reference and makes sure that its provider can be used.
    pub(crate) fn find_usable(&self, reference: &ModelRef, keys: &Keys) -> Result<Chosen, SelectError> {
        let chosen = self.find(reference)?;
        let provider = chosen.provider.id.clone();
        match keys.availability(&chosen.provider) {
            Availability::Usable => Ok(chosen),
            Availability::Disabled => Err(SelectError::DisabledProvider { provider }),
            Availability::NoKey { env } => Err(SelectError::NoKey { provider, env }),
            Availability::Unsupported { package } if chosen.model.package.is_none() => {
                Err(SelectError::Unsupported { provider, package })
            }
            Availability::Unsupported { .. } => Ok(chosen),
        }
    }

    /// Chooses a model when nothing names one: the configured one, else the newest of the providers that can be used.
    /// `None`: a local server may help.
    ///
    /// A configured model that cannot be used is an error: the work must not go to another provider unasked.
    pub fn default_model(&self, keys: &Keys) -> Result<Option<ModelRef>, SelectError> {
        if let Some(configured) = &self.configured {
            self.find_usable(configured, keys)?;
            return Ok(Some(configured.clone()));
        }
        let newest = self
            .usable_models(keys)
            .find(|(_, model)| model.status != ModelStatus::Deprecated)
            .map(|(provider, model)| ModelRef::new(provider.id.clone(), model.id.clone()));
        Ok(newest)
    }

    /// Chooses among the models of local servers, the last resort.
    ///
    /// # Errors
    /// [`SelectError::NoModel`] with the ways to go on.
    pub fn local_model(&self, keys: &Keys, local: &LocalModels) -> Result<ModelRef, SelectError> {
        let found = local.found.iter().filter(|(id, _)| self.providers.contains_key(id)).cloned().collect();
        match (LocalModels { found }).first() {
            Some((provider, model)) => Ok(ModelRef::new(provider.clone(), model.clone())),
            None => Err(SelectError::NoModel { keyed: self.keyed_without_models(keys) }),
        }
    }

    /// Lists the models that can be used, newest first, then by name.
    pub fn usable_models<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = (&'a Provider, &'a Model)> {
        let mut out: Vec<(&Provider, &Model)> = self
            .providers
            .values()
            .filter(|provider| keys.availability(provider) == Availability::Usable)
            .flat_map(|provider| provider.models.values().map(move |model| (provider, model)))
            .filter(|(_, model)| model.is_enabled)
            .collect();
        out.sort_by(|(a_provider, a), (b_provider, b)| {
            b.released.cmp(&a.released).then_with(|| a.id.cmp(&b.id)).then_with(|| a_provider.id.cmp(&b_provider.id))
        });
        out.into_iter()
    }

    /// Lists the providers that can be used; local ones only when they are known to run.
    pub fn usable_providers<'a>(
        &'a self,
        keys: &'a Keys,
        local: &'a LocalModels,
    ) -> impl Iterator<Item = &'a Provider> {
        self.providers.values().filter(|provider| keys.availability(provider) == Availability::Usable).filter(
            |provider| {
                let runs = local.found.iter().any(|(id, _)| *id == provider.id);
                !provider.is_local || runs || !provider.models.is_empty()
            },
        )
    }

    fn keyed_without_models(&self, keys: &Keys) -> Vec<ProviderId> {
        self.providers
            .values()
            .filter(|provider| provider.models.is_empty() && provider.has_integration())
            .filter(|provider| keys.availability(provider) == Availability::Usable)
            .map(|provider| provider.id.clone())
            .collect()
    }

    /// Chooses the model of titles and summaries for a session's model: a small and cheap one of the same provider.
    /// `now` ages the models. `None`: the session's own.
    pub fn small_model(&self, session: &ModelRef, now: abide_schema::Timestamp) -> Option<ModelRef> {
        const WORDS: [&str; 7] = ["nano", "flash", "lite", "mini", "haiku", "small", "fast"];
        const MAX_AGE_MONTHS: f64 = 18.0;
        const MONTH_MS: f64 = 30.44 * 86_400_000.0;
        let provider = self.providers.get(&session.provider_id)?;
        if provider.id.as_str().contains("azure") {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an age in months needs no more")]
        let age = |model: &Model| (now.as_millis() - model.released.as_millis()) as f64 / MONTH_MS;
        let price = |model: &Model| {
            model.cost.iter().find(|cost| cost.tier.is_none()).map_or(999.0, |cost| cost.input + cost.output)
        };
        let candidates: Vec<&Model> = provider
            .models
            .values()
            .filter(|model| model.is_enabled && model.status == ModelStatus::Active)
            .filter(|model| {
                model.capabilities.takes("text") && model.capabilities.output.iter().any(|kind| kind == "text")
            })
            .filter(|model| price(model) > 0.0 && age(model) <= MAX_AGE_MONTHS)
            .collect();
        let is_small = |model: &&&Model| {
            let text = format!("{} {} {}", model.id, model.family.as_deref().unwrap_or(""), model.name).to_lowercase();
            text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
        };
        let small: Vec<&Model> = candidates.iter().filter(is_small).copied().collect();
        let pool = if small.is_empty() { candidates } else { small };
        let max = |of: &dyn Fn(&Model) -> f64| pool.iter().map(|model| of(model)).fold(f64::MIN_POSITIVE, f64::max);
        let (max_price, max_age) = (max(&price), max(&age));
        let score = |model: &Model| 0.8 * price(model) / max_price + 0.2 * age(model) / max_age;
        let best = pool.iter().min_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| a.id.cmp(&b.id)))?;
        Some(ModelRef::new(provider.id.clone(), best.id.clone()))
    }
}
