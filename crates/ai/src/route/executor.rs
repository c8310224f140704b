//! The seam to the network: one attempt of one HTTP exchange, and its implementation.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _};
use url::Url;

use super::headers::Headers;
use crate::schema::errors::{AIError, HttpContext, TransportDetails, TransportOperation};

/// A response body; dropping it closes the exchange.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, AIError>> + Send>>;

/// A request that is ready to send.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// `POST`.
    pub method: String,
    /// Where to.
    pub url: Url,
    /// All headers.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
}

/// A response whose body is still arriving.
pub struct HttpResponse {
    /// 100 to 599.
    pub status: u16,
    /// Headers, names lower-case.
    pub headers: Headers,
    /// The body.
    pub body: BodyStream,
}

impl std::fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl HttpResponse {
    /// The observed response, for errors.
    pub fn context(&self, url: &Url) -> HttpContext {
        HttpContext { url: url.to_string(), status: self.status, headers: self.headers.clone().into_map() }
    }
}

/// Executes one attempt of one exchange. Never retries, never reads the status.
pub trait HttpExecutor: Send + Sync {
    /// Sends a request and waits for the response headers.
    ///
    /// # Errors
    /// `Transport` with operation `request`.
    ///
    /// # Cancel safety
    /// Dropping the future or the body closes the exchange; the provider may have got the request.
    fn execute(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>>;
}

/// The rest of the way to the network, for a middleware.
pub type HttpNext = Box<dyn FnOnce(HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> + Send>;

/// Wraps one HTTP exchange: gets the final request and may change it, answer it or refuse it.
pub trait HttpMiddleware: Send + Sync {
    /// Handles one exchange.
    ///
    /// # Errors
    /// An error that is not an [`AIError`] becomes `Transport` with its message and cause; see
    /// [`middleware_error`].
    ///
    /// # Cancel safety
    /// May be dropped at any await.
    fn handle(&self, request: HttpRequest, next: HttpNext) -> BoxFuture<'static, Result<HttpResponse, AIError>>;
}

/// The `Transport` failure that stands for an error of a middleware.
pub fn middleware_error(url: &Url, error: impl Error + Send + Sync + 'static) -> AIError {
    let details =
        TransportDetails { url: Some(url.to_string()), ..TransportDetails::http(TransportOperation::Request) };
    AIError::transport(details, error.to_string()).with_cause(error)
}

/// The executor of production: one pooled client, HTTP/1.1 and HTTP/2, rustls, proxy from the
/// environment, no total timeout, no redirects.
#[derive(Clone, Debug)]
pub struct ReqwestExecutor {
    client: reqwest::Client,
}

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

impl ReqwestExecutor {
    /// Builds the pooled client, and installs the `ring` provider of rustls for the process unless
    /// one is installed.
    ///
    /// # Errors
    /// `Transport` when TLS cannot be set up.
    pub fn new() -> Result<Self, AIError> {
        install_crypto();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                let details = TransportDetails::http(TransportOperation::Request);
                AIError::transport(details, transport_message(&error)).with_cause(error)
            })?;
        Ok(Self { client })
    }

    /// Uses a client that was built elsewhere.
    pub const fn with_client(client: reqwest::Client) -> Self {
        Self { client }
    }
}

/// Installs the `ring` provider of rustls for the process unless one is installed.
pub(crate) fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race to another installer is fine: one is there.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

impl HttpExecutor for ReqwestExecutor {
    fn execute(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        let client = self.client.clone();
        Box::pin(async move {
            let url = request.url.clone();
            let method = reqwest::Method::from_bytes(request.method.as_bytes()).map_err(|error| {
                AIError::invalid_request(format!("invalid HTTP method {:?}", request.method)).with_cause(error)
            })?;
            let mut builder = client.request(method, request.url).body(request.body);
            for (name, value) in request.headers.iter() {
                builder = builder.header(name, value);
            }
            let response =
                builder.send().await.map_err(|error| reqwest_error(error, &url, TransportOperation::Request))?;
            let status = response.status().as_u16();
            let mut headers = Headers::new();
            for (name, value) in response.headers() {
                headers.append(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
            }
            let body = response
                .bytes_stream()
                .map(move |chunk| chunk.map_err(|error| reqwest_error(error, &url, TransportOperation::Read)));
            Ok(HttpResponse { status, headers, body: Box::pin(body) })
        })
    }
}

fn reqwest_error(error: reqwest::Error, url: &Url, operation: TransportOperation) -> AIError {
    let error = error.without_url();
    let details = TransportDetails {
        code: transport_code(&error),
        url: Some(url.to_string()),
        ..TransportDetails::http(operation)
    };
    AIError::transport(details, transport_message(&error)).with_cause(error)
}

/// The code of the first error in the chain that has one (`ECONNRESET`, `Timeout`, …).
pub fn transport_code(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && let Some(code) = io_code(io)
        {
            return Some(code.to_owned());
        }
        if let Some(http) = error.downcast_ref::<reqwest::Error>()
            && http.is_timeout()
        {
            return Some("Timeout".to_owned());
        }
        next = error.source();
    }
    None
}

fn io_code(error: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the list of std is open")]
    match error.kind() {
        ErrorKind::ConnectionRefused => Some("ECONNREFUSED"),
        ErrorKind::ConnectionReset => Some("ECONNRESET"),
        ErrorKind::ConnectionAborted => Some("ECONNABORTED"),
        ErrorKind::BrokenPipe => Some("EPIPE"),
        ErrorKind::HostUnreachable => Some("EHOSTUNREACH"),
        ErrorKind::NetworkUnreachable => Some("ENETUNREACH"),
        ErrorKind::TimedOut => Some("Timeout"),
        ErrorKind::UnexpectedEof => Some("UnexpectedEof"),
        _ => None,
    }
}

/// The texts of an error chain, without repeats, prefixed with the code when they lack it.
pub fn transport_message(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !text.is_empty() && !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    let text = texts.join(": ");
    match transport_code(error) {
        Some(code) if !text.contains(&code) => format!("{code}: {text}"),
        Some(_) | None => text,
    }
}

/// A shared executor.
pub type SharedExecutor = Arc<dyn HttpExecutor>;
