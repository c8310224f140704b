//! The `bedrock-converse` protocol and its route.

mod body;
mod events;
mod lower;
mod names;
mod parse;

pub use body::Body;
pub use events::Event;
pub use parse::State;

use std::sync::Arc;

use serde_json::Value;

use crate::protocols::shared::url_segment;
use crate::route::auth::Auth;
use crate::route::endpoint::{Endpoint, EndpointPatch, Path};
use crate::route::framing::{Frame, Framing};
use crate::route::protocol::{CacheSupport, DecodeError, Protocol};
use crate::route::{Route, RouteParts};
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::ProtocolId;
use crate::schema::model::Defaults;
use crate::schema::request::LLMRequest;

/// The name in messages for people.
const NAME: &str = "Bedrock Converse";

/// The wire format of Bedrock's `ConverseStream`.
#[derive(Clone, Copy, Debug, Default)]
pub struct BedrockConverse;

impl Protocol for BedrockConverse {
    type Body<'r> = Body<'r>;
    type Event<'f> = Event<'f>;
    type State = State;

    fn id(&self) -> ProtocolId {
        "bedrock-converse".into()
    }

    fn body_from<'r>(&self, request: &'r LLMRequest) -> Result<Body<'r>, AIError> {
        lower::from_request(request)
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

    /// Other models than these refuse a request that marks anything.
    fn cache_marks(&self, request: &LLMRequest) -> CacheSupport {
        let id = request.model.id.as_str();
        if names::is_claude(id) {
            CacheSupport::Full
        } else if id.contains("amazon.nova") {
            CacheSupport::SystemAndTail
        } else {
            CacheSupport::None
        }
    }
}

/// The route to Bedrock in `us-east-1`, without credentials.
pub fn route() -> Route {
    let path = |_: &LLMRequest, body: &Value| {
        let model = body.get("modelId").and_then(Value::as_str).unwrap_or_default();
        format!("/model/{}/converse-stream", url_segment(model))
    };
    Route::make(RouteParts {
        id: "bedrock-converse".into(),
        provider: Some("amazon-bedrock".into()),
        metadata_key: Some("bedrock".to_owned()),
        protocol: BedrockConverse,
        endpoint: Endpoint::path("").merge(EndpointPatch {
            base_url: Some(base_url("us-east-1")),
            path: Some(Path::Computed(Arc::new(path))),
            ..EndpointPatch::default()
        }),
        auth: Auth::none(),
        framing: Framing::AwsEventStream,
        headers: None,
        defaults: Defaults::default(),
    })
}

/// The address of Bedrock in a region.
pub(crate) fn base_url(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://bedrock-runtime.{region}.{domain}")
}
