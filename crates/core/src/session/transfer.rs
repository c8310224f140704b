//! Taking a session along: its log and the values that the log names, written out and taken over
//! (spec/session.md 3.7).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use abide_schema::event::{DecodeError, EventData, LogRecord, StoredEvent};
use abide_schema::json::sha256_hex;
use abide_schema::project::{MemoryRows, apply};
use abide_schema::session::SessionInfo;
use abide_schema::{MessageId, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::session::errors::SessionsError;
use crate::session::sessions::Sessions;
use crate::store::{Replay, ReplayError, ReplayOutcome, SeqRange, StoreError, View};

/// Events of one page of the log.
const PAGE: u32 = 512;

/// A session's log with the values that it names. As text: one JSON document a line.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The events, in order.
    pub records: Vec<LogRecord>,
    /// Content-addressed values by their SHA-256.
    pub values: BTreeMap<String, Vec<u8>>,
}

/// A value on a line of a bundle.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueLine {
    #[serde(rename = "type")]
    kind: String,
    hash: String,
    text: String,
}

/// The `type` of a line that holds a value.
const VALUE_KIND: &str = "abide.value";

/// What a change of the context says instead of a hash when a value is gone.
const REMOVED: &str = "removed";

/// What was taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The session.
    pub session: SessionInfo,
    /// Events of the bundle.
    pub n_events: usize,
    /// How many of them were new here.
    pub n_new: usize,
}

/// Why a bundle cannot be taken over. Nothing was stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A line is no record.
    #[error("line {line} is neither an event nor a value of a session's log: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is no event.
    #[error("the bundle holds no events; `abide session export` writes one")]
    Empty,
    /// Events of several sessions.
    #[error("the bundle holds events of {first} and of {other}; export one session at a time")]
    Mixed {
        /// The first session.
        first: SessionId,
        /// Another one.
        other: SessionId,
    },
    /// Events are missing or out of order.
    #[error("event {expected} is missing: the bundle has {found} in its place")]
    Gap {
        /// The position that is missing.
        expected: Seq,
        /// The one that is there.
        found: Seq,
    },
    /// An event that this abide does not know, or that is damaged.
    #[error("event {seq} cannot be read: {source}")]
    Decode {
        /// Its position.
        seq: Seq,
        /// Why.
        #[source]
        source: DecodeError,
    },
    /// An event does not follow from those before it.
    #[error("event {seq} does not fit the ones before it: {reason}")]
    Unfit {
        /// Its position.
        seq: Seq,
        /// Why.
        reason: String,
    },
    /// A value is not what its hash says.
    #[error("the value {hash} is damaged")]
    ValueDamaged {
        /// Its hash.
        hash: String,
    },
    /// A value that an event names is not there.
    #[error("event {seq} names the value {hash}, which is not in the bundle; export the session again")]
    ValueMissing {
        /// The position of the event.
        seq: Seq,
        /// The hash.
        hash: String,
    },
    /// A message's id belongs to another session here.
    #[error("message {message} is a message of session {session} here; a session can be taken over once")]
    Taken {
        /// The message.
        message: MessageId,
        /// Its session.
        session: SessionId,
    },
    /// The session was deleted here.
    #[error("session {session} was deleted here, and its id is not used again; fork the original and export the fork")]
    Deleted {
        /// The session.
        session: SessionId,
    },
    /// The session went on differently here.
    #[error("session {session} is here with another event {seq}: the logs differ from there on")]
    Diverged {
        /// The session.
        session: SessionId,
        /// The position.
        seq: Seq,
    },
    /// It cannot be stored.
    #[error(transparent)]
    Replay(ReplayError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Bundle {
    /// Writes the bundle.
    ///
    /// # Errors
    /// When a value cannot be written as JSON, which events that were stored always can.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        for record in &self.records {
            text.push_str(&serde_json::to_string(record)?);
            text.push('\n');
        }
        for (hash, value) in &self.values {
            let text_of = String::from_utf8_lossy(value).into_owned();
            let line = ValueLine { kind: VALUE_KIND.to_owned(), hash: hash.clone(), text: text_of };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Reads a bundle. What is in it is checked by [`Sessions::import`].
    ///
    /// # Errors
    /// [`ImportError::Line`].
    pub fn parse(text: &str) -> Result<Self, ImportError> {
        let mut bundle = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let failed = |error: serde_json::Error| ImportError::Line { line: index + 1, reason: error.to_string() };
            if let Ok(value) = serde_json::from_str::<ValueLine>(line)
                && value.kind == VALUE_KIND
            {
                bundle.values.insert(value.hash, value.text.into_bytes());
            } else {
                bundle.records.push(serde_json::from_str(line).map_err(failed)?);
            }
        }
        Ok(bundle)
    }
}

impl Sessions {
    /// Reads a session's log with the values that it names.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn export(&self, session: &SessionId) -> Result<Bundle, SessionsError> {
        self.get(session).await?;
        let store = &self.engine.store;
        let mut bundle = Bundle::default();
        let mut range = SeqRange::default();
        loop {
            let page = store.read(session, range, View::Log, PAGE).await?;
            for event in &page.events {
                for hash in named(&event.data) {
                    if !bundle.values.contains_key(hash)
                        && let Some(value) = store.blob(hash).await?
                    {
                        bundle.values.insert(hash.to_owned(), value);
                    }
                }
                let record = event.to_log_record();
                bundle.records.push(record.map_err(|error| StoreError::Corrupt(error.to_string()))?);
            }
            match page.cursor {
                Some(cursor) if page.has_more => range.after = Some(cursor),
                Some(_) | None => return Ok(bundle),
            }
        }
    }

    /// Takes a session over from a bundle, whole or not at all. What is here already is left as it is; a bundle that
    /// goes on where the log here ends is taken over from there.
    ///
    /// # Errors
    /// [`ImportError`]; nothing was stored.
    ///
    /// # Cancel safety
    /// Carried to its end even if the future is dropped.
    pub async fn import(&self, bundle: Bundle) -> Result<Imported, ImportError> {
        let sessions = self.clone();
        self.engine.to_the_end(async move { sessions.take_over(bundle).await }).await?
    }

    async fn take_over(&self, bundle: Bundle) -> Result<Imported, ImportError> {
        let store = &self.engine.store;
        let checked = check(&bundle)?;
        let session = checked.session;
        let head = store.head(&session).await?;
        if head.is_some() && store.session(&session).await?.is_none() {
            return Err(ImportError::Deleted { session });
        }
        for (seq, hash) in checked.named {
            if !bundle.values.contains_key(&hash) && store.blob(&hash).await?.is_none() {
                return Err(ImportError::ValueMissing { seq, hash });
            }
        }
        for message in checked.ids {
            let input = store.input(&message).await?.map(|row| row.session_id);
            let owner = match input {
                Some(owner) => Some(owner),
                None => store.message(&message).await?.map(|row| row.session_id),
            };
            if let Some(owner) = owner.filter(|owner| *owner != session) {
                return Err(ImportError::Taken { message, session: owner });
            }
        }
        for value in bundle.values.into_values() {
            store.put_blob(value).await?;
        }
        let n_events = bundle.records.len();
        // One transaction: whole or not at all.
        let outcomes = store.replay_records(bundle.records.into_iter().map(Replay::new).collect()).await;
        let outcomes = outcomes.map_err(|error| match error {
            ReplayError::Diverged { session, seq } => ImportError::Diverged { session, seq },
            error => ImportError::Replay(error),
        })?;
        let n_new = outcomes.iter().filter(|outcome| matches!(outcome, ReplayOutcome::Accepted)).count();
        let info = store.session(&session).await?;
        let info =
            info.ok_or_else(|| StoreError::Corrupt(format!("session {session} is not there after its import")))?;
        Ok(Imported { session: info, n_events, n_new })
    }
}

/// What a bundle that makes sense is about.
struct Checked {
    session: SessionId,
    /// The values that events name, each with the first event that does.
    named: Vec<(Seq, String)>,
    /// Every message and input.
    ids: BTreeSet<MessageId>,
}

/// Checks a bundle as far as it can be checked alone: one session, no gap, every event known and fitting.
fn check(bundle: &Bundle) -> Result<Checked, ImportError> {
    let session = bundle.records.first().ok_or(ImportError::Empty)?.durable.aggregate_id.clone();
    let mut rows = MemoryRows::default();
    let mut seen = BTreeSet::new();
    let (mut named_values, mut ids) = (Vec::new(), BTreeSet::new());
    let mut expected = Seq(0);
    for record in &bundle.records {
        let (seq, of) = (record.durable.seq, &record.durable.aggregate_id);
        if *of != session {
            return Err(ImportError::Mixed { first: session, other: of.clone() });
        }
        if seq != expected {
            return Err(ImportError::Gap { expected, found: seq });
        }
        expected = expected.next();
        let event = record.decode().map_err(|source| ImportError::Decode { seq, source })?;
        if *event.session_id() != session {
            return Err(ImportError::Mixed { first: session, other: event.session_id().clone() });
        }
        fold(&mut rows, &event)?;
        ids.extend(rows.messages(&session).next_back().map(|row| row.message.id().clone()));
        ids.extend(made(&event.data));
        for hash in named(&event.data) {
            if seen.insert(hash.to_owned()) {
                named_values.push((seq, hash.to_owned()));
            }
        }
    }
    for (hash, value) in &bundle.values {
        if sha256_hex(value) != *hash {
            return Err(ImportError::ValueDamaged { hash: hash.clone() });
        }
    }
    Ok(Checked { session, named: named_values, ids })
}

fn fold(rows: &mut MemoryRows, event: &StoredEvent) -> Result<(), ImportError> {
    let seq = event.seq;
    let begins = matches!(event.data, EventData::SessionCreated(_));
    if begins != (seq == Seq(0)) {
        let reason = "a log begins with session.created, once".to_owned();
        return Err(ImportError::Unfit { seq, reason });
    }
    apply(rows, event).map_err(|error| ImportError::Unfit { seq, reason: error.to_string() })
}

/// The inputs, and copied messages, that an event makes.
fn made(data: &EventData) -> Vec<MessageId> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other events make at most the newest message, which is counted"
    )]
    match data {
        EventData::PromptAdmitted(data) => vec![data.message_id.clone()],
        EventData::InboxEnqueued(data) => vec![data.inbox_id.clone()],
        EventData::HistoryImported(data) => data.messages.iter().map(|message| message.id().clone()).collect(),
        _ => Vec::new(),
    }
}

/// The values that an event names.
fn named(data: &EventData) -> Vec<&str> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only context events name values")]
    match data {
        EventData::ContextBaselined(data) => {
            std::iter::once(data.baseline.as_str()).chain(data.values.values().map(String::as_str)).collect()
        }
        EventData::ContextUpdated(data) => {
            let values = data.delta.iter().flat_map(|delta| delta.values()).map(String::as_str);
            values.filter(|value| *value != REMOVED).collect()
        }
        _ => Vec::new(),
    }
}
