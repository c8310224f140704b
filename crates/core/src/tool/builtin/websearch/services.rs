//! The search services that abide knows.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};
use url::Url;

use super::{SearchError, SearchProvider, SearchResult, SearchTime};
use crate::world::World;

/// The largest answer.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;
/// How many pages are asked for.
const N_RESULTS: usize = 8;

/// The services that can be asked, in order of preference, and the keys that this needs.
#[derive(Default)]
pub struct Available {
    /// The services.
    pub providers: Vec<Arc<dyn SearchProvider>>,
    /// Values that nothing may show.
    pub keys: Vec<String>,
}

/// How a service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exa,
    Parallel,
    Brave,
    SearXng,
}

/// Name, environment variables of the key, address.
const KINDS: &[(Kind, &str, &[&str], &str)] = &[
    (Kind::Exa, "exa", &["EXA_API_KEY"], "https://mcp.exa.ai/mcp"),
    (Kind::Parallel, "parallel", &["PARALLEL_API_KEY"], "https://search.parallel.ai/mcp"),
    (
        Kind::Brave,
        "brave",
        &["BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"],
        "https://api.search.brave.com/res/v1/web/search",
    ),
    (Kind::SearXng, "searxng", &["SEARXNG_API_KEY"], ""),
];

/// Finds the services that settings (`websearch`) and environment give a key or an address for. With `false` there is
/// none; with `provider` only that one.
pub fn available(settings: Option<&Value>, world: &World) -> Available {
    if settings == Some(&Value::Bool(false)) {
        return Available::default();
    }
    let wanted = text(settings.and_then(|settings| settings.get("provider"))).filter(|id| *id != "random");
    let mut found = Available::default();
    for (kind, id, variables, address) in KINDS {
        if wanted.is_some_and(|wanted| wanted != *id) {
            continue;
        }
        let own = settings.and_then(|settings| settings.get("providers")?.get(id));
        let configured = text(own.and_then(|own| own.get("apiKey")));
        let key = configured.or_else(|| variables.iter().find_map(|name| world.var(name))).map(str::to_owned);
        let given = text(own.and_then(|own| own.get("baseURL")));
        let is_usable = match kind {
            Kind::SearXng => given.is_some(),
            Kind::Exa | Kind::Parallel | Kind::Brave => key.is_some(),
        };
        let Some(url) = Url::parse(given.unwrap_or(address)).ok().filter(|_| is_usable) else { continue };
        found.keys.extend(key.clone());
        found.providers.push(Arc::new(Service { kind: *kind, id, url, key }));
    }
    found
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

struct Service {
    kind: Kind,
    id: &'static str,
    url: Url,
    key: Option<String>,
}

impl SearchProvider for Service {
    fn id(&self) -> &str {
        self.id
    }

    fn search<'a>(&'a self, query: &'a str, session: &'a str) -> BoxFuture<'a, Result<Vec<SearchResult>, SearchError>> {
        Box::pin(async move {
            let client = client()?;
            let mut url = self.url.clone();
            let request = match self.kind {
                Kind::Exa => {
                    if let Some(key) = &self.key {
                        url.query_pairs_mut().append_pair("exaApiKey", key);
                    }
                    let arguments = json!({
                        "query": query, "type": "auto", "numResults": N_RESULTS, "livecrawl": "fallback"
                    });
                    client.post(url).json(&call("web_search_exa", arguments))
                }
                Kind::Parallel => {
                    let arguments = json!({ "objective": query, "search_queries": [query], "session_id": session });
                    let request = client.post(url).json(&call("web_search", arguments));
                    match &self.key {
                        Some(key) => request.bearer_auth(key),
                        None => request,
                    }
                }
                Kind::Brave => {
                    url.query_pairs_mut().append_pair("q", query).append_pair("count", &N_RESULTS.to_string());
                    let request = client.get(url);
                    match &self.key {
                        Some(key) => request.header("X-Subscription-Token", key),
                        None => request,
                    }
                }
                Kind::SearXng => {
                    url = url.join("search").unwrap_or(url);
                    url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
                    let request = client.get(url);
                    match &self.key {
                        Some(key) => request.bearer_auth(key),
                        None => request,
                    }
                }
            };
            let body = answer(request.header(ACCEPT, "application/json, text/event-stream")).await?;
            let mut results = match self.kind {
                Kind::Exa | Kind::Parallel => of_text(&text_of_call(&body)?),
                Kind::Brave => of_list(body_json(&body)?.pointer("/web/results")),
                Kind::SearXng => of_list(body_json(&body)?.get("results")),
            };
            results.truncate(N_RESULTS);
            Ok(results)
        })
    }
}

fn client() -> Result<reqwest::Client, SearchError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race to another installer is fine: one is there.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")));
    builder.build().map_err(failed)
}

fn failed(error: reqwest::Error) -> SearchError {
    // The URL may hold the key.
    SearchError::Failed(error.without_url().to_string())
}

/// Makes the body of a tool call over HTTP.
fn call(tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

async fn answer(request: reqwest::RequestBuilder) -> Result<String, SearchError> {
    let response = request.send().await.map_err(failed)?;
    match response.status().as_u16() {
        200..=299 => {}
        401 => return Err(SearchError::Credentials),
        429 => return Err(SearchError::RateLimited),
        status => return Err(SearchError::Status(status)),
    }
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(failed)?;
        if body.len() + piece.len() > MAX_BODY_BYTES {
            return Err(SearchError::Failed(format!("the answer is over the limit of {MAX_BODY_BYTES} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn body_json(body: &str) -> Result<Value, SearchError> {
    serde_json::from_str(body).map_err(|_no| SearchError::Failed("the answer is no JSON".to_owned()))
}

/// Finds the first text in the answer to a tool call: JSON, or lines of events.
fn text_of_call(body: &str) -> Result<String, SearchError> {
    let events = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    for candidate in std::iter::once(body).chain(events) {
        let Ok(value) = serde_json::from_str::<Value>(candidate) else { continue };
        if let Some(message) = value.pointer("/error/message").and_then(Value::as_str) {
            return Err(SearchError::Failed(message.to_owned()));
        }
        let parts = value.pointer("/result/content").and_then(Value::as_array);
        let text = parts.into_iter().flatten().find_map(|part| part.get("text").and_then(Value::as_str));
        let Some(text) = text else { continue };
        if value.pointer("/result/isError") == Some(&Value::Bool(true)) {
            return Err(SearchError::Failed(text.to_owned()));
        }
        return Ok(text.to_owned());
    }
    Ok(String::new())
}

/// Reads results from a text: JSON with a list, or blocks of `Title:`, `URL:` and so on.
fn of_text(text: &str) -> Vec<SearchResult> {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return of_list(value.get("results").or_else(|| value.is_array().then_some(&value)));
    }
    let mut results: Vec<SearchResult> = Vec::new();
    let mut is_content = false;
    for line in text.lines() {
        let field = |names: &[&str]| {
            let (name, value) = line.split_once(':')?;
            names.iter().any(|known| name.trim().eq_ignore_ascii_case(known)).then(|| value.trim().to_owned())
        };
        if let Some(title) = field(&["title"]) {
            is_content = false;
            results.push(SearchResult { title: Some(title), ..SearchResult::default() });
            continue;
        }
        let Some(result) = results.last_mut() else { continue };
        if is_content {
            let content = result.content.get_or_insert_default();
            content.push('\n');
            content.push_str(line);
        } else if let Some(url) = field(&["url"]) {
            result.url = url;
        } else if let Some(published) = field(&["published", "published date"]) {
            result.time.published = Some(published).filter(|text| !text.is_empty() && text != "N/A");
        } else if let Some(content) = field(&["text", "highlights", "summary", "content"]) {
            result.content = Some(content);
            is_content = true;
        }
    }
    results.retain(|result| !result.url.is_empty());
    results
}

fn of_list(list: Option<&Value>) -> Vec<SearchResult> {
    let one = |item: &Value| {
        let text = |names: &[&str]| {
            names.iter().find_map(|name| match item.get(*name)? {
                Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
                Value::Array(parts) => {
                    let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
                    (!parts.is_empty()).then(|| parts.join("\n"))
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
            })
        };
        Some(SearchResult {
            url: text(&["url"])?,
            title: text(&["title"]),
            content: text(&["text", "content", "excerpts", "highlights", "description", "summary"]),
            time: SearchTime { published: text(&["publishedDate", "publish_date", "published", "page_age", "age"]) },
        })
    };
    list.and_then(Value::as_array).into_iter().flatten().filter_map(one).collect()
}
