//! Google's Gemini API.

use super::{Provider, ProviderOptions};
use crate::protocols::gemini;
use crate::route::auth_options::AuthOptions;
use crate::schema::model::Compatibility;

/// The id of the provider.
pub const ID: &str = "google";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"];
/// The header of its key.
pub(crate) const HEADER: &str = "x-goog-api-key";

/// Configures the provider.
pub fn configure(options: ProviderOptions) -> Provider {
    let auth = AuthOptions::header(options.auth.clone(), &options.env_or(ENV), HEADER);
    Provider::new(ID, &gemini::route(), options, auth, Compatibility::default())
}
