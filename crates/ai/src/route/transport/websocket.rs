//! The seam to WebSockets, and its implementation over the HTTP client.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as SocketError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes as SocketBytes, Utf8Bytes};
use url::Url;

use super::http::MAX_ERROR_BODY;
use crate::provider_error::{HttpFailure, classify_http_failure};
use crate::route::executor::{install_crypto, transport_code, transport_message};
use crate::route::headers::Headers;
use crate::route::host::{Host as _, ProcessHost};
use crate::schema::errors::{
    AIError, Delivery, HttpContext, TransportDetails, TransportKind, TransportOperation, TransportPhase,
};

/// The most bytes of one message.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// How long opening may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the body of a refused upgrade may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The bytes read at once; the default of the library is made for heavier traffic.
const READ_BUFFER: usize = 16 * 1024;

/// What a socket is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketRequest {
    /// `ws` or `wss`.
    pub url: Url,
    /// All headers but those of the handshake itself.
    pub headers: Headers,
}

/// Messages of the server, as text. It ends with the error that ended the socket; a close is one, with the
/// close code as `code` and its reason as `body`.
pub type SocketMessages = Pin<Box<dyn Stream<Item = Result<Bytes, AIError>> + Send>>;
/// Text messages to the server; closing it says goodbye.
pub type SocketSink = Pin<Box<dyn Sink<Bytes, Error = AIError> + Send>>;

/// An open socket; dropping it closes the connection.
pub struct Socket {
    /// The observed upgrade.
    pub http: Option<HttpContext>,
    /// From the server.
    pub messages: SocketMessages,
    /// To the server.
    pub sink: SocketSink,
}

/// Opens sockets. Makes one attempt.
pub trait WebSocketConnector: Send + Sync {
    /// Opens a socket.
    ///
    /// # Errors
    /// `Transport` (phase `connect`, delivery `not-sent`), or the classified failure of a refused upgrade.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn connect(&self, request: SocketRequest) -> BoxFuture<'static, Result<Socket, AIError>>;
}

/// The address of a socket: `https` becomes `wss`, `http` becomes `ws`.
///
/// # Errors
/// `Transport` (phase `prepare`, code `invalid-url`) for anything else.
pub fn socket_url(url: &Url) -> Result<Url, AIError> {
    let scheme = match url.scheme() {
        "https" | "wss" => "wss",
        "http" | "ws" => "ws",
        other => {
            let details = TransportDetails {
                code: Some("invalid-url".to_owned()),
                phase: Some(TransportPhase::Prepare),
                delivery: Some(Delivery::NotSent),
                ..socket_details(TransportOperation::Request, Some(url))
            };
            return Err(AIError::transport(details, format!("{other} is no scheme a WebSocket can replace")));
        }
    };
    let mut socket = url.clone();
    match socket.set_scheme(scheme) {
        Ok(()) => Ok(socket),
        // Both pairs are special schemes, so this does not happen.
        Err(()) => Err(AIError::invalid_request(format!("{url} cannot be the address of a WebSocket"))),
    }
}

/// Details of a socket failure.
pub(crate) fn socket_details(operation: TransportOperation, url: Option<&Url>) -> TransportDetails {
    TransportDetails {
        transport: TransportKind::Websocket,
        url: url.map(Url::to_string),
        ..TransportDetails::http(operation)
    }
}

/// Opens sockets through an HTTP client of their own, so that proxies and certificates are those of every
/// other request.
#[derive(Clone, Debug)]
pub struct ReqwestConnector {
    client: reqwest::Client,
}

impl ReqwestConnector {
    /// Builds the client; an upgrade needs HTTP/1.1.
    ///
    /// # Errors
    /// `Transport` when TLS cannot be set up.
    pub fn new() -> Result<Self, AIError> {
        install_crypto();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(0)
            .tcp_nodelay(true)
            .http1_only()
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                let details = socket_details(TransportOperation::Request, None);
                AIError::transport(details, transport_message(&error)).with_cause(error)
            })?;
        Ok(Self { client })
    }
}

impl WebSocketConnector for ReqwestConnector {
    fn connect(&self, request: SocketRequest) -> BoxFuture<'static, Result<Socket, AIError>> {
        let client = self.client.clone();
        Box::pin(async move {
            let url = request.url.clone();
            timeout(CONNECT_TIMEOUT, open(client, request)).await.unwrap_or_else(|_| {
                let message = format!("The WebSocket did not open within {CONNECT_TIMEOUT:?}");
                Err(not_opened(&url, Some("Timeout".to_owned()), message))
            })
        })
    }
}

fn not_opened(url: &Url, code: Option<String>, message: String) -> AIError {
    let details = TransportDetails {
        code,
        phase: Some(TransportPhase::Connect),
        delivery: Some(Delivery::NotSent),
        ..socket_details(TransportOperation::Request, Some(url))
    };
    AIError::transport(details, message)
}

async fn open(client: reqwest::Client, request: SocketRequest) -> Result<Socket, AIError> {
    let SocketRequest { url, headers } = request;
    let mut target = url.clone();
    if target.set_scheme(if url.scheme() == "wss" { "https" } else { "http" }).is_err() {
        return Err(AIError::invalid_request(format!("{url} is not the address of a WebSocket")));
    }
    let key = generate_key();
    let mut builder = client.get(target);
    for (name, value) in headers.iter().filter(|(name, _)| *name != "content-length") {
        builder = builder.header(name, value);
    }
    let sent = builder
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", &key)
        .send()
        .await;
    let response = sent.map_err(|error| {
        let error = error.without_url();
        not_opened(&url, transport_code(&error), transport_message(&error)).with_cause(error)
    })?;
    let mut observed = Headers::new();
    for (name, value) in response.headers() {
        observed.append(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
    }
    let status = response.status().as_u16();
    if status != 101 {
        return Err(refused(response, status, &url, observed).await);
    }
    if observed.get("sec-websocket-accept") != Some(derive_accept_key(key.as_bytes()).as_str()) {
        let message = "The server answered the WebSocket handshake of another request".to_owned();
        return Err(not_opened(&url, Some("invalid-handshake".to_owned()), message));
    }
    let http = HttpContext { url: url.to_string(), status, headers: observed.into_map() };
    let upgraded = response.upgrade().await.map_err(|error| {
        let error = error.without_url();
        not_opened(&url, transport_code(&error), transport_message(&error)).with_cause(error)
    })?;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
    let (sink, messages) = stream.split();
    let read_url = url.clone();
    let messages = messages.filter_map(move |message| {
        let message = match message {
            Ok(Message::Text(text)) => Some(Ok(Bytes::from(text))),
            Ok(Message::Binary(bytes)) => Some(text_of(bytes, &read_url)),
            Ok(Message::Close(frame)) => {
                let (code, reason) = frame
                    .map_or((1005, String::new()), |frame| (u16::from(frame.code), frame.reason.as_str().to_owned()));
                Some(Err(closed(Some(&read_url), code, reason)))
            }
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => None,
            Err(error) => Some(Err(read_error(error, &read_url))),
        };
        std::future::ready(message)
    });
    let sink = sink
        .with(|bytes: Bytes| {
            let text = Utf8Bytes::try_from(bytes).map_err(|error| SocketError::Utf8(error.to_string()));
            std::future::ready(text.map(Message::Text))
        })
        .sink_map_err(move |error| write_error(error, &url));
    Ok(Socket { http: Some(http), messages: Box::pin(messages), sink: Box::pin(sink) })
}

async fn refused(mut response: reqwest::Response, status: u16, url: &Url, headers: Headers) -> AIError {
    let mut body = BytesMut::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = MAX_ERROR_BODY.saturating_sub(body.len());
            body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if chunk.len() >= room {
                break;
            }
        }
    };
    let is_read = timeout(REFUSAL_TIMEOUT, read).await.is_ok();
    let failure = HttpFailure {
        status: Some(status),
        url: Some(url.to_string()),
        headers: headers.into_map(),
        body: (is_read || !body.is_empty()).then(|| String::from_utf8_lossy(&body).into_owned()),
    };
    let error = classify_http_failure(failure, ProcessHost.now()).into_reason();
    error.with(|reason| reason.message = format!("WebSocket upgrade rejected with HTTP {status}")).into()
}

fn text_of(bytes: SocketBytes, url: &Url) -> Result<Bytes, AIError> {
    if std::str::from_utf8(&bytes).is_ok() {
        return Ok(bytes);
    }
    let details = TransportDetails {
        code: Some("invalid-utf8".to_owned()),
        phase: Some(TransportPhase::Decode),
        ..socket_details(TransportOperation::Read, Some(url))
    };
    Err(AIError::transport(details, "The provider sent a binary WebSocket message that is not text"))
}

/// The failure a close is while a response is running.
pub(crate) fn closed(url: Option<&Url>, code: u16, reason: String) -> AIError {
    let details = TransportDetails {
        code: Some(code.to_string()),
        phase: Some(TransportPhase::Close),
        ..socket_details(TransportOperation::Read, url)
    };
    let message = if reason.is_empty() {
        format!("The provider closed the WebSocket with code {code}")
    } else {
        format!("The provider closed the WebSocket with code {code}: {reason}")
    };
    AIError::transport(details, message).with_body(reason)
}

fn read_error(error: SocketError, url: &Url) -> AIError {
    let is_too_large = matches!(error, SocketError::Capacity(CapacityError::MessageTooLong { .. }));
    let is_gone = matches!(
        error,
        SocketError::ConnectionClosed
            | SocketError::AlreadyClosed
            | SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake)
    );
    if is_gone {
        return closed(Some(url), 1006, String::new());
    }
    let code = if is_too_large { Some("message-too-large".to_owned()) } else { transport_code(&error) };
    let details = TransportDetails {
        code,
        phase: Some(TransportPhase::Receive),
        ..socket_details(TransportOperation::Read, Some(url))
    };
    AIError::transport(details, transport_message(&error)).with_cause(error)
}

fn write_error(error: SocketError, url: &Url) -> AIError {
    let details = TransportDetails {
        code: transport_code(&error),
        phase: Some(TransportPhase::Send),
        delivery: Some(Delivery::NotSent),
        ..socket_details(TransportOperation::Write, Some(url))
    };
    AIError::transport(details, transport_message(&error)).with_cause(error)
}
