//! Where a request goes: base URL, path and query.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use url::Url;

use crate::schema::errors::{AIError, redact_url};
use crate::schema::request::LLMRequest;

/// A path that depends on the request and the validated body.
pub type PathFn = Arc<dyn Fn(&LLMRequest, &Value) -> String + Send + Sync>;

/// The path below the base URL; it may contain a query.
#[derive(Clone)]
pub enum Path {
    /// Fixed text, beginning with a slash.
    Fixed(String),
    /// Computed per call.
    Computed(PathFn),
}

/// Where a request goes.
#[derive(Clone)]
pub struct Endpoint {
    base_url: Option<String>,
    path: Path,
    query: IndexMap<String, String>,
}

/// Changes of an endpoint; `None` keeps a piece.
#[derive(Clone, Default)]
pub struct EndpointPatch {
    /// Replaces the base URL.
    pub base_url: Option<String>,
    /// Replaces the path.
    pub path: Option<Path>,
    /// Sets query parameters.
    pub query: IndexMap<String, String>,
}

impl EndpointPatch {
    /// Replaces only the base URL.
    pub fn base_url(url: impl Into<String>) -> Self {
        Self { base_url: Some(url.into()), ..Self::default() }
    }
}

impl Endpoint {
    /// An endpoint with a base URL and a fixed path.
    pub fn new(base_url: impl Into<String>, path: impl Into<String>) -> Self {
        Self { base_url: Some(base_url.into()), ..Self::path(path) }
    }

    /// An endpoint that still lacks its base URL.
    pub fn path(path: impl Into<String>) -> Self {
        Self { base_url: None, path: Path::Fixed(path.into()), query: IndexMap::new() }
    }

    /// The base URL.
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    pub(crate) fn without_base_url(self) -> Self {
        Self { base_url: None, ..self }
    }

    /// The host of the base URL, lower-case; empty when there is none.
    pub fn host(&self) -> String {
        self.base_url
            .as_deref()
            .and_then(|url| Url::parse(url).ok())
            .and_then(|url| url.host_str().map(str::to_ascii_lowercase))
            .unwrap_or_default()
    }

    pub(crate) fn merge(mut self, patch: EndpointPatch) -> Self {
        if patch.base_url.is_some() {
            self.base_url = patch.base_url;
        }
        if let Some(path) = patch.path {
            self.path = path;
        }
        self.query.extend(patch.query);
        self
    }

    /// Renders the URL: base without trailing slashes, path, then endpoint query and call query set.
    ///
    /// # Errors
    /// `InvalidRequest` when the result is not an `http(s)` URL.
    pub fn render(
        &self,
        request: &LLMRequest,
        body: impl FnOnce() -> Value,
        query: Option<&IndexMap<String, String>>,
    ) -> Result<Url, AIError> {
        let base = self.base_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let text = match &self.path {
            Path::Fixed(path) => format!("{base}{path}"),
            Path::Computed(path) => format!("{base}{}", path(request, &body())),
        };
        let mut url = Url::parse(&text).map_err(|error| {
            AIError::invalid_request(format!("invalid provider URL {:?}: {error}", redact_url(&text))).with_cause(error)
        })?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(AIError::invalid_request(format!(
                "invalid provider URL {:?}: expected http:// or https:// and a host",
                redact_url(&text)
            )));
        }
        let set: Vec<(&String, &String)> = self.query.iter().chain(query.into_iter().flatten()).collect();
        if !set.is_empty() {
            let mut pairs: IndexMap<String, String> = url.query_pairs().into_owned().collect();
            for (key, value) in set {
                pairs.insert(key.clone(), value.clone());
            }
            url.query_pairs_mut().clear().extend_pairs(pairs);
        }
        Ok(url)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match &self.path {
            Path::Fixed(path) => path.as_str(),
            Path::Computed(_) => "<computed>",
        };
        f.debug_struct("Endpoint")
            .field("base_url", &self.base_url.as_deref().map(redact_url))
            .field("path", &path)
            .finish_non_exhaustive()
    }
}
