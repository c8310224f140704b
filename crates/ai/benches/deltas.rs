//! What one delta costs from the bytes of a body to its event, by protocol.
//!
//! `cargo bench -p abide-ai --bench deltas` prints one row a protocol. *Parser*: framing and protocol alone,
//! one event a piece of the body, as a fast provider sends them. *Client*: the same through
//! [`LlmClient::stream`], with its timers and its stream. Times are of the processor, not of the clock on the wall,
//! the best of some runs; allocations are counted in a run of their own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use abide_ai::protocols::{anthropic_messages, openai_chat, openai_responses};
use abide_ai::route::framing::Framing;
use abide_ai::route::{ModelSelection, Route};
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, ScriptedResponse};
use abide_ai::testing::test_client;
use abide_ai::{LLMRequest, Message, RequestInput, StreamOptions};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

/// Deltas of one body.
const N_DELTAS: usize = 20_000;
/// Runs of which the best counts.
const N_RUNS: usize = 7;
/// What the deltas of one body may cost.
const BUDGET: Duration = Duration::from_millis(60);

struct Case {
    name: &'static str,
    route: Route,
    framing: Framing,
    pieces: Vec<Bytes>,
}

impl Case {
    fn new(name: &'static str, route: Route, events: impl IntoIterator<Item = Bytes>) -> Self {
        Self { name, framing: route.framing(), route, pieces: events.into_iter().collect() }
    }

    fn request(&self) -> LLMRequest {
        let model = self.route.model(ModelSelection::new("model")).expect("the routes have a provider and an address");
        LLMRequest::make(model, RequestInput { messages: vec![Message::user("hi").into()], ..RequestInput::default() })
    }

    fn n_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Framing and protocol alone; the number of text deltas.
    fn parse(&self, request: &LLMRequest) -> usize {
        let mut decoder = self.framing.decoder();
        let mut parser = self.route.parser(request);
        let mut frames = VecDeque::new();
        let mut events = Vec::new();
        let mut n_deltas = 0;
        for piece in &self.pieces {
            decoder.push(piece, &mut frames).expect("the body is valid");
            while let Some(frame) = frames.pop_front() {
                parser.frame(&frame, &mut events).expect("the body is valid");
            }
            n_deltas += events.drain(..).filter(|event| event.as_text_delta().is_some()).count();
        }
        n_deltas
    }

    /// The whole of the crate; the number of text deltas.
    fn stream(&self, request: &LLMRequest, runtime: &tokio::runtime::Runtime) -> usize {
        let body = ScriptedBody {
            pieces: self.pieces.iter().map(|piece| (Duration::ZERO, piece.clone())).collect(),
            ..ScriptedBody::default()
        };
        let client = test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)));
        runtime.block_on(async {
            let mut events = client.stream(request, StreamOptions::default());
            let mut n_deltas = 0;
            while let Some(event) = events.next().await {
                n_deltas += usize::from(event.expect("the body is valid").as_text_delta().is_some());
            }
            n_deltas
        })
    }
}

fn unnamed(event: &Value) -> Bytes {
    format!("data: {event}\n\n").into()
}

fn named(event: &Value) -> Bytes {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()).into()
}

fn word(index: usize) -> &'static str {
    ["The ", "quick ", "brown ", "fox", ".\n\n", "fn main() {", "\"", " and "].get(index % 8).copied().unwrap_or("")
}

fn chat() -> Vec<Bytes> {
    let chunk = |delta: Value, reason: Value| {
        unnamed(&json!({
            "id": "chatcmpl-D0a1b2c3d4e5f6g7h8i9", "object": "chat.completion.chunk", "created": 1_780_000_000,
            "model": "model-2026-01-01", "service_tier": "default", "system_fingerprint": "fp_0123456789",
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason }],
            "obfuscation": "x7Kq2", "usage": null,
        }))
    };
    let mut events: Vec<Bytes> =
        (0..N_DELTAS).map(|index| chunk(json!({ "content": word(index) }), Value::Null)).collect();
    events.push(chunk(json!({}), json!("stop")));
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

fn messages() -> Vec<Bytes> {
    let start = json!({
        "type": "message_start",
        "message": { "id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": { "input_tokens": 1 } },
    });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let mut events = vec![named(&start), named(&block)];
    events.extend((0..N_DELTAS).map(|index| {
        named(&json!({
            "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": word(index) },
        }))
    }));
    events.push(named(&json!({ "type": "content_block_stop", "index": 0 })));
    let delta = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    events.push(named(&json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 9 } })));
    events.push(named(&json!({ "type": "message_stop" })));
    events
}

fn responses() -> Vec<Bytes> {
    let item =
        json!({ "id": "msg_0123456789abcdef0123456789abcdef", "type": "message", "role": "assistant", "content": [] });
    let mut events = vec![named(&json!({ "type": "response.output_item.added", "output_index": 0, "item": item }))];
    events.extend((0..N_DELTAS).map(|index| {
        named(&json!({
            "type": "response.output_text.delta", "sequence_number": index, "item_id": "msg_0123456789abcdef0123456789abcdef",
            "output_index": 0, "content_index": 0, "delta": word(index), "logprobs": [], "obfuscation": "x7Kq2",
        }))
    }));
    events.push(named(&json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed" } })));
    events
}

/// Time of the processor that this thread has used.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The best of some runs.
fn best(mut run: impl FnMut() -> usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..N_RUNS {
        let (wall, before) = (Instant::now(), cpu());
        assert_eq!(run(), N_DELTAS, "every delta becomes an event");
        times.push(match (before, cpu()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => wall.elapsed(),
        });
    }
    times.into_iter().min().unwrap_or_default()
}

#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "the report of this program")]
fn main() {
    let cases = [
        Case::new("openai-chat", openai_chat::route(), chat()),
        Case::new("anthropic-messages", anthropic_messages::route(), messages()),
        Case::new("openai-responses", openai_responses::plain_route(), responses()),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let filter: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("| protocol | parser | allocations | client | allocations | 20,000 deltas, budget {BUDGET:?} |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for case in &cases {
        if !filter.is_empty() && !filter.iter().any(|name| name == case.name) {
            continue;
        }
        let request = case.request();
        let parse = best(|| case.parse(&request));
        let stream = best(|| case.stream(&request, &runtime));
        let parse_counts = allocation_counter::measure(|| assert_eq!(case.parse(&request), N_DELTAS));
        let stream_counts = allocation_counter::measure(|| assert_eq!(case.stream(&request, &runtime), N_DELTAS));
        let per_delta = |time: Duration| time.as_secs_f64() * 1e9 / N_DELTAS as f64;
        let speed = |time: Duration| case.n_bytes() as f64 / time.as_secs_f64() / (1024.0 * 1024.0);
        println!(
            "| {} | {:.0} ns a delta, {:.0} MiB/s | {:.1} | {:.0} ns a delta, {:.0} MiB/s | {:.1} | {:.1} ms, {} |",
            case.name,
            per_delta(parse),
            speed(parse),
            parse_counts.count_total as f64 / N_DELTAS as f64,
            per_delta(stream),
            speed(stream),
            stream_counts.count_total as f64 / N_DELTAS as f64,
            stream.as_secs_f64() * 1e3,
            if stream < BUDGET { "held" } else { "missed" },
        );
    }
}
