//! Z.ai.

use super::{Provider, ProviderOptions, own_route};
use crate::protocols::zai_chat;
use crate::route::auth_options::AuthOptions;
use crate::schema::model::{Compatibility, MaxTokensField};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "zai";
/// Its address.
pub const BASE_URL: &str = "https://api.z.ai/api/paas/v4";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["ZAI_API_KEY"];

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let compatibility = Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        ..Compatibility::default()
    };
    let route = own_route(&zai_chat::route(), zai_chat::ID, ID, Some(BASE_URL));
    Provider::new(ID, &route, options, auth, compatibility)
}
