//! Which models a server offers, for local servers and keyless set-ups.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use crate::route::auth::Secret;
use crate::route::client::LlmClient;
use crate::route::executor::HttpRequest;
use crate::route::headers::Headers;
use crate::schema::errors::{AIError, TransportDetails, TransportOperation};
use crate::schema::ids::ModelId;

/// How long a server may take to list its models.
pub const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(2);
/// The most bytes of a list that are read.
const MAX_LIST: usize = 4 * 1024 * 1024;

/// The local servers that are looked for, with their usual address, in order.
pub const LOCAL_SERVERS: [(&str, &str); 4] = [
    (super::ollama::ID, super::ollama::BASE_URL),
    (super::lmstudio::ID, super::lmstudio::BASE_URL),
    (super::llama_cpp::ID, super::llama_cpp::BASE_URL),
    (super::vllm::ID, super::vllm::BASE_URL),
];

/// Lists the models of a server by `GET <base>/models`, in the order of the server.
///
/// # Errors
/// `Transport` when nothing answers within [`DISCOVERY_TIMEOUT`], the classified failure of a bad
/// status, `InvalidProviderOutput` when the answer is no list.
///
/// # Cancel safety
/// Cancel safe.
pub async fn list_models(client: &LlmClient, base_url: &str, key: Option<&Secret>) -> Result<Vec<ModelId>, AIError> {
    let text = format!("{}/models", base_url.trim_end_matches('/'));
    let url = Url::parse(&text).map_err(|error| {
        AIError::invalid_request(format!("invalid provider URL {text:?}: {error}")).with_cause(error)
    })?;
    timeout(DISCOVERY_TIMEOUT, fetch(client, url.clone(), key)).await.unwrap_or_else(|_| {
        let details = TransportDetails {
            code: Some("Timeout".to_owned()),
            url: Some(url.to_string()),
            ..TransportDetails::http(TransportOperation::Request)
        };
        let message = format!("{url} did not list its models within {DISCOVERY_TIMEOUT:?}");
        Err(AIError::transport(details, message))
    })
}

async fn fetch(client: &LlmClient, url: Url, key: Option<&Secret>) -> Result<Vec<ModelId>, AIError> {
    let mut headers = Headers::from_iter([("accept", "application/json")]);
    if let Some(key) = key {
        headers.set("authorization", format!("Bearer {}", key.expose()));
    }
    let request = HttpRequest { method: "GET".to_owned(), url, headers, body: bytes::Bytes::new() };
    let mut response = client.fetch(request).await?;
    let mut body = Vec::new();
    while let Some(chunk) = response.body.next().await {
        let chunk = chunk?;
        if body.len() + chunk.len() > MAX_LIST {
            return Err(AIError::invalid_output(format!("the list of models exceeds {MAX_LIST} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    let list: Value = serde_json::from_slice(&body).map_err(|error| {
        AIError::invalid_output("the list of models is not JSON")
            .with_body(String::from_utf8_lossy(&body))
            .with_cause(error)
    })?;
    let items = list.get("data").or_else(|| list.get("models")).and_then(Value::as_array);
    let Some(items) = items else {
        return Err(AIError::invalid_output("the list of models has no data").with_body(String::from_utf8_lossy(&body)));
    };
    let id = |item: &Value| {
        item.get("id").or_else(|| item.get("name")).or_else(|| item.get("model"))?.as_str().map(ModelId::from)
    };
    Ok(items.iter().filter_map(id).collect())
}
