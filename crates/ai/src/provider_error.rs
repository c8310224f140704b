//! One classification for failures of HTTP and of streams.

mod overflow;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::Value;

use crate::schema::errors::{
    AIError, AIErrorKind, AIErrorReason, AuthenticationKind, Cause, Delivery, HttpContext, RateLimitDetails,
    RequestClassification, TransportDetails, TransportOperation,
};

pub use overflow::is_overflow_text;

/// What is known about a failure.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// For people.
    pub message: String,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The provider's code.
    pub code: Option<String>,
    /// The original text.
    pub body: Option<String>,
    /// Wait this long.
    pub retry_after_ms: Option<u64>,
    /// Rate-limit headers.
    pub rate_limit: Option<RateLimitDetails>,
    /// The observed response.
    pub http: Option<HttpContext>,
    /// The underlying error.
    pub cause: Option<Cause>,
}

/// Classifies a failure. The first rule that fits decides: a rate limit behind HTTP 400 is a rate
/// limit, an overflow of the context window is one whatever words it comes in.
pub fn classify(failure: Failure) -> AIError {
    let kind = classify_kind(&failure);
    AIErrorReason { message: failure.message, body: failure.body, http: failure.http, cause: failure.cause, kind }
        .into()
}

fn classify_kind(failure: &Failure) -> AIErrorKind {
    let text = match failure.body.as_deref() {
        Some(body) if !body.is_empty() => body,
        Some(_) | None => &failure.message,
    };
    let lower = text.to_lowercase();
    let codes = Codes::of(failure);
    let status = failure.status;
    let is_client_scoped = status.is_none_or(|status| (400..500).contains(&status));
    let rate_limit =
        || AIErrorKind::RateLimit { retry_after_ms: failure.retry_after_ms, rate_limit: failure.rate_limit.clone() };
    let internal = || AIErrorKind::ProviderInternal { retry_after_ms: failure.retry_after_ms };
    let invalid = |classification| AIErrorKind::InvalidRequest { parameter: None, classification };
    let authentication = |kind| AIErrorKind::Authentication { kind };

    let is_overflow = codes.has(&["context_length_exceeded", "model_context_window_exceeded", "request_too_large"])
        || (is_client_scoped && overflow_text(failure, text));
    if is_overflow {
        return invalid(Some(RequestClassification::ContextOverflow));
    }
    if status == Some(413)
        || contains_any(&lower, &["request entity too large", "payload too large", "request too large"])
    {
        return invalid(Some(RequestClassification::PayloadTooLarge));
    }
    if is_content_policy(&lower) {
        return AIErrorKind::ContentPolicy;
    }
    if is_quota(failure, &codes, &lower) {
        return AIErrorKind::QuotaExceeded;
    }
    match status {
        Some(401) => return authentication(AuthenticationKind::Invalid),
        Some(403) => return authentication(AuthenticationKind::InsufficientPermissions),
        Some(_) | None => {}
    }
    if codes.has(&["authentication_error"]) {
        return authentication(AuthenticationKind::Invalid);
    }
    if codes.has(&["permission_error"]) {
        return authentication(AuthenticationKind::InsufficientPermissions);
    }
    if codes.contain("rate_limit") || codes.has(&["too_many_requests", "throttlingexception"]) {
        return rate_limit();
    }
    if contains_any(&lower, &["rate increased too quickly", "throttling error"])
        || contains_words(&lower, "rate", "limit")
        || contains_words(&lower, "too many", "requests")
        || contains_words(&lower, "too_many", "requests")
    {
        return rate_limit();
    }
    if codes.has(&[
        "api_error",
        "internal_error",
        "internalserverexception",
        "modelstreamerrorexception",
        "overloaded_error",
        "server_error",
        "server_is_overloaded",
        "slow_down",
        "serviceunavailableexception",
    ]) || codes.contain("exhausted")
        || codes.contain("unavailable")
    {
        return internal();
    }
    match status {
        Some(429) => return rate_limit(),
        Some(408) => return request_timeout(failure),
        Some(409 | 500..) => return internal(),
        Some(_) | None => {}
    }
    if codes.has(&["invalid_prompt", "invalid_request_error", "validationexception"]) {
        return invalid(None);
    }
    match status {
        Some(400 | 404 | 422) => invalid(None),
        Some(_) | None => AIErrorKind::UnknownProvider,
    }
}

fn overflow_text(failure: &Failure, text: &str) -> bool {
    // The message is looked at too: a body hides its first words behind JSON.
    !overflow::is_excluded(text)
        && !overflow::is_excluded(&failure.message)
        && (is_overflow_text(text) || is_overflow_text(&failure.message))
}

/// A wait longer than this is no rate limit to sit out.
const MAX_RATE_LIMIT_WAIT_MS: u64 = 60 * 60 * 1000;

fn is_quota(failure: &Failure, codes: &Codes, lower: &str) -> bool {
    const PHRASES: [&str; 5] =
        ["exceeded your current quota", "used up", "allowance", "insufficient balance", "usage limit"];
    if codes.has(&["insufficient_quota", "usage_not_included", "billing_error"]) || failure.status == Some(402) {
        return true;
    }
    failure.status == Some(429)
        && (contains_words(lower, "insufficient", "quota")
            || contains_words(lower, "quota", "exceeded")
            || contains_any(lower, &PHRASES)
            || failure.retry_after_ms.is_some_and(|ms| ms > MAX_RATE_LIMIT_WAIT_MS))
}

/// The server gave up waiting for the request: it was not taken, so it may be sent again.
fn request_timeout(failure: &Failure) -> AIErrorKind {
    AIErrorKind::Transport(TransportDetails {
        code: Some("Timeout".to_owned()),
        url: failure.http.as_ref().map(|http| http.url.clone()),
        delivery: Some(Delivery::Rejected),
        ..TransportDetails::http(TransportOperation::Request)
    })
}

/// Lower-cased codes of a failure: the given one, and those found in JSON texts.
struct Codes(Vec<String>);

impl Codes {
    fn of(failure: &Failure) -> Self {
        let mut codes: Vec<String> = failure.code.iter().map(|code| code.to_lowercase()).collect();
        for text in [failure.body.as_deref(), Some(failure.message.as_str())].into_iter().flatten() {
            if !text.trim_start().starts_with('{') {
                continue;
            }
            let Ok(json) = serde_json::from_str::<Value>(text) else { continue };
            for path in ["/code", "/error/code", "/error/type"] {
                match json.pointer(path) {
                    Some(Value::String(code)) => codes.push(code.to_lowercase()),
                    Some(Value::Number(code)) => codes.push(code.to_string()),
                    Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {}
                }
            }
        }
        Self(codes)
    }

    fn has(&self, words: &[&str]) -> bool {
        self.0.iter().any(|code| words.contains(&code.as_str()))
    }

    fn contain(&self, word: &str) -> bool {
        self.0.iter().any(|code| code.contains(word))
    }
}

fn contains_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// Whether the two words follow each other, joined by a blank, `-`, `_` or nothing.
fn contains_words(text: &str, first: &str, second: &str) -> bool {
    text.match_indices(first).any(|(at, _)| {
        let rest = text.get(at + first.len()..).unwrap_or_default();
        rest.strip_prefix([' ', '-', '_']).unwrap_or(rest).starts_with(second)
    })
}

fn is_content_policy(text: &str) -> bool {
    contains_words(text, "content", "policy") || text.contains("content_filter") || text.contains("safety")
}

/// An HTTP failure, captured here or elsewhere.
#[derive(Clone, Debug, Default)]
pub struct HttpFailure {
    /// The status, when known.
    pub status: Option<u16>,
    /// The URL, when known.
    pub url: Option<String>,
    /// Response headers, names lower-case.
    pub headers: IndexMap<String, String>,
    /// The body text, when it could be read.
    pub body: Option<String>,
}

/// Classifies an HTTP failure. `http` is set only when both URL and status are known.
pub fn classify_http_failure(failure: HttpFailure, now: DateTime<Utc>) -> AIError {
    let message = failure.body.as_deref().and_then(body_message).unwrap_or_else(|| match failure.status {
        Some(status) => format!("Provider request failed with HTTP {status}"),
        None => "Provider request failed".to_owned(),
    });
    let retry_after_ms = retry_after_ms(&failure.headers, now);
    let rate_limit = rate_limit_details(&failure.headers, retry_after_ms);
    let http = match (failure.url, failure.status) {
        (Some(url), Some(status)) => Some(HttpContext { url, status, headers: failure.headers }),
        (_, _) => None,
    };
    classify(Failure {
        message,
        status: failure.status,
        code: None,
        body: failure.body,
        retry_after_ms,
        rate_limit,
        http,
        cause: None,
    })
}

fn body_message(body: &str) -> Option<String> {
    let json: Value = serde_json::from_str(body).ok()?;
    ["/error/message", "/message", "/Message", "/error", "/detail", "/0/error/message"]
        .into_iter()
        .filter_map(|path| json.pointer(path).and_then(Value::as_str))
        .find(|message| !message.trim().is_empty())
        .map(str::to_owned)
}

/// How long the headers ask to wait, in milliseconds.
pub fn retry_after_ms(headers: &IndexMap<String, String>, now: DateTime<Utc>) -> Option<u64> {
    if let Some(ms) = headers.get("retry-after-ms").and_then(|value| number(value)) {
        return Some(whole_ms(ms));
    }
    let value = headers.get("retry-after")?.trim();
    if let Some(seconds) = number(value) {
        return Some(whole_ms(seconds * 1000.0));
    }
    Some(u64::try_from((http_date(value)? - now).num_milliseconds()).unwrap_or(0))
}

/// A date in one of the three forms of HTTP; two are old, and still sent.
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(date) = DateTime::parse_from_rfc2822(text) {
        return Some(date.with_timezone(&Utc));
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .iter()
        .find_map(|form| chrono::NaiveDateTime::parse_from_str(text, form).ok())
        .map(|date| date.and_utc())
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|value| value.is_finite())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and negative waits are none"
)]
fn whole_ms(ms: f64) -> u64 {
    ms.max(0.0) as u64
}

fn rate_limit_details(headers: &IndexMap<String, String>, retry_after_ms: Option<u64>) -> Option<RateLimitDetails> {
    let mut details = RateLimitDetails { retry_after_ms, ..RateLimitDetails::default() };
    for (header, value) in headers {
        let found = if let Some(rest) = header.strip_prefix("x-ratelimit-") {
            rest.split_once('-')
        } else if let Some(rest) = header.strip_prefix("anthropic-ratelimit-") {
            rest.rsplit_once('-').map(|(name, kind)| (kind, name))
        } else {
            None
        };
        let map = match found {
            Some(("limit", _)) => &mut details.limit,
            Some(("remaining", _)) => &mut details.remaining,
            Some(("reset", _)) => &mut details.reset,
            Some(_) | None => continue,
        };
        if let Some((_, name)) = found {
            map.insert(name.to_owned(), value.clone());
        }
    }
    (details != RateLimitDetails::default()).then_some(details)
}
