//! The OpenAI Chat Completions protocol, and the base of every compatible API.
//!
//! Servers differ in small ways; each difference is a named quirk ([`quirks::Quirks`]) detected from
//! provider, host and model id and overridable by [`Compatibility`](crate::schema::model::Compatibility).

mod body;
mod chunk;
mod lower;
mod parse;
pub mod quirks;
mod reasoning;
mod tool_ids;

pub use body::ChatBody;
pub use chunk::ChatEvent;
pub use parse::ChatState;

use crate::protocols::shared;
use crate::route::auth::Auth;
use crate::route::endpoint::Endpoint;
use crate::route::framing::{Frame, Framing};
use crate::route::protocol::{CacheSupport, DecodeError, Protocol};
use crate::route::{Route, RouteParts};
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::{ProtocolId, ProviderId};
use crate::schema::model::Defaults;
use crate::schema::request::LLMRequest;

// ---------------------------------------------------------------------------------------------
// 7. Protocol and route
// ---------------------------------------------------------------------------------------------

/// The id of the protocol and of its OpenAI route.
pub const ID: &str = "openai-chat";
/// How error messages call the protocol.
pub(crate) const NAME: &str = "OpenAI Chat";
/// The path below the base URL.
pub const PATH: &str = "/chat/completions";
/// The base URL of OpenAI.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// Whether a variant of the protocol carries inline cache marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InlineMarks {
    /// It does not; the provider caches by itself.
    #[default]
    Never,
    /// `cache_control` on parts, for `anthropic/…` and `qwen/…` ids.
    ByModelId,
    /// `cache_control` on parts, for Claude models.
    Claude,
    /// `cache_control` on parts, for Qwen models.
    Qwen,
}

/// How a variant of the protocol takes the reasoning of earlier turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningReplay {
    /// As the field it came in, or as `reasoning_details` where it has them.
    #[default]
    Field,
    /// Only with `reasoning_details`, and `reasoning` beside them.
    Details,
}

/// The protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenAiChat {
    /// Inline cache marks.
    pub marks: InlineMarks,
    /// Reasoning of earlier turns.
    pub replay: ReasoningReplay,
}

impl Protocol for OpenAiChat {
    type Body<'r> = ChatBody;
    type Event<'f> = ChatEvent<'f>;
    type State = ChatState;

    fn id(&self) -> ProtocolId {
        ProtocolId::from(ID)
    }

    #[tracing::instrument(name = "OpenAIChat.fromRequest", level = "trace", skip_all)]
    fn body_from(&self, request: &LLMRequest) -> Result<ChatBody, AIError> {
        lower::from_request(request, self.replay, self.cache_marks(request) != CacheSupport::None)
    }

    fn initial(&self, request: &LLMRequest) -> ChatState {
        ChatState::new(request)
    }

    fn decode_event<'f>(&self, frame: &'f Frame) -> Result<ChatEvent<'f>, DecodeError> {
        if frame.data.trim_ascii() == b"[DONE]" {
            return Ok(ChatEvent::Done);
        }
        shared::decode(frame).map(ChatEvent::Chunk)
    }

    fn step(
        &self,
        state: &mut ChatState,
        event: ChatEvent<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        match event {
            ChatEvent::Done => Ok(()),
            ChatEvent::Chunk(chunk) => state.chunk(&chunk, frame, out),
        }
    }

    fn terminal(&self, event: &ChatEvent<'_>) -> bool {
        matches!(event, ChatEvent::Done)
    }

    fn on_halt(&self, state: &mut ChatState, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.halt(out)
    }

    fn cache_marks(&self, request: &LLMRequest) -> CacheSupport {
        let id = request.model.id.as_str().to_ascii_lowercase();
        match self.marks {
            InlineMarks::ByModelId => marks_by_model_id(request),
            InlineMarks::Claude if id.contains("claude") => CacheSupport::Full,
            InlineMarks::Qwen if id.contains("qwen") || id.contains("qwq") => CacheSupport::SystemAndTail,
            InlineMarks::Never | InlineMarks::Claude | InlineMarks::Qwen => CacheSupport::None,
        }
    }
}

/// The automatic cache marks of gateways whose ids name the vendor: all for `anthropic/…`, system and
/// tail for `qwen/…`. A leading `~` is no part of the name.
pub(crate) fn marks_by_model_id(request: &LLMRequest) -> CacheSupport {
    let id = request.model.id.as_str().trim_start_matches('~');
    if id.starts_with("anthropic/") {
        CacheSupport::Full
    } else if id.starts_with("qwen/") {
        CacheSupport::SystemAndTail
    } else {
        CacheSupport::None
    }
}

// ---------------------------------------------------------------------------------------------
// 8. Exported route
// ---------------------------------------------------------------------------------------------

/// The route of OpenAI itself; auth is added by the provider.
pub fn route() -> Route {
    Route::make(RouteParts {
        id: ID.into(),
        provider: Some(ProviderId::from("openai")),
        metadata_key: Some("openai".to_owned()),
        protocol: OpenAiChat::default(),
        endpoint: Endpoint::new(BASE_URL, PATH),
        auth: Auth::none(),
        framing: Framing::SseWithDone,
        headers: None,
        defaults: Defaults::default(),
    })
}
