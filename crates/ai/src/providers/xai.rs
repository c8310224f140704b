//! xAI.

use std::sync::Arc;

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{openai_compatible_chat, openai_responses, shared};
use crate::provider_package::Setup;
use crate::route::RoutePatch;
use crate::route::auth_options::AuthOptions;
use crate::route::headers::Headers;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "xai";
/// Its address.
pub const BASE_URL: &str = "https://api.x.ai/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["XAI_API_KEY"];

/// Configures the provider; Responses is the default API.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    // Without the affinity header a call may land where its prefix is not cached.
    let affinity =
        |request: &_| Headers::from_iter(shared::prompt_cache_key(request).map(|key| ("x-grok-conv-id", key)));
    let chat = own_route(&openai_compatible_chat::route(), "xai-chat", ID, Some(BASE_URL))
        .with(RoutePatch { headers_for: Some(Arc::new(affinity)), ..RoutePatch::default() });
    let responses = own_route(&openai_responses::route(), "xai-responses", ID, Some(BASE_URL));
    let compatibility = Compatibility { supports_store: Some(false), ..Compatibility::default() };
    let provider = |route| Provider::new(ID, route, options.clone(), auth.clone(), compatibility.clone());
    Apis::new(ID, |_| Api::Responses, [(Api::Responses, provider(&responses)), (Api::Chat, provider(&chat))])
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
