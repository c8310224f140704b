//! Moonshot AI.

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{anthropic_messages, moonshot_chat, open_responses};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel, MaxTokensField, ToolSchemaKind};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "moonshotai";
/// Its address for Chat and Responses.
pub const BASE_URL: &str = "https://api.moonshot.ai/v1";
/// Its address for Messages.
pub const MESSAGES_URL: &str = "https://api.moonshot.ai/anthropic/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY"];

/// Configures the provider; its variant of Chat is the default API.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let compatibility = Compatibility {
        tool_schema: Some(ToolSchemaKind::Moonshot),
        reasoning_field: Some("reasoning_content".to_owned()),
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        supports_strict_mode: Some(false),
        supports_prompt_cache_key: Some(true),
        require_signature: Some(false),
        ..Compatibility::default()
    };
    let provider = |route| Provider::new(ID, &route, options.clone(), auth.clone(), compatibility.clone());
    let chat = own_route(&moonshot_chat::route(), moonshot_chat::ID, ID, Some(BASE_URL));
    let messages = own_route(&anthropic_messages::route(), "moonshot-messages", ID, Some(MESSAGES_URL));
    let responses = own_route(&open_responses::route(), "moonshot-responses", ID, Some(BASE_URL));
    Apis::new(
        ID,
        |_| Api::Chat,
        [(Api::Chat, provider(chat)), (Api::Messages, provider(messages)), (Api::Responses, provider(responses))],
    )
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
