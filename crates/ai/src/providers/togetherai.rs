//! Together AI.

use super::{Provider, ProviderOptions, openai_compatible};

/// The id of the provider.
pub const ID: &str = "togetherai";
/// Its address.
pub const BASE_URL: &str = "https://api.together.xyz/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"];

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let compatibility = openai_compatible::cautious();
    openai_compatible::named(ID, BASE_URL, ENV, compatibility, options)
}
