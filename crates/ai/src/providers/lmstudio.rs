//! LM Studio on this machine.

use super::{Provider, ProviderOptions, openai_compatible};

/// The id of the provider.
pub const ID: &str = "lmstudio";
/// Where it listens.
pub const BASE_URL: &str = "http://127.0.0.1:1234/v1";
/// The variable of a key, for servers that were given one.
pub const ENV: &[&str] = &["LMSTUDIO_API_KEY"];

/// Configures the server; nothing is required.
pub fn configure(options: ProviderOptions) -> Provider {
    openai_compatible::local(ID, BASE_URL, ENV, options)
}
