//! What a protocol is: it builds a body from a request and turns frames into events. Pure.

use std::error::Error;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::framing::Frame;
use crate::protocols::shared;
use crate::schema::errors::{AIError, AIErrorKind};
use crate::schema::events::LLMEvent;
use crate::schema::ids::ProtocolId;
use crate::schema::model::ToolSchemaKind;
use crate::schema::request::LLMRequest;

/// A frame that does not decode.
pub type DecodeError = Box<dyn Error + Send + Sync>;

/// One wire protocol: body construction, event decoding and a state machine. It never does I/O and
/// never panics on foreign input.
///
/// Events may borrow from their frame, so that a text delta costs one allocation.
pub trait Protocol: Send + Sync + 'static {
    /// The request body; it may borrow from the request, so that a long history is not copied.
    type Body<'r>: Serialize;
    /// One decoded event.
    type Event<'f>;
    /// What is remembered between events.
    type State: Send + 'static;

    /// The id.
    fn id(&self) -> ProtocolId;

    /// Builds and validates the body of a request whose options are resolved.
    ///
    /// # Errors
    /// `InvalidRequest` or `UnsupportedOperation` for content the protocol cannot carry.
    fn body_from<'r>(&self, request: &'r LLMRequest) -> Result<Self::Body<'r>, AIError>;

    /// The state before the first event.
    fn initial(&self, request: &LLMRequest) -> Self::State;

    /// Decodes one frame.
    ///
    /// # Errors
    /// When the frame is not an event of this protocol; the driver names route and frame.
    fn decode_event<'f>(&self, frame: &'f Frame) -> Result<Self::Event<'f>, DecodeError>;

    /// Handles one event: appends canonical events and changes the state.
    ///
    /// # Errors
    /// Provider failures and protocol violations; put the event text into `body` with
    /// [`Frame::text`].
    fn step(
        &self,
        state: &mut Self::State,
        event: Self::Event<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError>;

    /// Whether nothing after this event is read.
    fn terminal(&self, _event: &Self::Event<'_>) -> bool {
        false
    }

    /// Flushes after the framed stream ended, also after a terminal event.
    ///
    /// # Errors
    /// When the stream ended too early.
    fn on_halt(&self, _state: &mut Self::State, _out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        Ok(())
    }

    /// The sanitizer of tool schemas this protocol always needs.
    fn tool_schema(&self) -> Option<ToolSchemaKind> {
        None
    }

    /// Where this protocol can carry cache marks for a request.
    fn cache_marks(&self, _request: &LLMRequest) -> CacheSupport {
        CacheSupport::None
    }

    /// Whether chronological effort updates can be carried.
    fn supports_effort_updates(&self, _request: &LLMRequest) -> bool {
        false
    }
}

/// Which automatic cache marks a wire format can carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheSupport {
    /// None; the policy leaves the request alone.
    #[default]
    None,
    /// Tools, system and messages.
    Full,
    /// System and the last message.
    SystemAndTail,
}

/// What happens after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    More,
    /// That was the last frame to read.
    Done,
}

/// A pure parser of one response: frames in, events out.
pub trait FrameParser: Send {
    /// Handles one frame.
    ///
    /// # Errors
    /// Provider failures, undecodable frames, protocol violations. The parser is spent then.
    fn frame(&mut self, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<Flow, AIError>;

    /// Ends the response: flushes, and checks that it had an end.
    ///
    /// # Errors
    /// `InvalidProviderOutput(incomplete-stream)` when the end is missing.
    fn finish(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError>;
}

/// A protocol behind a pointer.
pub trait ErasedProtocol: Send + Sync {
    /// The id.
    fn id(&self) -> ProtocolId;
    /// The body as JSON text.
    ///
    /// # Errors
    /// See [`Protocol::body_from`].
    fn encode(&self, request: &LLMRequest) -> Result<Vec<u8>, AIError>;
    /// A parser for the response to a request.
    fn parser(self: Arc<Self>, request: &LLMRequest) -> Box<dyn FrameParser>;
    /// See [`Protocol::tool_schema`].
    fn tool_schema(&self) -> Option<ToolSchemaKind>;
    /// See [`Protocol::cache_marks`].
    fn cache_marks(&self, request: &LLMRequest) -> CacheSupport;
}

/// Puts a protocol behind a pointer.
pub fn erase<P: Protocol>(protocol: P) -> Arc<dyn ErasedProtocol> {
    Arc::new(Erased(protocol))
}

struct Erased<P>(P);

impl<P: Protocol> ErasedProtocol for Erased<P> {
    fn id(&self) -> ProtocolId {
        self.0.id()
    }

    fn encode(&self, request: &LLMRequest) -> Result<Vec<u8>, AIError> {
        let body = self.0.body_from(request)?;
        shared::json_bytes(&body).map_err(|error| {
            AIError::invalid_request(format!("{} request body cannot be written as JSON: {error}", self.0.id()))
                .with_cause(error)
        })
    }

    fn parser(self: Arc<Self>, request: &LLMRequest) -> Box<dyn FrameParser> {
        let state = self.0.initial(request);
        Box::new(Parser {
            protocol: self,
            state,
            guard: Guard::default(),
            provider: request.model.provider.to_string(),
            route: request.model.route.id().to_string(),
            finish_required: request.model.compatibility.is_finish_required(),
        })
    }

    fn tool_schema(&self) -> Option<ToolSchemaKind> {
        self.0.tool_schema()
    }

    fn cache_marks(&self, request: &LLMRequest) -> CacheSupport {
        self.0.cache_marks(request)
    }
}

struct Parser<P: Protocol> {
    protocol: Arc<Erased<P>>,
    state: P::State,
    guard: Guard,
    provider: String,
    route: String,
    finish_required: bool,
}

impl<P: Protocol> FrameParser for Parser<P> {
    fn frame(&mut self, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<Flow, AIError> {
        let protocol = &self.protocol.0;
        let event = match protocol.decode_event(frame) {
            Ok(event) => event,
            Err(error) => return Err(self.undecodable(frame, error)),
        };
        let flow = if protocol.terminal(&event) { Flow::Done } else { Flow::More };
        let from = out.len();
        protocol.step(&mut self.state, event, frame, out)?;
        self.guard.check(out, from)?;
        Ok(flow)
    }

    fn finish(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let from = out.len();
        self.protocol.0.on_halt(&mut self.state, out)?;
        self.guard.check(out, from)?;
        self.guard.end(self.finish_required, out)
    }
}

impl<P: Protocol> Parser<P> {
    fn undecodable(&self, frame: &Frame, error: DecodeError) -> AIError {
        // Text that is no JSON was damaged on the way and may come right the next time; a field of the
        // wrong type will not.
        let is_damaged = error.downcast_ref::<serde_json::Error>().is_some_and(|error| !error.is_data());
        let kind = match (frame.is_cut, is_damaged) {
            (true, _) => AIErrorKind::INCOMPLETE_STREAM,
            (false, true) => AIErrorKind::MALFORMED_EVENT,
            (false, false) => AIErrorKind::INVALID_OUTPUT,
        };
        let message = if frame.is_cut {
            ENDED_UNEXPECTEDLY.to_owned()
        } else {
            format!("Invalid {}/{} stream event", self.provider, self.route)
        };
        let mut reason = crate::schema::errors::AIErrorReason::new(kind, message);
        reason.body = Some(frame.text().into_owned());
        reason.cause = Some(Arc::from(error));
        reason.into()
    }
}

const ENDED_UNEXPECTEDLY: &str = "The provider response ended unexpectedly.";

/// Checks that a response has one terminal event and nothing after it.
#[derive(Debug, Default)]
struct Guard {
    has_output: bool,
    is_terminated: bool,
}

impl Guard {
    fn check(&mut self, out: &mut Vec<LLMEvent>, from: usize) -> Result<(), AIError> {
        for index in from..out.len() {
            let Some(event) = out.get(index) else { break };
            if self.is_terminated {
                let message = format!("Provider emitted {} after the terminal event", event.kind());
                out.truncate(index);
                return Err(AIError::invalid_output(message));
            }
            self.has_output |= !event.is_step_start();
            self.is_terminated = event.is_terminal();
        }
        Ok(())
    }

    fn end(&self, finish_required: bool, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if self.is_terminated {
            return Ok(());
        }
        if finish_required || !self.has_output {
            return Err(AIError::incomplete_stream(ENDED_UNEXPECTEDLY));
        }
        crate::protocols::utils::lifecycle::terminal_pair(
            crate::schema::events::FinishReason::new(crate::schema::events::FinishKind::Unknown, None),
            None,
            None,
            out,
        );
        Ok(())
    }
}

/// The body of a request as a JSON value.
///
/// # Errors
/// See [`Protocol::body_from`].
pub fn body_value(protocol: &dyn ErasedProtocol, request: &LLMRequest) -> Result<Value, AIError> {
    let bytes = protocol.encode(request)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| AIError::invalid_request(format!("request body is not JSON: {error}")).with_cause(error))
}
