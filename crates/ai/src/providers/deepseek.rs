//! DeepSeek.

use super::{Provider, ProviderOptions, openai_compatible};
use crate::schema::model::{Compatibility, MaxTokensField};

/// The id of the provider.
pub const ID: &str = "deepseek";
/// Its address.
pub const BASE_URL: &str = "https://api.deepseek.com/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["DEEPSEEK_API_KEY"];

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let compatibility = Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        require_reasoning: Some(true),
        ..Compatibility::default()
    };
    openai_compatible::named(ID, BASE_URL, ENV, compatibility, options)
}
