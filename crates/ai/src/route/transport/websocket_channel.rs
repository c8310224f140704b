//! A call over a WebSocket: what a route hands over, and what an executor of sockets hands back.
//!
//! The route prepares one final request and a driver that knows the messages; the executor owns sockets,
//! waiting, recovery and rotation. Nothing here knows a wire format.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use url::Url;

use super::http::Timers;
use super::websocket::SocketRequest;
use crate::route::executor::BodyStream;
use crate::route::framing::Framing;
use crate::route::headers::Headers;
use crate::schema::errors::{AIError, HttpContext, TransportRecovery};

/// What makes a route able to use sockets.
#[derive(Clone, Copy)]
pub struct ChannelOptions {
    /// The id of the transport.
    pub id: &'static str,
    /// How error messages call it.
    pub name: &'static str,
    /// How old a socket may become before a new call opens another one; for ever when absent.
    pub rotate_after: Option<Duration>,
    /// Changes address and headers of the handshake.
    pub prepare: Option<fn(&mut Url, &mut Headers)>,
    /// Whether an address (of HTTP) has sockets; every one when absent.
    pub enabled: Option<fn(&Url) -> bool>,
    /// Makes the driver of one call from the body of its HTTP request.
    pub driver: DriverFn,
}

/// Makes the driver of one call from the body of its HTTP request.
///
/// # Errors
/// `InvalidRequest` when the body cannot be a message.
pub type DriverFn = fn(name: &str, body: &[u8]) -> Result<Box<dyn ChannelDriver>, AIError>;

impl fmt::Debug for ChannelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelOptions")
            .field("id", &self.id)
            .field("rotate_after", &self.rotate_after)
            .finish_non_exhaustive()
    }
}

/// What the next call on the same socket may build on. Only the driver that made it understands it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Which driver made it.
    pub protocol: &'static str,
    /// What it says.
    pub value: Arc<Value>,
}

/// How much of a request a message repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageMode {
    /// All of it.
    Full,
    /// What a checkpoint does not hold.
    Incremental,
}

/// The message that opens a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMessage {
    /// JSON text.
    pub message: Bytes,
    /// How much of the request it repeats.
    pub mode: MessageMode,
}

/// What a message of the server means.
#[derive(Debug)]
pub enum Observation {
    /// A frame of the response.
    Frame,
    /// Its last frame; the next call may build on it.
    Completed(Option<Checkpoint>),
    /// Its last frame; it was cut.
    Incomplete,
    /// Its last frame: a failure of the provider, for the parser to report.
    Failed,
    /// The request was refused before it began, and may be sent again.
    Rejected {
        /// What it becomes if nothing helps.
        error: AIError,
        /// How to send it again.
        recovery: TransportRecovery,
    },
    /// The protocol of the channel is broken.
    Violation(AIError),
}

/// Knows the messages of one call.
pub trait ChannelDriver: Send {
    /// Makes the message that opens the response, and forgets what was observed before.
    ///
    /// # Errors
    /// `InvalidRequest` when the request cannot be a message.
    fn create(&mut self, checkpoint: Option<&Checkpoint>) -> Result<CreateMessage, AIError>;

    /// Takes one message of the server.
    fn observe(&mut self, frame: &Bytes) -> Observation;
}

/// The same request over HTTP.
pub type Fallback = Box<dyn FnOnce() -> BoxFuture<'static, Result<Execution, AIError>> + Send>;

/// One call, ready to run.
pub struct Exchange {
    /// The id of the request, or `request`.
    pub id: String,
    /// Where to, with credentials.
    pub connect: SocketRequest,
    /// How old a socket may become before this call opens another one.
    pub rotate_after: Option<Duration>,
    /// The longest silence.
    pub timers: Timers,
    /// The way over HTTP.
    pub fallback: Fallback,
    /// The messages.
    pub driver: Box<dyn ChannelDriver>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("id", &self.id).field("url", &self.connect.url).finish_non_exhaustive()
    }
}

/// A response that arrives, over whatever transport.
pub struct Execution {
    /// Its bytes; over a socket each piece is one message.
    pub body: BodyStream,
    /// How they are cut.
    pub framing: Framing,
    /// The observed response, never made up.
    pub http: Option<HttpContext>,
    /// The longest silence between pieces; none where the executor watches it.
    pub timers: Timers,
    /// Called once, after the whole stream was read and understood.
    pub complete: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("framing", &self.framing).field("http", &self.http).finish_non_exhaustive()
    }
}

/// Runs calls over sockets.
pub trait WebSocketChannelExecutor: Send + Sync {
    /// Runs one call up to its first message.
    ///
    /// # Errors
    /// `Transport` with `transport: websocket`; whatever the fallback says, when that was taken.
    ///
    /// # Cancel safety
    /// Dropping the future or the body ends the call; its socket is not used again.
    fn execute(&self, exchange: Exchange) -> BoxFuture<'static, Result<Execution, AIError>>;

    /// A call was asked to use sockets, and its address has none.
    fn unavailable(&self) {}
}
