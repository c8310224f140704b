//! Groq.

use super::{Provider, ProviderOptions, openai_compatible};
use crate::schema::model::Compatibility;

/// The id of the provider.
pub const ID: &str = "groq";
/// Its address.
pub const BASE_URL: &str = "https://api.groq.com/openai/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["GROQ_API_KEY"];

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let compatibility = Compatibility {
        reasoning_field: Some("reasoning".to_owned()),
        require_reasoning: Some(false),
        ..openai_compatible::cautious()
    };
    openai_compatible::named(ID, BASE_URL, ENV, compatibility, options)
}
