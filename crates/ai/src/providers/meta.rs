//! Meta.

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{openai_compatible_chat, openai_responses};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "meta";
/// Its address.
pub const BASE_URL: &str = "https://api.meta.ai/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["META_API_KEY"];

/// Configures the provider; Responses is the default API, nothing is stored there.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let chat = own_route(&openai_compatible_chat::route(), "meta-chat", ID, Some(BASE_URL));
    let responses = own_route(&openai_responses::route(), "meta-responses", ID, Some(BASE_URL));
    let provider = |route| Provider::new(ID, route, options.clone(), auth.clone(), Compatibility::default());
    Apis::new(ID, |_| Api::Responses, [(Api::Responses, provider(&responses)), (Api::Chat, provider(&chat))])
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
