//! The `open-responses` protocol, provider-neutral, and its route.
//!
//! A protocol that builds on it passes its additions as a [`Dialect`]; this one knows none of them.

mod body;
mod dialect;
mod events;
mod ids;
mod lower;
mod options;
mod parse;
mod usage;

pub use body::Body;
pub use dialect::{Dialect, Hosted};
pub use events::Event;
pub use parse::State;

use crate::route::auth::Auth;
use crate::route::endpoint::Endpoint;
use crate::route::framing::{Frame, Framing};
use crate::route::protocol::{DecodeError, Protocol};
use crate::route::{Route, RouteParts};
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::ProtocolId;
use crate::schema::model::Defaults;
use crate::schema::request::LLMRequest;

/// The wire format of Responses, with the additions of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct OpenResponses {
    dialect: &'static dyn Dialect,
}

impl OpenResponses {
    /// The provider-neutral protocol.
    pub const fn new() -> Self {
        Self::with_dialect(&dialect::Baseline)
    }

    /// A protocol that builds on it.
    pub const fn with_dialect(dialect: &'static dyn Dialect) -> Self {
        Self { dialect }
    }
}

impl Default for OpenResponses {
    fn default() -> Self {
        Self::new()
    }
}

impl Protocol for OpenResponses {
    type Body<'r> = Body<'r>;
    type Event<'f> = Event<'f>;
    type State = State;

    fn id(&self) -> ProtocolId {
        self.dialect.id().into()
    }

    fn body_from<'r>(&self, request: &'r LLMRequest) -> Result<Body<'r>, AIError> {
        lower::from_request(request, self.dialect)
    }

    fn initial(&self, request: &LLMRequest) -> State {
        State::new(request, self.dialect)
    }

    fn decode_event<'f>(&self, frame: &'f Frame) -> Result<Event<'f>, DecodeError> {
        events::decode(frame, self.dialect.reads_reasoning_text())
    }

    fn step(&self, state: &mut State, event: Event<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.step(event, frame, out)
    }

    fn terminal(&self, event: &Event<'_>) -> bool {
        matches!(event, Event::Completed(_) | Event::Incomplete(_) | Event::Failed | Event::Error)
    }

    fn on_halt(&self, state: &mut State, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.halt(out)
    }
}

/// The provider-neutral route, without base URL and credentials.
pub fn route() -> Route {
    Route::make(RouteParts {
        id: "open-responses".into(),
        provider: None,
        metadata_key: Some("openresponses".to_owned()),
        protocol: OpenResponses::new(),
        endpoint: Endpoint::path("/responses"),
        auth: Auth::none(),
        framing: Framing::Sse,
        headers: None,
        defaults: Defaults::default(),
    })
}
