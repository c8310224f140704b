//! Plain requests to a server under test.

use std::time::{Duration, Instant};

use abide_tests::sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How long something may take that comes by itself.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes a request; fails unless it succeeds.
pub(crate) async fn request(method: &str, url: &str, body: Option<Value>) -> Value {
    let text = body.map(|body| body.to_string()).unwrap_or_default();
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{method} {url}: {answer}");
    serde_json::from_str(body).unwrap_or_default()
}

/// Makes a session in the sandbox's project.
pub(crate) async fn session(sandbox: &Sandbox, url: &str) -> String {
    let location = json!({ "location": { "directory": sandbox.project() } });
    let created = request("POST", &format!("{url}/api/session"), Some(location)).await;
    created["data"]["id"].as_str().unwrap().to_owned()
}

/// Admits a prompt.
pub(crate) async fn prompt(url: &str, session: &str, text: &str) {
    let body = json!({ "prompt": { "text": text } });
    request("POST", &format!("{url}/api/session/{session}/prompt"), Some(body)).await;
}

/// Reads the whole log, additions included.
pub(crate) async fn log(sandbox: &Sandbox, session: &str) -> Vec<Value> {
    let output = sandbox.abide(&["session", "log", session, "--format", "json"]).await;
    let text = abide_tests::sandbox::stdout(&output);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits until `look` finds something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "{what}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Reads the messages of a session, oldest first.
pub(crate) async fn messages(url: &str, session: &str) -> Vec<Value> {
    let page = request("GET", &format!("{url}/api/session/{session}/message?limit=200&order=asc"), None).await;
    page["data"].as_array().cloned().unwrap_or_default()
}

/// The texts of the session's notices.
pub(crate) async fn notices(url: &str, session: &str) -> Vec<String> {
    let all = messages(url, session).await;
    let notices = all.iter().filter(|message| message["type"] == "synthetic");
    let texts = notices.filter_map(|message| message["text"].as_str());
    texts.filter(|text| text.starts_with("<shell ") || text.starts_with("<subagent ")).map(ToOwned::to_owned).collect()
}

/// Waits until the server executes nothing.
pub(crate) async fn idle(url: &str) {
    until("the server becomes idle", || async {
        let active = request("GET", &format!("{url}/api/session/active"), None).await;
        active["data"].as_object().is_some_and(serde_json::Map::is_empty).then_some(())
    })
    .await;
}
