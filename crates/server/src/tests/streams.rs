//! Event streams.

use std::time::Duration;

use abide_protocol::body::CreateSession;
use abide_protocol::client::LogItem;
use abide_schema::live::{FileEdited, LiveEvent};
use abide_schema::{Seq, SessionId};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::Server;
use crate::backend::Backend as _;

/// No test waits longer than this for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

async fn session(server: &Server) -> SessionId {
    let input = CreateSession { id: None, agent: None, model: None, location: None };
    server.client().create_session(&input).await.unwrap().id
}

async fn admit(server: &Server, session: &SessionId, text: &str) {
    let data = server.fake.admission(session, text);
    server.fake.append(session, data.into()).await;
}

/// Reads a stream as it stands on the wire.
struct Wire {
    status: u16,
    headers: reqwest::header::HeaderMap,
    response: reqwest::Response,
    text: String,
}

impl Wire {
    async fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = server.http.get(format!("{}{path}", server.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = tokio::time::timeout(PATIENCE, request.send()).await.unwrap().unwrap();
        Self { status: response.status().as_u16(), headers: response.headers().clone(), response, text: String::new() }
    }

    /// Reads until `enough` of the text.
    async fn until(&mut self, enough: impl Fn(&str) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !enough(&self.text) {
            let chunk = tokio::time::timeout_at(deadline, self.response.chunk()).await;
            let Ok(chunk) = chunk else { panic!("it did not come: {}", self.text) };
            self.text.push_str(std::str::from_utf8(&chunk.unwrap().expect("the stream goes on")).unwrap());
        }
    }

    fn ids(&self) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
    }

    fn events(&self) -> Vec<Value> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|text| serde_json::from_str(text).unwrap())
            .collect()
    }
}

#[tokio::test]
async fn a_quiet_stream_begins_at_once_and_stays_alive() {
    let server = Server::with(|options| options.heartbeat = Duration::from_millis(20)).await;
    let id = session(&server).await;
    for path in [format!("/api/session/{id}/event?after=1000000"), "/api/event".to_owned()] {
        let mut wire = Wire::open(&server, &path, &[]).await;
        assert_eq!(wire.status, 200);
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache, no-transform"),
            ("x-accel-buffering", "no"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(wire.headers.get(name).unwrap(), value, "{path}");
        }
        wire.until(|text| text.matches(": heartbeat\n\n").count() >= 3).await;
    }
}

#[tokio::test]
async fn replay_and_tail_are_one_sequence() {
    let server = Server::start().await;
    let id = session(&server).await;
    for index in 0..5 {
        admit(&server, &id, &index.to_string()).await;
    }
    let mut all = Wire::open(&server, &format!("/api/session/{id}/event"), &[]).await;
    all.until(|text| text.matches("\nid: ").count() == 5).await;
    admit(&server, &id, "live").await;
    all.until(|text| text.contains("\"live\"") && text.ends_with("\n\n")).await;
    // The creation is no part of the contract's stream.
    assert_eq!(all.ids(), ["1", "2", "3", "4", "5", "6"]);
    let events = all.events();
    assert_eq!(
        events.iter().map(|event| event["durable"]["seq"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    assert!(
        events.iter().all(|event| event.get("created").is_none() && event["location"]["directory"] == "/fake/root")
    );
    let history = server.get(&format!("/api/session/{id}/history")).await.json();
    assert_eq!((&history["data"], &history["hasMore"]), (&Value::Array(events), &Value::Bool(false)));
    for (query, last, first) in [("?after=2", "4", "5"), ("?after=5", "3", "6"), ("", "5", "6")] {
        let headers = [("last-event-id", last)];
        let mut resumed = Wire::open(&server, &format!("/api/session/{id}/event{query}"), &headers).await;
        resumed.until(|text| text.contains("\"live\"")).await;
        assert_eq!(resumed.ids().first(), Some(&first), "{query} {last}");
    }
    assert_eq!(server.get(&format!("/api/session/{id}/event?after=-1")).await.status, 400);
    assert_eq!(server.get("/api/session/ses_none/event").await.tag(), "SessionNotFoundError");
}

#[tokio::test]
async fn the_instance_stream() {
    let server = Server::start().await;
    let mut wire = Wire::open(&server, "/api/event", &[]).await;
    wire.until(|text| text.contains("server.connected")).await;
    let id = session(&server).await;
    admit(&server, &id, "hello").await;
    let live = FileEdited { file: "x".to_owned() }.into();
    server.fake.store().publish_live(LiveEvent { id: server.fake.world().event_id(), location: None, data: live });
    wire.until(|text| text.contains("file.edited") && text.ends_with("\n\n")).await;
    let events = wire.events();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["server.connected", "session.created", "session.next.prompt.admitted", "file.edited"]);
    assert_eq!(
        (&events[1]["durable"]["seq"], &events[1]["data"]["info"]["directory"]),
        (&0.into(), &"/fake/root".into())
    );
}

#[tokio::test]
async fn the_log() {
    let server = Server::start().await;
    let id = session(&server).await;
    admit(&server, &id, "one").await;
    let client = server.client();
    let whole: Vec<LogItem> = client.log(&id, None, false).map(Result::unwrap).collect().await;
    let seqs: Vec<Option<u64>> = whole.iter().map(|item| Some(item.decode()?.unwrap().seq.0)).collect();
    assert_eq!(seqs, [Some(0), Some(1), None]);
    assert!(matches!(whole.last(), Some(LogItem::Synced { seq: Some(Seq(1)) })), "{whole:?}");
    let experimental = server.get(&format!("/api/experimental/session/{id}/log?after=0")).await;
    assert_eq!((experimental.text.matches("id: ").count(), experimental.text.contains("log.synced")), (1, true));

    let mut follow = client.log(&id, Some(Seq(0)), true);
    let mut got = Vec::new();
    for text in ["two", "three"] {
        admit(&server, &id, text).await;
    }
    while got.len() < 4 {
        let item = tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap().unwrap();
        got.push(item.decode().map(|event| event.unwrap().seq.0));
    }
    let positions: Vec<u64> = got.iter().flatten().copied().collect();
    assert_eq!((positions, got.iter().filter(|item| item.is_none()).count()), (vec![1, 2, 3], 1));
}

#[tokio::test]
async fn a_client_comes_back_where_it_was() {
    let server = Server::start().await;
    let id = session(&server).await;
    admit(&server, &id, "one").await;
    let fake = server.fake.clone();
    let client = server.client();
    let mut follow = client.log(&id, None, true);
    let mut events = client.events();
    let mut next = async || tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(next().await.decode().unwrap().unwrap().seq, Seq(0));
    assert_eq!(next().await.decode().unwrap().unwrap().seq, Seq(1));
    assert!(next().await.decode().is_none());
    let connected = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(connected.kind, "server.connected");

    // The server stops, breaks the streams off, and comes back on its port with the same log.
    let address = server.url.trim_start_matches("http://").to_owned();
    server.shutdown.cancel();
    let mut server = server;
    (&mut server.task).await.unwrap();
    let listener = loop {
        // The port may take a moment to be free.
        match tokio::net::TcpListener::bind(&address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let token = tokio_util::sync::CancellationToken::new();
    let options = crate::ServeOptions::new(fake.root().to_owned());
    let task = fake.world().spawn(crate::serve(options, fake.clone(), listener, token.clone()));
    fake.append(&id, fake.admission(&id, "two").into()).await;
    assert_eq!(next().await.decode().unwrap().unwrap().seq, Seq(2));
    let connected = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(connected.kind, "server.connected");
    token.cancel();
    task.await.unwrap().unwrap();
}
