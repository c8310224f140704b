//! Cerebras.

use super::{Provider, ProviderOptions, openai_compatible};
use crate::schema::model::{Compatibility, MaxTokensField};

/// The id of the provider.
pub const ID: &str = "cerebras";
/// Its address.
pub const BASE_URL: &str = "https://api.cerebras.ai/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["CEREBRAS_API_KEY"];

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let compatibility = Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        ..Compatibility::default()
    };
    openai_compatible::named(ID, BASE_URL, ENV, compatibility, options)
}
