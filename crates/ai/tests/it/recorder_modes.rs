//! Modes, filters and names of recorded tests, and recorded sockets.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide_ai::protocols::openai_responses;
use abide_ai::route::auth::Auth;
use abide_ai::route::transport::websocket_pool::{ChannelPool, ChannelPoolOptions};
use abide_ai::route::{ModelSelection, RoutePatch};
use abide_ai::testing::cassette::{Cassette, CassetteError};
use abide_ai::testing::recorded::{Live, Mode, Outcome, Recorded, RecordedEnv, RecordedOptions, RecordedTests, kebab};
use abide_ai::testing::scripted::{ScriptedExecutor, sse_named};
use abide_ai::testing::sockets::{ScriptedConnector, SocketStep};
use abide_ai::{LLMRequest, RequestInput, StreamOptions};
use serde_json::{Value, json};

fn answer() -> Vec<Value> {
    let item = json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [{ "type": "output_text", "text": "hi" }] });
    vec![
        json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": "resp_1" } }),
    ]
}

fn request(prompt: &str) -> LLMRequest {
    let auth = Some(Auth::bearer("secret-of-the-test".to_owned()));
    let route = openai_responses::route().with(RoutePatch { auth, ..RoutePatch::default() });
    let input = RequestInput { prompt: Some(prompt.to_owned()), ..RequestInput::default() };
    LLMRequest::make(route.model(ModelSelection::new("m")).unwrap(), input)
}

fn live() -> Live {
    let script = std::iter::once(SocketStep::Receive).chain(answer().iter().map(SocketStep::event)).collect();
    Live {
        http: Arc::new(ScriptedExecutor::fixed(sse_named(answer()))),
        connector: Arc::new(ScriptedConnector::scripted([script])),
    }
}

fn suite(dir: &Path, env: &[(&str, &str)]) -> RecordedTests {
    let options = RecordedOptions {
        dir: dir.to_owned(),
        prefix: "suite".to_owned(),
        provider: Some("openai".to_owned()),
        protocol: Some("openai-responses".to_owned()),
        requires: vec!["THE_KEY".to_owned()],
        tags: vec!["slow".to_owned()],
        ..RecordedOptions::default()
    };
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    RecordedTests::new(options, RecordedEnv::new(env), live())
}

async fn ask(recorded: Recorded) {
    let answer = recorded.client.generate(&request("hi"), StreamOptions::default()).await.unwrap();
    assert_eq!(answer.text(), "hi");
}

async fn ask_socket(recorded: Recorded) {
    let pool = ChannelPool::new(recorded.connector, ChannelPoolOptions::default());
    let options = StreamOptions::with_web_socket(Arc::new(pool));
    assert_eq!(recorded.client.generate(&request("hi"), options).await.unwrap().text(), "hi");
}

const RECORD: [(&str, &str); 2] = [("RECORD", "true"), ("THE_KEY", "a-key-of-some-length")];

#[test]
fn names() {
    assert_eq!(kebab("Streams  the model's \"text\" (v2)!"), "streams-the-models-text-v2");
    assert_eq!(kebab("--"), "");
}

#[test]
fn modes() {
    let mode = |env: &[(&str, &str)]| {
        RecordedEnv::new(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).mode()
    };
    assert_eq!(mode(&[]), Mode::Replay);
    assert_eq!(mode(&[("RECORD", "false")]), Mode::Replay);
    assert_eq!(mode(&[("RECORD", "true")]), Mode::Record);
    assert_eq!(mode(&[("RECORD", "true"), ("CI", "")]), Mode::Record);
    assert_eq!(mode(&[("RECORD", "true"), ("CI", "false")]), Mode::Record);
    assert_eq!(mode(&[("RECORD", "true"), ("CI", "1")]), Mode::Replay);
}

#[tokio::test(start_paused = true)]
async fn record_then_replay() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = suite(dir.path(), &RECORD).test("Over HTTP", ask).await.unwrap();
    let path = dir.path().join("suite/over-http.json");
    assert_eq!(outcome, Outcome::Recorded(path.clone()));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(!text.contains("secret-of-the-test"));
    let metadata = Cassette::load(dir.path(), "suite/over-http").unwrap().metadata;
    assert_eq!(metadata["name"], "Over HTTP");
    assert_eq!(metadata["tags"], json!(["prefix:suite", "provider:openai", "protocol:openai-responses", "slow"]));
    assert_eq!(metadata["protocol"], "openai-responses");
    assert_eq!(suite(dir.path(), &[]).test("Over HTTP", ask).await.unwrap(), Outcome::Replayed);
    // Recording is refused where CI is set, so the cassette answers.
    let ci = [("RECORD", "true"), ("THE_KEY", "a-key-of-some-length"), ("CI", "true")];
    assert_eq!(suite(dir.path(), &ci).test("Over HTTP", ask).await.unwrap(), Outcome::Replayed);
}

#[tokio::test(start_paused = true)]
async fn sockets_are_recorded_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    suite(dir.path(), &RECORD).test("socket", ask_socket).await.unwrap();
    let cassette = serde_json::to_value(Cassette::load(dir.path(), "suite/socket").unwrap()).unwrap();
    let interaction = &cassette["interactions"][0];
    assert_eq!(interaction["transport"], "websocket");
    let beta = "responses_websockets=2026-02-06";
    let open = json!({
        "url": "wss://api.openai.com/v1/responses",
        "headers": { "content-type": "application/json", "openai-beta": beta },
    });
    assert_eq!(interaction["open"], open);
    let directions: Vec<_> =
        interaction["events"].as_array().unwrap().iter().map(|frame| frame["direction"].as_str().unwrap()).collect();
    assert_eq!(directions, ["client", "server", "server", "server"]);
    assert_eq!(suite(dir.path(), &[]).test("socket", ask_socket).await.unwrap(), Outcome::Replayed);

    // Another message than the recorded one fails, and the frames behind it are left over.
    let other = |recorded: Recorded| async move {
        let pool = ChannelPool::new(recorded.connector, ChannelPoolOptions::default());
        let options = StreamOptions::with_web_socket(Arc::new(pool));
        let failure = recorded.client.generate(&request("other"), options).await.unwrap_err();
        assert!(failure.message().contains("frame 0 is a client frame with another message"), "{failure:?}");
    };
    let failure = suite(dir.path(), &[]).test("socket", other).await.unwrap_err();
    assert!(matches!(failure, CassetteError::UnusedFrames { interaction: 0, unused: 4, total: 4 }), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_run_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let skipped = |outcome: Outcome| match outcome {
        Outcome::Skipped(reason) => reason,
        other => panic!("{other:?}"),
    };
    let reason = skipped(suite(dir.path(), &[("RECORD", "true")]).test("one", ask).await.unwrap());
    assert_eq!(reason, "recording needs THE_KEY in the environment");
    let reason = skipped(suite(dir.path(), &[]).test("one", ask).await.unwrap());
    assert!(reason.contains("record it locally with RECORD=true"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn filters() {
    let dir = tempfile::tempdir().unwrap();
    suite(dir.path(), &RECORD).test("Streams text", ask).await.unwrap();
    let runs = async |env: &[(&str, &str)]| {
        let calls = AtomicUsize::new(0);
        let body = |recorded| {
            calls.fetch_add(1, Ordering::Relaxed);
            ask(recorded)
        };
        suite(dir.path(), env).test("Streams text", body).await.unwrap();
        calls.into_inner() == 1
    };
    for (env, wanted) in [
        (vec![], true),
        (vec![("RECORDED_PREFIX", "other, suite")], true),
        (vec![("RECORDED_PREFIX", "other")], false),
        (vec![("RECORDED_PROVIDER", "openai")], true),
        (vec![("RECORDED_PROVIDER", "anthropic,google")], false),
        (vec![("RECORDED_TAGS", "slow,provider:openai")], true),
        (vec![("RECORDED_TAGS", "slow,fast")], false),
        (vec![("RECORDED_TEST", "Streams t")], true),
        (vec![("RECORDED_TEST", "streams-t")], true),
        (vec![("RECORDED_TEST", "suite/streams")], true),
        (vec![("RECORDED_TEST", "tool")], false),
        (vec![("RECORDED_PREFIX", "suite"), ("RECORDED_TEST", "tool")], false),
    ] {
        assert_eq!(runs(&env).await, wanted, "{env:?}");
        let recording: Vec<_> = RECORD.into_iter().chain(env.clone()).collect();
        assert_eq!(runs(&recording).await, wanted, "recording, {env:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let twice = suite(dir.path(), &RECORD);
    twice.test("one", ask).await.unwrap();
    assert!(matches!(twice.test("One!", ask).await, Err(CassetteError::Duplicate { .. })));
    // A body that asks twice is recorded with two interactions; one that asks once leaves one over.
    let both = |recorded: Recorded| async move {
        ask(recorded.clone()).await;
        ask(recorded).await;
    };
    suite(dir.path(), &RECORD).test("two", both).await.unwrap();
    let failure = suite(dir.path(), &[]).test("two", ask).await.unwrap_err();
    assert!(matches!(failure, CassetteError::Unused { unused: 1, total: 2 }), "{failure}");
    // A secret in an answer refuses the write and leaves the old cassette.
    let before = std::fs::read_to_string(dir.path().join("suite/one.json")).unwrap();
    let env = [("RECORD", "true"), ("THE_KEY", "hi-is-in-every-answer"), ("MY_TOKEN", "response.created")];
    let failure = suite(dir.path(), &env).test("one", ask).await.unwrap_err();
    assert!(failure.to_string().ends_with("holds the value of MY_TOKEN"), "{failure}");
    assert_eq!(std::fs::read_to_string(dir.path().join("suite/one.json")).unwrap(), before);
}
