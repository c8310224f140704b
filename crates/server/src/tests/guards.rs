//! Who may ask, from where.

use super::{Reply, Server, password};

const JSON: (&str, &str) = ("content-type", "application/json");

#[track_caller]
fn check(reply: &Reply, status: u16, tag: &str) {
    assert_eq!((reply.status, reply.tag().as_str()), (status, tag), "{reply:?}");
}

#[tokio::test]
async fn credentials() {
    let server = Server::with(|options| options.credentials = password()).await;
    let basic = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let right = basic("opencode:s3cret:with colon");
    for path in ["/api/health", "/api/no-such", "/api/session/ses_none", "/api/event"] {
        let reply = server.get(path).await;
        check(&reply, 401, "UnauthorizedError");
        assert_eq!(reply.header("www-authenticate"), "Basic realm=\"Secure Area\"");
    }
    for wrong in [basic("opencode:no"), basic("other:s3cret:with colon"), basic(""), "!!".to_owned()] {
        let header = format!("Basic {wrong}");
        check(&server.send("GET", "/api/health", &[("authorization", &header)], None).await, 401, "UnauthorizedError");
    }
    let header = format!("basic {right}");
    assert_eq!(server.send("GET", "/api/health", &[("authorization", &header)], None).await.status, 200);
    let query = format!("/api/health?auth_token={}", right.replace('+', "%2B").replace('=', "%3D"));
    assert_eq!(server.get(&query).await.status, 200);
    let bearer = format!("Bearer {right}");
    check(&server.send("GET", "/api/health", &[("authorization", &bearer)], None).await, 401, "UnauthorizedError");
}

#[tokio::test]
async fn host_names() {
    let server = Server::start().await;
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:4096", "[::1]:80", "localhost."] {
        assert_eq!(server.send("GET", "/api/health", &[("host", host)], None).await.status, 200, "{host}");
    }
    for host in ["attacker.example", "attacker.example:4096", "localhost.attacker.example", "192.168.1.7", "0.0.0.0"] {
        check(&server.send("GET", "/api/health", &[("host", host)], None).await, 403, "ForbiddenError");
    }
}

#[tokio::test]
async fn origins() {
    let server = Server::with(|options| options.origins = vec!["https://app.example".to_owned()]).await;
    let session = server.post("/api/session", "{}").await.json()["data"]["id"].as_str().unwrap().to_owned();
    let interrupt = format!("/api/session/{session}/interrupt");
    for allowed in
        ["http://localhost:3000", "http://127.0.0.1:9", "http://localhost", "tauri://localhost", "https://app.example"]
    {
        let reply = server.send("POST", &interrupt, &[("origin", allowed)], None).await;
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin"), reply.header("vary")),
            (204, allowed, "Origin"),
            "{allowed}"
        );
    }
    let before = server.fake.interrupted.lock().unwrap().len();
    for foreign in [
        "https://attacker.example",
        "null",
        "http://localhost.attacker.example",
        "http://localhost:3000@attacker.example",
        "https://app.example.attacker.example",
        "http://localhost/path",
    ] {
        let reply = server.send("POST", &interrupt, &[("origin", foreign)], None).await;
        check(&reply, 403, "ForbiddenError");
        let read = server.send("GET", "/api/health", &[("origin", foreign)], None).await;
        assert_eq!((read.status, read.header("access-control-allow-origin")), (200, ""), "{foreign}");
        let upgrade = [("origin", foreign), ("upgrade", "websocket"), ("connection", "upgrade")];
        check(&server.send("GET", "/api/pty/pty_x/connect", &upgrade, None).await, 403, "ForbiddenError");
    }
    assert_eq!(server.fake.interrupted.lock().unwrap().len(), before, "nothing was done for a foreign page");
}

#[tokio::test]
async fn preflights() {
    // A preflight carries no credentials.
    let server = Server::with(|options| options.credentials = password()).await;
    let ask = async |origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,authorization"),
        ];
        server.send("OPTIONS", "/api/session", &headers, None).await
    };
    let local = ask("http://localhost:3000").await;
    assert_eq!(local.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", "http://localhost:3000"),
        ("access-control-allow-methods", "GET, HEAD, PUT, PATCH, POST, DELETE"),
        ("access-control-allow-headers", "content-type,authorization"),
        ("access-control-max-age", "86400"),
    ] {
        assert_eq!(local.header(name), value, "{name}");
    }
    let foreign = ask("https://attacker.example").await;
    assert_eq!(
        (foreign.header("access-control-allow-origin"), foreign.header("access-control-allow-methods")),
        ("", "")
    );
    // A page of this machine may read why it was refused.
    let refused = server.send("POST", "/api/session", &[("origin", "http://localhost:3000"), JSON], Some("{}")).await;
    check(&refused, 401, "UnauthorizedError");
    assert_eq!(refused.header("access-control-allow-origin"), "http://localhost:3000");
}

#[tokio::test]
async fn another_address_needs_a_password() {
    let fake = std::sync::Arc::new(super::Fake::new());
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let options = crate::ServeOptions::new(fake.root().to_owned());
    let token = tokio_util::sync::CancellationToken::new();
    let error = crate::serve(options, fake, listener, token).await.unwrap_err();
    assert!(matches!(error, crate::ServeError::PasswordRequired(_)), "{error}");
}
