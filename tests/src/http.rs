//! A small client for the API: one request, one connection. Servers that are killed break it, so everything may fail.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest that a server may take to answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a request and returns the body of its answer.
///
/// # Errors
/// In words: what broke, or the answer when its status is not 2xx.
pub async fn request(method: &str, url: &str, body: Option<&Value>) -> Result<Value, String> {
    let broken = |error: &dyn std::fmt::Display| format!("{method} {url}: {error}");
    let exchange = async {
        let text = body.map(ToString::to_string).unwrap_or_default();
        let (host, path) = url.trim_start_matches("http://").split_once('/').ok_or("no path")?;
        let mut stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(head.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.map_err(|error| error.to_string())?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no whole answer")?;
        if !head.starts_with("HTTP/1.1 2") {
            return Err(answer);
        }
        Ok(serde_json::from_str(body).unwrap_or_default())
    };
    match tokio::time::timeout(LIMIT, exchange).await {
        Ok(done) => done.map_err(|error: String| broken(&error)),
        Err(_elapsed) => Err(broken(&"no answer in time")),
    }
}

/// Reads the whole history of a session, in pages.
///
/// # Errors
/// As [`request`].
pub async fn history(url: &str, session: &str) -> Result<Vec<Value>, String> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let after = events.last().map(|event| format!("&after={}", event["durable"]["seq"])).unwrap_or_default();
        let page = request("GET", &format!("{url}/api/session/{session}/history?limit=100{after}"), None).await?;
        events.extend(page["data"].as_array().cloned().unwrap_or_default());
        if page["hasMore"] != true {
            return Ok(events);
        }
    }
}
