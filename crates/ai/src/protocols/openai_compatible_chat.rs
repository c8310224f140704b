//! The route of servers that speak the Chat protocol under their own address.

use std::sync::Arc;

use crate::protocols::openai_chat::{OpenAiChat, PATH};
use crate::route::auth::Auth;
use crate::route::endpoint::Endpoint;
use crate::route::framing::Framing;
use crate::route::{Route, RouteParts, RoutePatch};
use crate::schema::JsonObject;
use crate::schema::model::Defaults;
use crate::schema::request::LLMRequest;

/// The id of the route.
pub const ID: &str = "openai-compatible-chat";

/// A route without base URL and provider; both are set before a model is selected.
pub fn route() -> Route {
    variant(ID, OpenAiChat::default(), |_| JsonObject::new())
}

/// The route of an API that adds body fields to the protocol.
pub(crate) fn variant(id: &str, protocol: OpenAiChat, body: fn(&LLMRequest) -> JsonObject) -> Route {
    let route = Route::make(RouteParts {
        id: id.into(),
        provider: None,
        metadata_key: None,
        protocol,
        endpoint: Endpoint::path(PATH),
        auth: Auth::none(),
        framing: Framing::SseWithDone,
        headers: None,
        defaults: Defaults::default(),
    });
    route.with(RoutePatch { body_for: Some(Arc::new(body)), ..RoutePatch::default() })
}
