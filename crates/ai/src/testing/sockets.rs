//! Sockets written in the test, recorded ones, and the recording of real ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{SinkExt as _, StreamExt as _, sink, stream};
use serde_json::Value;
use tokio::sync::mpsc;

use super::cassette::{BodyEncoding, CassetteError, RecordedFrame};
use super::matching::same_body;
use super::redact::redact_body;
use crate::route::transport::websocket::{Socket, SocketRequest, WebSocketConnector, closed, socket_details};
use crate::schema::errors::{AIError, HttpContext, TransportOperation, TransportPhase};

/// What a scripted server does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketStep {
    /// Waits for a message of the client.
    Receive,
    /// Sends a message.
    Send(String),
    /// Waits.
    Wait(Duration),
    /// Closes with a code and a reason.
    Close(u16, String),
}

impl SocketStep {
    /// Sends an event.
    pub fn event(event: &Value) -> Self {
        Self::Send(event.to_string())
    }
}

type Answer = dyn Fn(usize, &SocketRequest) -> Result<Vec<SocketStep>, AIError> + Send + Sync;

/// Opens sockets to a script and remembers what was asked. Clones share the memory. A script that is over
/// leaves its socket open and silent.
#[derive(Clone)]
pub struct ScriptedConnector {
    answer: Arc<Answer>,
    log: Arc<Mutex<SocketLog>>,
}

/// What was asked of a [`ScriptedConnector`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketLog {
    /// The handshakes.
    pub requests: Vec<SocketRequest>,
    /// The number of the socket and the message.
    pub received: Vec<(usize, Value)>,
    /// The numbers of the sockets the client closed, in order.
    pub closed: Vec<usize>,
}

impl ScriptedConnector {
    /// Socket n follows script n; the last one repeats.
    pub fn scripted(scripts: impl IntoIterator<Item = Vec<SocketStep>>) -> Self {
        let scripts: Vec<_> = scripts.into_iter().collect();
        Self::dynamic(move |index, _| Ok(scripts.get(index).or(scripts.last()).cloned().unwrap_or_default()))
    }

    /// Answers by the number of the socket and the handshake.
    pub fn dynamic(
        answer: impl Fn(usize, &SocketRequest) -> Result<Vec<SocketStep>, AIError> + Send + Sync + 'static,
    ) -> Self {
        Self { answer: Arc::new(answer), log: Arc::default() }
    }

    /// What was asked so far.
    pub fn log(&self) -> SocketLog {
        lock(&self.log).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the client let go of a socket.
struct Closing(usize, Arc<Mutex<SocketLog>>);

impl Drop for Closing {
    fn drop(&mut self) {
        lock(&self.1).closed.push(self.0);
    }
}

impl WebSocketConnector for ScriptedConnector {
    fn connect(&self, request: SocketRequest) -> BoxFuture<'static, Result<Socket, AIError>> {
        let index = {
            let mut log = lock(&self.log);
            log.requests.push(request.clone());
            log.requests.len() - 1
        };
        let socket = (self.answer)(index, &request).map(|steps| {
            let (sent, received) = mpsc::unbounded_channel::<()>();
            let messages = stream::unfold((VecDeque::from(steps), received), |(mut steps, mut received)| async move {
                loop {
                    match steps.pop_front() {
                        None => std::future::pending().await,
                        // A client that is gone sends nothing more.
                        Some(SocketStep::Receive) => received.recv().await?,
                        Some(SocketStep::Wait(time)) => tokio::time::sleep(time).await,
                        Some(SocketStep::Send(text)) => return Some((Ok(Bytes::from(text)), (steps, received))),
                        Some(SocketStep::Close(code, reason)) => {
                            steps.clear();
                            return Some((Err(closed(None, code, reason)), (steps, received)));
                        }
                    }
                }
            });
            let state = (Closing(index, Arc::clone(&self.log)), sent);
            let sink = sink::unfold(state, |(closing, sent), bytes: Bytes| async move {
                let message = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                lock(&closing.1).received.push((closing.0, message));
                // The script may be over.
                sent.send(()).ok();
                Ok((closing, sent))
            });
            let http = HttpContext { url: request.url.to_string(), status: 101, headers: indexmap::IndexMap::new() };
            Socket { http: Some(http), messages: Box::pin(messages), sink: Box::pin(sink) }
        });
        Box::pin(std::future::ready(socket))
    }
}

/// What of a recorded socket has happened.
#[derive(Debug, Default)]
pub(super) struct Tape {
    next: usize,
}

impl Tape {
    /// How many frames were not reached.
    pub(super) fn n_left(&self, frames: &[RecordedFrame]) -> usize {
        frames.len().saturating_sub(self.next)
    }
}

/// A socket that follows a recording: the server's frames come up to the next frame of the client, which
/// must be the recorded one.
pub(super) fn replayed(frames: Arc<[RecordedFrame]>, tape: Arc<Mutex<Tape>>) -> Socket {
    let (sent, received) = mpsc::unbounded_channel::<()>();
    let state = (Arc::clone(&frames), Arc::clone(&tape), received);
    let messages = stream::unfold(state, |(frames, tape, mut received)| async move {
        loop {
            let frame = frames.get(lock(&tape).next).cloned();
            match frame {
                Some(frame) if frame.direction == "server" => {
                    lock(&tape).next += 1;
                    return Some((payload(&frame), (frames, tape, received)));
                }
                Some(_) | None => received.recv().await?,
            }
        }
    });
    let sink = sink::unfold(sent, move |sent, bytes: Bytes| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut tape = lock(&tape);
        let result = match frames.get(tape.next) {
            Some(frame) if frame.direction == "client" && same_body(&redact_body(&text), &frame.body) => {
                tape.next += 1;
                sent.send(()).ok();
                Ok(sent)
            }
            Some(frame) => Err(format!("frame {} is a {} frame with another message", tape.next, frame.direction)),
            None => Err("all frames are used".to_owned()),
        };
        std::future::ready(result.map_err(|difference| {
            let error = CassetteError::Unmatched { difference };
            let details = socket_details(TransportOperation::Write, None);
            AIError::transport(details, error.to_string()).with_cause(error)
        }))
    });
    Socket { http: None, messages: Box::pin(messages), sink: Box::pin(sink) }
}

fn payload(frame: &RecordedFrame) -> Result<Bytes, AIError> {
    match frame.body_encoding {
        None | Some(BodyEncoding::Text) => Ok(Bytes::from(frame.body.clone())),
        Some(BodyEncoding::Base64) => STANDARD.decode(&frame.body).map(Bytes::from).map_err(|error| {
            let mut details = socket_details(TransportOperation::Read, None);
            details.phase = Some(TransportPhase::Decode);
            AIError::transport(details, format!("a recorded frame is not base64: {error}"))
        }),
    }
}

/// The same socket, with every frame noted.
pub(super) fn recorded(socket: Socket, frames: Arc<Mutex<Vec<RecordedFrame>>>) -> Socket {
    let Socket { http, messages, sink } = socket;
    let inbound = Arc::clone(&frames);
    let messages = messages.inspect(move |message| {
        if let Ok(bytes) = message {
            lock(&inbound).push(frame("server", bytes));
        }
    });
    let sink = sink.with(move |bytes: Bytes| {
        lock(&frames).push(frame("client", &bytes));
        std::future::ready(Ok(bytes))
    });
    Socket { http, messages: Box::pin(messages), sink: Box::pin(sink) }
}

fn frame(direction: &str, bytes: &Bytes) -> RecordedFrame {
    let text = std::str::from_utf8(bytes);
    let (kind, body, body_encoding) = match text {
        Ok(text) => ("text", redact_body(text), None),
        Err(_) => ("binary", STANDARD.encode(bytes), Some(BodyEncoding::Base64)),
    };
    RecordedFrame { direction: direction.to_owned(), kind: kind.to_owned(), body, body_encoding }
}
