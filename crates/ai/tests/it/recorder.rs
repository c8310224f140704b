//! Recording and replay: what is written, what is refused, what matches.

use std::sync::Arc;

use abide_ai::route::executor::{HttpExecutor as _, HttpRequest};
use abide_ai::route::headers::Headers;
use abide_ai::testing::cassette::{Cassette, CassetteError};
use abide_ai::testing::record::RecordExecutor;
use abide_ai::testing::redact::Redaction;
use abide_ai::testing::replay::{Delivery, ReplayExecutor};
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, ScriptedResponse};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use url::Url;

fn request(url: &str, body: &str) -> HttpRequest {
    HttpRequest {
        method: "POST".to_owned(),
        url: Url::parse(url).unwrap(),
        headers: Headers::from_iter([
            ("content-type", "application/json"),
            ("authorization", "Bearer abc"),
            ("x-other", "1"),
        ]),
        body: Bytes::from(body.to_owned()),
    }
}

async fn text(executor: &ReplayExecutor, request: HttpRequest) -> Result<String, String> {
    let mut response = executor.execute(request).await.map_err(|error| error.message().to_owned())?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.body.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    Ok(String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn record_and_replay() {
    let dir = tempfile::tempdir().unwrap();
    let inner = ScriptedExecutor::dynamic(|index, _| {
        let mut response = ScriptedResponse::json(200, &json!({ "n": index, "access_token": "deep" }));
        if index == 2 {
            response.body = ScriptedBody::bytes(Bytes::from_static(b"\x00\xff"));
            response.headers.set("content-type", "application/octet-stream");
        }
        Ok(response)
    });
    let redaction =
        || Redaction::default().with_header("X-Other").with_url_text("/accounts/1234", "/accounts/{account}");
    let recorder = RecordExecutor::new(Arc::new(inner), redaction());
    let url = "https://user:pw@a.test/accounts/1234/x?key=k&b=2";
    for body in [r#"{"b":1,"a":2.0,"password":"pw"}"#, r#"{"b":2}"#, "plain"] {
        recorder.execute(request(url, body)).await.unwrap();
    }
    let metadata = json!({ "name": "folder/one" }).as_object().unwrap().clone();
    let path = recorder.save(dir.path(), "folder/one", metadata, &[]).unwrap();
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written.ends_with("}\n") && written.starts_with("{\n  \"version\": 1,\n"));
    let file: Value = serde_json::from_str(&written).unwrap();
    let wanted = json!({
        "method": "POST",
        "url": "https://a.test/accounts/{account}/x?key=%5BREDACTED%5D&b=2",
        "headers": { "content-type": "application/json", "x-other": "1" },
        "body": "{\"b\":1,\"a\":2.0,\"password\":\"[REDACTED]\"}",
    });
    assert_eq!(file["interactions"][0]["request"], wanted);
    assert_eq!(file["interactions"][0]["response"]["body"], "{\"n\":0,\"access_token\":\"[REDACTED]\"}");
    assert_eq!(file["interactions"][2]["response"]["bodyEncoding"], "base64");

    let replay = ReplayExecutor::load(dir.path(), "folder/one", redaction()).unwrap();
    // Any order; keys in any order; numbers by value.
    assert_eq!(text(&replay, request(url, r#"{"b":2.0}"#)).await.unwrap(), r#"{"n":1,"access_token":"[REDACTED]"}"#);
    let first = request(url, r#"{"password":"other","a":2,"b":1}"#);
    assert_eq!(text(&replay, first.clone()).await.unwrap(), r#"{"n":0,"access_token":"[REDACTED]"}"#);
    assert!(matches!(replay.verify(), Err(CassetteError::Unused { unused: 1, total: 3 })));
    let error = text(&replay, first).await.unwrap_err();
    assert!(error.contains("closest is interaction 2 of folder/one"), "{error}");
    replay.execute(request(url, "plain")).await.unwrap();
    assert!(replay.verify().is_ok());
    let error = text(&replay, request(url, "plain")).await.unwrap_err();
    assert!(error.contains("all interactions of folder/one are used"), "{error}");
}

#[tokio::test]
async fn equal_requests_get_responses_in_order() {
    let exchange = |body: &str| {
        json!({
            "transport": "http",
            "request": {
                "method": "POST", "url": "https://a.test/", "headers": { "content-type": "application/json" }, "body": "{}",
            },
            "response": { "status": 200, "headers": {}, "body": body },
        })
    };
    let interactions = [exchange("one"), exchange("two")];
    let cassette: Cassette = serde_json::from_value(json!({ "version": 1, "interactions": interactions })).unwrap();
    let replay = ReplayExecutor::new("two", cassette, Redaction::default(), Delivery::Pieces(1));
    for wanted in ["one", "two"] {
        assert_eq!(text(&replay, request("https://a.test/", "{}")).await.unwrap(), wanted);
    }
    let error = text(&replay, request("https://a.test/", "{}")).await.unwrap_err();
    assert!(error.contains("are used"), "{error}");
}

#[test]
fn differences_name_the_place() {
    let cassette: Cassette = serde_json::from_value(json!({
        "version": 1,
        "interactions": [{
            "transport": "http",
            "request": { "method": "POST", "url": "https://a.test/", "headers": {}, "body": "{\"a\":{\"b\":[1,2]},\"gone\":true}" },
            "response": { "status": 200, "headers": {}, "body": "" },
        }],
    }))
    .unwrap();
    let replay = ReplayExecutor::new("one", cassette, Redaction::default(), Delivery::Whole);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error =
        runtime.block_on(text(&replay, request("https://a.test/", "{\"a\":{\"b\":[1,3]},\"new\":\"x\"}"))).unwrap_err();
    let wanted = "no recorded interaction matches the request\n\
        closest is interaction 0 of one:\n  \
        header content-type: recorded None, got Some(\"application/json\")\n  \
        body.a.b[1]: recorded 2, got 3\n  \
        body.gone: recorded true, missing\n  \
        body.new: not recorded, got \"x\"";
    assert_eq!(error, wanted);
}

#[test]
fn secrets_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |body: &str, env: &[(String, String)], wanted: &str| {
        let cassette: Cassette = serde_json::from_value(json!({
            "version": 1,
            "interactions": [{
                "transport": "http",
                "request": { "method": "POST", "url": "https://a.test/", "headers": {}, "body": "" },
                "response": { "status": 200, "headers": {}, "body": body },
            }],
        }))
        .unwrap();
        match cassette.save(dir.path(), "one", env) {
            Ok(_) => assert_eq!(wanted, ""),
            Err(error) => {
                assert_eq!(
                    error.to_string(),
                    format!("refusing to write a cassette: interactions[0].response.body {wanted}")
                );
            }
        }
    };
    check("fine, a task-oriented disk-usage-of-nothing-at-all", &[], "");
    check(&format!("sk-{}", "a1".repeat(16)), &[], "holds a secret key");
    check(&format!("Bearer {}", "x".repeat(20)), &[], "holds a bearer token");
    let env = [("MY_API_KEY".to_owned(), "0123456789abc".to_owned()), ("HOME".to_owned(), "0123456789xyz".to_owned())];
    check("at 0123456789xyz", &env, "");
    check("at 0123456789abc", &env, "holds the value of MY_API_KEY");
    for name in ["../up", "/abs", "", "a/./../b"] {
        assert!(matches!(Cassette::load(dir.path(), name), Err(CassetteError::Name { .. })), "{name:?}");
    }
    assert!(matches!(Cassette::load(dir.path(), "none"), Err(CassetteError::Missing { .. })));
}
