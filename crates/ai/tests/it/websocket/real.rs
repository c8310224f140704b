//! Real sockets: the handshake, its refusal, closes, sizes and cancellation, against a server on loopback.

use std::sync::Arc;
use std::time::Duration;

use abide_ai::route::headers::Headers;
use abide_ai::route::transport::websocket::{
    MAX_MESSAGE_BYTES, ReqwestConnector, SocketRequest, WebSocketConnector as _,
};
use abide_ai::route::transport::websocket_pool::{ChannelPool, ChannelPoolOptions};
use abide_ai::schema::errors::{AuthenticationKind, Delivery, TransportPhase};
use abide_ai::testing::scripted::{ScriptedExecutor, sse_named};
use abide_ai::testing::test_client;
use abide_ai::{AIErrorKind, StreamOptions};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{details, request, response, text_item};

const LIMIT: Duration = Duration::from_secs(20);

/// A server whose first connection is served by a function; ends with the test.
async fn serve<R>(handle: impl FnOnce(TcpStream) -> R + Send + 'static) -> (String, JoinSet<()>)
where
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        handle(stream).await;
    });
    (base, tasks)
}

async fn accept(stream: TcpStream) -> WebSocketStream<TcpStream> {
    tokio_tungstenite::accept_async(stream).await.unwrap()
}

async fn received(socket: &mut WebSocketStream<TcpStream>) -> Value {
    let message = timeout(LIMIT, socket.next()).await.unwrap().unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

fn options() -> StreamOptions {
    let connector = Arc::new(ReqwestConnector::new().unwrap());
    StreamOptions::with_web_socket(Arc::new(ChannelPool::new(connector, ChannelPoolOptions::default())))
}

#[tokio::test]
async fn a_call() {
    let (base, mut server) = serve(|stream| async move {
        let mut socket = accept(stream).await;
        assert_eq!(received(&mut socket).await["type"], "response.create");
        socket.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
        let events = response("resp_1", text_item("msg_1", "hé"));
        for (index, event) in events.iter().enumerate() {
            // Binary messages are text too.
            let text = event.to_string();
            let message = if index == 2 { Message::Binary(text.into()) } else { Message::Text(text.into()) };
            socket.send(message).await.unwrap();
        }
        assert_eq!(timeout(LIMIT, socket.next()).await.unwrap().unwrap().unwrap(), Message::Pong("there?".into()));
    })
    .await;
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    let options = options();
    let answer = timeout(LIMIT, client.generate(&request(&base), options.clone())).await.unwrap().unwrap();
    assert_eq!(answer.text(), "hé");
    timeout(LIMIT, server.join_next()).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_dropped_stream_closes_the_connection() {
    let (base, mut server) = serve(|stream| async move {
        let mut socket = accept(stream).await;
        received(&mut socket).await;
        let created = json!({ "type": "response.created", "response": { "id": "resp_1" } });
        let added = json!({
            "type": "response.output_item.added", "output_index": 0,
            "item": { "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup" },
        });
        for event in [created, added] {
            socket.send(Message::Text(event.to_string().into())).await.unwrap();
        }
        // Until the client is gone, with a goodbye or without.
        while let Some(Ok(_)) = timeout(LIMIT, socket.next()).await.unwrap() {}
    })
    .await;
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    let mut stream = client.stream(&request(&base), options());
    timeout(LIMIT, stream.next()).await.unwrap().unwrap().unwrap();
    drop(stream);
    timeout(LIMIT, server.join_next()).await.unwrap().unwrap().unwrap();
}

/// Answers the handshake with something else.
async fn refuse(stream: TcpStream, answer: &'static str) {
    let mut stream = stream;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        head.push(byte[0]);
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_refused_upgrade_is_classified() {
    let answer = "HTTP/1.1 401 Unauthorized\r\nx-request-id: r1\r\ncontent-length: 31\r\n\r\n{\"error\":{\"message\":\"bad key\"}}";
    let (base, _server) = serve(move |stream| refuse(stream, answer)).await;
    let http = ScriptedExecutor::scripted([""; 0]);
    let failure = timeout(LIMIT, test_client(http.clone()).generate(&request(&base), options())).await.unwrap();
    let failure = failure.unwrap_err();
    assert!(matches!(failure.kind(), AIErrorKind::Authentication { kind: AuthenticationKind::Invalid }), "{failure:?}");
    assert_eq!(failure.message(), "WebSocket upgrade rejected with HTTP 401");
    assert_eq!(failure.body(), Some("{\"error\":{\"message\":\"bad key\"}}"));
    let context = failure.http().unwrap();
    assert_eq!((context.status, context.headers["x-request-id"].as_str()), (401, "r1"));
    assert!(http.requests().is_empty(), "HTTP would say the same");
}

#[tokio::test]
async fn a_server_without_sockets_is_asked_over_http() {
    let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
    let (base, _server) = serve(move |stream| refuse(stream, answer)).await;
    let http = ScriptedExecutor::fixed(sse_named(response("resp_1", text_item("msg_1", "over HTTP"))));
    let answer = timeout(LIMIT, test_client(http).generate(&request(&base), options())).await.unwrap().unwrap();
    assert_eq!(answer.text(), "over HTTP");
}

#[tokio::test]
async fn an_answer_to_another_handshake_is_refused() {
    let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n";
    let (base, _server) = serve(move |stream| refuse(stream, answer)).await;
    let url = base.replace("http", "ws").parse().unwrap();
    let opened = ReqwestConnector::new().unwrap().connect(SocketRequest { url, headers: Headers::new() });
    let Err(failure) = timeout(LIMIT, opened).await.unwrap() else { panic!("it opened") };
    let found = details(&failure);
    assert_eq!((found.code.as_deref(), found.phase), (Some("invalid-handshake"), Some(TransportPhase::Connect)));
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let opened = ReqwestConnector::new().unwrap().connect(SocketRequest { url, headers: Headers::new() });
    let Err(failure) = timeout(LIMIT, opened).await.unwrap() else { panic!("it opened") };
    let found = details(&failure);
    assert_eq!((found.code.as_deref(), found.delivery), (Some("ECONNREFUSED"), Some(Delivery::NotSent)));
}

#[tokio::test]
async fn close_code_and_reason_are_kept() {
    let (base, _server) = serve(|stream| async move {
        let mut socket = accept(stream).await;
        received(&mut socket).await;
        let frame = CloseFrame { code: CloseCode::Library(4001), reason: "too late".into() };
        socket.close(Some(frame)).await.unwrap();
        while let Some(Ok(_)) = timeout(LIMIT, socket.next()).await.unwrap() {}
    })
    .await;
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    let failure = timeout(LIMIT, client.generate(&request(&base), options())).await.unwrap().unwrap_err();
    let found = details(&failure);
    assert_eq!((found.code.as_deref(), found.phase), (Some("4001"), Some(TransportPhase::Close)));
    assert_eq!(failure.body(), Some("too late"));
    assert_eq!(failure.http().map(|http| http.status), Some(101));
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused() {
    let (base, _server) = serve(|stream| async move {
        let mut socket = accept(stream).await;
        received(&mut socket).await;
        // The client may hang up in the middle.
        drop(socket.send(Message::Text("x".repeat(MAX_MESSAGE_BYTES + 1).into())).await);
    })
    .await;
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    let failure = timeout(LIMIT, client.generate(&request(&base), options())).await.unwrap().unwrap_err();
    assert_eq!(details(&failure).code.as_deref(), Some("message-too-large"));
}
