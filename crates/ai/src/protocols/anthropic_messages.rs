//! The `anthropic-messages` protocol and its route.

mod body;
mod events;
mod lower;
mod parse;
mod property_names;
mod system_updates;
mod usage;

pub use body::Body;
pub use events::Event;
pub use parse::State;

use std::sync::Arc;

use crate::protocols::shared::url_segment;
use crate::route::auth::Auth;
use crate::route::endpoint::{Endpoint, EndpointPatch, Path};
use crate::route::framing::{Frame, Framing};
use crate::route::headers::Headers;
use crate::route::protocol::{CacheSupport, DecodeError, Protocol};
use crate::route::{Route, RouteParts};
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::ProtocolId;
use crate::schema::model::Defaults;
use crate::schema::request::LLMRequest;

/// The name in messages for people.
const NAME: &str = "Anthropic Messages";
/// The version of the wire format.
const VERSION: &str = "2023-06-01";
/// The version of the wire format on Vertex AI.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// The wire format of Anthropic's messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnthropicMessages {
    service: Service,
}

/// Who serves the protocol; the two take slightly different requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Service {
    /// Anthropic and those who do as it does.
    #[default]
    Anthropic,
    /// Vertex AI: the URL names the model, the body the version.
    Vertex,
}

impl Protocol for AnthropicMessages {
    type Body<'r> = Body<'r>;
    type Event<'f> = Event<'f>;
    type State = State;

    fn id(&self) -> ProtocolId {
        "anthropic-messages".into()
    }

    fn body_from<'r>(&self, request: &'r LLMRequest) -> Result<Body<'r>, AIError> {
        lower::from_request(request, self.service)
    }

    fn initial(&self, request: &LLMRequest) -> State {
        State::new(request)
    }

    fn decode_event<'f>(&self, frame: &'f Frame) -> Result<Event<'f>, DecodeError> {
        events::decode(frame)
    }

    fn step(&self, state: &mut State, event: Event<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.step(event, frame, out)
    }

    fn terminal(&self, event: &Event<'_>) -> bool {
        matches!(event, Event::MessageStop)
    }

    fn on_halt(&self, state: &mut State, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.halt(out)
    }

    fn cache_marks(&self, _request: &LLMRequest) -> CacheSupport {
        CacheSupport::Full
    }
}

/// The route to Anthropic, without credentials.
pub fn route() -> Route {
    Route::make(RouteParts {
        id: "anthropic-messages".into(),
        provider: Some("anthropic".into()),
        metadata_key: Some("anthropic".to_owned()),
        protocol: AnthropicMessages { service: Service::Anthropic },
        endpoint: Endpoint::new("https://api.anthropic.com/v1", "/messages"),
        auth: Auth::none(),
        framing: Framing::SseEvents(events::EVENT_NAMES),
        headers: Some(Arc::new(|_| Headers::from_iter([("anthropic-version", VERSION)]))),
        defaults: Defaults::default(),
    })
}

/// The route to Claude on Vertex AI, without base URL and credentials.
pub fn vertex_route() -> Route {
    Route::make(RouteParts {
        id: "google-vertex-messages".into(),
        provider: Some("google-vertex".into()),
        metadata_key: Some("anthropic".to_owned()),
        protocol: AnthropicMessages { service: Service::Vertex },
        endpoint: Endpoint::path("").merge(EndpointPatch {
            path: Some(Path::Computed(Arc::new(|request, _| {
                format!("/{}:streamRawPredict", url_segment(request.model.id.as_str()))
            }))),
            ..EndpointPatch::default()
        }),
        auth: Auth::none(),
        framing: Framing::SseEvents(events::EVENT_NAMES),
        headers: None,
        defaults: Defaults::default(),
    })
}
