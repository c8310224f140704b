//! Vercel's AI gateway.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Api, Apis, Provider, ProviderOptions, own_route};
use crate::protocols::openai_chat::{InlineMarks, OpenAiChat, marks_by_model_id};
use crate::protocols::{anthropic_messages, openai_compatible_chat, openai_responses, shared};
use crate::provider_package::Setup;
use crate::route::auth_options::AuthOptions;
use crate::route::headers::Headers;
use crate::route::{Route, RoutePatch};
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::{Compatibility, LanguageModel};
use crate::schema::request::LLMRequest;

/// The id of the provider, and its namespace in provider metadata.
pub const ID: &str = "vercel-ai-gateway";
/// Its address.
pub const BASE_URL: &str = "https://ai-gateway.vercel.sh/v1";
/// The variables of its key, in order.
pub const ENV: &[&str] = &["AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"];

/// Configures the gateway. The id of the model says which API it speaks best.
pub fn configure(options: ProviderOptions) -> Apis {
    let auth = AuthOptions::bearer(options.auth.clone(), &options.env_or(ENV));
    let compatibility = Compatibility { supports_store: Some(false), ..Compatibility::default() };
    let provider = |base: &Route, id: &str| {
        let route = own_route(base, id, ID, Some(BASE_URL)).with(RoutePatch {
            headers_for: Some(Arc::new(affinity)),
            body_for: Some(Arc::new(gateway_options)),
            ..RoutePatch::default()
        });
        Provider::new(ID, &route, options.clone(), auth.clone(), compatibility.clone())
    };
    let variant = OpenAiChat { marks: InlineMarks::ByModelId, ..OpenAiChat::default() };
    let chat = openai_compatible_chat::variant("vercel-ai-gateway-chat", variant, |_| JsonObject::new());
    let messages =
        anthropic_messages::route().with(RoutePatch { marks_for: Some(marks_by_model_id), ..RoutePatch::default() });
    Apis::new(
        ID,
        default_api,
        [
            (Api::Messages, provider(&messages, "vercel-ai-gateway-messages")),
            (Api::Responses, provider(&openai_responses::route(), "vercel-ai-gateway-responses")),
            (Api::Chat, provider(&chat, "vercel-ai-gateway-chat")),
        ],
    )
}

fn default_api(id: &str) -> Api {
    if id.starts_with("openai/gpt-") || id.starts_with("spacexai/grok-") {
        Api::Responses
    } else if id.starts_with("meta/muse-") {
        Api::Chat
    } else {
        Api::Messages
    }
}

/// Keeps the calls of a session on one upstream, so that its prefix stays cached.
fn affinity(request: &LLMRequest) -> Headers {
    Headers::from_iter(shared::prompt_cache_key(request).map(|key| ("x-session-affinity", key)))
}

/// Routing options for the gateway itself.
fn gateway_options(request: &LLMRequest) -> JsonObject {
    let gateway = request.option("gateway").filter(|gateway| gateway.is_object());
    gateway.map(|gateway: &Value| ("providerOptions".to_owned(), json!({ "gateway": gateway }))).into_iter().collect()
}

/// Makes a model of settings.
pub(crate) fn package(setup: Setup<'_>, api: Option<Api>) -> Result<LanguageModel, ConfigurationError> {
    let (common, selection) = setup.finish();
    configure(common).select(api, selection)
}
