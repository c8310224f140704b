//! Looking back and branching off: the state of a session at a position of its log, and copies of its history
//! (spec/session.md 11.2).

#[cfg(test)]
mod tests;

use abide_schema::event::{
    BaselineReason, ContextBaselined, EventData, Forked, HistoryImported, SessionCreated, StoredEvent,
};
use abide_schema::message::{CompactionStatus, Message};
use abide_schema::project::{ContextRow, MemoryRows, MessageRow, apply};
use abide_schema::session::{ForkBoundary, ForkBoundaryKind, SessionInfo};
use abide_schema::{MessageId, Seq, SessionId, json};

use crate::session::engine::Engine;
use crate::session::errors::SessionsError;
use crate::session::sessions::{Sessions, slug};
use crate::store::{AppendError, Expect, MessageQuery, Order, SeqRange, StoreError, View};

/// The most messages of one event, and about the most bytes of them.
const CHUNK_MESSAGES: usize = 500;
const CHUNK_BYTES: usize = 4 << 20;
/// Events of one page of the log.
const PAGE: u32 = 512;

/// Up to where history is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkPoint {
    /// All of it.
    #[default]
    End,
    /// What came before a message.
    Before(MessageId),
    /// What the log held at a position, also what a revert has removed since.
    At(Seq),
}

/// A session to branch off.
#[derive(Clone, Debug, Default)]
pub struct ForkSession {
    /// The new session's id; a known one returns the recorded session.
    pub id: Option<SessionId>,
    /// Up to where.
    pub point: ForkPoint,
    /// Its title; absent: made from the source's.
    pub title: Option<String>,
}

/// A session as its log has it at a position.
#[derive(Clone, Debug)]
pub struct PastSession {
    /// The session.
    pub session: SessionInfo,
    /// Its messages, in order.
    pub messages: Vec<MessageRow>,
    /// Its context epoch.
    pub context: Option<ContextRow>,
    /// The position of the last event that counts.
    pub seq: Seq,
}

impl Sessions {
    /// Folds the log up to a position, this one included: the session as it was then.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`]; [`SessionsError::Invalid`] when the log is shorter.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn replay(&self, session: &SessionId, to: Seq) -> Result<PastSession, SessionsError> {
        self.get(session).await?;
        let store = &self.engine.store;
        let head = store.head(session).await?.map_or(Seq(0), |head| head.seq);
        if to > head {
            let message = format!("the log of session {session} ends at {head}; {to} is after it");
            return Err(SessionsError::Invalid { field: "to", message });
        }
        let mut rows = MemoryRows::default();
        let mut range = SeqRange { after: None, through: Some(to) };
        loop {
            let page = store.read(session, range, View::Log, PAGE).await?;
            for event in &page.events {
                fold(&mut rows, event)?;
            }
            match page.cursor {
                Some(cursor) if page.has_more => range.after = Some(cursor),
                Some(_) | None => break,
            }
        }
        let info = rows.get_session(session).cloned().ok_or_else(|| SessionsError::NotFound(session.clone()))?;
        Ok(PastSession {
            session: info,
            messages: rows.messages(session).cloned().collect(),
            context: rows.get_context(session).cloned(),
            seq: to,
        })
    }

    /// Branches off: a new session with a copy of the settled history. What is open, inputs, a staged revert and usage
    /// are not copied. The new session's log needs no other.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`], [`SessionsError::MessageNotFound`]; [`SessionsError::Invalid`] when nothing is there
    /// to copy, or the log is shorter.
    ///
    /// # Cancel safety
    /// The new session may exist afterwards, whole; with an id of the caller's, asking again returns it.
    pub async fn fork(&self, session: &SessionId, input: ForkSession) -> Result<SessionInfo, SessionsError> {
        let ForkSession { id, point, title } = input;
        let store = &self.engine.store;
        let id = id.unwrap_or_else(|| self.engine.world.session_id());
        if let Some(known) = store.session(&id).await? {
            return Ok(known);
        }
        let past = self.past(session, &point).await?;
        let source = &past.session;
        let copied: Vec<&MessageRow> = past.messages.iter().filter(|row| is_settled(&row.message)).collect();
        let boundary = match &point {
            ForkPoint::Before(message) => ForkBoundary { kind: ForkBoundaryKind::Before, message_id: message.clone() },
            ForkPoint::End | ForkPoint::At(_) => {
                let last = copied.last().map(|row| row.message.id().clone());
                let message_id = last.ok_or_else(|| SessionsError::Invalid {
                    field: "sessionID",
                    message: format!("session {session} has no history to copy there; create a session instead"),
                })?;
                ForkBoundary { kind: ForkBoundaryKind::Through, message_id }
            }
        };
        let timestamp = self.engine.world.now();
        let created = SessionCreated {
            timestamp,
            session_id: id.clone(),
            project_id: source.project_id.clone(),
            subpath: source.subpath.clone(),
            location: source.location.clone(),
            slug: slug(&id),
            title: title.unwrap_or_else(|| fork_title(&source.title)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parent_id: None,
            agent: source.agent.clone(),
            model: source.model.clone(),
            metadata: source.metadata.clone(),
            permissions: source.permissions.clone(),
        };
        let forked = Forked { timestamp, session_id: id.clone(), from: session.clone(), boundary, title: None };
        let mut events: Vec<EventData> = vec![created.into(), forked.into()];
        for messages in chunks(&id, copied) {
            events.push(HistoryImported { timestamp, session_id: id.clone(), messages }.into());
        }
        // The same baseline keeps the provider's cache warm. Where updates followed it, the copy begins with a new one.
        if let Some(context) = past.context.filter(|context| context.epoch_values == context.current_values) {
            let (baseline, values) = (context.baseline_hash, context.epoch_values);
            let session_id = id.clone();
            events.push(
                ContextBaselined { timestamp, session_id, baseline, values, reason: BaselineReason::Initial }.into(),
            );
        }
        let mut batch = Engine::batch(&id, &source.location, events);
        batch.expect = Expect::Empty;
        match store.append(batch).await {
            Ok(_) => {}
            Err(AppendError::SessionAlreadyProjected(_) | AppendError::SequenceConflict { .. }) => {
                let known = store.session(&id).await?;
                return known.ok_or_else(|| SessionsError::Conflict { resource: id.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
        self.get(&id).await
    }

    async fn past(&self, session: &SessionId, point: &ForkPoint) -> Result<PastSession, SessionsError> {
        if let ForkPoint::At(seq) = point {
            return self.replay(session, *seq).await;
        }
        let store = &self.engine.store;
        let info = self.get(session).await?;
        let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
        let mut messages = store.messages(session, query).await?;
        if let ForkPoint::Before(message) = point {
            let at = messages.iter().position(|row| row.message.id() == message);
            let at = at
                .ok_or_else(|| SessionsError::MessageNotFound { session: session.clone(), message: message.clone() })?;
            messages.truncate(at);
        }
        let seq = store.head(session).await?.map_or(Seq(0), |head| head.seq);
        Ok(PastSession { session: info, messages, context: store.context(session).await?, seq })
    }
}

fn fold(rows: &mut MemoryRows, event: &StoredEvent) -> Result<(), SessionsError> {
    let failed = |error: String| StoreError::Corrupt(format!("event {} of {}: {error}", event.seq, event.session_id()));
    apply(rows, event).map_err(|error| failed(error.to_string()).into())
}

/// Says whether a message can be copied: nothing of it runs.
fn is_settled(message: &Message) -> bool {
    match message {
        Message::Assistant(message) => message.time.completed.is_some(),
        Message::Shell(message) => message.time.completed.is_some(),
        Message::Compaction(message) => message.status != CompactionStatus::Running,
        Message::User(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_)
        | Message::Skill(_)
        | Message::LocationSwitched(_)
        | Message::Idle(_) => true,
    }
}

/// Copies messages under new ids, in events of bounded size.
fn chunks(child: &SessionId, rows: Vec<&MessageRow>) -> Vec<Vec<Message>> {
    let mut chunks = Vec::new();
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let mut message = row.message.clone();
        message.set_id(copied_id(child, row));
        if let Message::Synthetic(message) = &mut message {
            message.session_id = child.clone();
        }
        bytes += serde_json::to_vec(&message).map_or(0, |text| text.len());
        chunk.push(message);
        if chunk.len() == CHUNK_MESSAGES || bytes > CHUNK_BYTES {
            chunks.push(std::mem::take(&mut chunk));
            bytes = 0;
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// Makes the id of a copied message: a function of the new session and the place of the original.
fn copied_id(child: &SessionId, row: &MessageRow) -> MessageId {
    let place = format!("{child} {} {}", row.position.seq, row.position.sub);
    let hash = json::sha256_hex(place.as_bytes());
    MessageId::from_trusted(format!("{}{}", MessageId::NEW_PREFIX, hash.get(..26).unwrap_or(&hash)))
}

/// Makes the title of a copy: numbered, copies of copies too.
fn fork_title(title: &str) -> String {
    let numbered = title.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (fork #"));
    match numbered.and_then(|(name, number)| Some((name, number.parse::<u64>().ok()?))) {
        Some((name, number)) => format!("{name} (fork #{})", number.saturating_add(1)),
        None => format!("{title} (fork #1)"),
    }
}
