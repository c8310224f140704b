//! The Chat protocol of Mistral: near to the one of OpenAI, with other words for some fields, content in
//! typed items, native thinking, and call ids of nine letters or digits.

mod body;
mod chunk;
mod ids;
mod lower;
mod parse;

pub use body::MistralBody;
pub use chunk::MistralEvent;
pub use ids::CallIds;
pub use parse::MistralState;

use crate::protocols::shared;
use crate::route::auth::Auth;
use crate::route::endpoint::Endpoint;
use crate::route::framing::{Frame, Framing};
use crate::route::protocol::{DecodeError, Protocol};
use crate::route::{Route, RouteParts};
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::{ProtocolId, ProviderId};
use crate::schema::model::Defaults;
use crate::schema::request::LLMRequest;

// ---------------------------------------------------------------------------------------------
// 7. Protocol and route
// ---------------------------------------------------------------------------------------------

/// The id of the protocol and of its route.
pub const ID: &str = "mistral-chat";
/// How error messages call the protocol.
pub(crate) const NAME: &str = "Mistral Chat";
/// The address of Mistral.
pub const BASE_URL: &str = "https://api.mistral.ai/v1";

/// The protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct MistralChat;

impl Protocol for MistralChat {
    type Body<'r> = MistralBody<'r>;
    type Event<'f> = MistralEvent<'f>;
    type State = MistralState;

    fn id(&self) -> ProtocolId {
        ProtocolId::from(ID)
    }

    #[tracing::instrument(name = "MistralChat.fromRequest", level = "trace", skip_all)]
    fn body_from<'r>(&self, request: &'r LLMRequest) -> Result<MistralBody<'r>, AIError> {
        lower::from_request(request)
    }

    fn initial(&self, request: &LLMRequest) -> MistralState {
        MistralState::new(request)
    }

    fn decode_event<'f>(&self, frame: &'f Frame) -> Result<MistralEvent<'f>, DecodeError> {
        if frame.data.trim_ascii() == b"[DONE]" {
            return Ok(MistralEvent::Done);
        }
        shared::decode(frame).map(MistralEvent::Chunk)
    }

    fn step(
        &self,
        state: &mut MistralState,
        event: MistralEvent<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        match event {
            MistralEvent::Done => Ok(()),
            MistralEvent::Chunk(chunk) => state.chunk(chunk, frame, out),
        }
    }

    fn terminal(&self, event: &MistralEvent<'_>) -> bool {
        matches!(event, MistralEvent::Done)
    }

    fn on_halt(&self, state: &mut MistralState, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.halt(out)
    }
}

// ---------------------------------------------------------------------------------------------
// 8. Exported route
// ---------------------------------------------------------------------------------------------

/// The route to Mistral; auth is added by the provider.
pub fn route() -> Route {
    Route::make(RouteParts {
        id: ID.into(),
        provider: Some(ProviderId::from("mistral")),
        metadata_key: Some("mistral".to_owned()),
        protocol: MistralChat,
        endpoint: Endpoint::new(BASE_URL, "/chat/completions"),
        auth: Auth::none(),
        framing: Framing::SseWithDone,
        headers: None,
        defaults: Defaults::default(),
    })
}
