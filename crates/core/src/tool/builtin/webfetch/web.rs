//! One HTTP exchange at a time, to an address that was looked up before.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, LOCATION};
use url::{Host, Url};

use super::address::Located;

/// The largest body.
pub(super) const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How servers that answer browsers only are asked.
pub(super) const BROWSER_AGENT: &str =
    concat!("Mozilla/5.0 (compatible; abide/", env!("CARGO_PKG_VERSION"), ") AppleWebKit/537.36 (KHTML, like Gecko)");
/// How servers that turn such browsers away are asked.
pub(super) const PLAIN_AGENT: &str = concat!("abide/", env!("CARGO_PKG_VERSION"));

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) url: &'a Url,
    pub(super) located: &'a Located,
    pub(super) accept: &'static str,
    pub(super) agent: &'static str,
}

/// The head of an answer, whose body is still to come.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: HeaderMap,
    response: reqwest::Response,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebError {
    /// The exchange failed.
    #[error("{}", chain(.0))]
    Http(reqwest::Error),
    /// The body is too large.
    #[error("the body is over the limit of {MAX_BODY_BYTES} bytes{}", declared.map(|length| format!(" ({length} bytes announced)")).unwrap_or_default())]
    TooLarge {
        /// What the server announced.
        declared: Option<u64>,
    },
}

impl From<reqwest::Error> for WebError {
    fn from(error: reqwest::Error) -> Self {
        // A URL may hold a password.
        Self::Http(error.without_url())
    }
}

/// Sends one request and waits for the head of its answer. Redirects are answers.
///
/// # Errors
/// [`WebError::Http`].
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn get(ask: Ask<'_>) -> Result<Answer, WebError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race to another installer is fine: one is there.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .user_agent(ask.agent);
    if let Some(Host::Domain(name)) = ask.url.host()
        && !ask.located.addresses.is_empty()
    {
        builder = builder.resolve_to_addrs(name, &ask.located.addresses);
    }
    let request =
        builder.build()?.get(ask.url.clone()).header(ACCEPT, ask.accept).header(ACCEPT_LANGUAGE, "en-US,en;q=0.9");
    let response = request.send().await?;
    Ok(Answer { status: response.status().as_u16(), headers: response.headers().clone(), response })
}

impl Answer {
    /// Returns where a redirect leads to.
    pub(super) fn location(&self) -> Option<&str> {
        let is_redirect = matches!(self.status, 301 | 302 | 303 | 307 | 308);
        self.headers.get(LOCATION).filter(|_| is_redirect)?.to_str().ok()
    }

    /// Says whether the server wants a browser to prove that it is one.
    pub(super) fn is_challenge(&self) -> bool {
        self.status == 403 && self.headers.get("cf-mitigated").is_some_and(|value| value == "challenge")
    }

    /// Returns the media type with its parameters.
    pub(super) fn content_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().trim().to_owned()
    }

    /// Reads the body up to the limit.
    ///
    /// # Errors
    /// [`WebError`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(super) async fn body(self) -> Result<Vec<u8>, WebError> {
        if let Some(length) = self.response.content_length()
            && length > MAX_BODY_BYTES as u64
        {
            return Err(WebError::TooLarge { declared: Some(length) });
        }
        let mut body = Vec::new();
        let mut pieces = self.response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if body.len() + piece.len() > MAX_BODY_BYTES {
                return Err(WebError::TooLarge { declared: None });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
