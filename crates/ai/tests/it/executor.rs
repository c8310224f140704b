//! The executor of production against a server on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_ai::route::executor::ReqwestExecutor;
use abide_ai::schema::errors::TransportOperation;
use abide_ai::testing::scripted::sse_events;
use abide_ai::{AIErrorKind, LLMRequest, LlmClient, ModelEntry, RequestInput, RetryClass, StreamOptions};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What a test server does with one request.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// A whole stream.
    Stream,
    /// Half a stream, then a broken connection.
    Broken,
    /// An endless stream.
    Endless,
}

/// A server that answers every request alike and counts its connections; it tells when the peer closes.
struct Server {
    address: String,
    n_connections: Arc<AtomicUsize>,
    closed: mpsc::Receiver<()>,
    tasks: JoinSet<()>,
}

impl Server {
    async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let n_connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&n_connections);
        let (tell, closed) = mpsc::channel(8);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let tell = tell.clone();
                connections.spawn(async move {
                    serve(socket, answer).await;
                    tell.send(()).await.ok();
                });
            }
        });
        Self { address, n_connections, closed, tasks }
    }
}

async fn serve(mut socket: TcpStream, answer: Answer) {
    let body =
        sse_events([json!({ "choices": [{ "index": 0, "delta": { "content": "ok" }, "finish_reason": "stop" }] })]);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    while read_request(&mut socket).await {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        match answer {
            Answer::Stream => {
                let text = chunk(&body) + "0\r\n\r\n";
                socket.write_all(text.as_bytes()).await.unwrap();
            }
            Answer::Broken => {
                let half = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n";
                socket.write_all(chunk(half).as_bytes()).await.unwrap();
                return;
            }
            Answer::Endless => {
                let more = chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"more\"}}]}\n\n");
                while socket.write_all(more.as_bytes()).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return;
            }
        }
    }
}

/// Reads one request with its body; false when the peer is gone.
async fn read_request(socket: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                return true;
            }
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

fn client() -> LlmClient {
    LlmClient::new(Arc::new(ReqwestExecutor::new().unwrap()))
}

fn request(base_url: &str) -> LLMRequest {
    let mut entry = ModelEntry { provider: "test".into(), model: "m".into(), ..ModelEntry::default() };
    entry.settings.insert("baseURL".to_owned(), base_url.into());
    LLMRequest::make(
        entry.resolve().unwrap(),
        RequestInput { prompt: Some("hi".to_owned()), ..RequestInput::default() },
    )
}

#[tokio::test]
async fn calls_share_one_connection() {
    let mut server = Server::start(Answer::Stream).await;
    let (client, request) = (client(), request(&server.address));
    for _ in 0..5 {
        let response = client.generate(&request, StreamOptions::default()).await.unwrap();
        assert_eq!(response.text(), "ok");
    }
    assert_eq!(server.n_connections.load(Ordering::SeqCst), 1);
    server.tasks.shutdown().await;
}

#[tokio::test]
async fn a_broken_connection_is_a_read_failure() {
    let mut server = Server::start(Answer::Broken).await;
    let mut events = client().stream(&request(&server.address), StreamOptions::default());
    let mut last = None;
    let mut text = String::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => text += event.as_text_delta().map_or("", |delta| &delta.text),
            Err(error) => last = Some(error),
        }
    }
    let error = last.expect("a failure");
    assert_eq!(text, "half", "what arrived is told before the failure");
    let AIErrorKind::Transport(details) = error.kind() else { panic!("{error:?}") };
    assert_eq!((details.operation, error.retry_class()), (TransportOperation::Read, RetryClass::IfNoOutput));
    assert_eq!(error.http().unwrap().status, 200);
    server.tasks.shutdown().await;
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let mut server = Server::start(Answer::Endless).await;
    let mut events = client().stream(&request(&server.address), StreamOptions::default());
    for _ in 0..3 {
        events.next().await.unwrap().unwrap();
    }
    drop(events);
    let closed = tokio::time::timeout(Duration::from_secs(20), server.closed.recv()).await;
    assert_eq!(closed, Ok(Some(())), "the server sees the end of the connection");
    server.tasks.shutdown().await;
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let error = client().generate(&request(&address), StreamOptions::default()).await.unwrap_err();
    let AIErrorKind::Transport(details) = error.kind() else { panic!("{error:?}") };
    assert_eq!((details.operation, details.code.as_deref()), (TransportOperation::Request, Some("ECONNREFUSED")));
    assert!(error.message().starts_with("ECONNREFUSED: ") && error.http().is_none(), "{error}");
    assert_eq!(error.retry_class(), RetryClass::Safe);
}

#[tokio::test]
async fn models_of_a_server_are_listed() {
    use abide_ai::providers::discovery::list_models;
    use abide_ai::testing::scripted::{ScriptedExecutor, ScriptedResponse};
    use abide_ai::testing::test_client;

    let list = json!({ "object": "list", "data": [{ "id": "b" }, { "id": "a" }, { "object": "odd" }] });
    let executor = ScriptedExecutor::fixed(ScriptedResponse::json(200, &list));
    let key = "k".into();
    let found = list_models(&test_client(executor.clone()), "http://127.0.0.1:9/v1/", Some(&key)).await.unwrap();
    assert_eq!(found, ["b", "a"]);
    let sent = executor.requests().remove(0);
    assert_eq!((sent.method.as_str(), sent.url.as_str()), ("GET", "http://127.0.0.1:9/v1/models"));
    assert_eq!(sent.headers.get("authorization"), Some("Bearer k"));
    let page = ScriptedExecutor::fixed(ScriptedResponse::from("<html>"));
    let error = list_models(&test_client(page), "http://127.0.0.1:9/v1", None).await.unwrap_err();
    assert_eq!((error.message(), error.body()), ("the list of models is not JSON", Some("<html>")));
}
