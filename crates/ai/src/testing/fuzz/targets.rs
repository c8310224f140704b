//! The parsers of foreign bytes, and the rules they keep whatever comes in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;

use super::mutate::Random;
use crate::protocols::shared::{json_text, parse_tool_input};
use crate::protocols::{
    anthropic_messages, gemini, mistral_chat, open_responses_channel, openai_chat, openai_responses,
};
use crate::route::framing::{Frame, Framing};
use crate::route::protocol::Flow;
use crate::route::transport::websocket_channel::Observation;
use crate::route::{ModelSelection, Route};
use crate::schema::events::LLMEvent;
use crate::schema::messages::{Message, ToolResultPart, ToolResultValue};
use crate::schema::request::{LLMRequest, RequestInput, RequestPatch};
use crate::schema::response::LLMResponse;

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Runs it and gives a number for what came out, or the rule that was broken.
    pub run: fn(&[u8]) -> Result<u64, String>,
}

/// All of them. Those of protocols have the name of their protocol.
pub const TARGETS: &[Target] = &[
    Target { name: "sse", run: sse },
    Target { name: "tool-input", run: tool_input },
    Target { name: "responses-channel", run: channel },
    Target { name: "openai-chat", run: |input| stream(&openai_chat::route(), input) },
    Target { name: "anthropic-messages", run: |input| stream(&anthropic_messages::route(), input) },
    Target { name: "openai-responses", run: |input| stream(&openai_responses::plain_route(), input) },
    Target { name: "gemini", run: |input| stream(&gemini::route(), input) },
    Target { name: "mistral-chat", run: |input| stream(&mistral_chat::route(), input) },
];

/// A target by name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The inputs for a target in a body of a stream: the body itself, its messages one a line, or each of
/// them.
pub fn inputs(target: &Target, body: &str) -> Vec<Vec<u8>> {
    let messages = || body.lines().filter_map(|line| line.strip_prefix("data: "));
    match target.name {
        "responses-channel" => vec![messages().collect::<Vec<_>>().join("\n").into_bytes()],
        "tool-input" => messages().map(|message| message.as_bytes().to_vec()).collect(),
        _ => vec![body.as_bytes().to_vec()],
    }
}

fn number(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The input in pieces; the same input always in the same ones.
fn pieces(input: &[u8]) -> Vec<Bytes> {
    let mut random = Random::new(number(&input));
    let mut rest = Bytes::copy_from_slice(input);
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let size = 1 + random.below(random_size(rest.len()));
        pieces.push(rest.split_to(size.min(rest.len())));
    }
    pieces
}

const fn random_size(left: usize) -> usize {
    if left < 64 { 8 } else { 80 }
}

fn frames(framing: Framing, pieces: &[Bytes]) -> Result<VecDeque<Frame>, String> {
    let mut decoder = framing.decoder();
    let mut frames = VecDeque::new();
    for piece in pieces {
        decoder.push(piece, &mut frames).map_err(|error| error.message().to_owned())?;
    }
    decoder.finish(&mut frames).map_err(|error| error.message().to_owned())?;
    Ok(frames)
}

/// However the bytes arrive, the frames are the same, and they are text.
fn sse(input: &[u8]) -> Result<u64, String> {
    let whole = [Bytes::copy_from_slice(input)];
    let mut outcome = Vec::new();
    for framing in [Framing::Sse, Framing::SseWithDone, Framing::SseEvents(&["message", "error"]), Framing::Lines] {
        let found = frames(framing, &whole)?;
        if found != frames(framing, &pieces(input))? {
            return Err(format!("{framing:?}: pieces give other frames than the whole"));
        }
        for frame in &found {
            if std::str::from_utf8(&frame.data).is_err() {
                return Err(format!("{framing:?}: a frame is not text"));
            }
            outcome.push((frame.name.len().min(8), frame.data.len().min(16), frame.is_cut));
        }
    }
    Ok(number(&outcome))
}

/// Arguments are JSON or refused, and JSON stays what it is when it is sent back.
fn tool_input(input: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(input);
    match parse_tool_input(&"fuzz".into(), "tool", &text) {
        Err(error) => {
            if error.body() != Some(&*text) {
                return Err("the refusal lost the text".to_owned());
            }
            Ok(1)
        }
        Ok(value) => {
            let sent = json_text(&value);
            let back = parse_tool_input(&"fuzz".into(), "tool", &sent).map_err(|error| error.to_string())?;
            if json_text(&back) != sent {
                return Err(format!("{sent} came back as {back}"));
            }
            Ok(number(&sent.bytes().filter(|byte| b"{}[]\",:".contains(byte)).take(24).collect::<Vec<_>>()))
        }
    }
}

/// A channel takes any message, one a line, and says nothing after its end.
fn channel(input: &[u8]) -> Result<u64, String> {
    let options = open_responses_channel::openai();
    let body = br#"{"model":"m","input":[{"role":"user","content":[]}],"stream":true}"#;
    let mut driver = (options.driver)(options.name, body).map_err(|error| error.to_string())?;
    let mut outcome = Vec::new();
    let mut checkpoint = None;
    for round in 0..2 {
        driver.create(checkpoint.as_ref()).map_err(|error| error.to_string())?;
        for line in input.split(|byte| *byte == b'\n') {
            let (kind, is_over) = match driver.observe(&Bytes::copy_from_slice(line)) {
                Observation::Frame => (0, false),
                Observation::Completed(found) => {
                    if found.is_none() && round == 0 {
                        return Err("a completed response has no checkpoint".to_owned());
                    }
                    checkpoint = found.or(checkpoint);
                    (1, true)
                }
                Observation::Incomplete => (2, true),
                Observation::Failed => (3, true),
                Observation::Rejected { .. } => (4, true),
                Observation::Violation(_) => (5, true),
            };
            outcome.push(kind);
            if is_over {
                break;
            }
        }
    }
    outcome.dedup();
    Ok(number(&outcome))
}

fn request(route: &Route) -> Result<LLMRequest, String> {
    let model = route.model(ModelSelection::new("m")).map_err(|error| error.to_string())?;
    let input = RequestInput { messages: vec![Arc::new(Message::user("hi"))], ..RequestInput::default() };
    Ok(LLMRequest::make(model, input))
}

/// The events of a body, and the message of the failure that ended them.
fn events(route: &Route, request: &LLMRequest, pieces: &[Bytes]) -> (Vec<LLMEvent>, Option<String>) {
    let mut decoder = route.framing().decoder();
    let mut parser = route.parser(request);
    let (mut frames, mut out) = (VecDeque::new(), Vec::new());
    let mut parse = || {
        for piece in pieces.iter().map(Some).chain([None]) {
            let decoded = match piece {
                Some(piece) => decoder.push(piece, &mut frames),
                None => decoder.finish(&mut frames),
            };
            while let Some(frame) = frames.pop_front() {
                if parser.frame(&frame, &mut out)? == Flow::Done {
                    return parser.finish(&mut out);
                }
            }
            decoded?;
        }
        parser.finish(&mut out)
    };
    let error = parse().err().map(|error| error.message().to_owned());
    (out, error)
}

/// However the bytes arrive, the events are the same; they keep their order; a whole answer can be sent
/// back.
fn stream(route: &Route, input: &[u8]) -> Result<u64, String> {
    let request = request(route)?;
    let (found, error) = events(route, &request, &[Bytes::copy_from_slice(input)]);
    let in_pieces = events(route, &request, &pieces(input));
    if (&found, &error) != (&in_pieces.0, &in_pieces.1) {
        return Err("pieces give other events than the whole".to_owned());
    }
    order(&found, error.is_some())?;
    if error.is_none() {
        send_back(&request, &found)?;
    }
    let mut kinds: Vec<&str> = found.iter().map(LLMEvent::kind).collect();
    kinds.dedup();
    kinds.truncate(24);
    let failure: Option<String> = error.map(|error| error.chars().take(24).collect());
    Ok(number(&(kinds, failure)))
}

fn order(events: &[LLMEvent], is_failed: bool) -> Result<(), String> {
    let (mut open, mut seen): (BTreeMap<String, bool>, BTreeSet<String>) = (BTreeMap::new(), BTreeSet::new());
    for (index, event) in events.iter().enumerate() {
        if event.is_step_start() != (index == 0) {
            return Err("step-start is not the first event, once".to_owned());
        }
        let (id, change) = match event {
            LLMEvent::TextStart(block) | LLMEvent::ReasoningStart(block) => (block.id.to_string(), Some(true)),
            LLMEvent::TextDelta(block) | LLMEvent::ReasoningDelta(block) => (block.id.to_string(), None),
            LLMEvent::TextEnd(block) => (block.id.to_string(), Some(false)),
            LLMEvent::ReasoningEnd(block) => (block.id.to_string(), Some(false)),
            LLMEvent::ToolInputStart(call) => (call.id.to_string(), Some(true)),
            LLMEvent::ToolInputDelta(call) => (call.id.to_string(), None),
            LLMEvent::ToolInputEnd(call) => (call.id.to_string(), Some(false)),
            LLMEvent::ToolInputError(call) => (call.id.to_string(), Some(false)),
            LLMEvent::StepStart(_)
            | LLMEvent::ToolCall(_)
            | LLMEvent::ToolResult(_)
            | LLMEvent::ToolError(_)
            | LLMEvent::StepFinish(_)
            | LLMEvent::Finish(_)
            | LLMEvent::ProviderError(_) => continue,
        };
        // A call may have the id of a block: they are told apart by kind.
        let id = format!("{}{id}", if event.kind().starts_with("tool") { "call " } else { "" });
        match change {
            Some(true) if !seen.insert(id.clone()) => return Err(format!("{id} opens twice")),
            Some(true) => drop(open.insert(id, true)),
            Some(false) => drop(open.remove(&id).ok_or_else(|| format!("{id} ends and is not open"))?),
            None if !open.contains_key(&id) => return Err(format!("{id} grows and is not open")),
            None => {}
        }
    }
    let n_ends = events.iter().filter(|event| event.is_terminal()).count();
    match (n_ends, is_failed) {
        (1, false) | (0, true) => Ok(()),
        // A failure after the end is a violation that was found: the end was handed out before.
        (1, true) => Ok(()),
        _ => Err(format!("{n_ends} terminal events, failed: {is_failed}")),
    }
}

/// Whatever was understood is a history that can be sent.
fn send_back(request: &LLMRequest, events: &[LLMEvent]) -> Result<(), String> {
    let answer = LLMResponse::from_events(events.iter().cloned()).ok_or("a whole stream is no answer")?;
    let mut messages = request.messages.clone();
    let calls: Vec<_> = answer.tool_calls().into_iter().filter(|call| !call.is_provider_executed()).cloned().collect();
    messages.push(Arc::new(answer.message));
    for call in calls {
        let result = ToolResultPart::make(call.id, call.name, ToolResultValue::text("done"));
        messages.push(Arc::new(Message::tool(result)));
    }
    messages.push(Arc::new(Message::user("go on")));
    let next = request.update(RequestPatch { messages: Some(messages), ..RequestPatch::default() });
    let body = next.model.route.encode(&next).map_err(|error| format!("the answer cannot be sent back: {error}"))?;
    serde_json::from_slice::<serde_json::Value>(&body)
        .map_err(|error| format!("the next body is not JSON: {error}"))?;
    Ok(())
}
