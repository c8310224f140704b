//! The scripted provider of the HTTP contract, asked over real sockets in each of its dialects.

use std::process::Stdio;
use std::sync::Arc;

use abide_ai::protocols::{anthropic_messages, openai_compatible_chat, openai_responses};
use abide_ai::route::auth::Auth;
use abide_ai::route::endpoint::EndpointPatch;
use abide_ai::route::{ModelSelection, Route, RoutePatch};
use abide_ai::schema::messages::{Part, Role, ToolResultPart, ToolResultValue};
use abide_ai::{LLMEvent, LLMRequest, LLMResponse, LlmClient, Message, RequestInput, StreamOptions, ToolDefinition};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::shared::shared;

/// Scenario, and what comes of it in one line.
const CASES: &[(&str, &str)] = &[
    (r#"text {"text":"Hello there."}"#, "text \"Hello there.\" stop"),
    (r#"text {"text":"Hällo 🌍 wörld","chunks":9}"#, "text \"Hällo 🌍 wörld\" stop"),
    (r#"reasoning {"reasoning":"hm","text":"ok"}"#, "reasoning \"hm\" text \"ok\" stop"),
    (r#"tool {"name":"read","input":{"path":"a"}}"#, "call read {\"path\":\"a\"} tool-calls"),
    (
        r#"tools {"calls":[{"name":"read","input":{"path":"a"}},{"name":"read","input":{"path":"b"}}]}"#,
        "call read {\"path\":\"a\"} call read {\"path\":\"b\"} tool-calls",
    ),
    (r#"badargs {"name":"read"}"#, "bad read \"{\\\"path\\\": \" tool-calls"),
    ("length", "text \"cut short\" length"),
    ("empty", "stop"),
    (r#"cut {"after":4,"delay":20}"#, "error IfNoOutput"),
    (r#"status {"status":429,"retryAfter":2}"#, "error RateLimit Safe 2000"),
    (r#"status {"status":503}"#, "error ProviderInternal Safe"),
    ("malformed", "error InvalidProviderOutput IfNoOutput"),
    ("overflow", "error overflow"),
    ("midfail", "text \"partial\" error ProviderInternal IfNoOutput"),
];

#[test]
fn every_dialect() {
    let Some(contract) = shared("contract").filter(|contract| contract.join("mock-provider.mjs").is_file()) else {
        println!("no scripted provider here; set ABIDE_SHARED to the folder that holds it");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut command = Command::new("node");
        command.arg(contract.join("mock-provider.mjs")).stdout(Stdio::piped()).kill_on_drop(true);
        let Ok(mut provider) = command.spawn() else {
            println!("no node here; the scripted provider needs it");
            return;
        };
        let url = listening(&mut provider).await;
        let client = LlmClient::live().unwrap();
        for dialect in ["chat", "messages", "responses"] {
            for (key, (scenario, expected)) in CASES.iter().enumerate() {
                let found = ask(&client, &request(dialect, &url, scenario, key)).await;
                assert_eq!(found, *expected, "{dialect}: {scenario}");
            }
            assert_eq!(tool_loop(&client, &url, dialect).await, "text \"All read.\" stop", "{dialect}: a tool loop");
        }
        provider.kill().await.unwrap();
    });
}

async fn listening(provider: &mut Child) -> String {
    let mut lines = BufReader::new(provider.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

fn route(dialect: &str) -> Route {
    match dialect {
        "chat" => openai_compatible_chat::route(),
        "messages" => anthropic_messages::route(),
        "responses" => openai_responses::route(),
        other => panic!("unknown dialect {other}"),
    }
}

fn request(dialect: &str, url: &str, scenario: &str, key: usize) -> LLMRequest {
    let route = route(dialect).with(RoutePatch {
        provider: Some("mock".into()),
        endpoint: EndpointPatch::base_url(format!("{url}/v1")),
        auth: Some(Auth::none()),
        ..RoutePatch::default()
    });
    // A key of its own: failing scenarios fail once for each key.
    let scenario = match scenario.split_once(" {") {
        Some((name, parameters)) => format!("[[mock:{name} {{\"key\":\"{dialect} {key}\",{parameters}]]"),
        None => format!("[[mock:{scenario} {{\"key\":\"{dialect} {key}\"}}]]"),
    };
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let mut input = RequestInput { prompt: Some(scenario), ..RequestInput::default() };
    input.tools.push(Arc::new(ToolDefinition::make("read", "Reads a file.", schema)));
    LLMRequest::make(route.model(ModelSelection::new("mock-text")).unwrap(), input)
}

async fn events(client: &LlmClient, request: &LLMRequest) -> Vec<Result<LLMEvent, abide_ai::AIError>> {
    client.stream(request, StreamOptions::default()).collect().await
}

async fn ask(client: &LlmClient, request: &LLMRequest) -> String {
    let mut words: Vec<String> = Vec::new();
    let (mut text, mut reasoning) = (String::new(), String::new());
    for event in events(client, request).await {
        match event {
            Ok(LLMEvent::TextDelta(delta)) => text.push_str(&delta.text),
            Ok(LLMEvent::ReasoningDelta(delta)) => reasoning.push_str(&delta.text),
            Ok(LLMEvent::ToolCall(call)) => words.push(format!("call {} {}", call.name, call.input)),
            Ok(LLMEvent::ToolInputError(error)) => words.push(format!("bad {} {:?}", error.name, error.raw)),
            Ok(LLMEvent::Finish(finish)) => words.push(json!(finish.reason.normalized).as_str().unwrap().to_owned()),
            Ok(_) => {}
            // Where a cut happens is up to the dialect, and so is what was said before it.
            Err(error) if error.is_incomplete_stream() || error.kind().tag() == "Transport" => {
                return format!("error {:?}", error.retry_class());
            }
            Err(error) if error.is_context_overflow() => words.push("error overflow".to_owned()),
            Err(error) if error.kind().tag() == "InvalidProviderOutput" => {
                return format!("error {} {:?}", error.kind().tag(), error.retry_class());
            }
            Err(error) => {
                let wait = error.retry_after_ms().map(|ms| format!(" {ms}")).unwrap_or_default();
                words.push(format!("error {} {:?}{wait}", error.kind().tag(), error.retry_class()));
            }
        }
    }
    if !text.is_empty() {
        words.insert(0, format!("text {text:?}"));
    }
    if !reasoning.is_empty() {
        words.insert(0, format!("reasoning {reasoning:?}"));
    }
    words.join(" ")
}

/// Three rounds of calls, each answered, then text; the provider reads the state of the loop from what
/// is sent back.
async fn tool_loop(client: &LlmClient, url: &str, dialect: &str) -> String {
    let scenario = r#"loop {"n":3,"name":"read","input":{"path":"{i}"},"then":"All read."}"#;
    let mut request = request(dialect, url, scenario, 0);
    for _ in 0..3 {
        let events = events(client, &request).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        let response = LLMResponse::from_events(events).unwrap();
        let results: Vec<Part> = response
            .tool_calls()
            .into_iter()
            .map(|call| {
                Part::ToolResult(ToolResultPart::make(call.id.clone(), call.name.clone(), ToolResultValue::text("x")))
            })
            .collect();
        assert_eq!(results.len(), 1, "{dialect}");
        let mut messages = request.messages.clone();
        messages.push(Arc::new(response.message));
        messages.push(Arc::new(Message::new(Role::Tool, results)));
        request = request.update(abide_ai::RequestPatch { messages: Some(messages), ..Default::default() });
    }
    ask(client, &request).await
}
