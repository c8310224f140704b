//! Anthropic.

use super::{Api, Provider, ProviderOptions};
use crate::protocols::anthropic_messages;
use crate::provider_package::Setup;
use crate::route::auth::{Auth, Secret};
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider.
pub const ID: &str = "anthropic";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["ANTHROPIC_API_KEY"];
/// The header of its key.
pub(crate) const HEADER: &str = "x-api-key";

/// What Anthropic can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with.
    pub common: ProviderOptions,
    /// A token sent as `authorization: Bearer` instead of a key.
    pub auth_token: Option<Secret>,
}

/// Configures the provider.
pub fn configure(options: Options) -> Provider {
    let auth = if let Some(token) = options.auth_token {
        Auth::bearer(token)
    } else {
        let env = options.common.env_or(ENV);
        AuthOptions::header(options.common.auth.clone(), &env, HEADER)
    };
    let route = anthropic_messages::route();
    Provider::new(ID, &route, options.common, auth, Compatibility::default())
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, _: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let auth_token = setup.text("authToken")?.map(Secret::from);
    let (common, selection) = setup.finish();
    configure(Options { common, auth_token }).select(selection)
}
