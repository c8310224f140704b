//! OpenAI.

use serde_json::{Value, json};

use super::{Api, Provider, ProviderOptions};
use crate::protocols::{openai_chat, openai_responses};
use crate::provider_package::Setup;
use crate::route::ModelSelection;
use crate::route::auth_options::AuthOptions;
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::ids::ModelId;
use crate::schema::model::{Compatibility, Defaults, LanguageModel};
use crate::schema::options::merge_objects;

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "openai";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["OPENAI_API_KEY"];

/// What OpenAI can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with.
    pub common: ProviderOptions,
    /// The organization, sent as `OpenAI-Organization`.
    pub organization: Option<String>,
    /// The project, sent as `OpenAI-Project`.
    pub project: Option<String>,
}

/// OpenAI with its APIs.
#[derive(Clone, Debug)]
pub struct OpenAi {
    chat: Provider,
    responses: Provider,
}

/// Configures the provider.
pub fn configure(mut options: Options) -> OpenAi {
    let headers = &mut options.common.headers;
    if let Some(organization) = options.organization {
        headers.set("openai-organization", organization);
    }
    if let Some(project) = options.project {
        headers.set("openai-project", project);
    }
    let auth = AuthOptions::bearer(options.common.auth.clone(), &options.common.env_or(ENV));
    let compatibility = Compatibility { supports_prompt_cache_key: Some(true), ..Compatibility::default() };
    let provider = |route| Provider::new(ID, &route, options.common.clone(), auth.clone(), compatibility.clone());
    OpenAi { chat: provider(openai_chat::route()), responses: provider(openai_responses::route()) }
}

impl OpenAi {
    /// Selects a model of the default API, which is Responses.
    ///
    /// # Errors
    /// Never for the default address.
    pub fn model(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.responses(id)
    }

    /// Selects a model of the Responses API.
    ///
    /// # Errors
    /// Never for the default address.
    pub fn responses(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Api::Responses, ModelSelection::new(id))
    }

    /// Selects a model of the Chat API.
    ///
    /// # Errors
    /// Never for the default address.
    pub fn chat(&self, id: impl Into<ModelId>) -> Result<LanguageModel, ConfigurationError> {
        self.select(Api::Chat, ModelSelection::new(id))
    }

    /// Selects a model with defaults and overrides of its own.
    ///
    /// # Errors
    /// When there is no such API.
    pub fn select(&self, api: Api, selection: ModelSelection) -> Result<LanguageModel, ConfigurationError> {
        let provider = match api {
            Api::Chat => &self.chat,
            Api::Responses => &self.responses,
            Api::Messages | Api::Gemini | Api::Converse => {
                return Err(ConfigurationError::new(ID, "there is no API messages; known are responses, chat"));
            }
        };
        provider.select(with_default_options(selection, api))
    }
}

/// Puts OpenAI's default options under those of the caller.
pub(crate) fn with_default_options(mut selection: ModelSelection, api: Api) -> ModelSelection {
    let own = default_options(selection.id.as_str(), api);
    selection.defaults = Defaults {
        provider_options: merge_objects(Some(&own), selection.defaults.provider_options.as_ref()),
        ..selection.defaults
    };
    selection
}

/// The default options of a model: nothing is stored, and reasoning models think at a medium level
/// and hand out their reasoning in a form that can be sent back.
pub(crate) fn default_options(id: &str, api: Api) -> JsonObject {
    let mut options = JsonObject::new();
    options.insert("store".to_owned(), Value::Bool(false));
    let is_reasoning = id.contains("gpt-5") && !id.contains("gpt-5-chat") && !id.contains("gpt-5-pro");
    if is_reasoning {
        options.insert("reasoningEffort".to_owned(), json!("medium"));
        options.insert("reasoningSummary".to_owned(), json!("auto"));
        options.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
        let is_terse = id.contains("gpt-5.") && !id.contains("codex") && !id.contains("-chat");
        if api == Api::Responses && is_terse {
            options.insert("textVerbosity".to_owned(), json!("low"));
        }
    }
    options
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (organization, project) = (setup.text("organization")?, setup.text("project")?);
    let (common, selection) = setup.finish();
    configure(Options { common, organization, project }).select(api.unwrap_or(Api::Responses), selection)
}
