//! OpenRouter.

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{open_responses, openrouter_chat};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "openrouter";
/// Its address.
pub const BASE_URL: &str = "https://openrouter.ai/api/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["OPENROUTER_API_KEY"];

/// Configures the provider; its variant of Chat is the default API.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let chat = own_route(&openrouter_chat::route(), openrouter_chat::ID, ID, Some(BASE_URL));
    let responses = own_route(&open_responses::route(), "openrouter-responses", ID, Some(BASE_URL));
    let compatibility = Compatibility {
        supports_store: Some(false),
        supports_prompt_cache_key: Some(true),
        ..Compatibility::default()
    };
    let provider = |route| Provider::new(ID, route, options.clone(), auth.clone(), compatibility.clone());
    Apis::new(ID, |_| Api::Chat, [(Api::Chat, provider(&chat)), (Api::Responses, provider(&responses))])
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
