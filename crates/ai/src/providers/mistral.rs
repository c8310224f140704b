//! Mistral.

use super::{Provider, ProviderOptions};
use crate::protocols::mistral_chat;
use crate::route::auth_options::AuthOptions;
use crate::schema::model::Compatibility;

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "mistral";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["MISTRAL_API_KEY"];

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    Provider::new(ID, &mistral_chat::route(), options, auth, Compatibility::default())
}
