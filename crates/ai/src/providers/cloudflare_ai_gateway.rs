//! Cloudflare's AI gateway. The token of the gateway and the key of the upstream are two headers.

use super::{Api, Provider, ProviderOptions, own_route};
use crate::protocols::openai_compatible_chat;
use crate::provider_package::Setup;
use crate::route::auth::{Auth, Credential, Secret};
use crate::route::auth_options::ProviderAuthOption;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel, MaxTokensField};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "cloudflare-ai-gateway";
/// The variables of the gateway's token, in order.
pub const ENV: &[&str] = &["CLOUDFLARE_API_TOKEN", "CF_AIG_TOKEN"];
/// Settings that may come from the environment.
pub const SETTINGS_ENV: &[(&str, &[&str])] =
    &[("accountId", &["CLOUDFLARE_ACCOUNT_ID"]), ("gatewayId", &["CLOUDFLARE_GATEWAY_ID"])];
/// The setting of the gateway's token.
pub const KEY_SETTING: &str = "gatewayApiKey";
/// The header of the gateway's token.
const HEADER: &str = "cf-aig-authorization";

/// What the gateway can be configured with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every provider can be configured with. The API key is the one of the upstream.
    pub common: ProviderOptions,
    /// The account, unless there is a base URL.
    pub account_id: Option<String>,
    /// The gateway; `default` when absent.
    pub gateway_id: Option<String>,
    /// The token of the gateway; absent: from the environment, unless there is a key of the upstream.
    pub gateway_api_key: Option<Secret>,
}

/// Configures the gateway.
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
        let gateway = options.gateway_id.as_deref().unwrap_or("default");
        common.base_url = Some(format!("https://gateway.ai.cloudflare.com/v1/{account}/{gateway}/compat"));
    }
    let from_env = common.env_or(ENV).into_iter().map(|name| Credential::Env(name.into())).collect();
    let auth = match (&common.auth, options.gateway_api_key) {
        (ProviderAuthOption::Auth(auth), _) => auth.clone(),
        (ProviderAuthOption::ApiKey(key), Some(token)) => {
            Auth::bearer_header(HEADER, token).and_then(Auth::bearer(key.clone()))
        }
        (ProviderAuthOption::ApiKey(key), None) => Auth::bearer(key.clone()),
        (ProviderAuthOption::Environment, Some(token)) => Auth::bearer_header(HEADER, token),
        (ProviderAuthOption::Environment, None) => Credential::FirstOf(from_env).bearer_header(HEADER),
    };
    let compatibility = Compatibility {
        max_tokens_field: Some(MaxTokensField::MaxTokens),
        supports_store: Some(false),
        supports_strict_mode: Some(false),
        ..Compatibility::default()
    };
    let route = own_route(&openai_compatible_chat::route(), "cloudflare-ai-gateway-chat", ID, None);
    Ok(Provider::new(ID, &route, common, auth, compatibility))
}

/// Makes a model of settings.
pub(crate) fn package(mut setup: Setup<'_>, _: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (account_id, gateway_id) = (setup.text("accountId")?, setup.text("gatewayId")?);
    let gateway_api_key = setup.text(KEY_SETTING)?.map(Secret::from);
    let (common, selection) = setup.finish();
    configure(Options { common, account_id, gateway_id, gateway_api_key })?.select(selection)
}
