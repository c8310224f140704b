//! Cloudflare's Workers AI.

use super::{Api, Provider, ProviderOptions, own_route};
use crate::protocols::openai_compatible_chat;
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel, MaxTokensField};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "cloudflare-workers-ai";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["CLOUDFLARE_API_KEY", "CLOUDFLARE_WORKERS_AI_TOKEN"];
/// Settings that may come from the environment.
pub const SETTINGS_ENV: &[(&str, &[&str])] = &[("accountId", &["CLOUDFLARE_ACCOUNT_ID"])];

/// What Workers AI can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with.
    pub common: ProviderOptions,
    /// The account, unless there is a base URL.
    pub account_id: Option<String>,
}

/// Configures the provider.
///
/// # Errors
/// When there is neither account nor base URL.
pub fn configure(options: Options) -> Result<Provider, ConfigurationError> {
    let mut common = options.common;
    let id = common.provider.clone().unwrap_or_else(|| ID.into());
    if common.base_url.is_none() {
        let Some(account) = options.account_id else {
            return Err(ConfigurationError::new(id, "no account is set; set accountId or baseURL"));
        };
        common.base_url = Some(format!("https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1"));
    }
    let auth = AuthOptions::bearer(common.auth.clone(), &common.env_or(ENV));
    let compatibility = Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        ..Compatibility::default()
    };
    let route = own_route(&openai_compatible_chat::route(), "cloudflare-workers-ai-chat", ID, None);
    Ok(Provider::new(ID, &route, common, auth, compatibility))
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, _: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let account_id = setup.text("accountId")?;
    let (common, selection) = setup.finish();
    configure(Options { common, account_id })?.select(selection)
}
