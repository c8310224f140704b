//! Cases that come as rows: HTTP failures, counters, tool schemas.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use abide_ai::protocols::utils::tool_schema::{Projection, project};
use abide_ai::schema::JsonObject;
use abide_ai::schema::model::{Compatibility, ToolSchemaKind};
use abide_ai::testing::scripted::{
    ScriptedBody, ScriptedExecutor, ScriptedResponse, event_frame, sse_events, sse_named,
};
use abide_ai::testing::{TestHost, test_client};
use abide_ai::{LLMEvent, LlmClient, RequestPatch, RetryClass, StreamOptions, ToolDefinition};
use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::stream::kind;
use crate::support::{ask, files, fixtures, model, run};

fn rows(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(fixtures("cases").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn http_errors() {
    for row in rows("http-errors.json") {
        let body = row["body"].as_str().map_or_else(|| row["body"].to_string(), str::to_owned);
        let mut response = ScriptedResponse::sse(ScriptedBody::bytes(body.clone()));
        response.status = u16::try_from(row["status"].as_u64().unwrap()).unwrap();
        response.headers.set("content-type", "application/json");
        for (name, value) in row["headers"].as_object().into_iter().flatten() {
            response.headers.set(name, value.as_str().unwrap());
        }
        let status = response.status;
        for protocol in ["openai-chat", "anthropic-messages", "openai-responses", "gemini", "bedrock-converse"] {
            let request = ask(model(protocol, "m-test", Compatibility::default()));
            let client = test_client(ScriptedExecutor::fixed(response.clone()));
            let error = client.generate(&request, StreamOptions::default()).await.unwrap_err();
            let found = (kind(&error), error.retry_class() != RetryClass::Never);
            let wanted = (row["kind"].as_str().unwrap(), row["retryable"].as_bool().unwrap());
            assert_eq!(found, wanted, "{protocol}: {row}: {error:?}");
            assert_eq!((error.body(), error.http().map(|http| http.status)), (Some(body.as_str()), Some(status)));
        }
    }
}

#[tokio::test]
async fn retry_after() {
    let now: DateTime<Utc> = "2031-03-01T12:00:00Z".parse().unwrap();
    let check = async |headers: &[(&str, &str)], wanted: Option<u64>| {
        let mut response = ScriptedResponse::json(429, &json!({ "error": { "message": "slow down" } }));
        for (name, value) in headers {
            response.headers.set(name, *value);
        }
        let http = Arc::new(ScriptedExecutor::fixed(response));
        let client = LlmClient::new(http).with_host(Arc::new(TestHost::default().at(now)));
        let request = ask(model("openai-chat", "m-test", Compatibility::default()));
        let error = client.generate(&request, StreamOptions::default()).await.unwrap_err();
        assert_eq!(error.retry_after_ms(), wanted, "{headers:?}");
        error
    };
    check(&[("retry-after", "7")], Some(7000)).await;
    check(&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1500)).await;
    check(&[("retry-after", "Sat, 01 Mar 2031 12:00:04 GMT")], Some(4000)).await;
    check(&[("retry-after", "Sat, 01 Mar 2031 11:00:00 GMT")], Some(0)).await;
    check(&[("retry-after", "Saturday, 01-Mar-31 12:00:09 GMT")], Some(9000)).await;
    check(&[("retry-after", "Sat Mar  1 12:01:00 2031")], Some(60_000)).await;
    check(&[("retry-after", " 1.5 ")], Some(1500)).await;
    check(&[("retry-after", "-5")], Some(0)).await;
    check(&[("retry-after", "soon")], None).await;
    check(&[("retry-after-ms", "0")], Some(0)).await;
    check(&[], None).await;
    // Two days are no rate limit to sit out.
    let error = check(&[("retry-after", "172800")], Some(172_800_000)).await;
    assert_eq!((kind(&error), error.retry_class()), ("quota", RetryClass::Never));
}

#[tokio::test]
async fn rate_limit_headers() {
    let mut response = ScriptedResponse::json(429, &json!({}));
    for (name, value) in [
        ("x-ratelimit-limit-requests", "100"),
        ("x-ratelimit-remaining-tokens", "12"),
        ("anthropic-ratelimit-input-tokens-reset", "2031-03-01T00:00:00Z"),
        ("anthropic-ratelimit-requests-limit", "50"),
        ("request-id", "r-1"),
    ] {
        response.headers.set(name, value);
    }
    let request = ask(model("openai-chat", "m-test", Compatibility::default()));
    let client = test_client(ScriptedExecutor::fixed(response));
    let error = client.generate(&request, StreamOptions::default()).await.unwrap_err();
    let wanted = json!({
        "limit": { "requests": "50" },
        "remaining": { "tokens": "12" },
        "reset": { "input-tokens": "2031-03-01T00:00:00Z" },
    });
    assert_eq!(json!(error)["rateLimit"], wanted);
    assert_eq!(error.http().unwrap().headers["request-id"], "r-1");
}

#[test]
fn usage() {
    for row in rows("usage.json") {
        let (protocol, raw) = (row["protocol"].as_str().unwrap(), &row["usage"]);
        let body = match protocol {
            "openai-chat" => sse_events([
                json!({ "choices": [{ "index": 0, "delta": { "content": "x" }, "finish_reason": "stop" }] }),
                json!({ "choices": [], "usage": raw }),
            ])
            .into_bytes(),
            "anthropic-messages" => sse_named([
                json!({ "type": "message_start", "message": { "usage": raw } }),
                json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
                json!({ "type": "message_stop" }),
            ])
            .into_bytes(),
            "bedrock-converse" => {
                let events = [
                    ("contentBlockDelta", json!({ "contentBlockIndex": 0, "delta": { "text": "x" } })),
                    ("messageStop", json!({ "stopReason": "end_turn" })),
                    ("metadata", json!({ "usage": raw })),
                ];
                events.map(|(kind, payload)| event_frame(kind, &payload)).concat()
            }
            "gemini" => sse_events([
                json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] }, "finishReason": "STOP" }] }),
                json!({ "usageMetadata": raw }),
            ])
            .into_bytes(),
            "openai-responses" => {
                sse_named([json!({ "type": "response.completed", "response": { "usage": raw } })]).into_bytes()
            }
            other => panic!("no stream for {other}"),
        };
        let request = ask(model(protocol, "m-test", Compatibility::default()));
        let (events, error) = run(&request, ScriptedBody::bytes(body));
        assert!(error.is_none(), "{row}: {error:?}");
        let finish = events.last().and_then(LLMEvent::as_finish).expect("a finish");
        let mut usage = json!(finish.usage.clone().unwrap_or_default());
        let object = usage.as_object_mut().unwrap();
        object.shift_remove("providerMetadata");
        let wanted = row["out"].as_object().unwrap();
        for (counter, value) in wanted {
            assert_eq!(object.get(counter), Some(value), "{counter} of {row}");
        }
        // What the provider did not say stays unknown, but for what follows from the rest.
        object.retain(|counter, _| {
            !wanted.contains_key(counter) && !matches!(counter.as_str(), "totalTokens" | "nonCachedInputTokens")
        });
        assert!(object.is_empty(), "{row}: invented {object:?}");
    }
}

#[test]
fn schemas() {
    for path in files(&fixtures("cases/schema"), "json") {
        let case: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let what = case["what"].as_str().unwrap();
        let target = if case["target"] == "gemini" { ToolSchemaKind::Gemini } else { ToolSchemaKind::None };
        let started = Instant::now();
        let Projection::Changed(schema) = project(case["input"].as_object().unwrap(), target) else {
            panic!("{what}: nothing was changed");
        };
        assert!(started.elapsed().as_millis() < 1000, "{what}: it does not loop");
        let schema = Value::Object(schema);
        assert!(schema.to_string().len() < 64 * 1024, "{what}");
        for key in case["forbiddenKeys"].as_array().into_iter().flatten() {
            assert!(!has_key(&schema, key.as_str().unwrap()), "{what}: {key} in {schema}");
        }
        for (pointer, wanted) in case["pointers"].as_object().into_iter().flatten() {
            assert_eq!(schema.pointer(pointer), Some(wanted), "{what}: {pointer} of {schema}");
        }
        assert_eq!(schema["type"], "object", "{what}");
        if target == ToolSchemaKind::Gemini {
            check_gemini(what, &schema);
        }
    }
}

/// One type a node, and every array says what it holds.
fn check_gemini(what: &str, schema: &Value) {
    if let Value::Object(node) = schema {
        let has_combiner = ["anyOf", "oneOf", "allOf"].iter().any(|keyword| node.contains_key(*keyword));
        assert!(node.get("type").is_none_or(|kind| kind.is_string() || kind.is_object()), "{what}: {schema}");
        if node.get("type").is_some_and(|kind| kind == "array") && !has_combiner {
            let items = node.get("items").and_then(Value::as_object).expect("an array has items");
            assert!(["type", "anyOf", "oneOf", "allOf"].iter().any(|key| items.contains_key(*key)), "{what}: {schema}");
        }
        for below in node.values() {
            check_gemini(what, below);
        }
    }
    if let Value::Array(list) = schema {
        for below in list {
            check_gemini(what, below);
        }
    }
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(object) => object.contains_key(key) || object.values().any(|below| has_key(below, key)),
        Value::Array(list) => list.iter().any(|below| has_key(below, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn schemas_that_are_hardly_there() {
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "callers read better")]
    fn check(input: Value, wanted: Value) {
        let found = match project(input.as_object().unwrap(), ToolSchemaKind::None) {
            Projection::Same => input,
            Projection::Changed(schema) => Value::Object(schema),
            Projection::NoObject => Value::Null,
        };
        assert_eq!(found, wanted);
    }
    check(json!({}), json!({ "type": "object" }));
    check(
        json!({ "properties": { "a": { "type": "string" } } }),
        json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
    );
    check(json!({ "type": "string" }), Value::Null);
    check(json!({ "anyOf": [{ "type": "object" }, { "type": "string" }] }), json!({ "type": "object" }));
    check(
        json!({ "$schema": "x", "type": "object", "properties": {} }),
        json!({ "$schema": "x", "type": "object", "properties": {} }),
    );
    // A property may be called like a keyword.
    let named = json!({ "type": "object", "properties": { "definitions": { "type": "string" } } });
    check(named.clone(), named);
    let dangling = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/Gone", "description": "d" } } });
    check(dangling, json!({ "type": "object", "properties": { "a": { "description": "d" } } }));
}

#[test]
fn choice_at_the_top_offers_everything_and_requires_nothing() {
    let object: JsonObject = serde_json::from_value(json!({
        "anyOf": [
            { "type": "object", "properties": { "url": { "type": "string" } }, "required": ["url"] },
            { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] },
        ]
    }))
    .unwrap();
    let wanted =
        json!({ "type": "object", "properties": { "url": { "type": "string" }, "id": { "type": "integer" } } });
    assert_eq!(project(&object, ToolSchemaKind::None), Projection::Changed(wanted.as_object().unwrap().clone()));
}

#[tokio::test]
async fn one_attempt_only() {
    let executor = ScriptedExecutor::fixed(ScriptedResponse::json(503, &json!({ "message": "busy" })));
    let request = ask(model("openai-chat", "m-test", Compatibility::default()));
    let mut stream = test_client(executor.clone()).stream(&request, StreamOptions::default());
    assert!(executor.requests().is_empty(), "nothing is sent before the first poll");
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.message(), error.retry_class()), ("busy", RetryClass::Safe));
    assert!(stream.next().await.is_none(), "a stream ends after an error");
    assert_eq!(executor.requests().len(), 1);
}

#[test]
fn property_names() {
    let case: Value =
        serde_json::from_str(&fs::read_to_string(fixtures("cases").join("property-names.json")).unwrap()).unwrap();
    let mut request = ask(model("anthropic-messages", "m-test", Compatibility::default()));
    let tool = Arc::new(ToolDefinition::make("query", "Asks.", case["input"].clone()));
    request = request.update(RequestPatch { tools: Some(vec![tool]), ..RequestPatch::default() });
    let body = test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request).unwrap().body;
    let schema = &body["tools"][0]["input_schema"];
    let sent: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let original: Vec<&String> = case["input"]["properties"].as_object().unwrap().keys().collect();
    for key in &sent {
        assert!((1..=64).contains(&key.len()), "{key}");
        assert!(key.chars().all(|char| char.is_ascii_alphanumeric() || "_.-".contains(char)), "{key}");
    }
    assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), original.len(), "two keys never map to one");
    assert_eq!(schema["required"], json!([sent[0]]));

    // The call that comes back has the original keys again.
    let arguments: Value = sent.iter().map(|key| ((*key).clone(), json!(1))).collect::<JsonObject>().into();
    let stream = sse_named([
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "t1", "name": "query" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": arguments.to_string() } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
    ]);
    let (events, _) = run(&request, ScriptedBody::bytes(stream));
    let call = events.iter().find_map(LLMEvent::as_tool_call).expect("a call");
    assert_eq!(call.input.as_object().unwrap().keys().collect::<Vec<_>>(), original);
}
