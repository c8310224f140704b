//! The `openai-responses` protocol and its route: the baseline with OpenAI's native tools, hosted
//! items, context management and raw reasoning text.

mod hosted;

use serde_json::{Value, json};

use super::open_responses::{Dialect, Hosted, OpenResponses};
use super::open_responses_channel;
use crate::route::auth::Auth;
use crate::route::endpoint::Endpoint;
use crate::route::framing::Framing;
use crate::route::{Route, RouteParts};
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::ToolDefinition;
use crate::schema::model::Defaults;

/// OpenAI's additions.
#[derive(Clone, Copy, Debug)]
struct OpenAI;

/// The protocol.
pub const fn protocol() -> OpenResponses {
    OpenResponses::with_dialect(&OpenAI)
}

impl Dialect for OpenAI {
    fn id(&self) -> &'static str {
        "openai-responses"
    }

    fn name(&self) -> &'static str {
        "OpenAI Responses"
    }

    fn native_tool<'r>(&self, tool: &'r ToolDefinition, native: &'r Value) -> Result<&'r JsonObject, AIError> {
        native.as_object().filter(|native| native.get("type").is_some_and(Value::is_string)).ok_or_else(|| {
            AIError::invalid_request(format!("{} native tool {} must be an object with a type", self.name(), tool.name))
        })
    }

    fn hosted_choice<'r>(&self, native: &'r Value) -> Option<&'r str> {
        native.get("type").and_then(Value::as_str).filter(|kind| *kind == "image_generation")
    }

    fn is_hosted(&self, item_type: &str) -> bool {
        hosted::name(item_type).is_some()
    }

    fn hosted(&self, item_type: &str, item: &JsonObject) -> Result<Option<Hosted>, AIError> {
        hosted::read(item_type, item)
    }

    fn reads_reasoning_text(&self) -> bool {
        true
    }

    fn manages_context(&self) -> bool {
        true
    }
}

/// The route to OpenAI, without credentials. Nothing is stored there, and reasoning comes with its
/// ciphertext so that it can be sent back.
pub fn route() -> Route {
    let mut options = JsonObject::new();
    options.insert("store".to_owned(), json!(false));
    options.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    let defaults = Defaults { provider_options: Some(options), ..Defaults::default() };
    Route::make(RouteParts { defaults, ..bare() }).with_channel(open_responses_channel::openai())
}

/// The same route without default options.
pub fn plain_route() -> Route {
    Route::make(bare())
}

fn bare() -> RouteParts<OpenResponses> {
    RouteParts {
        id: "openai-responses".into(),
        provider: Some("openai".into()),
        metadata_key: Some("openai".to_owned()),
        protocol: protocol(),
        endpoint: Endpoint::new("https://api.openai.com/v1", "/responses"),
        auth: Auth::none(),
        framing: Framing::Sse,
        headers: None,
        defaults: Defaults::default(),
    }
}
