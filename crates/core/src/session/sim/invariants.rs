//! The invariants of spec/session.md 8.2, by name.
//!
//! Here: I1 to I10, I12, I13, I16 to I22, I24 to I27. In the simulated world: I4 when a tool runs, I10, I20 and I22 when
//! a request comes, I11 while a stream is open. Elsewhere: I14 in `tests/recovery.rs`, I15 in the tests of the mutation
//! journal, I23 in the tests of bounded tool output.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use abide_ai::LLMRequest;
use abide_ai::schema::messages::{Part, Role};
use abide_schema::event::{EventData, StoredEvent};
use abide_schema::message::{AssistantContent, CompactionStatus, Message};
use abide_schema::project::{MemoryRows, apply};
use abide_schema::{CallId, MessageId, SessionId};

use futures_util::FutureExt as _;

use super::world::Ledger;
use crate::store::{EventStore as _, MemoryStore, SeqRange, ValueStore as _, View};

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
    log_alone(log, quiet)?;
    projections(store, session, log)?;
    usage(store, session, log)?;
    pages(store, session, log)?;
    hashes(store, log)?;
    transcript(store, session, log)?;
    requests(log, ledger)?;
    match ledger.runs().into_iter().find(|(_, runs)| *runs > 1) {
        Some(((message, call), runs)) => Err(format!("call {call} of {message} ran {runs} times")),
        None => Ok(()),
    }
}

/// Checks everything of a session at rest, for tests without a ledger.
#[cfg(test)]
pub(super) fn check_log_of(store: &MemoryStore, session: &SessionId) {
    let checked = check(store, session, &store.log(session), &Ledger::default(), true);
    assert_eq!(checked, Ok(()));
}

/// What a log shows by itself.
pub(super) fn log_alone(log: &[Arc<StoredEvent>], quiet: bool) -> Result<(), String> {
    dense(log)?;
    settlements(log, quiet)?;
    inputs(log)?;
    executions(log)?;
    kinds(log)
}

/// I17, I24: nothing ephemeral is stored, nothing follows the deletion.
fn kinds(log: &[Arc<StoredEvent>]) -> Result<(), String> {
    if let Some(event) = log.iter().find(|event| event.data.def().name.rsplit('.').next() == Some("delta")) {
        return Err(format!("I17: {} is stored", event.data.def().name));
    }
    let deleted = log.iter().position(|event| matches!(event.data, EventData::SessionDeleted(_)));
    match deleted {
        Some(at) if at + 1 < log.len() => Err(format!("I24: {} events follow the deletion", log.len() - at - 1)),
        Some(_) | None => Ok(()),
    }
}

/// I16: a client that goes on from its last position gets each later event of the contract once, in order.
fn pages(store: &MemoryStore, session: &SessionId, log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut wanted = log.iter().filter(|event| event.contract_seq.is_some_and(|seq| seq.0 > 0));
    let mut range = SeqRange::default();
    loop {
        let page = store.read(session, range, View::Contract, 7).now_or_never();
        let Some(Ok(page)) = page else { return Err("I16: the history cannot be read".to_owned()) };
        for event in &page.events {
            match wanted.next() {
                Some(expected) if expected.id == event.id => {}
                _ => return Err(format!("I16: {} comes where another event is next", event.seq)),
            }
        }
        match page.cursor {
            Some(cursor) if page.has_more => range.after = Some(cursor),
            Some(_) | None => break,
        }
    }
    wanted.next().map_or(Ok(()), |event| Err(format!("I16: event {} is not in the history", event.seq)))
}

/// I25: what an event names by hash is there.
fn hashes(store: &MemoryStore, log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut named: Vec<&str> = Vec::new();
    for event in log {
        match &event.data {
            EventData::ContextBaselined(data) => {
                named.push(&data.baseline);
                named.extend(data.values.values().map(String::as_str));
            }
            EventData::ContextUpdated(data) => {
                let changed = data.delta.iter().flat_map(|delta| delta.values());
                named.extend(changed.map(String::as_str).filter(|hash| *hash != "removed"));
            }
            _ => {}
        }
    }
    for hash in named {
        let found = store.blob(hash).now_or_never();
        if !matches!(found, Some(Ok(Some(_)))) {
            return Err(format!("I25: the value {hash} is missing"));
        }
    }
    Ok(())
}

/// I26, I27: a promotion and its message, an update and its message are there together; a compaction that failed has
/// no part in the active history.
fn transcript(store: &MemoryStore, session: &SessionId, log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let rows = store.rows();
    let messages: HashMap<&MessageId, &Message> =
        rows.messages(session).map(|row| (row.message.id(), &row.message)).collect();
    for event in log {
        let (name, id, fits) = match &event.data {
            EventData::Prompted(data) => {
                ("user", &data.message_id, matches!(messages.get(&data.message_id), Some(Message::User(_))))
            }
            EventData::ContextUpdated(data) => {
                ("system", &data.message_id, matches!(messages.get(&data.message_id), Some(Message::System(_))))
            }
            EventData::CompactionFailed(data) => {
                let completed = matches!(messages.get(&data.message_id),
                    Some(Message::Compaction(compaction)) if compaction.status == CompactionStatus::Completed);
                if completed {
                    return Err(format!("I26: the failed compaction {} counts", data.message_id));
                }
                continue;
            }
            _ => continue,
        };
        if !fits {
            return Err(format!("I27: the {name} message {id} is missing"));
        }
    }
    Ok(())
}

/// I20, I22: each request had the text of a baseline of the log, and updates word for word.
fn requests(log: &[Arc<StoredEvent>], ledger: &Ledger) -> Result<(), String> {
    let mut baselines = HashSet::new();
    let mut updates = HashSet::new();
    for event in log {
        match &event.data {
            EventData::ContextBaselined(data) => drop(baselines.insert(data.baseline.as_str())),
            EventData::ContextUpdated(data) => drop(updates.insert(data.text.as_str())),
            _ => {}
        }
    }
    for text in ledger.baselines() {
        if !baselines.contains(abide_schema::json::sha256_hex(text.as_bytes()).as_str()) {
            return Err(format!("I20: a request had a system text that no baseline has: {text}"));
        }
    }
    match ledger.updates().into_iter().find(|text| !updates.contains(text.as_str())) {
        Some(text) => Err(format!("I22: a request had an update that is not in the log: {text}")),
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

/// The resumes that the engine allows.
const MAX_ATTEMPTS: u32 = 10;

/// I12, I13, I18, I19: executions do not overlap; after a user's interrupt no step starts without a new execution.
fn executions(log: &[Arc<StoredEvent>]) -> Result<(), String> {
    let mut running = false;
    let mut fence = 0;
    for event in log {
        match &event.data {
            EventData::ExecutionStarted(data) => {
                if data.fence <= fence {
                    return Err(format!("I12: fence {} after {fence}", data.fence));
                }
                if data.attempt > MAX_ATTEMPTS {
                    return Err(format!("I19: resume {} of one execution", data.attempt));
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
