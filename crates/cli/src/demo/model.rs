//! The scripted model: a small HTTP server that speaks the Chat protocol and plays one fixed part.
//!
//! Its position follows from the results in the request, so that restarts of the other side do not disturb it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::error::CliError;

/// The largest request that is read, in bytes.
const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// The server; it ends with the value.
pub(super) struct ScriptedModel {
    url: String,
    n_unpaired: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ScriptedModel {
    pub(super) async fn start() -> Result<Self, CliError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let n_unpaired = Arc::new(AtomicUsize::new(0));
        let counter = n_unpaired.clone();
        let task = abide_core::world::World::real().spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counter = counter.clone();
                connections.spawn(async move {
                    // A connection that breaks is the other side's business.
                    let _broken = serve(stream, &counter).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { url, n_unpaired, task })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns how many requests had a call without exactly one result.
    pub(super) fn n_unpaired(&self) -> usize {
        self.n_unpaired.load(Ordering::Relaxed)
    }
}

async fn serve(stream: TcpStream, n_unpaired: &AtomicUsize) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0usize;
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
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
        let mut body = vec![0; length.min(MAX_REQUEST)];
        stream.read_exact(&mut body).await?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !is_paired(&request) {
            n_unpaired.fetch_add(1, Ordering::Relaxed);
        }
        let answer = answer(&request);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.get_mut().write_all(head.as_bytes()).await?;
        stream.get_mut().write_all(answer.as_bytes()).await?;
        stream.get_mut().flush().await?;
    }
}

fn messages(request: &Value) -> impl Iterator<Item = &Value> {
    request.get("messages").and_then(Value::as_array).into_iter().flatten()
}

/// Says whether each call has exactly one result.
fn is_paired(request: &Value) -> bool {
    let ids = |role: &str, pick: fn(&Value) -> Vec<String>| {
        let mut ids: Vec<String> = messages(request)
            .filter(|message| message.get("role").and_then(Value::as_str) == Some(role))
            .flat_map(pick)
            .collect();
        ids.sort();
        ids
    };
    let calls = ids("assistant", |message| {
        let calls = message.get("tool_calls").and_then(Value::as_array);
        calls
            .into_iter()
            .flatten()
            .map(|call| call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned())
            .collect()
    });
    let results =
        ids("tool", |message| vec![message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default().to_owned()]);
    calls == results
}

/// Plays the part: read, read, edit, run the test, say so. A test run that was interrupted is made again.
fn answer(request: &Value) -> String {
    let results: Vec<&str> = messages(request)
        .filter(|message| message.get("role").and_then(Value::as_str) == Some("tool"))
        .map(|message| message.get("content").and_then(Value::as_str).unwrap_or_default())
        .collect();
    let id = format!("call_{}", results.len());
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "demo", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let call = |words: &str, name: &str, input: Value| {
        let function = json!({ "name": name, "arguments": input.to_string() });
        let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
        chunk(json!({ "role": "assistant", "content": words }), None)
            + &chunk(json!({ "tool_calls": [call] }), None)
            + &chunk(json!({}), Some("tool_calls"))
    };
    let body = match results.len() {
        0 => call("I look at the test.", "read", json!({ "path": "test.sh" })),
        1 => call("It runs add.sh.", "read", json!({ "path": "add.sh" })),
        2 => call(
            "It subtracts. I mend that.",
            "edit",
            json!({ "path": "add.sh", "oldString": "$1 - $2", "newString": "$1 + $2" }),
        ),
        3 => call("Now the test.", "shell", json!({ "command": "sh test.sh" })),
        n if results.last().is_some_and(|last| last.contains("interrupted")) && n < 8 => {
            call("The test was interrupted; I run it again.", "shell", json!({ "command": "sh test.sh" }))
        }
        _ => {
            let passed = results.last().is_some_and(|last| last.contains("ok: 2 + 3 = 5") && !last.contains("not ok"));
            let words = if passed {
                "The test passes: add.sh subtracted where it should have added."
            } else {
                "The test still fails."
            };
            chunk(json!({ "role": "assistant", "content": words }), None) + &chunk(json!({}), Some("stop"))
        }
    };
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
    body + &format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({ "id": "demo", "object": "chat.completion.chunk", "choices": [], "usage": usage })
    )
}
