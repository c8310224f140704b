//! The `gemini` protocol and its route.

mod body;
mod events;
mod lower;
mod models;
mod parse;

pub use body::Body;
pub use events::Event;
pub use parse::State;

use std::sync::Arc;

use crate::protocols::shared::url_segment;
use crate::route::auth::Auth;
use crate::route::endpoint::{Endpoint, EndpointPatch, Path};
use crate::route::framing::{Frame, Framing};
use crate::route::protocol::{DecodeError, Protocol};
use crate::route::{Route, RouteParts};
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::ProtocolId;
use crate::schema::model::{Defaults, ToolSchemaKind};
use crate::schema::request::LLMRequest;

/// The name in messages for people.
const NAME: &str = "Gemini";

/// Who serves the protocol; the two take slightly different bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// The Gemini API.
    #[default]
    Google,
    /// Vertex AI: no ids of calls, but labels.
    Vertex,
}

/// The wire format of Gemini's `streamGenerateContent`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gemini {
    service: Service,
}

impl Protocol for Gemini {
    type Body<'r> = Body<'r>;
    type Event<'f> = Event<'f>;
    type State = State;

    fn id(&self) -> ProtocolId {
        "gemini".into()
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

    fn on_halt(&self, state: &mut State, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        state.halt(out)
    }

    fn tool_schema(&self) -> Option<ToolSchemaKind> {
        Some(ToolSchemaKind::Gemini)
    }
}

/// The route to the Gemini API, without credentials.
pub fn route() -> Route {
    Route::make(RouteParts {
        id: "gemini".into(),
        provider: Some("google".into()),
        metadata_key: Some("google".to_owned()),
        protocol: Gemini { service: Service::Google },
        endpoint: endpoint("https://generativelanguage.googleapis.com/v1beta"),
        auth: Auth::none(),
        framing: Framing::Sse,
        headers: None,
        defaults: Defaults::default(),
    })
}

/// The route to Gemini on Vertex AI below a base URL that ends in a publisher, without credentials.
pub fn vertex_route(base_url: &str) -> Route {
    Route::make(RouteParts {
        id: "google-vertex-gemini".into(),
        provider: Some("google-vertex".into()),
        metadata_key: Some("vertex".to_owned()),
        protocol: Gemini { service: Service::Vertex },
        endpoint: endpoint(base_url),
        auth: Auth::none(),
        framing: Framing::Sse,
        headers: None,
        defaults: Defaults::default(),
    })
}

fn endpoint(base_url: &str) -> Endpoint {
    Endpoint::path("").merge(EndpointPatch {
        base_url: Some(base_url.to_owned()),
        path: Some(Path::Computed(Arc::new(|request, _| path(request.model.id.as_str())))),
        ..EndpointPatch::default()
    })
}

/// The path of a model; an id with a slash (`tunedModels/…`, `endpoints/…`) names its collection itself.
fn path(model: &str) -> String {
    let id: Vec<String> = model.split('/').map(url_segment).collect();
    let collection = if id.len() > 1 { "" } else { "/models" };
    format!("{collection}/{}:streamGenerateContent?alt=sse", id.join("/"))
}
