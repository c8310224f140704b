//! The one error of the crate, by what the caller does next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use super::events::LLMEvent;
use super::ids::{ModelId, ProviderId, RouteId};

/// The most bytes of a body that `Debug` shows.
const MAX_DEBUG_BODY: usize = 2048;

/// An underlying error, shared so that errors can be cloned.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A failed model call. `Display` prints only the message; `source` is the reason.
#[derive(Clone)]
pub struct AIError {
    reason: Box<AIErrorReason>,
}

/// Everything known about a failure.
#[derive(Clone)]
pub struct AIErrorReason {
    /// For people; no stack, no secrets.
    pub message: String,
    /// The original response text or the triggering stream event, whole.
    pub body: Option<String>,
    /// The observed response; never invented.
    pub http: Option<HttpContext>,
    /// The underlying error.
    pub cause: Option<Cause>,
    /// What kind of failure it is.
    pub kind: AIErrorKind,
}

/// An observed HTTP response.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpContext {
    /// The URL that was asked.
    pub url: String,
    /// 100 to 599.
    pub status: u16,
    /// Response headers, names lower-case.
    pub headers: IndexMap<String, String>,
}

/// Why a request is refused for its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestClassification {
    /// The prompt does not fit the context window.
    ContextOverflow,
    /// The HTTP body is too large.
    PayloadTooLarge,
}

/// What is wrong with the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationKind {
    /// None was found.
    Missing,
    /// The provider refused them.
    Invalid,
    /// They are too old.
    Expired,
    /// They do not allow this.
    InsufficientPermissions,
    /// The provider did not say.
    Unknown,
}

/// Rate-limit headers, by the name of the limited thing, verbatim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitDetails {
    /// Wait this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The limits.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub limit: IndexMap<String, String>,
    /// What is left.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub remaining: IndexMap<String, String>,
    /// When it resets.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub reset: IndexMap<String, String>,
}

/// The transport of a failed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// HTTP.
    Http,
    /// WebSocket.
    Websocket,
}

/// What the transport was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportOperation {
    /// Sending the request and waiting for headers.
    Request,
    /// Reading the response.
    Read,
    /// Writing a message.
    Write,
}

/// The phase of a socket exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportPhase {
    /// Before anything was opened.
    Prepare,
    /// Waiting for a turn.
    Queue,
    /// Opening.
    Connect,
    /// Sending.
    Send,
    /// Receiving.
    Receive,
    /// Reading a message.
    Decode,
    /// After the last message.
    Complete,
    /// Going over to another transport.
    Fallback,
    /// Closing.
    Close,
}

/// Whether the provider got the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Certainly not.
    NotSent,
    /// It was refused.
    Rejected,
    /// Nobody knows.
    Ambiguous,
    /// It began to answer.
    Accepted,
}

/// What a transport may do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportRecovery {
    /// Connect again.
    RetryConnect,
    /// Send the whole request again.
    RetryFull,
    /// Open a new connection and send the whole request again.
    RotateAndRetryFull,
    /// Use HTTP.
    FallbackHttp,
    /// Nothing.
    Fail,
}

/// Details of a transport failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportDetails {
    /// The transport.
    pub transport: TransportKind,
    /// What it was doing.
    pub operation: TransportOperation,
    /// `ECONNRESET`, `Timeout`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TransportPhase>,
    /// Whether the provider got the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// What can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<TransportRecovery>,
}

impl TransportDetails {
    /// Details of an HTTP failure.
    pub const fn http(operation: TransportOperation) -> Self {
        Self {
            transport: TransportKind::Http,
            operation,
            code: None,
            url: None,
            phase: None,
            delivery: None,
            recovery: None,
        }
    }
}

/// Why output of a provider is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputClassification {
    /// The stream ended before its end.
    IncompleteStream,
    /// An event of the stream is not JSON, so bytes were lost or mixed up on the way.
    MalformedEvent,
}

/// What kind of failure it is (`_tag` on the wire).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "_tag", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum AIErrorKind {
    /// The request is wrong; change it.
    InvalidRequest {
        /// The field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameter: Option<String>,
        /// Refused for its size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        classification: Option<RequestClassification>,
    },
    /// Nothing can run this model.
    NoRoute {
        /// The route.
        route: RouteId,
        /// The provider.
        provider: ProviderId,
        /// The model.
        model: ModelId,
    },
    /// The credentials are missing or refused.
    Authentication {
        /// What is wrong with them.
        kind: AuthenticationKind,
    },
    /// Too many requests; wait.
    RateLimit {
        /// Wait this long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// Details.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_limit: Option<RateLimitDetails>,
    },
    /// The account is exhausted.
    QuotaExceeded,
    /// The provider refuses the content.
    ContentPolicy,
    /// The provider failed.
    ProviderInternal {
        /// Wait this long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The connection failed.
    Transport(TransportDetails),
    /// The provider sent nonsense.
    InvalidProviderOutput {
        /// What is wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        classification: Option<OutputClassification>,
        /// The route.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        route: Option<RouteId>,
    },
    /// The route cannot do this.
    UnsupportedOperation {
        /// What.
        operation: String,
        /// The provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<ProviderId>,
        /// The route.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        route: Option<RouteId>,
    },
    /// A failure the crate cannot place.
    UnknownProvider,
}

impl AIErrorKind {
    /// A wrong request without details.
    pub const INVALID_REQUEST: Self = Self::InvalidRequest { parameter: None, classification: None };
    /// Nonsense without details.
    pub const INVALID_OUTPUT: Self = Self::InvalidProviderOutput { classification: None, route: None };
    /// A stream that ended before its end.
    pub const INCOMPLETE_STREAM: Self =
        Self::InvalidProviderOutput { classification: Some(OutputClassification::IncompleteStream), route: None };

    /// An event that is not JSON.
    pub const MALFORMED_EVENT: Self =
        Self::InvalidProviderOutput { classification: Some(OutputClassification::MalformedEvent), route: None };

    /// The tag on the wire.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::InvalidRequest { .. } => "InvalidRequest",
            Self::NoRoute { .. } => "NoRoute",
            Self::Authentication { .. } => "Authentication",
            Self::RateLimit { .. } => "RateLimit",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::ContentPolicy => "ContentPolicy",
            Self::ProviderInternal { .. } => "ProviderInternal",
            Self::Transport(_) => "Transport",
            Self::InvalidProviderOutput { .. } => "InvalidProviderOutput",
            Self::UnsupportedOperation { .. } => "UnsupportedOperation",
            Self::UnknownProvider => "UnknownProvider",
        }
    }
}

/// Whether a failed call may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// No.
    Never,
    /// Yes.
    Safe,
    /// Only if the caller has committed nothing from this attempt.
    IfNoOutput,
}

impl AIErrorReason {
    /// Makes a reason of a message and a kind.
    pub fn new(kind: AIErrorKind, message: impl Into<String>) -> Self {
        Self { message: message.into(), body: None, http: None, cause: None, kind }
    }

    /// Changes the reason in place and returns it; what is not touched is kept.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same failure as another kind: message, body, http and cause are kept.
    pub fn rebuild_as(self, kind: AIErrorKind) -> Self {
        Self { kind, ..self }
    }
}

impl AIError {
    /// Makes an error of a message and a kind.
    pub fn new(kind: AIErrorKind, message: impl Into<String>) -> Self {
        AIErrorReason::new(kind, message).into()
    }

    /// Makes an `InvalidRequest`.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(AIErrorKind::INVALID_REQUEST, message)
    }

    /// Makes an `InvalidProviderOutput`.
    pub fn invalid_output(message: impl Into<String>) -> Self {
        Self::new(AIErrorKind::INVALID_OUTPUT, message)
    }

    /// Makes an `InvalidProviderOutput` of class incomplete-stream.
    pub fn incomplete_stream(message: impl Into<String>) -> Self {
        Self::new(AIErrorKind::INCOMPLETE_STREAM, message)
    }

    /// Makes a `Transport` failure.
    pub fn transport(details: TransportDetails, message: impl Into<String>) -> Self {
        Self::new(AIErrorKind::Transport(details), message)
    }

    /// Everything known about the failure.
    pub fn reason(&self) -> &AIErrorReason {
        &self.reason
    }

    /// Takes the reason out.
    pub fn into_reason(self) -> AIErrorReason {
        *self.reason
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &AIErrorKind {
        &self.reason.kind
    }

    /// For people.
    pub fn message(&self) -> &str {
        &self.reason.message
    }

    /// The original response text or stream event.
    pub fn body(&self) -> Option<&str> {
        self.reason.body.as_deref()
    }

    /// The observed response.
    pub fn http(&self) -> Option<&HttpContext> {
        self.reason.http.as_ref()
    }

    /// Sets the body unless one is there.
    pub fn with_body(mut self, body: impl Into<String>) -> Self {
        self.reason.body.get_or_insert_with(|| body.into());
        self
    }

    /// Sets the cause unless one is there.
    pub fn with_cause(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.reason.cause.get_or_insert_with(|| Arc::new(cause));
        self
    }

    /// Sets the observed response unless one is there.
    pub fn with_http(mut self, http: Option<&HttpContext>) -> Self {
        if self.reason.http.is_none() {
            self.reason.http = http.cloned();
        }
        self
    }

    /// Whether the request is too long for the model or the server. Both are mended in one way: by
    /// sending less.
    pub fn is_context_overflow(&self) -> bool {
        matches!(
            self.reason.kind,
            AIErrorKind::InvalidRequest {
                classification: Some(RequestClassification::ContextOverflow | RequestClassification::PayloadTooLarge),
                ..
            }
        )
    }

    /// Whether the stream ended before its end.
    pub fn is_incomplete_stream(&self) -> bool {
        matches!(
            self.reason.kind,
            AIErrorKind::InvalidProviderOutput { classification: Some(OutputClassification::IncompleteStream), .. }
        )
    }

    /// Whether the provider fell silent or did not answer in time.
    pub fn is_timeout(&self) -> bool {
        matches!(&self.reason.kind, AIErrorKind::Transport(details) if details.code.as_deref() == Some("Timeout"))
    }

    /// Whether the call may be tried again.
    pub fn retry_class(&self) -> RetryClass {
        match &self.reason.kind {
            AIErrorKind::RateLimit { .. } | AIErrorKind::ProviderInternal { .. } => {
                // A failure inside a stream carries the 200 that opened it.
                match &self.reason.http {
                    Some(http) if http.status >= 400 => RetryClass::Safe,
                    Some(_) | None => RetryClass::IfNoOutput,
                }
            }
            AIErrorKind::Transport(details) => match (details.operation, details.delivery) {
                (TransportOperation::Request, _) | (_, Some(Delivery::NotSent | Delivery::Rejected)) => {
                    RetryClass::Safe
                }
                (TransportOperation::Read, _) => RetryClass::IfNoOutput,
                (TransportOperation::Write, _) => RetryClass::Never,
            },
            AIErrorKind::InvalidProviderOutput {
                classification: Some(OutputClassification::IncompleteStream | OutputClassification::MalformedEvent),
                ..
            } => RetryClass::IfNoOutput,
            AIErrorKind::InvalidProviderOutput { classification: None, .. }
            | AIErrorKind::InvalidRequest { .. }
            | AIErrorKind::NoRoute { .. }
            | AIErrorKind::Authentication { .. }
            | AIErrorKind::QuotaExceeded
            | AIErrorKind::ContentPolicy
            | AIErrorKind::UnsupportedOperation { .. }
            | AIErrorKind::UnknownProvider => RetryClass::Never,
        }
    }

    /// How long the provider asks to wait, in milliseconds.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match &self.reason.kind {
            AIErrorKind::RateLimit { retry_after_ms, .. } | AIErrorKind::ProviderInternal { retry_after_ms } => {
                *retry_after_ms
            }
            AIErrorKind::QuotaExceeded => {
                let seconds = self.reason.http.as_ref()?.headers.get("retry-after")?;
                seconds.trim().parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1000))
            }
            AIErrorKind::InvalidRequest { .. }
            | AIErrorKind::NoRoute { .. }
            | AIErrorKind::Authentication { .. }
            | AIErrorKind::ContentPolicy
            | AIErrorKind::Transport(_)
            | AIErrorKind::InvalidProviderOutput { .. }
            | AIErrorKind::UnsupportedOperation { .. }
            | AIErrorKind::UnknownProvider => None,
        }
    }

    /// How long the provider asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms().map(Duration::from_millis)
    }
}

/// Things that can say that the prompt did not fit.
pub trait ContextOverflow {
    /// Whether the prompt does not fit the context window.
    fn is_context_overflow(&self) -> bool;
}

impl ContextOverflow for AIError {
    fn is_context_overflow(&self) -> bool {
        Self::is_context_overflow(self)
    }
}

impl ContextOverflow for LLMEvent {
    fn is_context_overflow(&self) -> bool {
        self.as_provider_error()
            .is_some_and(|error| error.classification == Some(RequestClassification::ContextOverflow))
    }
}

/// Whether an error or an event says that the prompt does not fit the context window.
pub fn is_context_overflow(value: &impl ContextOverflow) -> bool {
    value.is_context_overflow()
}

impl From<AIErrorReason> for AIError {
    fn from(reason: AIErrorReason) -> Self {
        Self { reason: Box::new(reason) }
    }
}

impl fmt::Display for AIError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason.message)
    }
}

impl fmt::Debug for AIError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.reason, f)
    }
}

impl Error for AIError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.reason)
    }
}

impl fmt::Display for AIErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for AIErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("AIError");
        out.field("kind", &self.kind).field("message", &self.message);
        if let Some(body) = &self.body {
            let end = body.floor_char_boundary(MAX_DEBUG_BODY);
            let shown = body.get(..end).unwrap_or_default();
            if end < body.len() {
                out.field("body", &format_args!("{shown:?}… ({} bytes)", body.len()));
            } else {
                out.field("body", &shown);
            }
        }
        if let Some(http) = &self.http {
            out.field("http", http);
        }
        if let Some(cause) = &self.cause {
            out.field("cause", &format_args!("{cause}"));
        }
        out.finish()
    }
}

impl Error for AIErrorReason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Some(cause) => Some(&**cause),
            None => None,
        }
    }
}

impl Serialize for AIError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reason = &self.reason;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("_tag", reason.kind.tag())?;
        map.serialize_entry("message", &reason.message)?;
        if let Ok(serde_json::Value::Object(kind)) = serde_json::to_value(&reason.kind) {
            for (key, value) in kind.iter().filter(|(key, _)| *key != "_tag") {
                map.serialize_entry(key, value)?;
            }
        }
        if let Some(body) = &reason.body {
            map.serialize_entry("body", body)?;
        }
        if let Some(http) = &reason.http {
            map.serialize_entry("http", http)?;
        }
        if let Some(cause) = &reason.cause {
            map.serialize_entry("cause", &cause.to_string())?;
        }
        map.end()
    }
}

/// Whether a header or query name looks as if its value were secret.
pub fn is_sensitive_name(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["authorization", "api-key", "token", "secret", "credential", "signature", "cookie", "key", "sig"];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

impl fmt::Debug for HttpContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: IndexMap<&str, &str> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), if is_sensitive_name(name) { "<redacted>" } else { value }))
            .collect();
        f.debug_struct("HttpContext")
            .field("url", &redact_url(&self.url))
            .field("status", &self.status)
            .field("headers", &headers)
            .finish()
    }
}

/// The URL with user info and sensitive query values masked.
pub fn redact_url(url: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else {
        return "<unreadable url>".to_owned();
    };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        // Only URLs that cannot have user info refuse this, and those have none.
        let cleared = parsed.set_username("").and_then(|()| parsed.set_password(None));
        if cleared.is_err() {
            return "<unreadable url>".to_owned();
        }
    }
    if parsed.query_pairs().any(|(name, _)| is_sensitive_name(&name)) {
        let pairs: Vec<(String, String)> = parsed
            .query_pairs()
            .map(|(name, value)| {
                let value = if is_sensitive_name(&name) { "<redacted>".into() } else { value };
                (name.into_owned(), value.into_owned())
            })
            .collect();
        parsed.query_pairs_mut().clear().extend_pairs(pairs);
    }
    parsed.into()
}

/// A provider configured with missing or contradictory settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {message}")]
pub struct ConfigurationError {
    /// The provider.
    pub provider: ProviderId,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl ConfigurationError {
    /// Makes an error.
    pub fn new(provider: impl Into<ProviderId>, message: impl Into<String>) -> Self {
        Self { provider: provider.into(), message: message.into() }
    }
}
