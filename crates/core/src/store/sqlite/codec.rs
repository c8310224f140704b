//! Rows of the database and our types.

use std::ops::RangeInclusive;

use abide_schema::event::names;
use abide_schema::event::{DecodeError, EventData, InboxKind, StoredEvent};
use abide_schema::location::LocationRef;
use abide_schema::message::{AssistantContent, AssistantMessage, CompactionStatus, ItemKind, Message};
use abide_schema::model::{CacheTokens, Tokens};
use abide_schema::project::{ContextRow, InputRow, MessageRow, Position};
use abide_schema::prompt::Delivery;
use abide_schema::session::{Outcome, SessionInfo, SessionTime};
use abide_schema::{
    AgentId, CallId, EventId, MessageId, MutationId, OwnerId, ProjectId, Seq, SessionId, Timestamp, WorkspaceId,
};
use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{unreadable, unreadable_row};
use crate::store::transact::is_open;
use crate::store::{
    AttemptState, CallKey, Draft, Lease, Mutation, MutationState, StepAttempt, StoreError, ToolProcess,
};

pub(super) type Result<T> = std::result::Result<T, StoreError>;

/// A `SELECT` with the columns that the function of the same name reads, in its order.
macro_rules! select {
    (event $rest:literal) => {
        concat!("SELECT e.id, e.pos, e.contract_head, e.type, e.created, e.location, e.metadata, e.data, e.counted ", $rest)
    };
    (session $rest:literal) => {
        concat!("SELECT id, project_id, workspace_id, parent_id, fork, slug, directory, subpath, title, agent, model, \
             version, metadata, permissions, revert, outcome, cost, tokens_input, tokens_output, \
             tokens_reasoning, tokens_cache_read, tokens_cache_write, time_created, time_updated, time_idle, \
             time_viewed, time_archived ", $rest)
    };
    (message $rest:literal) => {
        concat!("SELECT m.key, s.id, m.data ", $rest)
    };
    (input $rest:literal) => {
        concat!("SELECT i.id, s.id, i.kind, i.payload, i.delivery, i.admitted_seq, i.admitted_contract_seq, i.promoted_seq, \
             i.promoted_contract_seq, i.cancelled_seq, i.input_hash, i.metadata, i.time_created ", $rest)
    };
    (context $rest:literal) => {
        concat!("SELECT c.baseline_hash, c.baseline_seq, c.epoch_values, c.current_values ", $rest)
    };
    (lease $rest:literal) => {
        concat!("SELECT q.aggregate_id, l.owner_id, l.fence, l.attempts, l.wake_seq, l.done_seq, l.interrupt_seq ", $rest)
    };
    (mutation $rest:literal) => {
        concat!("SELECT m.id, q.aggregate_id, m.message, m.call_id, m.tool, m.state, m.output, m.files, m.created ", $rest)
    };
}
pub(super) use select;

/// Encodes a value as JSON text.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(format!("a value cannot be JSON: {error}")))
}

/// Encodes an optional value.
pub(super) fn to_json_opt<T: Serialize>(value: Option<&T>) -> Result<Option<String>> {
    value.map(to_json).transpose()
}

/// Decodes a stored value.
pub(super) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable(what, &error))
}

fn from_json_opt<T: DeserializeOwned>(what: &str, text: Option<&str>) -> Result<Option<T>> {
    text.map(|text| from_json(what, text)).transpose()
}

/// SQLite's integers are signed; counts beyond them are as good as endless.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn seq(value: i64) -> Seq {
    Seq(uint(value))
}

/// Bits of a log position in `event.pos`.
const LOG_BITS: u32 = 32;
/// Bits of the index, and of the log position, in `session_message.key`.
const SUB_BITS: u32 = 10;
const SEQ_BITS: u32 = 30;

fn place(key: i64, bits: u32, offset: u64) -> Result<i64> {
    let base = key.checked_mul(1 << bits);
    let offset = i64::try_from(offset).ok().filter(|offset| *offset < 1 << bits);
    base.zip(offset)
        .and_then(|(base, offset)| base.checked_add(offset))
        .ok_or_else(|| StoreError::Other("the store is full: too many sessions, or events of one session".to_owned()))
}

/// Returns the place of an event in the table of events.
pub(super) fn log_pos(key: i64, seq: Seq) -> Result<i64> {
    place(key, LOG_BITS, seq.0)
}

/// Returns the places of all events of a session.
pub(super) fn log_range(key: i64) -> Result<RangeInclusive<i64>> {
    Ok(place(key, LOG_BITS, 0)?..=place(key, LOG_BITS, (1 << LOG_BITS) - 1)?)
}

/// Returns the log position at a place.
pub(super) fn log_seq(pos: i64) -> Seq {
    seq(pos & ((1 << LOG_BITS) - 1))
}

/// Returns the place of a message in the table of messages.
pub(super) fn message_key(key: i64, at: Position) -> Result<i64> {
    place(place(key, SEQ_BITS, at.seq.0)?, SUB_BITS, at.sub.into())
}

/// Returns the places of all messages of a session.
pub(super) fn message_range(key: i64) -> Result<RangeInclusive<i64>> {
    let bits = SEQ_BITS + SUB_BITS;
    Ok(place(key, bits, 0)?..=place(key, bits, (1 << bits) - 1)?)
}

/// Returns the position of the message at a place.
pub(super) fn message_position(key: i64) -> Position {
    let sub = key & ((1 << SUB_BITS) - 1);
    Position { seq: seq((key >> SUB_BITS) & ((1 << SEQ_BITS) - 1)), sub: small(sub) }
}

/// Says whether a stored type is the deletion of a session.
pub(super) fn is_deletion(stored_type: &str) -> bool {
    stored_type.rsplit_once('.').is_some_and(|(name, _)| name == names::SESSION_DELETED)
}

fn small(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn text<'a>(row: &'a Row<'_>, index: usize) -> Result<&'a str> {
    let value = row.get_ref(index)?;
    value.as_str().map_err(|error| unreadable("a text column", &error))
}

fn text_opt<'a>(row: &'a Row<'_>, index: usize) -> Result<Option<&'a str>> {
    let value = row.get_ref(index)?;
    value.as_str_or_null().map_err(|error| unreadable("a text column", &error))
}

/// A word of a closed set, as serde writes it.
pub(super) fn word<T: Serialize>(value: T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(StoreError::Other(format!("{other} is no word"))),
        Err(error) => Err(StoreError::Other(error.to_string())),
    }
}

fn from_word<T: DeserializeOwned>(what: &str, word: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).map_err(|error| unreadable(what, &error))
}

/// Reads an event; `None` when a newer process wrote it.
pub(super) fn event(row: &Row<'_>) -> Result<Option<StoredEvent>> {
    let kind = text(row, 3)?;
    let data = match EventData::decode(kind, text(row, 7)?) {
        Ok(data) => data,
        Err(DecodeError::UnknownType(_)) => return Ok(None),
        Err(error @ DecodeError::Data { .. }) => {
            return Err(StoreError::Corrupt(format!("event {}: {error}", text(row, 0)?)));
        }
    };
    Ok(Some(StoredEvent {
        id: EventId::from_trusted(text(row, 0)?),
        seq: log_seq(row.get(1)?),
        contract_seq: if row.get(8)? { row.get::<_, Option<i64>>(2)?.map(seq) } else { None },
        created: Timestamp(row.get(4)?),
        location: from_json_opt("an event's location", text_opt(row, 5)?)?,
        metadata: from_json_opt("an event's metadata", text_opt(row, 6)?)?,
        data,
    }))
}

pub(super) fn session(row: &Row<'_>) -> Result<SessionInfo> {
    let id = SessionId::from_trusted(text(row, 0)?);
    let read = |what: &str, error: &StoreError| unreadable_row(&id, what, error);
    Ok(SessionInfo {
        project_id: ProjectId::new(text(row, 1)?),
        parent_id: text_opt(row, 3)?.map(SessionId::from_trusted),
        fork: from_json_opt("fork", text_opt(row, 4)?).map_err(|error| read("the fork", &error))?,
        slug: text(row, 5)?.to_owned(),
        location: LocationRef {
            directory: text(row, 6)?.to_owned(),
            workspace_id: text_opt(row, 2)?.map(WorkspaceId::from_trusted),
        },
        subpath: text_opt(row, 7)?.map(ToOwned::to_owned),
        title: text(row, 8)?.to_owned(),
        agent: text_opt(row, 9)?.map(AgentId::new),
        model: from_json_opt("model", text_opt(row, 10)?).map_err(|error| read("the model", &error))?,
        version: text(row, 11)?.to_owned(),
        metadata: from_json_opt("metadata", text_opt(row, 12)?).map_err(|error| read("the metadata", &error))?,
        permissions: from_json_opt("permissions", text_opt(row, 13)?)
            .map_err(|error| read("the permissions", &error))?,
        revert: from_json_opt("revert", text_opt(row, 14)?).map_err(|error| read("the revert", &error))?,
        outcome: text_opt(row, 15)?.map(|word| from_word::<Outcome>("an outcome", word)).transpose()?,
        cost: row.get(16)?,
        tokens: Tokens {
            input: uint(row.get(17)?),
            output: uint(row.get(18)?),
            reasoning: uint(row.get(19)?),
            cache: CacheTokens { read: uint(row.get(20)?), write: uint(row.get(21)?) },
        },
        time: SessionTime {
            created: Timestamp(row.get(22)?),
            updated: Timestamp(row.get(23)?),
            idle: row.get::<_, Option<i64>>(24)?.map(Timestamp),
            viewed: row.get::<_, Option<i64>>(25)?.map(Timestamp),
            archived: row.get::<_, Option<i64>>(26)?.map(Timestamp),
        },
        id,
    })
}

/// Reads a message without content, and its key.
pub(super) fn message(row: &Row<'_>) -> Result<(i64, MessageRow)> {
    let session_id = SessionId::from_trusted(text(row, 1)?);
    let key = row.get(0)?;
    let position = message_position(key);
    let message: Message = serde_json::from_str(text(row, 2)?)
        .map_err(|error| unreadable_row(&session_id, &format!("the message at {}", position.seq), &error))?;
    Ok((key, MessageRow { session_id, position, message }))
}

/// Encodes a message without the content of an assistant message.
pub(super) fn message_json(message: &Message) -> Result<String> {
    match message {
        Message::Assistant(assistant) if !assistant.content.is_empty() => {
            let AssistantMessage {
                id,
                time,
                metadata,
                agent,
                model,
                content: _,
                snapshot,
                finish,
                raw_finish,
                cost,
                tokens,
                error,
                retry,
            } = assistant;
            to_json(&Message::Assistant(AssistantMessage {
                id: id.clone(),
                time: *time,
                metadata: metadata.clone(),
                agent: agent.clone(),
                model: model.clone(),
                content: Vec::new(),
                snapshot: snapshot.clone(),
                finish: *finish,
                raw_finish: raw_finish.clone(),
                cost: *cost,
                tokens: *tokens,
                error: error.clone(),
                retry: retry.clone(),
            }))
        }
        Message::Assistant(_)
        | Message::User(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::Shell(_)
        | Message::Compaction(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_)
        | Message::Skill(_)
        | Message::LocationSwitched(_)
        | Message::Idle(_) => to_json(message),
    }
}

/// The column `state` of a message.
pub(super) fn message_state(message: &Message) -> i64 {
    let is_failed = matches!(message, Message::Compaction(compaction) if compaction.status == CompactionStatus::Failed);
    if is_failed { 2 } else { i64::from(is_open(message)) }
}

pub(super) fn content(row: &Row<'_>, index: usize) -> Result<AssistantContent> {
    from_json("a content item", text(row, index)?)
}

pub(super) fn input(row: &Row<'_>) -> Result<InputRow> {
    Ok(InputRow {
        id: MessageId::from_trusted(text(row, 0)?),
        session_id: SessionId::from_trusted(text(row, 1)?),
        kind: from_word::<InboxKind>("the kind of an input", text(row, 2)?)?,
        payload: from_json("the payload of an input", text(row, 3)?)?,
        delivery: from_word::<Delivery>("the delivery of an input", text(row, 4)?)?,
        admitted_seq: seq(row.get(5)?),
        admitted_contract_seq: row.get::<_, Option<i64>>(6)?.map(seq),
        promoted_seq: row.get::<_, Option<i64>>(7)?.map(seq),
        promoted_contract_seq: row.get::<_, Option<i64>>(8)?.map(seq),
        cancelled_seq: row.get::<_, Option<i64>>(9)?.map(seq),
        input_hash: text_opt(row, 10)?.map(ToOwned::to_owned),
        metadata: from_json_opt("the metadata of an input", text_opt(row, 11)?)?,
        time_created: Timestamp(row.get(12)?),
    })
}

pub(super) fn context(row: &Row<'_>) -> Result<ContextRow> {
    Ok(ContextRow {
        baseline_hash: text(row, 0)?.to_owned(),
        baseline_seq: seq(row.get(1)?),
        epoch_values: from_json("context values", text(row, 2)?)?,
        current_values: from_json("context values", text(row, 3)?)?,
    })
}

pub(super) fn lease(row: &Row<'_>) -> Result<Lease> {
    Ok(Lease {
        session: SessionId::from_trusted(text(row, 0)?),
        owner: text_opt(row, 1)?.map(OwnerId::from_trusted),
        fence: uint(row.get(2)?),
        attempts: small(row.get(3)?),
        wake_seq: row.get::<_, Option<i64>>(4)?.map(seq),
        done_seq: row.get::<_, Option<i64>>(5)?.map(seq),
        interrupt_seq: row.get::<_, Option<i64>>(6)?.map(seq),
    })
}

pub(super) fn attempt_state(state: AttemptState) -> &'static str {
    match state {
        AttemptState::Dispatched => "dispatched",
        AttemptState::Streaming => "streaming",
    }
}

/// Reads `message, attempt, state, updated`.
pub(super) fn attempt(session: &SessionId, row: &Row<'_>) -> Result<StepAttempt> {
    let state = match text(row, 2)? {
        "dispatched" => AttemptState::Dispatched,
        "streaming" => AttemptState::Streaming,
        other => return Err(unreadable_row(session, "the state of an attempt", &other)),
    };
    Ok(StepAttempt {
        session: session.clone(),
        message: MessageId::from_trusted(text(row, 0)?),
        attempt: small(row.get(1)?),
        state,
        updated: Timestamp(row.get(3)?),
    })
}

/// Reads `message, kind, item_id, text, updated`.
pub(super) fn draft(session: &SessionId, row: &Row<'_>) -> Result<Draft> {
    let kind = match text(row, 1)? {
        "text" => ItemKind::Text,
        "reasoning" => ItemKind::Reasoning,
        "tool" => ItemKind::Tool,
        other => return Err(unreadable_row(session, "the kind of a draft", &other)),
    };
    Ok(Draft {
        session: session.clone(),
        message: MessageId::from_trusted(text(row, 0)?),
        kind,
        item_id: text(row, 2)?.to_owned(),
        text: text(row, 3)?.to_owned(),
        updated: Timestamp(row.get(4)?),
    })
}

pub(super) fn mutation_state(state: MutationState) -> Result<String> {
    word(state)
}

/// Reads the state of a mutation from the first column.
pub(super) fn state(row: &Row<'_>) -> Result<MutationState> {
    from_word("the state of a mutation", text(row, 0)?)
}

pub(super) fn mutation(row: &Row<'_>) -> Result<Mutation> {
    let session = SessionId::from_trusted(text(row, 1)?);
    let call = match (text_opt(row, 2)?, text_opt(row, 3)?) {
        (Some(message), Some(call)) => Some(CallKey {
            session: session.clone(),
            message: MessageId::from_trusted(message),
            call: CallId::new(call),
        }),
        (Some(_) | None, None) | (None, Some(_)) => None,
    };
    Ok(Mutation {
        id: MutationId::from_trusted(text(row, 0)?),
        call,
        session,
        tool: text(row, 4)?.to_owned(),
        state: from_word("the state of a mutation", text(row, 5)?)?,
        output: from_json("the output of a mutation", text(row, 6)?)?,
        files: from_json("the files of a mutation", text(row, 7)?)?,
        created: Timestamp(row.get(8)?),
    })
}

/// Reads `message, call_id, pid, pgid, start_time, boot_id, command, cwd, spool_path, background`.
pub(super) fn process(session: &SessionId, row: &Row<'_>) -> Result<ToolProcess> {
    Ok(ToolProcess {
        key: CallKey {
            session: session.clone(),
            message: MessageId::from_trusted(text(row, 0)?),
            call: CallId::new(text(row, 1)?),
        },
        pid: row.get(2)?,
        pgid: row.get(3)?,
        start_time: uint(row.get(4)?),
        boot_id: text(row, 5)?.to_owned(),
        command: text(row, 6)?.to_owned(),
        cwd: text(row, 7)?.to_owned(),
        spool_path: text(row, 8)?.to_owned(),
        background: row.get(9)?,
    })
}
