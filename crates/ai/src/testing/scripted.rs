//! Answers written in the test.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::Value;

use crate::route::executor::{BodyStream, HttpExecutor, HttpRequest, HttpResponse};
use crate::route::headers::Headers;
use crate::schema::errors::{AIError, TransportDetails, TransportOperation};

/// What follows the last byte of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The body ends.
    #[default]
    Close,
    /// The connection fails.
    Reset,
    /// Nothing, for ever.
    Hang,
}

/// A body in pieces, each after a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptedBody {
    /// The wait before each piece, and the piece.
    pub pieces: Vec<(Duration, Bytes)>,
    /// What follows.
    pub end: End,
}

impl ScriptedBody {
    /// A body in one piece.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self { pieces: vec![(Duration::ZERO, bytes.into())], end: End::Close }
    }

    /// A body in pieces of `size` bytes (at least one).
    pub fn pieces(bytes: &Bytes, size: usize) -> Self {
        Self::sizes(bytes, &[size])
    }

    /// A body in pieces of these sizes, repeated.
    pub fn sizes(bytes: &Bytes, sizes: &[usize]) -> Self {
        let mut pieces = Vec::new();
        let mut rest = bytes.clone();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece = rest.split_to((*size).clamp(1, rest.len()));
            pieces.push((Duration::ZERO, piece));
        }
        Self { pieces, end: End::Close }
    }

    /// A body in these pieces, then a connection error.
    pub fn truncated(pieces: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Self { pieces: pieces.into_iter().map(|piece| (Duration::ZERO, piece.into())).collect(), end: End::Reset }
    }

    /// The same body with another end.
    pub fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    fn into_stream(self) -> BodyStream {
        let end = self.end;
        let pieces = self.pieces.into_iter();
        Box::pin(stream::unfold((pieces, false), move |(mut pieces, is_over)| async move {
            if is_over {
                return None;
            }
            if let Some((wait, piece)) = pieces.next() {
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                return Some((Ok(piece), (pieces, false)));
            }
            match end {
                End::Close => None,
                End::Reset => Some((Err(reset()), (pieces, true))),
                End::Hang => std::future::pending().await,
            }
        }))
    }
}

fn reset() -> AIError {
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let details =
        TransportDetails { code: Some("ECONNRESET".to_owned()), ..TransportDetails::http(TransportOperation::Read) };
    AIError::transport(details, format!("ECONNRESET: {error}")).with_cause(error)
}

/// A response of a scripted body.
pub fn response(status: u16, headers: Headers, body: ScriptedBody) -> HttpResponse {
    HttpResponse { status, headers, body: body.into_stream() }
}

/// One scripted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedResponse {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub body: ScriptedBody,
}

impl ScriptedResponse {
    /// A 200 event stream.
    pub fn sse(body: ScriptedBody) -> Self {
        Self { status: 200, headers: Headers::from_iter([("content-type", "text/event-stream")]), body }
    }

    /// A JSON answer with a status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: Headers::from_iter([("content-type", "application/json")]),
            body: ScriptedBody::bytes(body.to_string()),
        }
    }
}

impl From<&str> for ScriptedResponse {
    fn from(body: &str) -> Self {
        Self::sse(ScriptedBody::bytes(body.to_owned()))
    }
}

impl From<String> for ScriptedResponse {
    fn from(body: String) -> Self {
        Self::sse(ScriptedBody::bytes(body))
    }
}

type Answer = dyn Fn(usize, &HttpRequest) -> Result<ScriptedResponse, AIError> + Send + Sync;

/// Answers with what the test says and remembers the requests. Clones share the memory.
#[derive(Clone)]
pub struct ScriptedExecutor {
    answer: Arc<Answer>,
    requests: Arc<Mutex<Vec<HttpRequest>>>,
}

impl ScriptedExecutor {
    /// Response n gets answer n; the last one repeats. An empty list fails each request.
    pub fn scripted(responses: impl IntoIterator<Item = impl Into<ScriptedResponse>>) -> Self {
        let responses: Vec<ScriptedResponse> = responses.into_iter().map(Into::into).collect();
        Self::dynamic(move |index, _| {
            responses.get(index).or(responses.last()).cloned().ok_or_else(|| {
                let details = TransportDetails::http(TransportOperation::Request);
                AIError::transport(details, "no scripted response")
            })
        })
    }

    /// Every request gets this answer.
    pub fn fixed(response: impl Into<ScriptedResponse>) -> Self {
        Self::scripted([response.into()])
    }

    /// Answers by the number of the request and the request.
    pub fn dynamic(
        answer: impl Fn(usize, &HttpRequest) -> Result<ScriptedResponse, AIError> + Send + Sync + 'static,
    ) -> Self {
        Self { answer: Arc::new(answer), requests: Arc::default() }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The JSON bodies of the requests so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.requests().iter().map(|request| serde_json::from_slice(&request.body).unwrap_or(Value::Null)).collect()
    }
}

impl HttpExecutor for ScriptedExecutor {
    fn execute(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        let index = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(request.clone());
            requests.len() - 1
        };
        let answer = (self.answer)(index, &request).map(|answer| response(answer.status, answer.headers, answer.body));
        Box::pin(std::future::ready(answer))
    }
}

/// An event stream of these values, ended by `[DONE]`.
pub fn sse_events(values: impl IntoIterator<Item = Value>) -> String {
    let mut body = String::new();
    for value in values {
        body.push_str("data: ");
        body.push_str(&value.to_string());
        body.push_str("\n\n");
    }
    body.push_str("data: [DONE]\n\n");
    body
}

/// An event stream of named events (`event:` and `data:` lines), as Messages and Responses send it.
pub fn sse_named(values: impl IntoIterator<Item = Value>) -> String {
    let mut body = String::new();
    for value in values {
        let name = value.get("type").and_then(Value::as_str).unwrap_or("message").to_owned();
        body.push_str("event: ");
        body.push_str(&name);
        body.push_str("\ndata: ");
        body.push_str(&value.to_string());
        body.push_str("\n\n");
    }
    body
}

/// Lines as they are, each ended by a line feed.
pub fn sse_raw<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// A message of an AWS event stream: an event of a type with its JSON.
pub fn event_frame(kind: &str, payload: &Value) -> Bytes {
    aws_message(&[(":message-type", "event"), (":event-type", kind)], payload.to_string().as_bytes())
}

/// A message of an AWS event stream with these headers; empty when they cannot be written.
pub fn aws_message(headers: &[(&str, &str)], payload: &[u8]) -> Bytes {
    let headers = headers
        .iter()
        .map(|(name, value)| Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())))
        .collect();
    let mut bytes = Vec::new();
    let message = Message::new_from_parts(headers, Bytes::copy_from_slice(payload));
    if write_message_to(&message, &mut bytes).is_err() {
        bytes.clear();
    }
    bytes.into()
}
