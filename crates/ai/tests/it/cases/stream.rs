//! Streams, of the Chat protocol unless a case names another. A case says how the bytes arrive and what a user must see; the outcome
//! is the same for every way of handing them over.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use abide_ai::schema::errors::{AuthenticationKind, OutputClassification, TransportOperation};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::{HttpOptions, Timeout};
use abide_ai::schema::response::ResponseState;
use abide_ai::testing::scripted::{End, ScriptedBody, ScriptedExecutor, ScriptedResponse};
use abide_ai::testing::test_client;
use abide_ai::{AIError, AIErrorKind, LLMEvent, LLMRequest, LLMResponse, RequestPatch, RetryClass, StreamOptions};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::support::{ask, files, fixtures, model};

#[tokio::test(start_paused = true)]
async fn streams() {
    for path in files(&fixtures("cases/stream"), "json") {
        check(&path).await;
    }
}

async fn check(path: &Path) {
    let case: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let what = case["what"].as_str().unwrap();
    let protocol = case["protocol"].as_str().unwrap_or("openai-chat");
    let mut request = ask(model(protocol, "m-test", Compatibility::default()));
    if let Some(limit) = case["settings"]["idle_limit_ms"].as_u64() {
        let timeout = Some(Timeout::After(Duration::from_millis(limit)));
        let http = HttpOptions { chunk_timeout: timeout, header_timeout: timeout, ..HttpOptions::default() };
        request = request.update(RequestPatch { http: Some(Some(http)), ..RequestPatch::default() });
    }
    for (feed, body) in bodies(path, &case) {
        let started = tokio::time::Instant::now();
        let (events, error) = run(&request, &case, body).await;
        if let Some(within) = case["expect"]["within_ms"].as_u64() {
            assert!(started.elapsed() <= Duration::from_millis(within), "{what}, fed {feed}: too late");
        }
        let expect = &case["expect"];
        let wanted: Vec<&Value> = expect["one_of"].as_array().map_or_else(|| vec![expect], |all| all.iter().collect());
        let failures: Vec<String> =
            wanted.into_iter().map(|expect| mismatch(expect, &request, &events, error.as_ref())).collect();
        assert!(failures.iter().any(String::is_empty), "{what}, fed {feed}: {failures:?}\n{events:#?}\n{error:?}");
    }
}

async fn run(request: &LLMRequest, case: &Value, body: ScriptedBody) -> (Vec<LLMEvent>, Option<AIError>) {
    let mut response = ScriptedResponse::sse(body);
    response.headers.set("content-type", case["contentType"].as_str().unwrap());
    let mut stream = test_client(ScriptedExecutor::fixed(response)).stream(request, StreamOptions::default());
    let (mut events, mut error) = (Vec::new(), None);
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(failed) => error = Some(failed),
        }
    }
    (events, error)
}

fn bodies(path: &Path, case: &Value) -> Vec<(String, ScriptedBody)> {
    let end = match case["end"].as_str() {
        Some("reset") => End::Reset,
        Some("hang") => End::Hang,
        _ => End::Close,
    };
    if let Some(script) = case["script"].as_array() {
        let pieces = script.iter().map(|step| {
            let wait = Duration::from_millis(step["after_ms"].as_u64().unwrap());
            (wait, Bytes::from(step["send"].as_str().unwrap().to_owned()))
        });
        return vec![("as scripted".to_owned(), ScriptedBody { pieces: pieces.collect(), end })];
    }
    let bytes = match case["generate"].as_object() {
        None => Bytes::from(fs::read(path.with_extension("sse")).unwrap()),
        Some(generate) => {
            let fill = generate["fill"].as_str().unwrap();
            let count = usize::try_from(generate["count"].as_u64().unwrap()).unwrap();
            Bytes::from(generate["template"].as_str().unwrap().replace("%FILL%", &fill.repeat(count)))
        }
    };
    let feed = |feed: &Value| match feed {
        Value::Array(sizes) => {
            let sizes: Vec<usize> = sizes.iter().map(|size| usize::try_from(size.as_u64().unwrap()).unwrap()).collect();
            ScriptedBody::sizes(&bytes, &sizes)
        }
        Value::String(feed) if feed == "whole" => ScriptedBody::bytes(bytes.clone()),
        Value::String(feed) if feed == "byte" => ScriptedBody::pieces(&bytes, 1),
        Value::String(feed) if feed == "split-every-CR" => {
            let pieces = bytes.split_inclusive(|byte| *byte == b'\r');
            ScriptedBody { pieces: pieces.map(|piece| (Duration::ZERO, bytes.slice_ref(piece))).collect(), end }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            panic!("unknown feed {feed}")
        }
    };
    case["feed"].as_array().unwrap().iter().map(|name| (name.to_string(), feed(name).ending(end))).collect()
}

/// What is not as expected; empty when all is well.
fn mismatch(expect: &Value, request: &LLMRequest, events: &[LLMEvent], error: Option<&AIError>) -> String {
    let mut wrong = Vec::new();
    let mut differ = |name: &str, found: Value, wanted: &Value| {
        if !wanted.is_null() && found != *wanted {
            wrong.push(format!("{name}: {found}, expected {wanted}"));
        }
    };
    let state = events.iter().cloned().fold(ResponseState::default(), LLMResponse::reduce);
    let texts = |kind: &str| -> String {
        let delta = |event: &LLMEvent| match kind {
            "text" => event.as_text_delta().map(|delta| delta.text.clone()),
            _ => event.as_reasoning_delta().map(|delta| delta.text.clone()),
        };
        events.iter().filter_map(delta).collect()
    };
    if let Some(length) = expect["text_length"].as_u64() {
        differ("length of text", json!(texts("text").len()), &json!(length));
    }
    differ("text", json!(texts("text")), &expect["text"]);
    differ("reasoning", json!(texts("reasoning")), &expect["reasoning"]);
    if let Some(tools) = expect["tools"].as_array() {
        let calls: Vec<_> = events.iter().filter_map(LLMEvent::as_tool_call).collect();
        differ("number of calls", json!(calls.len()), &json!(tools.len()));
        let ids: BTreeSet<_> = calls.iter().map(|call| call.id.as_str()).collect();
        differ("number of ids", json!(ids.len()), &json!(tools.len()));
        for (call, tool) in calls.iter().zip(tools) {
            let id = if tool["id"].as_str().unwrap().starts_with('<') { &Value::Null } else { &tool["id"] };
            differ("id", json!(call.id), id);
            differ("name", json!(call.name), &tool["name"]);
            differ("input", call.input.clone(), &tool["input"]);
        }
    }
    for unfinished in expect["unfinished"].as_array().into_iter().flatten() {
        let reason = unfinished["reason"].as_str().unwrap();
        let is_named = if reason == "output limit" {
            // Announced, never completed; the finish reason says why.
            events.iter().filter_map(LLMEvent::as_tool_input_start).any(|start| unfinished["id"] == start.id.as_str())
                && state.pending_inputs.keys().any(|id| unfinished["id"] == id.as_str())
        } else {
            events.iter().filter_map(LLMEvent::as_tool_input_error).any(|error| {
                unfinished["id"] == error.id.as_str()
                    && unfinished["name"] == error.name.as_str()
                    && error.message.contains("Invalid JSON")
                    && !error.message.contains("limit")
            })
        };
        differ("unfinished", json!(is_named), &json!(true));
    }
    let terminals = events.iter().filter(|event| event.is_terminal()).count();
    if let Some(answer) = LLMResponse::complete(&state).filter(|_| !expect["replay"].is_null()) {
        let sent = crate::support::replay(request, answer);
        let content = sent[0].get("content").or(sent[0].get("parts")).cloned().unwrap_or_default();
        differ("replay", content, &expect["replay"]);
    }
    let wanted = &expect["error"];
    differ("number of terminal events", json!(terminals), &json!(usize::from(wanted.is_null())));
    let reason = state.finish.as_ref().map(|finish| json!(finish.normalized));
    differ("finish", reason.unwrap_or_default(), &expect["finish"]);
    let usage = json!(state.usage);
    for (counter, wanted) in expect["usage"].as_object().into_iter().flatten() {
        differ(counter, usage[counter].clone(), wanted);
    }
    differ("failure", json!(error.is_some()), &json!(!wanted.is_null()));
    if let Some(error) = error {
        differ("kind", json!(kind(error)), &wanted["kind"]);
        differ("retryable", json!(error.retry_class() != RetryClass::Never), &wanted["retryable"]);
        if let Some(part) = wanted["body_contains"].as_str() {
            differ("body", json!(error.body().is_some_and(|body| body.contains(part))), &json!(true));
        }
        differ("observed status", json!(error.http().map(|http| http.status)), &json!(200));
    }
    wrong.join("; ")
}

/// The kind of a failure in the words of the cases.
pub(crate) fn kind(error: &AIError) -> &'static str {
    if error.is_context_overflow() {
        return "context-overflow";
    }
    match error.kind() {
        AIErrorKind::InvalidRequest { .. } | AIErrorKind::NoRoute { .. } | AIErrorKind::UnsupportedOperation { .. } => {
            "invalid-request"
        }
        AIErrorKind::Authentication { kind } => {
            assert_ne!(*kind, AuthenticationKind::Missing, "a provider answered");
            "authentication"
        }
        AIErrorKind::RateLimit { .. } => "rate-limit",
        AIErrorKind::QuotaExceeded => "quota",
        AIErrorKind::ContentPolicy => "content-policy",
        AIErrorKind::ProviderInternal { .. } => "provider-internal",
        AIErrorKind::Transport(details) => match (details.operation, error.is_timeout()) {
            (TransportOperation::Read, true) => "stalled",
            (TransportOperation::Read, false) => "incomplete-stream",
            (TransportOperation::Request | TransportOperation::Write, _) => "transport",
        },
        AIErrorKind::InvalidProviderOutput { classification: Some(OutputClassification::IncompleteStream), .. } => {
            "incomplete-stream"
        }
        AIErrorKind::InvalidProviderOutput { .. } => "invalid-provider-output",
        AIErrorKind::UnknownProvider | _ => "unknown",
    }
}
