//! Moonshot's variant of the Chat protocol: thinking can be switched and kept.

use crate::protocols::openai_chat::OpenAiChat;
use crate::protocols::openai_compatible_chat::variant;
use crate::protocols::shared::{OptionKind, options};
use crate::route::Route;

/// The id of the route.
pub const ID: &str = "moonshot-chat";

/// A route without base URL and provider.
pub fn route() -> Route {
    variant(ID, OpenAiChat::default(), |request| {
        options(request, &[("thinking", "thinking", OptionKind::Fields(&["type", "keep"]))])
    })
}
