//! DigitalOcean's serverless inference.

use serde_json::json;

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::openai_chat::{InlineMarks, OpenAiChat};
use crate::protocols::{anthropic_messages, openai_compatible_chat, openai_responses};
use crate::provider_package::Setup;
use crate::route::RoutePatch;
use crate::route::auth_options::AuthOptions;
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, Defaults, LanguageModel};

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "digitalocean";
/// Its address.
pub const BASE_URL: &str = "https://inference.do-ai.run/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_API_KEY", "DO_INFERENCE_API_KEY"];

/// Configures the provider. Claude models speak Messages, the others Responses.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let compatibility = Compatibility {
        supports_prompt_cache_key: Some(true),
        supports_effort_updates: Some(false),
        ..Compatibility::default()
    };
    let provider = |route| Provider::new(ID, &route, options.clone(), auth.clone(), compatibility.clone());
    let variant = OpenAiChat { marks: InlineMarks::Claude, ..OpenAiChat::default() };
    let chat = openai_compatible_chat::variant("digitalocean-chat", variant, |_| JsonObject::new());
    let summary = JsonObject::from_iter([("reasoningSummary".to_owned(), json!("auto"))]);
    let responses = openai_responses::route().with(RoutePatch {
        defaults: Defaults { provider_options: Some(summary), ..Defaults::default() },
        ..RoutePatch::default()
    });
    let default = |id: &str| if id.contains("claude") { Api::Messages } else { Api::Responses };
    Apis::new(
        ID,
        default,
        [
            (Api::Responses, provider(own_route(&responses, "digitalocean-responses", ID, Some(BASE_URL)))),
            (
                Api::Messages,
                provider(own_route(&anthropic_messages::route(), "digitalocean-messages", ID, Some(BASE_URL))),
            ),
            (Api::Chat, provider(own_route(&chat, "digitalocean-chat", ID, Some(BASE_URL)))),
        ],
    )
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
