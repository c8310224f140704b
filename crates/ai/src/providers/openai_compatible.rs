//! Any server that speaks the Chat protocol under its own address.

use super::{Api, Provider, ProviderOptions};
use crate::protocols::{open_responses, openai_compatible_chat};
use crate::provider_package::Setup;
use crate::route::auth::{Auth, Credential};
use crate::route::auth_options::{AuthOptions, ProviderAuthOption};
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel, MaxTokensField};

/// The id of the provider, unless another is configured.
pub const ID: &str = "openai-compatible";

/// Configures a server. The base URL is required. Without a key and without variables to look for
/// one, requests go out without credentials, as local servers want it.
pub fn configure(options: ProviderOptions) -> Provider {
    let auth = optional_bearer(&options, &[]);
    Provider::new(ID, &openai_compatible_chat::route(), options, auth, cautious())
}

/// Configures a server of the Responses protocol; otherwise as [`configure`].
pub fn configure_responses(options: ProviderOptions) -> Provider {
    let auth = optional_bearer(&options, &[]);
    Provider::new(ID, &open_responses::route(), options, auth, Compatibility::default())
}

/// Bearer auth; without configured variables a missing key is no error.
pub(crate) fn optional_bearer(options: &ProviderOptions, own_env: &[&str]) -> Auth {
    if matches!(options.auth, ProviderAuthOption::Environment) && options.env.is_empty() {
        let own = own_env.iter().map(|name| Credential::Env((*name).into())).collect();
        return Credential::FirstOf(own).bearer().or_else(Auth::none());
    }
    AuthOptions::bearer(options.auth.clone(), &options.env_or(own_env))
}

/// Only fields that every server of the protocol knows.
pub(crate) fn cautious() -> Compatibility {
    Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        supports_strict_mode: Some(false),
        ..Compatibility::default()
    }
}

/// A named provider with bearer auth at a fixed address.
pub(crate) fn named(
    id: &str,
    base_url: &str,
    env: &[&str],
    compatibility: Compatibility,
    mut options: ProviderOptions,
) -> Provider {
    options.base_url.get_or_insert_with(|| base_url.to_owned());
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(env));
    Provider::new(id, &openai_compatible_chat::route(), options, auth, compatibility)
}

/// A server on this machine: no key needed, strict chat templates, only old fields.
pub(crate) fn local(id: &str, base_url: &str, env: &[&str], mut options: ProviderOptions) -> Provider {
    options.base_url.get_or_insert_with(|| base_url.to_owned());
    let auth = optional_bearer(&options, env);
    let compatibility = Compatibility { require_alternating_roles: Some(true), ..cautious() };
    Provider::new(id, &openai_compatible_chat::route(), options, auth, compatibility)
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    match api {
        Some(Api::Responses) => configure_responses(common).select(selection),
        Some(Api::Chat | Api::Messages | Api::Gemini | Api::Converse) | None => configure(common).select(selection),
    }
}
