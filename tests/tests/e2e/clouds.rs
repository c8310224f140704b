//! Providers of the clouds, reached with keys of the environment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_ai::testing::scripted::{event_frame, sse_events};
use abide_tests::sandbox::{Sandbox, stderr, stdout};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// The longest that one command may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What was asked: the first line and the headers, and the body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A server on this machine that gives these bodies one after another.
async fn serve(kind: &'static str, bodies: Vec<Vec<u8>>) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    #[expect(clippy::disallowed_methods, reason = "the server ends with the test's runtime")]
    tokio::spawn(async move {
        for body in bodies {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let (head, length, start) = loop {
                assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "a whole request");
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some(end) = text.find("\r\n\r\n") else { continue };
                let head = text[..end].to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                break (text[..end].to_owned(), length.parse::<usize>().unwrap(), end + 4);
            };
            while bytes.len() < start + length {
                assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "a whole request");
            }
            log.lock().unwrap().push((head, serde_json::from_slice(&bytes[start..start + length]).unwrap()));
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            socket.write_all(answer.as_bytes()).await.unwrap();
            socket.write_all(&body).await.unwrap();
        }
    });
    (url, asked)
}

fn gemini(parts: Value) -> Vec<u8> {
    let usage = json!({ "promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5 });
    let candidate = json!({ "content": { "parts": parts }, "finishReason": "STOP" });
    sse_events([json!({ "candidates": [candidate], "usageMetadata": usage })]).into_bytes()
}

fn converse(events: &[(&str, Value)]) -> Vec<u8> {
    events.iter().flat_map(|(kind, payload)| event_frame(kind, payload)).collect()
}

#[tokio::test]
async fn google_answers_and_calls_tools() {
    let call =
        json!({ "functionCall": { "name": "read", "args": { "path": "hello.txt" } }, "thoughtSignature": "c2ln" });
    let bodies = vec![
        gemini(json!([{ "text": "Hi " }, { "text": "there." }])),
        gemini(json!([call])),
        gemini(json!([{ "text": "It says hello." }])),
    ];
    let (url, asked) = serve("text/event-stream", bodies).await;
    let sandbox = Sandbox::new();
    sandbox.write("hello.txt", "hello world\n");
    // An address of one's own is no place to send the key of the environment to, unless it is said.
    let settings = json!({ "baseURL": url });
    sandbox.configure(&json!({ "providers": { "google": { "settings": settings, "env": ["GEMINI_API_KEY"] } } }));
    let run = async |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        let output = timeout(LIMIT, command.env("GEMINI_API_KEY", "key-1").output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(run(&["ai", "stream", "-m", "google/gemini-2.5-flash", "hi"]).await, "Hi there.\n");
    let answer = run(&["run", "-m", "google/gemini-2.5-flash", "read it"]).await;
    assert_eq!(answer, "It says hello.\n");
    let asked = asked.lock().unwrap();
    let (head, body) = &asked[0];
    assert!(head.starts_with("POST /models/gemini-2.5-flash:streamGenerateContent?alt=sse HTTP/1.1"), "{head}");
    assert!(head.contains("x-goog-api-key: key-1"), "{head}");
    assert_eq!(body["contents"], json!([{ "role": "user", "parts": [{ "text": "hi" }] }]));
    let contents = asked[2].1["contents"].as_array().unwrap();
    let parts: Vec<&Value> = contents.iter().flat_map(|turn| turn["parts"].as_array().unwrap()).collect();
    assert!(parts.contains(&&call), "the call goes back with its signature: {parts:?}");
    let result = parts.iter().find_map(|part| part.get("functionResponse")).expect("the result of the call");
    assert!(result["response"]["content"].as_str().unwrap().contains("hello world"), "{result}");
}

#[tokio::test]
async fn bedrock_answers_and_calls_tools() {
    let text = |text: &str| ("contentBlockDelta", json!({ "contentBlockIndex": 0, "delta": { "text": text } }));
    let end = |reason: &str| ("messageStop", json!({ "stopReason": reason }));
    let usage = ("metadata", json!({ "usage": { "inputTokens": 3, "outputTokens": 2, "totalTokens": 5 } }));
    let start = json!({ "contentBlockIndex": 0, "start": { "toolUse": { "toolUseId": "tooluse_1", "name": "read" } } });
    let input = json!({ "contentBlockIndex": 0, "delta": { "toolUse": { "input": "{\"path\":\"hello.txt\"}" } } });
    let stop = ("contentBlockStop", json!({ "contentBlockIndex": 0 }));
    let call =
        [("contentBlockStart", start), ("contentBlockDelta", input), stop.clone(), end("tool_use"), usage.clone()];
    let bodies = vec![
        converse(&[text("Hi "), text("there."), stop.clone(), end("end_turn"), usage.clone()]),
        converse(&call),
        converse(&[text("It says hello."), stop, end("end_turn"), usage]),
    ];
    let (url, asked) = serve("application/vnd.amazon.eventstream", bodies).await;
    let sandbox = Sandbox::new();
    sandbox.write("hello.txt", "hello world\n");
    sandbox.configure(&json!({ "providers": { "amazon-bedrock": { "settings": { "baseURL": url } } } }));
    let run = async |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env_remove("AWS_BEARER_TOKEN_BEDROCK").env_remove("AWS_PROFILE").env_remove("AWS_SESSION_TOKEN");
        command.env("AWS_REGION", "us-west-2").env("AWS_ACCESS_KEY_ID", "AKID").env("AWS_SECRET_ACCESS_KEY", "s");
        let output = timeout(LIMIT, command.output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    let model = "amazon-bedrock/amazon.nova-pro-v1:0";
    assert_eq!(run(&["ai", "stream", "-m", model, "hi"]).await, "Hi there.\n");
    assert_eq!(run(&["run", "-m", model, "read it"]).await, "It says hello.\n");
    let asked = asked.lock().unwrap();
    let (head, body) = &asked[0];
    assert!(head.starts_with("POST /model/us.amazon.nova-pro-v1%3A0/converse-stream HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: AWS4-HMAC-SHA256 Credential=AKID/"), "{head}");
    assert_eq!(body["modelId"], "us.amazon.nova-pro-v1:0");
    let messages = asked[2].1["messages"].as_array().unwrap();
    let blocks: Vec<&Value> = messages.iter().flat_map(|message| message["content"].as_array().unwrap()).collect();
    let call = blocks.iter().find_map(|block| block.get("toolUse")).expect("the call goes back");
    let result = blocks.iter().find_map(|block| block.get("toolResult")).expect("so does its result");
    assert_eq!((&call["toolUseId"], &result["toolUseId"]), (&json!("tooluse_1"), &json!("tooluse_1")));
    assert!(result["content"].to_string().contains("hello world"), "{result}");
}
