//! HTTP with JSON body: timers around an executor, and the classified failure of a bad status.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use url::Url;

use crate::provider_error::{HttpFailure, classify_http_failure};
use crate::route::executor::{BodyStream, HttpRequest, HttpResponse};
use crate::route::host::Host;
use crate::schema::errors::{AIError, HttpContext, TransportDetails, TransportOperation};
use crate::schema::options::{HttpOptions, Timeout};

/// Longest wait for response headers, and longest silence within a body.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);
/// The same until the first byte of a local server, which may have to load its model first.
pub const LOCAL_FIRST_BYTE_TIMEOUT: Duration = Duration::from_mins(30);
/// Longest time without content while something else, such as keep-alives, still arrives.
pub const CONTENT_TIMEOUT: Duration = Duration::from_mins(30);
/// The most bytes of an error body that are kept.
pub const MAX_ERROR_BODY: usize = 1024 * 1024;
/// How long the body of a refused request may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The timers of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Until response headers.
    pub header: Option<Duration>,
    /// Until the first byte of the body.
    pub first: Option<Duration>,
    /// Between pieces of the body.
    pub chunk: Option<Duration>,
    /// Between pieces of content.
    pub content: Option<Duration>,
}

impl Timers {
    /// The timers for a URL: configured ones, else the defaults.
    pub fn new(url: &Url, options: Option<&HttpOptions>) -> Self {
        let first_default = if is_local(url) { LOCAL_FIRST_BYTE_TIMEOUT } else { DEFAULT_TIMEOUT };
        let pick = |set: Option<Timeout>, default: Duration| match set {
            Some(Timeout::Off) => None,
            Some(Timeout::After(duration)) => Some(duration),
            None => Some(default),
        };
        let chunk = options.and_then(|options| options.chunk_timeout);
        Self {
            header: pick(options.and_then(|options| options.header_timeout), first_default),
            first: pick(chunk, first_default),
            chunk: pick(chunk, DEFAULT_TIMEOUT),
            content: pick(options.and_then(|options| options.content_timeout), CONTENT_TIMEOUT),
        }
    }
}

/// Whether the URL names this machine.
pub fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => {
            name == "localhost" || name.ends_with(".localhost") || name == "host.docker.internal"
        }
        Some(url::Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    }
}

/// Sends a request under the header timer and refuses bad statuses.
///
/// # Errors
/// `Transport` when nothing answers in time; the classified failure for a status of 400 or more;
/// `InvalidProviderOutput` for a redirect, which is never followed.
///
/// # Cancel safety
/// Dropping the future closes the exchange.
pub async fn open(
    request: HttpRequest,
    timers: Timers,
    host: &dyn Host,
    send: impl AsyncFnOnceSend,
) -> Result<(HttpResponse, HttpContext), AIError> {
    let sent_to = SentTo::new(&request.url);
    open_at(request, timers, host, &sent_to, send).await
}

/// The address a request really went to: a middleware may change it on the way.
#[derive(Clone, Debug)]
pub struct SentTo(Arc<Mutex<Url>>);

impl SentTo {
    /// The address before anybody changed it.
    pub fn new(url: &Url) -> Self {
        Self(Arc::new(Mutex::new(url.clone())))
    }

    /// Notes the address.
    pub fn note(&self, url: &Url) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(url);
    }

    fn get(&self) -> Url {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// As [`open`]; failures report the address that `send` noted.
///
/// # Errors
/// As [`open`].
///
/// # Cancel safety
/// Dropping the future closes the exchange.
pub async fn open_at(
    request: HttpRequest,
    timers: Timers,
    host: &dyn Host,
    sent_to: &SentTo,
    send: impl AsyncFnOnceSend,
) -> Result<(HttpResponse, HttpContext), AIError> {
    let response = match timers.header {
        None => send.call(request).await,
        Some(limit) => match timeout(limit, send.call(request)).await {
            Ok(response) => response,
            Err(_) => {
                return Err(timed_out(
                    &sent_to.get(),
                    TransportOperation::Request,
                    &format!("Timed out waiting for response headers after {limit:?}"),
                ));
            }
        },
    }?;
    let url = sent_to.get();
    let context = response.context(&url);
    if response.status >= 400 {
        return Err(refused(response, context, host).await);
    }
    if response.status >= 300 {
        let target = response.headers.get("location").unwrap_or("nowhere");
        return Err(AIError::invalid_output(format!(
            "the provider redirects (HTTP {}) to {target}; set the base URL to the final address",
            response.status
        ))
        .with_http(Some(&context)));
    }
    Ok((response, context))
}

/// A function that sends a request.
pub trait AsyncFnOnceSend: Send {
    /// Sends it.
    fn call(self, request: HttpRequest) -> impl Future<Output = Result<HttpResponse, AIError>> + Send;
}

impl<F, R> AsyncFnOnceSend for F
where
    F: FnOnce(HttpRequest) -> R + Send,
    R: Future<Output = Result<HttpResponse, AIError>> + Send,
{
    fn call(self, request: HttpRequest) -> impl Future<Output = Result<HttpResponse, AIError>> + Send {
        self(request)
    }
}

fn timed_out(url: &Url, operation: TransportOperation, message: &str) -> AIError {
    let details = TransportDetails {
        code: Some("Timeout".to_owned()),
        url: Some(url.to_string()),
        ..TransportDetails::http(operation)
    };
    AIError::transport(details, message)
}

async fn refused(response: HttpResponse, context: HttpContext, host: &dyn Host) -> AIError {
    let (body, cause) = match timeout(ERROR_BODY_TIMEOUT, read_limited(response.body)).await {
        Ok(Ok(body)) => (Some(String::from_utf8_lossy(&body).into_owned()), None),
        Ok(Err(error)) => (None, Some(error)),
        Err(_) => {
            let url = Url::parse(&context.url);
            let cause =
                url.ok().map(|url| timed_out(&url, TransportOperation::Read, "Timed out reading the error response"));
            (None, cause)
        }
    };
    let error = classify_http_failure(
        HttpFailure { status: Some(context.status), url: Some(context.url.clone()), headers: context.headers, body },
        host.now(),
    );
    match cause {
        Some(cause) => error.with_cause(cause),
        None => error,
    }
}

async fn read_limited(mut body: BodyStream) -> Result<Bytes, AIError> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        let room = MAX_ERROR_BODY.saturating_sub(bytes.len());
        if chunk.len() >= room {
            bytes.extend_from_slice(chunk.get(..room).unwrap_or_default());
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// How long the next piece of a body is waited for, and what it means when none comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For ever.
    Unlimited,
    /// The provider may be silent for so long.
    Silence(Duration),
    /// So much is left of the time without content, of which there may be so much.
    Content {
        /// What is left.
        left: Duration,
        /// The limit.
        limit: Duration,
    },
}

impl Wait {
    /// The shorter of the limit on silence and what `quiet` leaves of the limit on time without content.
    pub fn shorter(silence: Option<Duration>, content: Option<Duration>, quiet: Duration) -> Self {
        let left = content.map(|limit| (limit.saturating_sub(quiet), limit));
        match (silence, left) {
            (None, None) => Self::Unlimited,
            (Some(silence), Some((left, limit))) if left < silence => Self::Content { left, limit },
            (Some(silence), _) => Self::Silence(silence),
            (None, Some((left, limit))) => Self::Content { left, limit },
        }
    }
}

/// The timer of a body: one entry in the queue of the clock for the whole body, however many pieces come.
#[derive(Debug, Default)]
pub struct Silence {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Reads the next piece of a body, unless it takes longer than it is waited for.
    ///
    /// # Errors
    /// `Transport` with operation `read`.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn next_chunk(
        &mut self,
        body: &mut BodyStream,
        wait: Wait,
        context: Option<&HttpContext>,
    ) -> Option<Result<Bytes, AIError>> {
        let (limit, named, what) = match wait {
            Wait::Unlimited => return body.next().await.map(|chunk| chunk.map_err(|error| error.with_http(context))),
            Wait::Silence(limit) => (limit, limit, "nothing"),
            Wait::Content { left, limit } => (left, limit, "no content"),
        };
        let mut deadline = None;
        let chunk = poll_fn(|cx| {
            if let Poll::Ready(chunk) = body.poll_next_unpin(cx) {
                return Poll::Ready(chunk);
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if deadline < sleep.deadline() {
                sleep.as_mut().reset(deadline);
            }
            // A sleep that was set for an earlier piece ends early and is set anew.
            while sleep.as_mut().poll(cx).is_ready() {
                if deadline <= sleep.deadline() {
                    let details = TransportDetails {
                        code: Some("Timeout".to_owned()),
                        url: context.map(|context| context.url.clone()),
                        ..TransportDetails::http(TransportOperation::Read)
                    };
                    let message = format!("The provider sent {what} for {named:?}");
                    return Poll::Ready(Some(Err(AIError::transport(details, message))));
                }
                sleep.as_mut().reset(deadline);
            }
            Poll::Pending
        });
        chunk.await.map(|chunk| chunk.map_err(|error| error.with_http(context)))
    }
}
