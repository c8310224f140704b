//! The simulated provider: answers and failures of every kind, at random; it checks each request it gets.

use std::sync::Arc;
use std::time::Duration;

use abide_ai::schema::errors::{
    AuthenticationKind, RequestClassification, TransportDetails, TransportKind, TransportOperation,
};
use abide_ai::schema::events as ev;
use abide_ai::schema::messages::{Part, Role, ToolResultValue};
use abide_ai::{AIError, AIErrorKind, LLMEvent, LLMRequest, LlmStream, Usage};
use abide_schema::OwnerId;
use futures_util::StreamExt as _;

use super::world::{Ledger, Random};
use crate::session::compaction;
use crate::session::place::ModelClient;
use crate::store::{LeaseStore as _, MemoryStore};

type Item = Result<LLMEvent, AIError>;

/// Models that answer at random, and check each request they get.
pub(super) struct SimModels {
    random: Random,
    ledger: Arc<Ledger>,
    store: Arc<MemoryStore>,
}

impl SimModels {
    pub(super) fn new(random: Random, ledger: Arc<Ledger>, store: Arc<MemoryStore>) -> Self {
        Self { random, ledger, store }
    }
}

impl ModelClient for SimModels {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        self.ledger.request(super::invariants::complain(&request));
        // The base prompt, then the baseline of the epoch.
        if !is_summary(&request) {
            let updates = request.messages.iter().filter(|message| message.role == Role::System);
            let texts = updates.flat_map(|message| &message.content);
            let texts =
                texts.filter_map(|part| if let Part::Text(part) = part { Some(part.text.clone()) } else { None });
            self.ledger.saw(request.system.get(1).map(|part| part.text.as_str()), texts);
        }
        let owner = self.store.owner();
        if self.ledger.open_stream(&owner, |owner| self.store.lives(owner)) {
            self.ledger.request(Some("I11: two requests of the session are under way".to_owned()));
        }
        let open = OpenStream { owner, ledger: self.ledger.clone() };
        let items = script(&self.random, &request);
        let random = self.random.clone();
        Box::pin(futures_util::stream::iter(items).then(move |item| {
            // Held until the stream is over or dropped.
            let _open = &open;
            let pause = random.below(3) * random.below(400);
            async move {
                if pause > 0 {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                item
            }
        }))
    }
}

fn is_summary(request: &LLMRequest) -> bool {
    request.system.iter().any(|part| part.text == compaction::SYSTEM)
}

struct OpenStream {
    owner: OwnerId,
    ledger: Arc<Ledger>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.ledger.close_stream(&self.owner);
    }
}

/// A failure before any output.
fn refusal(random: &Random) -> AIError {
    let kinds = [
        AIErrorKind::RateLimit { retry_after_ms: None, rate_limit: None },
        AIErrorKind::RateLimit { retry_after_ms: Some(random.below(60_000)), rate_limit: None },
        AIErrorKind::ProviderInternal { retry_after_ms: None },
        AIErrorKind::INVALID_REQUEST,
        AIErrorKind::Authentication { kind: AuthenticationKind::Invalid },
        AIErrorKind::QuotaExceeded,
        AIErrorKind::ContentPolicy,
        AIErrorKind::UnknownProvider,
        AIErrorKind::INVALID_OUTPUT,
        AIErrorKind::INCOMPLETE_STREAM,
        overflow(),
        overflow(),
    ];
    let at = usize::try_from(random.below(kinds.len() as u64 + 2)).unwrap_or(0);
    match kinds.into_iter().nth(at) {
        Some(kind) => AIError::new(kind, "refused"),
        None => transport(),
    }
}

fn overflow() -> AIErrorKind {
    AIErrorKind::InvalidRequest { parameter: None, classification: Some(RequestClassification::ContextOverflow) }
}

fn transport() -> AIError {
    let details = TransportDetails {
        transport: TransportKind::Http,
        operation: TransportOperation::Read,
        code: None,
        url: None,
        phase: None,
        delivery: None,
        recovery: None,
    };
    AIError::transport(details, "connection reset")
}

/// How a stream may break in its middle.
fn breakage(random: &Random) -> Option<Item> {
    match random.below(40) {
        0 => Some(Err(transport())),
        1 => Some(Err(AIError::incomplete_stream("cut"))),
        2 => Some(Err(AIError::new(overflow(), "too long"))),
        3 => Some(Ok(LLMEvent::ProviderError(ev::ProviderErrorEvent {
            message: "overloaded".to_owned(),
            classification: (random.below(2) == 0).then_some(RequestClassification::ContextOverflow),
            provider_metadata: None,
        }))),
        // Breaches of the protocol.
        4 => Some(Ok(LLMEvent::TextDelta(delta("text-9", "stray")))),
        5 => Some(Ok(LLMEvent::StepFinish(step_finish(ev::FinishKind::Stop, None)))),
        _ => None,
    }
}

fn script(random: &Random, request: &LLMRequest) -> Vec<Item> {
    let mut events: Vec<Item> = Vec::new();
    if random.below(8) == 0 {
        if random.below(4) == 0 {
            // The step has started, and nothing was said.
            events.push(Ok(LLMEvent::StepStart(ev::StepStart { index: 0 })));
        }
        events.push(Err(refusal(random)));
        return events;
    }
    events.push(Ok(LLMEvent::StepStart(ev::StepStart { index: 0 })));
    if random.below(40) == 0 {
        // The end of the stream without a word.
        return events;
    }
    if is_summary(request) {
        let text = if random.below(5) == 0 { "no headings" } else { "## Objective\nGo on." };
        if random.below(10) > 0 {
            say(&mut events, "text-0", &[text]);
        }
        finish(&mut events, ev::FinishKind::Stop, random);
        return events;
    }
    if random.below(3) == 0 {
        events.push(Ok(LLMEvent::ReasoningStart(block("reasoning-0"))));
        events.push(Ok(LLMEvent::ReasoningDelta(delta("reasoning-0", "hm"))));
        if let Some(broken) = breakage(random) {
            events.push(broken);
        }
        let end = ev::ReasoningEnd { id: "reasoning-0".into(), text: None, provider_metadata: None };
        events.push(Ok(LLMEvent::ReasoningEnd(end)));
    }
    if random.below(3) > 0 {
        let words = ["word ", "word ", "long word "].repeat(usize::try_from(random.below(3)).unwrap_or(0));
        say(&mut events, "text-0", &words);
    }
    if let Some(broken) = breakage(random) {
        events.push(broken);
    }
    let called = !request.tools.is_empty() && random.below(5) < 3;
    if called {
        calls(&mut events, random);
    }
    if let Some(broken) = breakage(random) {
        events.push(broken);
    }
    let kind = match random.below(30) {
        0 => ev::FinishKind::ContentFilter,
        1 => ev::FinishKind::Unknown,
        2 => ev::FinishKind::Error,
        3 => ev::FinishKind::Length,
        _ if called => ev::FinishKind::ToolCalls,
        _ => ev::FinishKind::Stop,
    };
    if random.below(40) > 0 {
        finish(&mut events, kind, random);
    }
    events
}

/// One to three calls: local ones with and without input events, broken arguments, hosted ones with and without result.
fn calls(events: &mut Vec<Item>, random: &Random) {
    for index in 0..=random.below(3) {
        // The provider's ids repeat from step to step.
        let id = format!("call_{index}");
        let tools = ["work", "slow", "fail", "ask", "broken", "unknown"];
        let n_tools = if random.below(4) == 0 { 6 } else { 2 };
        let name = usize::try_from(random.below(n_tools)).ok().and_then(|at| tools.get(at)).copied().unwrap_or("work");
        if random.below(3) == 0 {
            let (id, name) = (id.as_str().into(), name.to_owned());
            let start = ev::ToolInputStart { id, name, provider_executed: None, provider_metadata: None };
            events.push(Ok(LLMEvent::ToolInputStart(start)));
            let fragment = ev::ToolInputDelta { id: id_of(index), name: name_of(events), text: "{\"n\"".to_owned() };
            events.push(Ok(LLMEvent::ToolInputDelta(fragment)));
            match random.below(8) {
                0 => {
                    events.push(Ok(LLMEvent::ToolInputError(ev::ToolInputError {
                        id: id_of(index),
                        name: name_of(events),
                        raw: "{\"n\"".to_owned(),
                        message: "cut".to_owned(),
                        provider_metadata: None,
                    })));
                    continue;
                }
                // The arguments never become complete.
                1 => continue,
                _ => {}
            }
            let end = ev::ToolInputEnd { id: id_of(index), name: name_of(events), provider_metadata: None };
            events.push(Ok(LLMEvent::ToolInputEnd(end)));
        }
        let hosted = random.below(10) == 0;
        events.push(Ok(LLMEvent::ToolCall(ev::ToolCall {
            id: id.as_str().into(),
            name: name.to_owned(),
            input: serde_json::json!({ "n": index }),
            provider_executed: hosted.then_some(true),
            provider_metadata: None,
        })));
        if hosted && random.below(3) > 0 {
            events.push(Ok(LLMEvent::ToolResult(ev::ToolResult {
                id: id.as_str().into(),
                name: name.to_owned(),
                result: ToolResultValue::text("found"),
                output: None,
                provider_executed: Some(true),
                provider_metadata: None,
            })));
        }
    }
}

fn id_of(index: u64) -> abide_ai::schema::ids::ToolCallId {
    format!("call_{index}").as_str().into()
}

/// The name with which the newest arguments began.
fn name_of(events: &[Item]) -> String {
    let start = events.iter().rev().find_map(|item| item.as_ref().ok().and_then(LLMEvent::as_tool_input_start));
    start.map(|start| start.name.clone()).unwrap_or_default()
}

fn say(events: &mut Vec<Item>, id: &str, words: &[&str]) {
    events.push(Ok(LLMEvent::TextStart(block(id))));
    events.extend(words.iter().map(|word| Ok(LLMEvent::TextDelta(delta(id, word)))));
    events.push(Ok(LLMEvent::TextEnd(ev::TextEnd { id: id.into(), provider_metadata: None })));
}

fn finish(events: &mut Vec<Item>, kind: ev::FinishKind, random: &Random) {
    // Now and then the context is nearly full, and the next step is preceded by a compaction.
    let input = if random.below(10) == 0 { 90_000 } else { 10 };
    let usage = Usage { input_tokens: Some(input), output_tokens: Some(5), ..Usage::default() };
    events.push(Ok(LLMEvent::StepFinish(step_finish(kind, Some(usage.clone())))));
    let reason = ev::FinishReason::new(kind, None);
    events.push(Ok(LLMEvent::Finish(ev::Finish { reason, usage: Some(usage), provider_metadata: None })));
}

fn step_finish(kind: ev::FinishKind, usage: Option<Usage>) -> ev::StepFinish {
    ev::StepFinish { index: 0, reason: ev::FinishReason::new(kind, None), usage, provider_metadata: None }
}

fn block(id: &str) -> ev::BlockStart {
    ev::BlockStart { id: id.into(), provider_metadata: None }
}

fn delta(id: &str, text: &str) -> ev::BlockDelta {
    ev::BlockDelta { id: id.into(), text: text.to_owned(), provider_metadata: None }
}
