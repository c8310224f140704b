//! OpenRouter's variant of the Chat protocol: cache marks for vendors that want them, reasoning as
//! details, and options of the gateway.

use serde_json::{Value, json};

use crate::protocols::openai_chat::{InlineMarks, OpenAiChat, ReasoningReplay};
use crate::protocols::openai_compatible_chat::variant;
use crate::protocols::shared::{OptionKind, options};
use crate::route::Route;
use crate::schema::JsonObject;
use crate::schema::options::CachePolicy;
use crate::schema::request::LLMRequest;

/// The id of the route.
pub const ID: &str = "openrouter";

const OPTIONS: &[(&str, &str, OptionKind)] = &[
    ("reasoning", "reasoning", OptionKind::Fields(&["enabled", "exclude", "effort", "max_tokens"])),
    ("provider", "provider", OptionKind::Object),
    ("models", "models", OptionKind::List),
    ("plugins", "plugins", OptionKind::List),
    ("web_search_options", "web_search_options", OptionKind::Object),
    ("webSearchOptions", "web_search_options", OptionKind::Object),
    ("user", "user", OptionKind::Text),
    ("debug", "debug", OptionKind::Object),
];

/// A route without base URL and provider.
pub fn route() -> Route {
    variant(ID, OpenAiChat { marks: InlineMarks::ByModelId, replay: ReasoningReplay::Details }, body)
}

fn body(request: &LLMRequest) -> JsonObject {
    let usage = request.option("usage").filter(|usage| usage.is_object()).cloned();
    let mut body = JsonObject::new();
    body.insert("usage".to_owned(), usage.unwrap_or_else(|| json!({ "include": true })));
    body.extend(options(request, OPTIONS));
    let key = request.option("promptCacheKey").and_then(Value::as_str);
    if request.prompt_cache_key.is_none() && request.cache != CachePolicy::None {
        body.extend(key.map(|key| ("prompt_cache_key".to_owned(), Value::from(key))));
    }
    body
}
