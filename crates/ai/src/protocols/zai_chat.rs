//! The variant of the Chat protocol of the GLM models: thinking can be switched, arguments are
//! streamed only on demand.

use crate::protocols::openai_chat::OpenAiChat;
use crate::protocols::openai_compatible_chat::variant;
use crate::protocols::shared::{OptionKind, options};
use crate::route::Route;

/// The id of the route.
pub const ID: &str = "zai-chat";

const OPTIONS: &[(&str, &str, OptionKind)] = &[
    ("thinking", "thinking", OptionKind::Object),
    ("tool_stream", "tool_stream", OptionKind::Flag),
    ("toolStream", "tool_stream", OptionKind::Flag),
];

/// A route without base URL and provider.
pub fn route() -> Route {
    variant(ID, OpenAiChat::default(), |request| {
        let mut body = options(request, OPTIONS);
        if request.tools.is_empty() {
            body.shift_remove("tool_stream");
        }
        body
    })
}
