//! Statuses, bodies, order of checks, pages.

use abide_protocol::body::{CreateSession, PromptInput, SendPrompt};
use abide_protocol::error::ErrorTag;
use abide_protocol::query::{ListOrder, SessionsQuery};
use abide_schema::location::LocationRef;
use serde_json::{Value, json};

use super::{Reply, Server};

#[track_caller]
fn check(reply: &Reply, status: u16, fields: &Value) {
    let body = reply.json();
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/json", "{reply:?}");
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(&body[name], value, "{name} of {body}");
    }
    assert!(status < 400 || body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
}

async fn session(server: &Server) -> String {
    server.post("/api/session", "{}").await.json()["data"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn paths_and_methods() {
    let server = Server::start().await;
    check(&server.get("/api/health").await, 200, &json!({ "healthy": true }));
    check(&server.get("/api/health/").await, 200, &json!({ "healthy": true }));
    check(&server.get("/api/no-such-route").await, 404, &json!({ "_tag": "RouteNotFoundError" }));
    check(&server.get("/").await, 404, &json!({ "_tag": "RouteNotFoundError" }));
    let wrong = server.send("PUT", "/api/health", &[("content-type", "application/json")], Some("{}")).await;
    check(&wrong, 405, &json!({ "_tag": "MethodNotAllowedError" }));
    assert!(wrong.header("allow").contains("GET"), "{wrong:?}");
    check(&server.get("/api/session/ses_x/prompt").await, 405, &json!({ "_tag": "MethodNotAllowedError" }));
    let head = server.send("HEAD", "/api/health", &[], None).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    check(&server.get("/api/openapi.json").await, 200, &json!({ "openapi": "3.1.0" }));
    check(&server.get("/api/pty").await, 503, &json!({ "_tag": "ServiceUnavailableError", "service": "pty.list" }));
}

#[tokio::test]
async fn checks_are_made_in_order() {
    let server = Server::start().await;
    let known = session(&server).await;
    let prompt = |id: &str| format!("/api/session/{id}/prompt");
    check(
        &server.post(&prompt("wrong"), "{nope").await,
        400,
        &json!({ "_tag": "InvalidRequestError", "field": "sessionID", "kind": null }),
    );
    check(
        &server.post(&prompt("ses_unknown"), "{nope").await,
        404,
        &json!({ "_tag": "SessionNotFoundError", "sessionID": "ses_unknown" }),
    );
    check(
        &server.get("/api/session/ses_unknown/history?limit=0").await,
        404,
        &json!({ "_tag": "SessionNotFoundError" }),
    );
    check(
        &server.get(&format!("/api/session/{known}/history?limit=0")).await,
        400,
        &json!({ "kind": "Query", "field": "limit", "message": "Expected a value greater than 0, got 0\n  at [\"limit\"]" }),
    );
    check(
        &server.get(&format!("/api/session/{known}/message/nope")).await,
        400,
        &json!({ "_tag": "InvalidRequestError", "kind": "Params", "field": "messageID" }),
    );
    check(
        &server.get(&format!("/api/session/{known}/message/msg_none")).await,
        404,
        &json!({ "_tag": "MessageNotFoundError", "sessionID": known, "messageID": "msg_none" }),
    );
}

#[tokio::test]
async fn bodies() {
    let server = Server::start().await;
    let prompt = format!("/api/session/{}/prompt", session(&server).await);
    let payload = json!({ "_tag": "InvalidRequestError", "kind": "Payload" });
    for body in [
        "{nope",
        "[]",
        "{}",
        "{\"prompt\":{\"text\":1}}",
        "{\"id\":\"x\",\"prompt\":{\"text\":\"a\"}}",
        "{\"delivery\":\"later\",\"prompt\":{\"text\":\"a\"}}",
        "{\"prompt\":{\"text\":\"a\"}} x",
    ] {
        check(&server.post(&prompt, body).await, 400, &payload);
    }
    check(
        &server.post(&prompt, "{\"prompt\":{\"text\":1}}").await,
        400,
        &json!({ "field": "prompt", "message": "invalid type: integer `1`, expected a string\n  at [\"prompt\"][\"text\"]" }),
    );
    check(&server.send("POST", &prompt, &[], None).await, 400, &payload);
    // An absent body is an empty object where every field is optional.
    check(&server.send("POST", "/api/session", &[], None).await, 200, &json!({}));
    let untyped = server.send("POST", &prompt, &[("content-type", "text/plain")], Some("{}")).await;
    assert_eq!((untyped.status, untyped.header("content-type")), (415, "text/plain; charset=utf-8"));
    // Unknown properties are ignored.
    check(&server.post(&prompt, "{\"prompt\":{\"text\":\"a\",\"x\":1},\"y\":2}").await, 200, &json!({}));
    let small = Server::with(|options| options.max_body = 64).await;
    let large = format!("{{\"id\":\"ses_{}\"}}", "x".repeat(100));
    check(&small.post("/api/session", &large).await, 413, &json!({ "_tag": "PayloadTooLargeError" }));
}

#[tokio::test]
async fn locations() {
    let server = Server::start().await;
    let of = async |path: &str, header: Option<&str>| {
        let headers: Vec<(&str, &str)> = header.map(|value| ("x-opencode-directory", value)).into_iter().collect();
        server.send("GET", path, &headers, None).await
    };
    let query = "/api/location?location%5Bdirectory%5D=%2Ffake%2Fquery";
    check(&of("/api/location", None).await, 200, &json!({ "directory": "/fake/root" }));
    check(&of("/api/location", Some("%2Ffake%2Fa%20b")).await, 200, &json!({ "directory": "/fake/a b" }));
    check(&of(query, Some("%2Ffake%2Fheader")).await, 200, &json!({ "directory": "/fake/query" }));
    check(&of("/api/location?directory=/fake/other", None).await, 200, &json!({ "directory": "/fake/root" }));
    check(&of("/api/location?location=%7B%7D", None).await, 400, &json!({ "kind": "Query" }));
    check(&of("/api/location?location[directory]=relative", None).await, 400, &json!({ "kind": "Query" }));
    check(
        &of("/api/location?location[directory]=/gone", None).await,
        404,
        &json!({ "_tag": "LocationNotFoundError", "location": "/gone" }),
    );
    let created = server.send("POST", "/api/session", &[("x-opencode-directory", "%2Ffake%2Fheader")], None).await;
    assert_eq!(created.json()["data"]["location"]["directory"], "/fake/header");
    let created = server.post("/api/session", "{\"location\":{\"directory\":\"relative\"}}").await;
    check(&created, 400, &json!({ "kind": "Payload", "field": "location" }));
}

#[tokio::test]
async fn failures_of_the_server() {
    let server = Server::start().await;
    for directory in ["/broken", "/panic"] {
        let reply = server.get(&format!("/api/location?location[directory]={directory}")).await;
        check(&reply, 500, &json!({ "_tag": "UnknownError" }));
        let reference = reply.json()["ref"].as_str().unwrap().to_owned();
        assert!(reference.starts_with("err_") && reference.len() == 12, "{reference}");
        assert!(!reply.text.contains("secret"), "{reply:?}");
    }
}

#[tokio::test]
async fn pages_of_sessions() {
    let server = Server::start().await;
    let client = server.client();
    let mut made = Vec::new();
    for _ in 0..5 {
        let location = Some(LocationRef::new("/fake/list"));
        let input = CreateSession { id: None, agent: None, model: None, location };
        made.push(client.create_session(&input).await.unwrap().id);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    session(&server).await;
    let list = async |query: SessionsQuery| {
        let page = client.sessions(&query).await.unwrap();
        (page.data.into_iter().map(|session| session.value.id).collect::<Vec<_>>(), page.cursor)
    };
    let directory = Some("/fake/list".to_owned());
    let asc = SessionsQuery { directory: directory.clone(), order: Some(ListOrder::Asc), ..SessionsQuery::default() };
    assert_eq!(list(asc).await.0, made);
    let (first, cursor) = list(SessionsQuery { directory, limit: Some(2), ..SessionsQuery::default() }).await;
    assert_eq!(first, [made[4].clone(), made[3].clone()]);
    let (second, cursor) =
        list(SessionsQuery { limit: Some(2), cursor: cursor.next, ..SessionsQuery::default() }).await;
    assert_eq!(second, [made[2].clone(), made[1].clone()]);
    let (back, _) = list(SessionsQuery { limit: Some(2), cursor: cursor.previous, ..SessionsQuery::default() }).await;
    assert_eq!(back, first);
    let (third, cursor) = list(SessionsQuery { limit: Some(2), cursor: cursor.next, ..SessionsQuery::default() }).await;
    assert_eq!(third, [made[0].clone()]);
    let (end, cursor) = list(SessionsQuery { limit: Some(2), cursor: cursor.next, ..SessionsQuery::default() }).await;
    assert_eq!((end.len(), cursor.next, cursor.previous), (0, None, None));
    check(&server.get("/api/session?cursor=zzz").await, 400, &json!({ "_tag": "InvalidCursorError" }));
}

#[tokio::test]
async fn permissions_and_questions() {
    let server = Server::start().await;
    let client = server.client();
    let id = session(&server).await;
    let path = format!("/api/session/{id}/permission");
    let made = server.post(&path, "{\"action\":\"read\",\"resources\":[\"x\"]}").await;
    assert_eq!(made.json()["data"]["effect"], "allow");
    let body = "{\"id\":\"per_1\",\"action\":\"edit\",\"resources\":[\"x\"]}";
    for _ in 0..2 {
        let made = server.post(&path, body).await;
        assert_eq!(made.json(), json!({ "data": { "id": "per_1", "effect": "ask" } }));
    }
    let session_id = abide_schema::SessionId::parse(&id).unwrap();
    let pending = client.permissions(&session_id).await.unwrap();
    assert_eq!(pending.len(), 1);
    let other = session(&server).await;
    let foreign = server.get(&format!("/api/session/{other}/permission/per_1")).await;
    check(&foreign, 404, &json!({ "_tag": "PermissionNotFoundError", "requestID": "per_1" }));
    check(
        &server.post(&format!("{path}/per_1/reply"), "{\"reply\":\"maybe\"}").await,
        400,
        &json!({ "kind": "Payload" }),
    );
    check(&server.get(&format!("{path}/nope")).await, 400, &json!({ "kind": "Params" }));
    let reply = abide_schema::permission::Reply::Once;
    client.reply_permission(&session_id, &pending[0].id, reply, None).await.unwrap();
    let again = client.reply_permission(&session_id, &pending[0].id, reply, None).await.unwrap_err();
    assert!(again.is(ErrorTag::PermissionNotFound), "{again}");
    let question = server.post(&format!("/api/session/{id}/question/que_none/reply"), "{\"answers\":[[\"A\"]]}").await;
    check(&question, 404, &json!({ "_tag": "QuestionNotFoundError" }));
    let removed = server.send("DELETE", "/api/permission/saved/whatever", &[], None).await;
    assert_eq!((removed.status, removed.text.as_str(), removed.header("content-type")), (204, "", ""));
    let refused = client.switch_agent(&session_id, "none".into()).await.unwrap_err();
    assert!(refused.is(ErrorTag::AgentNotFound), "{refused}");
}

#[tokio::test]
async fn files() {
    let server = Server::start().await;
    let read = server.get("/api/fs/read/sub/sp%20ace.txt").await;
    assert_eq!((read.status, read.text.as_str()), (200, "<sub/sp ace.txt>"));
    assert_eq!((read.header("content-type"), read.header("content-length")), ("text/plain; charset=utf-8", "16"));
    check(
        &server.get("/api/fs/find?query=x&limit=3").await,
        200,
        &json!({ "data": [{ "path": "x 3", "type": "file" }] }),
    );
    check(&server.get("/api/fs/find?query=x&limit=0").await, 400, &json!({ "kind": "Query" }));
    check(&server.get("/api/fs/find").await, 400, &json!({ "kind": "Query", "field": "query" }));
}

#[tokio::test]
async fn prompts_and_waits() {
    let server = Server::start().await;
    let client = server.client();
    let input = CreateSession { id: None, agent: None, model: None, location: None };
    let info = client.create_session(&input).await.unwrap();
    let prompt = SendPrompt { prompt: PromptInput::text("hello"), id: None, delivery: None, resume: None };
    let receipt = client.prompt(&info.id, &prompt).await.unwrap();
    assert_eq!(receipt.prompt.text, "hello");
    let (waiting, ()) = tokio::join!(client.wait(&info.id), async { server.fake.idle.notify_one() });
    waiting.unwrap();
    // A wait ends with the server, and says so.
    let (waiting, ()) = tokio::join!(client.wait(&info.id), async {
        tokio::task::yield_now().await;
        server.shutdown.cancel();
    });
    assert!(waiting.is_err());
}
