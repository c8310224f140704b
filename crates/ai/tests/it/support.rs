//! What the fixture suites share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_ai::protocols::{
    anthropic_messages, bedrock_converse, gemini, mistral_chat, open_responses, openai_chat, openai_responses,
};
use abide_ai::route::auth::Auth;
use abide_ai::route::endpoint::EndpointPatch;
use abide_ai::route::{ModelSelection, Route, RoutePatch};
use abide_ai::schema::messages::{Role, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::CachePolicy;
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, ScriptedResponse, aws_message};
use abide_ai::testing::test_client;
use abide_ai::{AIError, LLMEvent, LLMRequest, LLMResponse, LanguageModel, Message, Part, RequestPatch, StreamOptions};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::Value;

/// The folder of the fixtures.
pub(crate) fn fixtures(suite: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(suite)
}

/// Whether expectations are rewritten instead of checked.
pub(crate) fn is_update() -> bool {
    std::env::var_os("UPDATE").is_some_and(|value| value == "1")
}

/// The files of a folder with an extension, by name.
pub(crate) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .{extension} file in {}", folder.display());
    files
}

/// The bare route of a protocol.
pub(crate) fn route(protocol: &str) -> Route {
    let route = match protocol {
        "anthropic-messages" => anthropic_messages::route(),
        "bedrock-converse" => bedrock_converse::route(),
        "gemini" => gemini::route(),
        "mistral-chat" => mistral_chat::route(),
        "openai-chat" => openai_chat::route(),
        "openai-responses" => openai_responses::plain_route(),
        "open-responses" => open_responses::route().with(RoutePatch {
            provider: Some("local".into()),
            endpoint: EndpointPatch::base_url("http://localhost/v1"),
            ..RoutePatch::default()
        }),
        other => panic!("no route for protocol {other}"),
    };
    route.with(RoutePatch { auth: Some(Auth::none()), ..RoutePatch::default() })
}

/// A model on the bare route of a protocol.
pub(crate) fn model(protocol: &str, id: &str, compatibility: Compatibility) -> LanguageModel {
    route(protocol).model(ModelSelection { compatibility, ..ModelSelection::new(id) }).unwrap()
}

/// Runs one call against a scripted body: the events, and the error that ended them.
pub(crate) fn run(request: &LLMRequest, body: ScriptedBody) -> (Vec<LLMEvent>, Option<AIError>) {
    let client = test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)));
    let mut stream = client.stream(request, StreamOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let (mut events, mut error) = (Vec::new(), None);
        while let Some(item) = stream.next().await {
            match item {
                Ok(event) => events.push(event),
                Err(failed) => error = Some(failed),
            }
        }
        (events, error)
    })
}

/// The ways a body is handed over: whole, byte by byte, and in some fixed irregular pieces.
pub(crate) fn feeds(body: &Bytes) -> Vec<(&'static str, ScriptedBody)> {
    vec![
        ("whole", ScriptedBody::bytes(body.clone())),
        ("byte by byte", ScriptedBody::sizes(body, &[1])),
        ("in pieces", ScriptedBody::sizes(body, &[7, 1, 64, 3, 300, 2])),
    ]
}

/// A request of one user message.
pub(crate) fn ask(model: LanguageModel) -> LLMRequest {
    let mut input = abide_ai::RequestInput::default();
    input.messages.push(Arc::new(Message::user("hi")));
    LLMRequest::make(model, input)
}

/// The answer, and a result for each of its local calls, as the next request sends them.
pub(crate) fn replay(request: &LLMRequest, answer: LLMResponse) -> Vec<Value> {
    let results: Vec<Part> = answer
        .tool_calls()
        .into_iter()
        .filter(|call| !call.is_provider_executed())
        .map(|call| {
            let result = ToolResultValue::text("done");
            Part::ToolResult(ToolResultPart::make(call.id.clone(), call.name.clone(), result))
        })
        .collect();
    let mut messages = request.messages.clone();
    messages.push(Arc::new(answer.message));
    messages.push(Arc::new(Message::new(Role::Tool, results)));
    let cache = Some(CachePolicy::None);
    let next = request.update(RequestPatch { messages: Some(messages), cache, ..RequestPatch::default() });
    let prepared = test_client(ScriptedExecutor::scripted([""; 0])).prepare(&next).unwrap();
    let sent = ["messages", "input", "contents"].iter().find_map(|name| prepared.body.get(name)?.as_array()).unwrap();
    sent.iter().skip(request.messages.len()).cloned().collect()
}

/// A body of an AWS event stream, written one message a line: `event <type> <payload>`,
/// `exception <type> <payload>`, `error <code> <message>`, `other <payload>` without a type, `cut <type>
/// <payload>` without its last bytes, `corrupt <type> <payload>` with a wrong byte, and `text <text>` as
/// it is.
pub(crate) fn aws_body(lines: &str) -> Bytes {
    let mut body = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, payload) = rest.split_once(' ').unwrap_or((rest, ""));
        let event = || aws_message(&[(":message-type", "event"), (":event-type", name)], payload.as_bytes()).to_vec();
        body.extend(match kind {
            "event" => event(),
            "exception" => {
                let headers = [(":message-type", "exception"), (":exception-type", name)];
                aws_message(&headers, payload.as_bytes()).to_vec()
            }
            "error" if name.is_empty() => aws_message(&[(":message-type", "error")], b"").to_vec(),
            "error" => {
                let headers = [(":message-type", "error"), (":error-code", name), (":error-message", payload)];
                aws_message(&headers, b"").to_vec()
            }
            "other" => aws_message(&[], rest.as_bytes()).to_vec(),
            "cut" => {
                let whole = event();
                whole[..whole.len() - 5].to_vec()
            }
            "corrupt" => {
                let mut bytes = event();
                let at = bytes.len() - 8;
                bytes[at] ^= 1;
                bytes
            }
            "text" => rest.as_bytes().to_vec(),
            other => panic!("unknown message {other:?}"),
        });
    }
    body.into()
}

/// A body as a protocol frames it: lines of AWS messages, or the text itself.
pub(crate) fn body_of(protocol: &str, text: &str) -> Bytes {
    if protocol == "bedrock-converse" { aws_body(text) } else { Bytes::from(text.to_owned()) }
}
