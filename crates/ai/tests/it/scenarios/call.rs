//! Routes, the client, and what happens to a stream.

use std::sync::Arc;
use std::time::Duration;

use abide_ai::route::executor::{HttpExecutor, HttpMiddleware, HttpNext, HttpRequest, HttpResponse};
use abide_ai::route::{ModelSelection, RoutePatch};
use abide_ai::schema::events::FinishKind;
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::{HttpOptions, Timeout};
use abide_ai::testing::scripted::{End, ScriptedBody, ScriptedExecutor, ScriptedResponse, sse_events, sse_named};
use abide_ai::testing::test_client;
use abide_ai::{AIError, AIErrorKind, LLMEvent, LLMRequest, RequestPatch, StreamOptions};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::support::{ask, model, route, run};

fn request() -> LLMRequest {
    ask(model("openai-chat", "m", Compatibility::default()))
}

fn overlay(http: &Value) -> LLMRequest {
    let http: HttpOptions = serde_json::from_value(http.clone()).unwrap();
    request().update(RequestPatch { http: Some(Some(http)), ..RequestPatch::default() })
}

#[test]
fn s28_a_body_overlay_merges_replaces_and_sends_null() {
    let request = overlay(&json!({ "body": {
        "stream_options": { "more": true }, "store": null, "messages": [], "new": { "deep": [1] },
    } }));
    let body = test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request).unwrap().body;
    assert_eq!(body["stream_options"], json!({ "include_usage": true, "more": true }));
    assert_eq!(
        (body.get("store"), &body["messages"], &body["new"]),
        (Some(&Value::Null), &json!([]), &json!({ "deep": [1] }))
    );
}

#[test]
fn s30_two_routes_of_one_id_are_two_routes() {
    let at = |url: &str| {
        let patch = abide_ai::route::endpoint::EndpointPatch::base_url(url);
        route("openai-chat").with(RoutePatch { endpoint: patch, ..RoutePatch::default() })
    };
    let (first, second) = (at("https://one.test/v1"), at("https://two.test/v1"));
    assert_eq!(first.id(), second.id());
    for (route, host) in [(first, "one.test"), (second, "two.test")] {
        let model = route.model(ModelSelection::new("m")).unwrap();
        assert_eq!(model.route.endpoint().host(), host);
    }
}

/// Rewrites the address; then the connection fails.
struct Rewrite;

impl HttpMiddleware for Rewrite {
    fn handle(&self, mut request: HttpRequest, next: HttpNext) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        request.url.set_host(Some("rewritten.test")).unwrap();
        next(request)
    }
}

#[tokio::test]
async fn s32_a_failure_reports_the_rewritten_address() {
    let executor = ScriptedExecutor::fixed(ScriptedResponse::json(503, &json!({})));
    let options = StreamOptions::with_http(Arc::new(Rewrite));
    let error = test_client(executor.clone()).generate(&request(), options).await.unwrap_err();
    assert_eq!(executor.requests()[0].url.host_str(), Some("rewritten.test"));
    assert_eq!(error.http().unwrap().url, "https://rewritten.test/v1/chat/completions");
}

#[test]
fn s33_one_terminal_event_and_nothing_after_it() {
    let chat = |compatibility| ask(model("openai-chat", "m", compatibility));
    let lenient = || Compatibility { require_finish_reason: Some(false), ..Compatibility::default() };
    let open = || {
        let text = sse_events([json!({ "choices": [{ "index": 0, "delta": { "content": "half" } }] })]);
        ScriptedBody::bytes(text.replace("data: [DONE]\n\n", ""))
    };
    // Without its end it is incomplete …
    let (events, error) = run(&chat(Compatibility::default()), open());
    assert!(error.is_some_and(|error| error.is_incomplete_stream()) && events.iter().all(|event| !event.is_terminal()));
    // … unless the caller knows that this server never says one,
    let (events, error) = run(&chat(lenient()), open());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events.iter().filter(|event| event.is_terminal()).count(), 1);
    // and nothing at all is never an answer.
    let (events, error) = run(&chat(lenient()), ScriptedBody::bytes(""));
    assert!(error.is_some_and(|error| error.is_incomplete_stream()) && events.is_empty());
    // A protocol without an own rule gets the reason `unknown`.
    let messages = ask(model("anthropic-messages", "m", lenient()));
    let block =
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "half" } });
    let (events, error) = run(&messages, ScriptedBody::bytes(sse_named([block])));
    assert!(error.is_none(), "{error:?}");
    let finish = events.last().and_then(LLMEvent::as_finish).unwrap();
    assert_eq!(finish.reason.normalized, FinishKind::Unknown);
}

/// Never answers.
struct Silent;

impl HttpExecutor for Silent {
    fn execute(&self, _: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn s34_and_s35_a_timer_that_is_off_never_ends_the_wait() {
    let day = Duration::from_hours(24);
    let off = overlay(&json!({ "headerTimeout": false, "chunkTimeout": false, "contentTimeout": false }));
    let waiting = test_client(Silent);
    let waiting = waiting.generate(&off, StreamOptions::default());
    assert!(tokio::time::timeout(day, waiting).await.is_err(), "headers");
    let body = ScriptedBody::bytes(": nothing\n\n").ending(End::Hang);
    let client = test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)));
    assert!(tokio::time::timeout(day, client.generate(&off, StreamOptions::default())).await.is_err(), "body");
    assert_eq!(off.http.as_ref().unwrap().chunk_timeout, Some(Timeout::Off));
}

/// A local server may load its model before the first byte, also after the headers.
#[tokio::test(start_paused = true)]
async fn s35_a_local_server_is_given_longer_until_its_first_byte() {
    let check = async |base_url: &str, minutes: u64| {
        let patch = abide_ai::route::endpoint::EndpointPatch::base_url(base_url);
        let route = route("openai-chat").with(RoutePatch { endpoint: patch, ..RoutePatch::default() });
        let body = ScriptedBody::default().ending(End::Hang);
        let client = test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)));
        let started = tokio::time::Instant::now();
        let model = route.model(ModelSelection::new("m")).unwrap();
        let error = client.generate(&ask(model), StreamOptions::default()).await.unwrap_err();
        assert_eq!((started.elapsed().as_secs() / 60, error.is_timeout()), (minutes, true), "{base_url}");
        assert_eq!(error.http().unwrap().status, 200);
    };
    check("https://api.test/v1", 5).await;
    check("http://127.0.0.1:1234/v1", 30).await;
    check("http://[::1]:1234/v1", 30).await;
    check("http://host.docker.internal:1234/v1", 30).await;
}

#[tokio::test]
async fn s56_a_stream_that_broke_is_not_sent_again() {
    let delta = sse_events([json!({ "choices": [{ "index": 0, "delta": { "content": "half" } }] })]);
    let body = ScriptedBody::bytes(delta.replace("data: [DONE]\n\n", "")).ending(End::Reset);
    let executor = ScriptedExecutor::fixed(ScriptedResponse::sse(body));
    let mut events = test_client(executor.clone()).stream(&request(), StreamOptions::default());
    let mut last = None;
    while let Some(event) = events.next().await {
        last = event.err();
    }
    let error = last.expect("a failure");
    assert!(matches!(error.kind(), AIErrorKind::Transport(_)), "{error:?}");
    assert_eq!(executor.requests().len(), 1);
}
