use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tool::builtin::bench::{Outcome, Project, allow};
use crate::world::World;

fn world(variables: &[(&str, &str)]) -> World {
    let project = Project::new(allow());
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    project.bench.world.with_environment(variables.collect::<BTreeMap<_, _>>())
}

fn ids(settings: Option<Value>, variables: &[(&str, &str)]) -> Vec<String> {
    let found = available(settings.as_ref(), &world(variables));
    found.providers.iter().map(|provider| provider.id().to_owned()).collect()
}

#[test]
fn without_a_key_there_is_no_service() {
    assert_eq!(ids(None, &[]), [""; 0]);
    assert_eq!(ids(None, &[("EXA_API_KEY", "k")]), ["exa"]);
    assert_eq!(ids(None, &[("EXA_API_KEY", "k"), ("BRAVE_API_KEY", "k")]), ["exa", "brave"]);
    assert_eq!(ids(Some(json!(false)), &[("EXA_API_KEY", "k")]), [""; 0]);
    assert_eq!(ids(Some(json!({ "provider": "brave" })), &[("EXA_API_KEY", "k"), ("BRAVE_API_KEY", "k")]), ["brave"]);
    assert_eq!(ids(Some(json!({ "provider": "random" })), &[("PARALLEL_API_KEY", "k")]), ["parallel"]);
    assert_eq!(ids(Some(json!({ "providers": { "exa": { "apiKey": "k" } } })), &[]), ["exa"]);
    assert_eq!(ids(Some(json!({ "providers": { "searxng": { "baseURL": "http://a/" } } })), &[]), ["searxng"]);
}

/// Asks a service that answers with this status and body. Returns what it was asked, too.
#[expect(clippy::disallowed_methods, reason = "a server of a test ends with it")]
async fn search(id: &str, status: u16, body: &str) -> (Result<Outcome, String>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 16 * 1024];
        let n = stream.read(&mut request).await.unwrap();
        let _gone = stream.write_all(answer.as_bytes()).await;
        String::from_utf8_lossy(&request[..n]).into_owned()
    });
    let own = json!({ "apiKey": "key-0123456789", "baseURL": format!("http://{address}/") });
    let settings = json!({ "provider": id, "providers": { id: own } });
    let provider = available(Some(&settings), &world(&[])).providers.remove(0);
    let project = Project::new(allow());
    let tool = WebSearch::new(project.bench.permissions.clone(), provider);
    let outcome = project.call(&tool, "call", json!({ "query": "rust news" })).await;
    (outcome, asked.await.unwrap())
}

/// WB5.
#[tokio::test]
async fn results_of_every_service() {
    let blocks = "Title: One\nURL: https://a/1\nPublished Date: 2026-01-02\nText: first\nsecond\n\nTitle: Two\nURL: https://a/2\nText: x";
    let expected = "## [One](https://a/1)\nPublished: 2026-01-02\n\nfirst\nsecond\n\n## [Two](https://a/2)\n\nx";
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": blocks }] } });
    for body in [reply.to_string(), format!(": hello\nevent: message\ndata: {reply}\n\n")] {
        let (outcome, asked) = search("exa", 200, &body).await;
        let outcome = outcome.unwrap();
        assert_eq!(outcome.text, expected);
        assert_eq!(outcome.metadata, json!({ "provider": "exa" }));
        assert!(asked.starts_with("POST /?exaApiKey=key-0123456789 "), "{asked}");
    }
    let list =
        json!({ "results": [{ "url": "https://b", "title": "B", "excerpts": ["x", "y"], "publish_date": "2026" }] });
    let reply = json!({ "result": { "content": [{ "type": "text", "text": list.to_string() }] } });
    let (outcome, asked) = search("parallel", 200, &reply.to_string()).await;
    assert_eq!(outcome.unwrap().text, "## [B](https://b)\nPublished: 2026\n\nx\ny");
    assert!(asked.to_ascii_lowercase().contains("authorization: bearer key-0123456789"), "{asked}");
    let brave = json!({ "web": { "results": [{ "url": "https://c", "title": "C", "description": "d" }] } });
    let (outcome, asked) = search("brave", 200, &brave.to_string()).await;
    assert_eq!(outcome.unwrap().text, "## [C](https://c)\n\nd");
    assert!(asked.starts_with("GET /?q=rust+news&count=8 "), "{asked}");
    let (outcome, asked) = search("searxng", 200, &json!({ "results": [{ "url": "https://d" }] }).to_string()).await;
    assert_eq!(outcome.unwrap().text, "## [https://d](https://d)");
    assert!(asked.starts_with("GET /search?q=rust+news&format=json "), "{asked}");
    let (outcome, _) = search("searxng", 200, "{}").await;
    assert_eq!(outcome.unwrap().text, "No search results. Try a different query.");
}

#[tokio::test]
async fn failures_name_no_key() {
    let large = "x".repeat(services::MAX_BODY_BYTES + 1);
    let refused = json!({ "error": { "message": "bad query" } }).to_string();
    for (status, body, expected) in [
        (401, "", "The search provider rejected the credentials (HTTP 401)"),
        (429, "", "The search provider is rate limiting (HTTP 429)"),
        (503, "", "The search provider answered HTTP 503"),
        (200, large.as_str(), "Web search for rust news failed: the answer is over the limit of 262144 bytes"),
        (200, refused.as_str(), "Web search for rust news failed: bad query"),
    ] {
        let (outcome, _) = search("exa", status, body).await;
        let error = outcome.unwrap_err();
        assert_eq!(error, expected);
        assert!(!error.contains("key-0123456789"));
    }
    let settings = json!({ "providers": { "exa": { "apiKey": "key-0123456789", "baseURL": "http://127.0.0.1:1/" } } });
    let found = available(Some(&settings), &world(&[]));
    assert_eq!(found.keys, ["key-0123456789"]);
    let error = found.providers[0].search("x", "ses").await.unwrap_err().to_string();
    assert!(!error.contains("key-0123456789"), "{error}");
}
