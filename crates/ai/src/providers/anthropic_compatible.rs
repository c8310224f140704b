//! Any server that speaks the Messages protocol under its own address.

use super::anthropic::{HEADER, Options};
use super::{Api, Provider};
use crate::protocols::anthropic_messages;
use crate::provider_package::Setup;
use crate::route::auth::{Auth, Credential, Secret};
use crate::route::auth_options::{AuthOptions, ProviderAuthOption};
use crate::route::endpoint::EndpointPatch;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, unless another is configured.
pub const ID: &str = "anthropic-compatible";

/// Configures a server. Without a key and without variables to look for one, requests go out without
/// credentials.
///
/// # Errors
/// When the base URL is missing: Anthropic's own must not get the prompts of another provider.
pub fn configure(options: Options) -> Result<Provider, ConfigurationError> {
    let common = &options.common;
    let Some(base_url) = common.base_url.clone() else {
        let id = common.provider.clone().unwrap_or_else(|| ID.into());
        return Err(ConfigurationError::new(id, "no base URL is set; set baseURL"));
    };
    let auth = match (&options.auth_token, &common.auth) {
        (Some(token), _) => Auth::bearer(token.clone()),
        (None, ProviderAuthOption::Environment) if common.env.is_empty() => {
            Credential::Optional(None, "apiKey".into()).header(HEADER).or_else(Auth::none())
        }
        (None, auth) => AuthOptions::header(auth.clone(), &common.env_or(&[]), HEADER),
    };
    let route = anthropic_messages::route().with(crate::route::RoutePatch {
        id: Some("anthropic-compatible-messages".into()),
        endpoint: EndpointPatch::base_url(base_url),
        ..crate::route::RoutePatch::default()
    });
    Ok(Provider::new(ID, &route, options.common, auth, Compatibility::default()))
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, _: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let auth_token = setup.text("authToken")?.map(Secret::from);
    let (common, selection) = setup.finish();
    configure(Options { common, auth_token })?.select(selection)
}
