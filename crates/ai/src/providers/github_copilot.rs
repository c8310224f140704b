//! GitHub Copilot. Its address and its tokens come from the sign-in, which is not done here.

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::{openai_compatible_chat, openai_responses};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "github-copilot";

/// Configures the provider. The base URL and a key are required. `gpt-5` and newer speak Responses,
/// the others Chat.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(&[]));
    let chat = own_route(&openai_compatible_chat::route(), "github-copilot-chat", ID, None);
    let responses = own_route(&openai_responses::route(), "github-copilot-responses", ID, None);
    // OpenAI's and Anthropic's addresses must not get the tokens of this provider.
    let responses = responses.without_base_url();
    let compatibility = Compatibility { supports_store: Some(false), ..Compatibility::default() };
    let provider = |route| Provider::new(ID, route, options.clone(), auth.clone(), compatibility.clone());
    Apis::new(ID, default_api, [(Api::Chat, provider(&chat)), (Api::Responses, provider(&responses))])
}

/// `gpt-5` and newer speak Responses, but for `gpt-5-mini`.
fn default_api(id: &str) -> Api {
    let major: Option<u32> = id.strip_prefix("gpt-").and_then(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits)?.parse().ok()
    });
    if major.is_some_and(|major| major >= 5) && !id.starts_with("gpt-5-mini") { Api::Responses } else { Api::Chat }
}

/// Makes a model of settings; `endpoint` forces an API.
pub(crate) fn package(mut setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let forced = match setup.text("endpoint")?.as_deref() {
        None => None,
        Some("chat") => Some(Api::Chat),
        Some("responses") => Some(Api::Responses),
        Some(other) => return Err(setup.wrong("endpoint", "\"chat\" or \"responses\"", &other.into())),
    };
    let (common, selection) = setup.finish();
    configure(common).select(api.or(forced), selection)
}
