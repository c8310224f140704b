//! MiniMax.

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{anthropic_messages, minimax_chat, open_responses};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "minimax";
/// Its address for Messages.
pub const MESSAGES_URL: &str = "https://api.minimax.io/anthropic/v1";
/// Its address for Chat and Responses.
pub const BASE_URL: &str = "https://api.minimax.io/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["MINIMAX_API_KEY"];

/// Configures the provider; Messages is the default API.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let compatibility = Compatibility { supports_store: Some(false), ..Compatibility::default() };
    let provider = |route| Provider::new(ID, &route, options.clone(), auth.clone(), compatibility.clone());
    let messages = own_route(&anthropic_messages::route(), "minimax-messages", ID, Some(MESSAGES_URL));
    let chat = own_route(&minimax_chat::route(), minimax_chat::ID, ID, Some(BASE_URL));
    let responses = own_route(&open_responses::route(), "minimax-responses", ID, Some(BASE_URL));
    Apis::new(
        ID,
        |_| Api::Messages,
        [(Api::Messages, provider(messages)), (Api::Chat, provider(chat)), (Api::Responses, provider(responses))],
    )
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
