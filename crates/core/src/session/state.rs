//! The running session's state in memory, folded from its events by the reducer of `abide-schema`.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_schema::event::StoredEvent;
use abide_schema::message::{CompactionStatus, Message};
use abide_schema::project::{ContextRow, MemoryRows, MessageRow, apply};
use abide_schema::session::SessionInfo;
use abide_schema::{Seq, SessionId};

use crate::store::{Head, MessageQuery, Order, SeqRange, Store, StoreError, View};

/// Events of one page when the state catches up.
const CATCH_UP_PAGE: u32 = 512;
/// Tries to read a consistent state while others append.
const LOAD_TRIES: usize = 16;

/// The state of one session, from the start of its active history on.
pub struct SessionState {
    id: SessionId,
    rows: MemoryRows,
    cursor: Option<Seq>,
    ahead: BTreeMap<Seq, Arc<StoredEvent>>,
}

impl SessionState {
    /// Reads the state: session, active history, context epoch. Inputs are read from the store when needed.
    ///
    /// # Errors
    /// As the store fails; [`StoreError::Conflict`] when others append too fast to read a consistent state.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn load(store: &dyn Store, id: &SessionId) -> Result<Option<Self>, StoreError> {
        for _ in 0..LOAD_TRIES {
            let head = store.head(id).await?;
            let Some(session) = store.session(id).await? else { return Ok(None) };
            let from = store.history_start(id).await?;
            let query = MessageQuery { order: Order::Asc, from, ..MessageQuery::default() };
            let messages = store.messages(id, query).await?;
            let inputs = store.pending_inputs(id).await?;
            let context = store.context(id).await?;
            if store.head(id).await? == head {
                let mut rows = MemoryRows::default();
                rows.load(session, messages, inputs, context);
                let cursor = head.map(|head| head.seq);
                return Ok(Some(Self { id: id.clone(), rows, cursor, ahead: BTreeMap::new() }));
            }
        }
        Err(StoreError::Conflict(format!("session {id} changes too fast to be read")))
    }

    /// Takes committed events; events that others appended in between are read by [`SessionState::catch_up`].
    pub fn absorb(&mut self, events: &[Arc<StoredEvent>]) {
        for event in events {
            self.ahead.insert(event.seq, event.clone());
        }
        self.advance();
    }

    /// Says whether others appended in between: [`SessionState::catch_up`] then reads what is missing.
    pub fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    fn advance(&mut self) {
        while let Some(entry) = self.ahead.first_entry() {
            let next = self.cursor.map_or(Seq(0), Seq::next);
            if *entry.key() > next {
                break;
            }
            let event = entry.remove();
            if event.seq == next {
                self.fold(&event);
            }
        }
    }

    fn fold(&mut self, event: &StoredEvent) {
        // Events about messages before the active history find no row; the reducer leaves them alone.
        if let Err(error) = apply(&mut self.rows, event) {
            tracing::debug!(session.id = %self.id, seq = event.seq.0, %error, "event not folded into the running state");
        }
        self.cursor = Some(event.seq);
    }

    /// Reads what others appended since.
    ///
    /// # Errors
    /// As the store fails.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read stays folded.
    pub async fn catch_up(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let head = store.head(&self.id).await?;
        self.catch_up_to(store, head).await
    }

    /// Reads what others appended up to a head that the caller has read.
    ///
    /// # Errors
    /// As the store fails.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read stays folded.
    pub async fn catch_up_to(&mut self, store: &dyn Store, head: Option<Head>) -> Result<(), StoreError> {
        let Some(head) = head else { return Ok(()) };
        while self.cursor.is_none_or(|cursor| cursor < head.seq) {
            let range = SeqRange { after: self.cursor, through: Some(head.seq) };
            let page = store.read(&self.id, range, View::Log, CATCH_UP_PAGE).await?;
            for event in &page.events {
                self.fold(event);
            }
            match page.cursor {
                Some(cursor) if self.cursor.is_none_or(|mine| mine < cursor) => self.cursor = Some(cursor),
                Some(_) => {}
                None => break,
            }
            if !page.has_more {
                break;
            }
        }
        let cursor = self.cursor;
        self.ahead.retain(|seq, _| cursor.is_none_or(|cursor| *seq > cursor));
        self.advance();
        Ok(())
    }

    /// Returns the session.
    pub fn session(&self) -> Option<&SessionInfo> {
        self.rows.get_session(&self.id)
    }

    /// Returns the context epoch.
    pub fn context(&self) -> Option<&ContextRow> {
        self.rows.get_context(&self.id)
    }

    /// Returns the log position up to which the state is folded.
    pub const fn cursor(&self) -> Option<Seq> {
        self.cursor
    }

    /// Returns the messages from the start of the loaded history on.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &MessageRow> {
        self.rows.messages(&self.id)
    }

    /// Returns the active history: from the latest completed compaction on (spec/session.md 10.2). `system` messages
    /// count only after the baseline; running and failed compactions and `idle` messages are left out.
    pub fn history(&self) -> Vec<&MessageRow> {
        let all: Vec<&MessageRow> = self.messages().collect();
        let start = all.iter().rposition(|row| is_checkpoint(&row.message)).unwrap_or(0);
        let baseline = self.context().map(|context| context.baseline_seq);
        let checkpoint = all.get(start).filter(|row| is_checkpoint(&row.message)).map(|row| row.position.seq);
        let mut kept = Vec::new();
        for (index, row) in all.iter().enumerate() {
            let keep = match &row.message {
                // While rebaselining is blocked, updates of the old epoch stay visible before the checkpoint too.
                Message::System(_) => {
                    baseline.is_none_or(|baseline| row.position.seq > baseline)
                        && (index >= start || checkpoint.zip(baseline).is_some_and(|(mark, base)| base < mark))
                }
                Message::Compaction(compaction) => index >= start && compaction.status == CompactionStatus::Completed,
                Message::Idle(_) => false,
                Message::User(_)
                | Message::Assistant(_)
                | Message::Synthetic(_)
                | Message::Shell(_)
                | Message::AgentSwitched(_)
                | Message::ModelSwitched(_)
                | Message::Skill(_)
                | Message::LocationSwitched(_) => index >= start,
            };
            if keep {
                kept.push(*row);
            }
        }
        kept
    }

    /// Returns the log position of the latest completed compaction.
    pub fn checkpoint(&self) -> Option<Seq> {
        self.messages().rev().find(|row| is_checkpoint(&row.message)).map(|row| row.position.seq)
    }
}

fn is_checkpoint(message: &Message) -> bool {
    matches!(message, Message::Compaction(compaction) if compaction.status == CompactionStatus::Completed)
}
