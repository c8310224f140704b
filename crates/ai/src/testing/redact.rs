//! What of an exchange is written, and what never is.

use indexmap::IndexMap;
use serde_json::Value;
use url::Url;

use super::cassette::{Cassette, CassetteError, Interaction, RecordedOpen, RecordedRequest};
use crate::route::executor::HttpRequest;
use crate::route::headers::Headers;
use crate::route::transport::websocket::SocketRequest;

/// What stands for a secret.
pub const REDACTED: &str = "[REDACTED]";

const REQUEST_HEADERS: [&str; 3] = ["accept", "content-type", "openai-beta"];
const RESPONSE_HEADERS: [&str; 1] = ["content-type"];
const SECRET_HEADERS: [&str; 7] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
    "x-amz-security-token",
    "x-api-key",
    "x-goog-api-key",
];
const SECRET_QUERY: [&str; 13] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "code",
    "key",
    "signature",
    "sig",
    "token",
    "x-amz-credential",
    "x-amz-security-token",
    "x-amz-signature",
    "x-goog-signature",
];
/// Names of JSON fields, without punctuation and case.
const SECRET_FIELDS: [&str; 7] =
    ["accesstoken", "apikey", "clientsecret", "password", "refreshtoken", "secret", "token"];

/// How requests are redacted and which headers count.
#[derive(Clone, Default)]
pub struct Redaction {
    /// Request headers beside the usual ones.
    pub extra_headers: Vec<String>,
    /// Texts of URLs and what stands for them (`/accounts/1234` → `/accounts/{account}`).
    pub url_texts: Vec<(String, String)>,
}

impl Redaction {
    /// Counts another request header.
    pub fn with_header(mut self, name: &str) -> Self {
        self.extra_headers.push(name.to_ascii_lowercase());
        self
    }

    /// Replaces a text of URLs.
    pub fn with_url_text(mut self, text: &str, placeholder: &str) -> Self {
        self.url_texts.push((text.to_owned(), placeholder.to_owned()));
        self
    }

    /// The request as it is recorded and matched.
    pub fn request(&self, request: &HttpRequest) -> RecordedRequest {
        let body = String::from_utf8_lossy(&request.body);
        RecordedRequest {
            method: request.method.clone(),
            url: self.url(&request.url),
            headers: self.headers(&request.headers),
            body: redact_body(&body),
        }
    }

    /// The handshake of a socket as it is recorded and matched.
    pub fn open(&self, request: &SocketRequest) -> RecordedOpen {
        RecordedOpen { url: self.url(&request.url), headers: self.headers(&request.headers) }
    }

    fn headers(&self, headers: &Headers) -> IndexMap<String, String> {
        let mut kept: IndexMap<String, String> = headers
            .iter()
            .filter(|(name, _)| REQUEST_HEADERS.contains(name) || self.extra_headers.iter().any(|extra| extra == name))
            .map(|(name, value)| (name.to_owned(), redact_header(name, value)))
            .collect();
        kept.sort_keys();
        kept
    }

    /// A URL as it is recorded.
    pub fn url(&self, url: &Url) -> String {
        let mut url = url.clone();
        if !url.username().is_empty() || url.password().is_some() {
            let cleared = url.set_username("").and_then(|()| url.set_password(None));
            if cleared.is_err() {
                return REDACTED.to_owned();
            }
        }
        if url.query_pairs().any(|(name, _)| is_secret_query(&name)) {
            let pairs: Vec<(String, String)> = url
                .query_pairs()
                .map(|(name, value)| {
                    let value = if is_secret_query(&name) { REDACTED.into() } else { value };
                    (name.into_owned(), value.into_owned())
                })
                .collect();
            url.query_pairs_mut().clear().extend_pairs(pairs);
        }
        let mut text = String::from(url);
        for (secret, placeholder) in &self.url_texts {
            text = text.replace(secret.as_str(), placeholder);
        }
        text
    }
}

/// Response headers as they are recorded.
pub fn response_headers(headers: &Headers) -> IndexMap<String, String> {
    let mut kept: IndexMap<String, String> = headers
        .iter()
        .filter(|(name, _)| RESPONSE_HEADERS.contains(name))
        .map(|(name, value)| (name.to_owned(), redact_header(name, value)))
        .collect();
    kept.sort_keys();
    kept
}

fn redact_header(name: &str, value: &str) -> String {
    if SECRET_HEADERS.contains(&name) { REDACTED.to_owned() } else { value.to_owned() }
}

fn is_secret_query(name: &str) -> bool {
    SECRET_QUERY.contains(&name.to_ascii_lowercase().as_str())
}

/// Replaces the values of secret fields of a JSON body; any other body is kept.
pub fn redact_body(body: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    if redact_fields(&mut json) { json.to_string() } else { body.to_owned() }
}

fn redact_fields(value: &mut Value) -> bool {
    match value {
        Value::Object(object) => {
            let mut is_changed = false;
            for (key, value) in object {
                let plain: String =
                    key.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
                if SECRET_FIELDS.contains(&plain.as_str()) && value.is_string() {
                    *value = Value::from(REDACTED);
                    is_changed = true;
                } else {
                    is_changed |= redact_fields(value);
                }
            }
            is_changed
        }
        Value::Array(items) => {
            let mut is_changed = false;
            for item in items {
                is_changed |= redact_fields(item);
            }
            is_changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Refuses a cassette that looks as if it held a credential, or that holds the value of an
/// environment variable whose name sounds like one. Names the place, never the text.
///
/// # Errors
/// `Secret`.
pub fn refuse_secrets(cassette: &Cassette, env: &[(String, String)]) -> Result<(), CassetteError> {
    const WORDS: [&str; 8] = ["API", "AUTH", "BEARER", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "TOKEN"];
    let known: Vec<&(String, String)> = env
        .iter()
        .filter(|(name, value)| value.len() >= 12 && WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word)))
        .collect();
    let check = |at: String, text: &str| -> Result<(), CassetteError> {
        if let Some(reason) = credential_shape(text) {
            return Err(CassetteError::Secret { at, reason: format!("holds {reason}") });
        }
        if let Some((name, _)) = known.iter().find(|(_, value)| text.contains(value.as_str())) {
            return Err(CassetteError::Secret { at, reason: format!("holds the value of {name}") });
        }
        Ok(())
    };
    for (index, interaction) in cassette.interactions.iter().enumerate() {
        match interaction {
            Interaction::Http { request, response } => {
                check(format!("interactions[{index}].request.url"), &request.url)?;
                check(format!("interactions[{index}].request.body"), &request.body)?;
                check(format!("interactions[{index}].response.body"), &response.body)?;
                for (name, value) in request.headers.iter().chain(&response.headers) {
                    check(format!("interactions[{index}] header {name}"), value)?;
                }
            }
            Interaction::Websocket { open, events } => {
                check(format!("interactions[{index}].open.url"), &open.url)?;
                for (frame, event) in events.iter().enumerate() {
                    check(format!("interactions[{index}].events[{frame}]"), &event.body)?;
                }
            }
        }
    }
    Ok(())
}

/// What kind of credential a text seems to hold.
fn credential_shape(text: &str) -> Option<&'static str> {
    // A key of a vendor: a prefix and this many more letters of the token alphabet.
    const KEYS: [(&str, usize, &str); 9] = [
        ("sk-ant-", 16, "an Anthropic key"),
        ("sk-", 20, "a secret key"),
        ("AIza", 30, "a Google key"),
        ("AKIA", 16, "an AWS key id"),
        ("ASIA", 16, "an AWS key id"),
        ("ghp_", 20, "a GitHub token"),
        ("gho_", 20, "a GitHub token"),
        ("ghs_", 20, "a GitHub token"),
        ("github_pat_", 20, "a GitHub token"),
    ];
    if text.contains("-----BEGIN") && text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    let lower = text.to_ascii_lowercase();
    for (at, word) in lower.match_indices("bearer ") {
        if token_length(text.get(at + word.len()..).unwrap_or_default()) >= 16 {
            return Some("a bearer token");
        }
    }
    for (prefix, least, kind) in KEYS {
        for (at, _) in text.match_indices(prefix) {
            let before = text.get(..at).unwrap_or_default().chars().next_back();
            let is_start = before.is_none_or(|letter| !letter.is_ascii_alphanumeric());
            let rest = text.get(at + prefix.len()..).unwrap_or_default();
            if is_start && token_length(rest) >= least {
                return Some(kind);
            }
        }
    }
    None
}

fn token_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')).count()
}
