//! The route of servers that speak the Chat protocol under their own address.

use crate::protocols::openai_chat::{OpenAiChat, PATH};
use crate::route::auth::Auth;
use crate::route::endpoint::Endpoint;
use crate::route::framing::Framing;
use crate::route::{Route, RouteParts};
use crate::schema::model::Defaults;

/// The id of the route.
pub const ID: &str = "openai-compatible-chat";

/// A route without base URL and provider; both are set before a model is selected.
pub fn route() -> Route {
    Route::make(RouteParts {
        id: ID.into(),
        provider: None,
        metadata_key: None,
        protocol: OpenAiChat::default(),
        endpoint: Endpoint::path(PATH),
        auth: Auth::none(),
        framing: Framing::SseWithDone,
        headers: None,
        defaults: Defaults::default(),
    })
}
