//! A scripted provider that speaks the Chat and the Messages protocol over loopback HTTP.
//!
//! A script answers each request; the provider keeps the requests, and checks of each what the strictest provider
//! checks: every call has exactly one result, right behind it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Text, in one or more deltas.
    Text(Vec<String>),
    /// A call of a tool.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// The arguments.
        input: Value,
    },
    /// Calls of tools in one answer: id, name, arguments.
    Calls(Vec<(String, String, Value)>),
    /// An HTTP failure.
    Status(u16, Value),
}

impl Reply {
    fn calls(&self) -> Vec<(&str, &str, &Value)> {
        match self {
            Self::Call { id, name, input } => vec![(id, name, input)],
            Self::Calls(calls) => calls.iter().map(|(id, name, input)| (id.as_str(), name.as_str(), input)).collect(),
            Self::Text(_) | Self::Status(..) => Vec::new(),
        }
    }

    /// Makes a text of one delta.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(vec![text.into()])
    }
}

/// What a request looks like to a script.
#[derive(Clone, Debug)]
pub struct Request {
    /// The body.
    pub body: Value,
    /// How many tool results it holds.
    pub n_results: usize,
}

/// When a request had arrived, and when the last frame of its answer was about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The whole request was read.
    pub arrived: Instant,
    /// The last frame was next.
    pub answered: Instant,
}

type Script = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

#[derive(Default)]
struct State {
    requests: Mutex<Vec<Value>>,
    complaints: Mutex<Vec<String>>,
    stamps: Mutex<Vec<Stamp>>,
    n_connections: AtomicUsize,
}

/// The provider; it ends with the value.
pub struct Provider {
    port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Provider {
    /// Starts the provider; `pause` is the time before each frame of an answer.
    ///
    /// # Panics
    /// When no loopback port can be had.
    pub async fn start(pause: Duration, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a loopback port is free");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let state = Arc::new(State::default());
        let (shared, script): (_, Script) = (state.clone(), Arc::new(script));
        #[expect(clippy::disallowed_methods, reason = "the handle is kept and aborted on drop")]
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.n_connections.fetch_add(1, Ordering::Relaxed);
                let (state, script) = (shared.clone(), script.clone());
                connections.spawn(async move {
                    // Killed clients break their connections.
                    drop(serve(stream, &state, &script, pause).await);
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, state, task }
    }

    /// Returns the base URL, without path.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the bodies of all requests.
    pub fn requests(&self) -> Vec<Value> {
        lock(&self.state.requests).clone()
    }

    /// Returns what a strict provider would refuse.
    pub fn complaints(&self) -> Vec<String> {
        lock(&self.state.complaints).clone()
    }

    /// Returns the times of all requests that have come; one that is being answered counts as answered on arrival.
    pub fn stamps(&self) -> Vec<Stamp> {
        lock(&self.state.stamps).clone()
    }

    /// Returns how many connections were made.
    pub fn n_connections(&self) -> usize {
        self.state.n_connections.load(Ordering::Relaxed)
    }

    /// Returns a configuration that names it as `test/model` (Chat) and `test-messages/model` (Messages).
    pub fn config(&self) -> Value {
        let provider = |package: &str| {
            json!({
                "name": "Test",
                "api": {
                    "type": "aisdk", "package": package, "url": format!("{}/v1", self.url()),
                    "settings": { "apiKey": "secret-test-key" },
                },
                "models": { "model": {
                    "name": "Model",
                    "limit": { "context": 200_000, "output": 8_000 },
                    "capabilities": { "tools": true, "input": ["text"], "output": ["text"] },
                    "cost": { "input": 1, "output": 2 },
                } },
            })
        };
        json!({
            "model": "test/model",
            "providers": {
                "test": provider("@ai-sdk/openai-compatible"),
                "test-messages": provider("@ai-sdk/anthropic"),
            },
        })
    }
}

async fn serve(stream: TcpStream, state: &State, script: &Script, pause: Duration) -> std::io::Result<()> {
    // Frames are small: none may wait for the acknowledgement of the one before it.
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        let mut length = 0usize;
        loop {
            let mut header = String::new();
            if stream.read_line(&mut header).await? == 0 {
                return Ok(());
            }
            let header = header.trim_end();
            if header.is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let arrived = Instant::now();
        let index = {
            let mut stamps = lock(&state.stamps);
            stamps.push(Stamp { arrived, answered: arrived });
            stamps.len() - 1
        };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_messages = first.contains("/messages");
        let n_results = check(&body, is_messages, state);
        let reply = script(&Request { body: body.clone(), n_results });
        lock(&state.requests).push(body);
        let out = stream.get_mut();
        if let Reply::Status(status, body) = &reply {
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} Failure\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            out.write_all(head.as_bytes()).await?;
            continue;
        }
        out.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            .await?;
        let frames = if is_messages { messages_frames(&reply) } else { chat_frames(&reply) };
        let n_frames = frames.len();
        for (position, frame) in frames.into_iter().enumerate() {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            if position + 1 == n_frames
                && let Some(stamp) = lock(&state.stamps).get_mut(index)
            {
                stamp.answered = Instant::now();
            }
            let chunk = format!("{:x}\r\n{frame}\r\n", frame.len());
            out.write_all(chunk.as_bytes()).await?;
        }
        out.write_all(b"0\r\n\r\n").await?;
        out.flush().await?;
    }
}

fn strings<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Checks a request; returns how many results it holds.
fn check(body: &Value, is_messages: bool, state: &State) -> usize {
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut n_results = 0;
    let complain = |text: String| lock(&state.complaints).push(text);
    for complaint in strict(body, is_messages) {
        complain(complaint);
    }
    for message in list(body, "messages") {
        let role = strings(message, "role");
        let (calls, results): (Vec<String>, Vec<String>) = if is_messages {
            let of = |kind: &str, key: &str| {
                list(message, "content")
                    .filter(|part| strings(part, "type") == kind)
                    .map(|part| strings(part, key).to_owned())
                    .collect()
            };
            (of("tool_use", "id"), of("tool_result", "tool_use_id"))
        } else {
            let calls = list(message, "tool_calls").map(|call| strings(call, "id").to_owned()).collect();
            let results = if role == "tool" { vec![strings(message, "tool_call_id").to_owned()] } else { Vec::new() };
            (calls, results)
        };
        if results.is_empty() && !open.is_empty() {
            complain(format!("calls without result: {open:?}"));
            open.clear();
        }
        for result in results {
            n_results += 1;
            if !open.remove(&result) {
                complain(format!("a result without call, or a second one: {result}"));
            }
        }
        for call in calls {
            if !open.insert(call.clone()) {
                complain(format!("a call twice in one message: {call}"));
            }
        }
    }
    if !open.is_empty() {
        complain(format!("calls without result at the end: {open:?}"));
    }
    n_results
}

/// What the strictest provider of a protocol refuses, beside unpaired calls.
fn strict(body: &Value, is_messages: bool) -> Vec<String> {
    let mut complaints = Vec::new();
    let messages: Vec<&Value> = list(body, "messages").collect();
    let roles: Vec<&str> = messages.iter().map(|message| strings(message, "role")).collect();
    let conversation: Vec<&str> =
        roles.iter().copied().filter(|role| !matches!(*role, "system" | "developer")).collect();
    if conversation.is_empty() {
        complaints.push("a request without messages".to_owned());
    }
    if conversation.last() == Some(&"assistant") {
        complaints.push("the last message is the assistant's".to_owned());
    }
    if is_messages {
        if conversation.first() != Some(&"user") {
            complaints.push(format!("the first message is no user's: {conversation:?}"));
        }
        if roles.len() != conversation.len() {
            complaints.push("a system message among the messages".to_owned());
        }
        let marks = body.to_string().matches("\"cache_control\"").count();
        if marks > 4 {
            complaints.push(format!("{marks} cache marks"));
        }
        if body.get("max_tokens").and_then(Value::as_u64).is_none_or(|limit| limit == 0) {
            complaints.push("no max_tokens".to_owned());
        }
    }
    for message in messages {
        let content = message.get("content");
        let has_calls = list(message, "tool_calls").next().is_some();
        let empty = match content {
            None | Some(Value::Null) => !has_calls,
            Some(Value::String(text)) => text.trim().is_empty() && !has_calls && strings(message, "role") != "tool",
            Some(Value::Array(parts)) => {
                parts.is_empty()
                    || parts
                        .iter()
                        .any(|part| strings(part, "type") == "text" && strings(part, "text").trim().is_empty())
            }
            Some(_) => true,
        };
        if empty {
            complaints.push(format!("an empty message or text: {message}"));
        }
        let ids = list(message, "tool_calls").map(|call| strings(call, "id")).chain(
            list(message, "content").filter(|part| strings(part, "type") == "tool_use").map(|part| strings(part, "id")),
        );
        for id in ids {
            if id.is_empty()
                || id.len() > 64
                || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            {
                complaints.push(format!("a call id that is refused: {id:?}"));
            }
        }
        for call in list(message, "tool_calls") {
            let arguments = call.get("function").map_or("", |function| strings(function, "arguments"));
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                complaints.push(format!("arguments that are no object: {arguments:?}"));
            }
        }
    }
    complaints
}

fn chat_frames(reply: &Reply) -> Vec<String> {
    let frame = |value: Value| format!("data: {value}\n\n");
    let chunk = |delta: Value, finish: Option<&str>| {
        frame(json!({
            "id": "c", "object": "chat.completion.chunk",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    };
    let mut frames = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    match reply {
        Reply::Text(deltas) => {
            frames.extend(deltas.iter().map(|text| chunk(json!({ "content": text }), None)));
            frames.push(chunk(json!({}), Some("stop")));
        }
        Reply::Call { .. } | Reply::Calls(_) => {
            for (index, (id, name, input)) in reply.calls().into_iter().enumerate() {
                let function = json!({ "name": name, "arguments": input.to_string() });
                let call = json!([{ "index": index, "id": id, "type": "function", "function": function }]);
                frames.push(chunk(json!({ "tool_calls": call }), None));
            }
            frames.push(chunk(json!({}), Some("tool_calls")));
        }
        Reply::Status(..) => {}
    }
    frames.push(frame(json!({
        "id": "c", "object": "chat.completion.chunk", "choices": [],
        "usage": { "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 },
    })));
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}

fn messages_frames(reply: &Reply) -> Vec<String> {
    let frame = |value: Value| format!("event: {}\ndata: {value}\n\n", strings(&value, "type"));
    let mut frames = vec![frame(json!({
        "type": "message_start",
        "message": { "id": "m", "type": "message", "role": "assistant", "content": [], "model": "model",
                     "usage": { "input_tokens": 1000, "output_tokens": 1 } },
    }))];
    let mut last = 0;
    let stop = match reply {
        Reply::Text(deltas) => {
            frames.push(frame(
                json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            ));
            frames.extend(deltas.iter().map(|text| {
                frame(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }))
            }));
            "end_turn"
        }
        Reply::Call { .. } | Reply::Calls(_) => {
            for (index, (id, name, input)) in reply.calls().into_iter().enumerate() {
                if index > 0 {
                    frames.push(frame(json!({ "type": "content_block_stop", "index": index - 1 })));
                }
                last = index;
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                frames.push(frame(json!({ "type": "content_block_start", "index": index, "content_block": block })));
                let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
                frames.push(frame(json!({ "type": "content_block_delta", "index": index, "delta": delta })));
            }
            "tool_use"
        }
        Reply::Status(..) => "end_turn",
    };
    frames.push(frame(json!({ "type": "content_block_stop", "index": last })));
    frames.push(frame(
        json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 100 } }),
    ));
    frames.push(frame(json!({ "type": "message_stop" })));
    frames
}
