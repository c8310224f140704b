//! The invariants of spec/session.md 8.2 that can be checked from outside.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use abide_ai::LLMRequest;
use abide_ai::schema::messages::{Part, Role};
use abide_schema::event::{EventData, StoredEvent};
use abide_schema::message::{AssistantContent, CompactionStatus, Message};
use abide_schema::project::{MemoryRows, apply};
use abide_schema::{CallId, MessageId, SessionId};

use super::world::Ledger;
use crate::store::MemoryStore;

/// Checks everything after a life. `quiet` says that nothing may be open any more.
pub(super) fn check(
    store: &MemoryStore,
    session: &SessionId,
    log: &[Arc<StoredEvent>],
    ledger: &Ledger,
    quiet: bool,
) -> Result<(), String> {
    if let Some(complaint) = ledger.complaints().first() {
        return Err(complaint.clone());
    }
    dense(log)?;
    projections(store, session, log)?;
    settlements(log, quiet)?;
    inputs(log)?;
    executions(log)?;
    usage(store, session, log)?;
    match ledger.runs().into_iter().find(|(_, runs)| *runs > 1) {
        Some(((message, call), runs)) => Err(format!("call {call} of {message} ran {runs} times")),
        None => Ok(()),
    }
}

/// I2, I3: dense sequence, unique ids, contract positions dense over contract events.
fn dense(log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut contract = 0u64;
    for (index, event) in log.iter().enumerate() {
        if event.seq.0 != index as u64 {
            return Err(format!("I2: seq {} at place {index}", event.seq));
        }
        if !ids.insert(event.id.clone()) {
            return Err(format!("I3: id {} twice", event.id));
        }
        if let Some(seq) = event.contract_seq {
            if seq.0 != contract {
                return Err(format!("I2: contract seq {seq} where {contract} is next"));
            }
            contract += 1;
        }
    }
    Ok(())
}

/// I1: the store's rows equal the rows folded from the log.
fn projections(store: &MemoryStore, session: &SessionId, log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut rebuilt = MemoryRows::default();
    for event in log {
        apply(&mut rebuilt, event).map_err(|error| format!("I1: event {} cannot be replayed: {error}", event.seq))?;
    }
    let live = store.rows();
    if live.get_session(session) != rebuilt.get_session(session) {
        return Err("I1: the session row differs from a rebuild".to_owned());
    }
    if !live.messages(session).eq(rebuilt.messages(session)) {
        return Err("I1: messages differ from a rebuild".to_owned());
    }
    if live.inputs(session) != rebuilt.inputs(session) {
        return Err("I1: inputs differ from a rebuild".to_owned());
    }
    if live.get_context(session) != rebuilt.get_context(session) {
        return Err("I1: the context differs from a rebuild".to_owned());
    }
    Ok(())
}

/// I5, I6, I7: one terminal for each call before its step's, one terminal for each step, nothing open at rest.
fn settlements(log: &[Arc<StoredEvent>], quiet: bool) -> Result<(), String> {
    let mut open_steps: Vec<MessageId> = Vec::new();
    let mut open_calls: HashMap<(MessageId, CallId), u32> = HashMap::new();
    let mut ended: HashSet<MessageId> = HashSet::new();
    for event in log {
        match &event.data {
            EventData::StepStarted(data) => {
                if let Some(open) = open_steps.first() {
                    return Err(format!("I6: {} starts while {open} is open", data.assistant_message_id));
                }
                open_steps.push(data.assistant_message_id.clone());
            }
            EventData::StepEnded(_) | EventData::StepFailed(_) => {
                let id = match &event.data {
                    EventData::StepEnded(data) => &data.assistant_message_id,
                    EventData::StepFailed(data) => &data.assistant_message_id,
                    _ => continue,
                };
                if !open_steps.iter().any(|open| open == id) {
                    return Err(format!("I6: a second terminal of step {id}"));
                }
                open_steps.retain(|open| open != id);
                ended.insert(id.clone());
                if let Some(((_, call), _)) = open_calls.iter().find(|((message, _), n)| message == id && **n > 0) {
                    return Err(format!("I5: step {id} ended before call {call}"));
                }
            }
            EventData::ToolInputStarted(data) => {
                let key = (data.assistant_message_id.clone(), data.call_id.clone());
                *open_calls.entry(key).or_default() += 1;
            }
            EventData::ToolSuccess(_) | EventData::ToolFailed(_) => {
                let key = match &event.data {
                    EventData::ToolSuccess(data) => (data.assistant_message_id.clone(), data.call_id.clone()),
                    EventData::ToolFailed(data) => (data.assistant_message_id.clone(), data.call_id.clone()),
                    _ => continue,
                };
                let n = open_calls.entry(key.clone()).or_default();
                if *n == 0 {
                    return Err(format!("I5: a second terminal of call {}", key.1));
                }
                *n -= 1;
                if ended.contains(&key.0) {
                    return Err(format!("I5: call {} settled after its step", key.1));
                }
            }
            _ => {}
        }
    }
    if quiet && !open_steps.is_empty() {
        return Err("I7: a step is open at rest".to_owned());
    }
    if quiet && open_calls.values().any(|n| *n > 0) {
        return Err("I7: a call is open at rest".to_owned());
    }
    if quiet {
        let mut rows = MemoryRows::default();
        for event in log {
            apply(&mut rows, event).map_err(|error| error.to_string())?;
        }
        let session = log.first().map(|event| event.session_id().clone());
        for row in session.iter().flat_map(|session| rows.messages(session)) {
            let open = match &row.message {
                Message::Compaction(compaction) => compaction.status == CompactionStatus::Running,
                Message::Assistant(assistant) => {
                    assistant.time.completed.is_none()
                        || assistant.content.iter().any(|item| match item {
                            AssistantContent::Text(item) => item.open,
                            AssistantContent::Reasoning(item) => item.time.is_some_and(|time| time.completed.is_none()),
                            AssistantContent::Tool(item) => !item.state.is_settled(),
                        })
                }
                _ => false,
            };
            if open {
                return Err(format!("I7: message {} is open at rest", row.message.id()));
            }
        }
    }
    Ok(())
}

/// I8, I9: an input is promoted at most once, steers in admission order, queued ones in admission order.
fn inputs(log: &[Arc<StoredEvent>]) -> Result<(), String> {
    use abide_schema::prompt::Delivery;
    let mut admitted: Vec<(MessageId, Delivery)> = Vec::new();
    let mut promoted: Vec<(MessageId, Delivery)> = Vec::new();
    for event in log {
        match &event.data {
            EventData::PromptAdmitted(data) => admitted.push((data.message_id.clone(), data.delivery)),
            EventData::Prompted(data) => {
                if promoted.iter().any(|(id, _)| *id == data.message_id) {
                    return Err(format!("I8: {} is promoted twice", data.message_id));
                }
                promoted.push((data.message_id.clone(), data.delivery));
            }
            _ => {}
        }
    }
    for delivery in [Delivery::Steer, Delivery::Queue] {
        let of = |list: &[(MessageId, Delivery)]| -> Vec<MessageId> {
            list.iter().filter(|(_, kind)| *kind == delivery).map(|(id, _)| id.clone()).collect()
        };
        let (admitted, promoted) = (of(&admitted), of(&promoted));
        if !admitted.starts_with(&promoted) {
            return Err(format!("I9: {delivery:?} inputs are promoted out of order"));
        }
    }
    Ok(())
}

/// I13, I18: executions do not overlap; after a user's interrupt no step starts without a new execution.
fn executions(log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut running = false;
    let mut fence = 0;
    for event in log {
        match &event.data {
            EventData::ExecutionStarted(data) => {
                if data.fence <= fence {
                    return Err(format!("I12: fence {} after {fence}", data.fence));
                }
                fence = data.fence;
                running = true;
            }
            EventData::ExecutionSucceeded(_) | EventData::ExecutionFailed(_) | EventData::ExecutionInterrupted(_) => {
                if !running {
                    return Err(format!("I13: a second terminal at {}", event.seq));
                }
                running = false;
            }
            EventData::StepStarted(_) if !running => {
                return Err(format!("I18: a step starts at {} without execution", event.seq));
            }
            _ => {}
        }
    }
    Ok(())
}

/// I21: session totals equal the sum over the events.
fn usage(store: &MemoryStore, session: &SessionId, log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut total = abide_schema::model::Tokens::default();
    for event in log {
        let tokens = match &event.data {
            EventData::StepEnded(data) => Some(data.tokens),
            EventData::StepFailed(data) => data.tokens,
            EventData::CompactionEnded(data) => data.tokens,
            EventData::CompactionFailed(data) => data.tokens,
            EventData::UsageRecorded(data) => Some(data.tokens),
            _ => None,
        };
        if let Some(tokens) = tokens {
            total.add(&tokens);
        }
    }
    match store.rows().get_session(session) {
        Some(info) if info.tokens != total => Err("I21: totals differ from the sum of the events".to_owned()),
        Some(_) | None => Ok(()),
    }
}

/// I10, and what providers refuse: each call has exactly one result, right after its message; nothing is empty.
pub(super) fn complain(request: &LLMRequest) -> Option<String> {
    let mut waiting: Vec<String> = Vec::new();
    if request.messages.is_empty() {
        return Some("I10: a request without messages".to_owned());
    }
    for message in &request.messages {
        if message.content.is_empty() {
            return Some("I10: an empty message".to_owned());
        }
        if message.role != Role::Tool && !waiting.is_empty() {
            return Some(format!("I10: calls without result: {}", waiting.join(", ")));
        }
        for part in &message.content {
            match part {
                Part::ToolCall(call) if !call.is_provider_executed() => waiting.push(call.id.as_str().to_owned()),
                Part::ToolResult(result) if !result.is_provider_executed() => {
                    let Some(at) = waiting.iter().position(|id| id == result.id.as_str()) else {
                        return Some(format!("I10: a result without call: {}", result.id.as_str()));
                    };
                    waiting.remove(at);
                }
                Part::Text(text) if text.text.is_empty() => return Some("I10: an empty text".to_owned()),
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Text(_) | Part::Media(_) | Part::Reasoning(_) => {}
            }
        }
    }
    (!waiting.is_empty()).then(|| format!("I10: calls without result: {}", waiting.join(", ")))
}
