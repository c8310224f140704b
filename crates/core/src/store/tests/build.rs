//! Events and sessions for tests.

use std::sync::Arc;

use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::{self, CompactionReason, EventData, InboxItem, InboxKind, StoredEvent};
use abide_schema::location::LocationRef;
use abide_schema::message::{CallProvider, Finish};
use abide_schema::model::{CacheTokens, ModelRef, Tokens};
use abide_schema::prompt::{Delivery, Prompt};
use abide_schema::session::SessionInfo;
use abide_schema::{JsonObject, MessageId, SessionId, Timestamp};

use crate::store::{AppendError, Batch, Item, SeqRange, Store, View};

pub(in crate::store) fn ses(name: &str) -> SessionId {
    SessionId::from_trusted(format!("ses_{name}"))
}

pub(in crate::store) fn msg(name: &str) -> MessageId {
    MessageId::from_trusted(format!("msg_{name}"))
}

pub(in crate::store) fn created(session: &SessionId) -> event::SessionCreated {
    event::SessionCreated {
        timestamp: Timestamp(1),
        session_id: session.clone(),
        project_id: "global".into(),
        location: LocationRef::new("/work"),
        slug: "slug".to_owned(),
        title: SessionInfo::default_title(Timestamp(1)),
        version: "0.0.0".to_owned(),
        subpath: None,
        parent_id: None,
        agent: None,
        model: None,
        metadata: None,
        permissions: None,
    }
}

pub(in crate::store) fn renamed(session: &SessionId, title: &str) -> event::Renamed {
    event::Renamed { timestamp: Timestamp(2), session_id: session.clone(), title: title.to_owned() }
}

pub(in crate::store) fn admitted(session: &SessionId, id: &str) -> event::PromptAdmitted {
    event::PromptAdmitted {
        timestamp: Timestamp(3),
        session_id: session.clone(),
        message_id: msg(id),
        prompt: Prompt::text(format!("text of {id}")),
        delivery: Delivery::Steer,
        metadata: None,
    }
}

pub(in crate::store) fn prompted(session: &SessionId, id: &str) -> event::Prompted {
    let event::PromptAdmitted { timestamp, session_id, message_id, prompt, delivery, metadata } = admitted(session, id);
    event::Prompted { timestamp, session_id, message_id, prompt, delivery, metadata }
}

pub(in crate::store) fn enqueued(session: &SessionId, id: &str, kind: InboxKind) -> event::InboxEnqueued {
    let mut payload = JsonObject::new();
    payload.insert("text".to_owned(), "words".into());
    event::InboxEnqueued {
        timestamp: Timestamp(3),
        session_id: session.clone(),
        inbox_id: msg(id),
        item: InboxItem { kind, payload, delivery: Delivery::Queue },
    }
}

pub(in crate::store) fn step_started(session: &SessionId, id: &str) -> event::StepStarted {
    event::StepStarted {
        timestamp: Timestamp(4),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        agent: "build".into(),
        model: ModelRef::parse("mock/model").unwrap(),
        snapshot: None,
        attempt: None,
    }
}

pub(in crate::store) fn text_started(session: &SessionId, id: &str, text: &str) -> event::TextStarted {
    event::TextStarted {
        timestamp: Timestamp(5),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        text_id: text.to_owned(),
        ordinal: None,
    }
}

pub(in crate::store) fn text_ended(session: &SessionId, id: &str, text: &str, words: &str) -> event::TextEnded {
    event::TextEnded {
        timestamp: Timestamp(6),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        text_id: text.to_owned(),
        text: words.to_owned(),
        ordinal: None,
        metadata: None,
    }
}

pub(in crate::store) fn input_started(session: &SessionId, id: &str, call: &str) -> event::ToolInputStarted {
    event::ToolInputStarted {
        timestamp: Timestamp(7),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        call_id: call.into(),
        name: "read".to_owned(),
        ordinal: None,
    }
}

pub(in crate::store) fn called(session: &SessionId, id: &str, call: &str) -> event::ToolCalled {
    let mut input = JsonObject::new();
    // Keys out of order and a number that needs all its digits.
    input.insert("path".to_owned(), "/x".into());
    input.insert("at".to_owned(), serde_json::json!(0.1 + 0.2));
    event::ToolCalled {
        timestamp: Timestamp(8),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        call_id: call.into(),
        tool: "read".to_owned(),
        input,
        provider: CallProvider::default(),
        effects: None,
    }
}

pub(in crate::store) fn succeeded(session: &SessionId, id: &str, call: &str) -> event::ToolSuccess {
    event::ToolSuccess {
        timestamp: Timestamp(9),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        call_id: call.into(),
        structured: JsonObject::new(),
        content: Vec::new(),
        provider: CallProvider::default(),
        output_paths: None,
        result: None,
    }
}

pub(in crate::store) fn failed(session: &SessionId, id: &str, call: &str) -> event::ToolFailed {
    event::ToolFailed {
        timestamp: Timestamp(9),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        call_id: call.into(),
        error: SessionError::new(ErrorCode::ToolExecution, "no"),
        provider: CallProvider::default(),
        result: None,
        structured: None,
        content: None,
        verdict: None,
    }
}

pub(in crate::store) fn step_ended(session: &SessionId, id: &str, cost: f64) -> event::StepEnded {
    event::StepEnded {
        timestamp: Timestamp(10),
        session_id: session.clone(),
        assistant_message_id: msg(id),
        finish: Finish::Stop,
        cost,
        tokens: Tokens { input: 3, output: 5, reasoning: 0, cache: CacheTokens { read: 7, write: 0 } },
        raw_finish: None,
        snapshot: None,
        files: None,
        metadata: None,
    }
}

pub(in crate::store) fn execution_succeeded(session: &SessionId) -> event::ExecutionSucceeded {
    event::ExecutionSucceeded { timestamp: Timestamp(11), session_id: session.clone() }
}

pub(in crate::store) fn compaction_started(session: &SessionId, id: &str) -> event::CompactionStarted {
    event::CompactionStarted {
        timestamp: Timestamp(12),
        session_id: session.clone(),
        message_id: msg(id),
        reason: CompactionReason::Auto,
        recent: None,
    }
}

pub(in crate::store) fn compaction_ended(session: &SessionId, id: &str) -> event::CompactionEnded {
    event::CompactionEnded {
        timestamp: Timestamp(13),
        session_id: session.clone(),
        message_id: msg(id),
        reason: CompactionReason::Auto,
        text: "summary".to_owned(),
        recent: "recent".to_owned(),
        model: None,
        cost: Some(0.1),
        tokens: None,
    }
}

pub(in crate::store) fn deleted(session: &SessionId) -> event::SessionDeleted {
    event::SessionDeleted { timestamp: Timestamp(20), session_id: session.clone() }
}

/// A batch of one event.
pub(in crate::store) fn one(data: impl Into<EventData>) -> Batch {
    let data = data.into();
    Batch::new(data.session_id().clone(), vec![Item::from(data)])
}

/// Appends one event.
pub(in crate::store) async fn put(
    store: &dyn Store,
    data: impl Into<EventData>,
) -> Result<Arc<StoredEvent>, AppendError> {
    store.append(one(data)).await.map(|events| events[0].clone())
}

/// Makes a session and returns its id.
pub(in crate::store) async fn session(store: &dyn Store, name: &str) -> SessionId {
    let session = ses(name);
    put(store, created(&session)).await.unwrap();
    session
}

/// A whole turn: prompt, a step with text and two calls, a compaction, idle.
pub(in crate::store) fn turn(session: &SessionId, tag: &str) -> Vec<EventData> {
    let (prompt, step, summary) = (format!("p{tag}"), format!("s{tag}"), format!("c{tag}"));
    vec![
        admitted(session, &prompt).into(),
        prompted(session, &prompt).into(),
        step_started(session, &step).into(),
        text_started(session, &step, "t").into(),
        text_ended(session, &step, "t", "words").into(),
        input_started(session, &step, "a").into(),
        input_started(session, &step, "b").into(),
        called(session, &step, "a").into(),
        succeeded(session, &step, "a").into(),
        failed(session, &step, "b").into(),
        step_ended(session, &step, 0.1 + 0.2).into(),
        compaction_started(session, &summary).into(),
        compaction_ended(session, &summary).into(),
        execution_succeeded(session).into(),
    ]
}

/// Reads the whole log.
pub(in crate::store) async fn log(store: &dyn Store, session: &SessionId) -> Vec<Arc<StoredEvent>> {
    let page = store.read(session, SeqRange::default(), View::Log, 100_000).await.unwrap();
    assert!(!page.has_more);
    page.events
}

/// Asserts that the projections are what the log says.
#[track_caller]
pub(in crate::store) fn sound(found: Result<Vec<String>, crate::store::StoreError>) {
    assert_eq!(found.unwrap(), Vec::<String>::new());
}
