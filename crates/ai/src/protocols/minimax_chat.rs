//! MiniMax's variant of the Chat protocol: without `reasoning_split` the reasoning stands in the text.

use serde_json::Value;

use crate::protocols::openai_chat::OpenAiChat;
use crate::protocols::openai_compatible_chat::variant;
use crate::protocols::shared::{OptionKind, options};
use crate::route::Route;

/// The id of the route.
pub const ID: &str = "minimax-chat";

const OPTIONS: &[(&str, &str, OptionKind)] = &[
    ("thinking", "thinking", OptionKind::Fields(&["type"])),
    ("reasoning_split", "reasoning_split", OptionKind::Flag),
    ("reasoningSplit", "reasoning_split", OptionKind::Flag),
];

/// A route without base URL and provider.
pub fn route() -> Route {
    variant(ID, OpenAiChat::default(), |request| {
        let mut body = options(request, OPTIONS);
        body.entry("reasoning_split").or_insert(Value::Bool(true));
        body
    })
}
