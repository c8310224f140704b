//! Session state in memory.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use crate::message::{AssistantContent, ItemKind, Message};
use crate::project::{ContextRow, InputRow, MessageRow, Position, Rows};
use crate::session::SessionInfo;
use crate::{CallId, MessageId, SessionId};

/// The state of any number of sessions in memory: what the running engine, clients and the simulator fold into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryRows {
    sessions: BTreeMap<SessionId, SessionInfo>,
    messages: HashMap<MessageId, MessageRow>,
    order: BTreeMap<SessionId, BTreeMap<Position, MessageId>>,
    inputs: HashMap<MessageId, InputRow>,
    contexts: BTreeMap<SessionId, ContextRow>,
}

impl MemoryRows {
    /// Returns a session.
    pub fn get_session(&self, id: &SessionId) -> Option<&SessionInfo> {
        self.sessions.get(id)
    }

    /// Returns all sessions, by id.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionInfo> {
        self.sessions.values()
    }

    /// Returns a session's messages in transcript order.
    pub fn messages(&self, session: &SessionId) -> impl DoubleEndedIterator<Item = &MessageRow> {
        self.order.get(session).into_iter().flat_map(|order| order.values()).filter_map(|id| self.messages.get(id))
    }

    /// Returns a message of any session.
    pub fn get_message(&self, id: &MessageId) -> Option<&MessageRow> {
        self.messages.get(id)
    }

    /// Returns a session's inputs in admission order.
    pub fn inputs(&self, session: &SessionId) -> Vec<&InputRow> {
        let mut rows: Vec<&InputRow> = self.inputs.values().filter(|row| row.session_id == *session).collect();
        rows.sort_by_key(|row| row.admitted_seq);
        rows
    }

    /// Returns an input of any session.
    pub fn get_input(&self, id: &MessageId) -> Option<&InputRow> {
        self.inputs.get(id)
    }

    /// Returns a session's context epoch.
    pub fn get_context(&self, session: &SessionId) -> Option<&ContextRow> {
        self.contexts.get(session)
    }

    /// Takes rows that were read elsewhere, for example from a store's projections.
    pub fn load(
        &mut self,
        session: SessionInfo,
        messages: impl IntoIterator<Item = MessageRow>,
        inputs: impl IntoIterator<Item = InputRow>,
        context: Option<ContextRow>,
    ) {
        let id = session.id.clone();
        self.sessions.insert(id.clone(), session);
        for row in messages {
            self.order.entry(id.clone()).or_default().insert(row.position, row.message.id().clone());
            self.messages.insert(row.message.id().clone(), row);
        }
        for row in inputs {
            self.inputs.insert(row.id.clone(), row);
        }
        if let Some(context) = context {
            self.contexts.insert(id, context);
        }
    }

    fn items(&mut self, message: &MessageId) -> Option<&mut Vec<AssistantContent>> {
        match self.messages.get_mut(message).map(|row| &mut row.message) {
            Some(Message::Assistant(assistant)) => Some(&mut assistant.content),
            Some(_) | None => None,
        }
    }
}

fn without_content(row: &MessageRow) -> MessageRow {
    let message = if let Message::Assistant(assistant) = &row.message {
        Message::Assistant(crate::message::AssistantMessage {
            id: assistant.id.clone(),
            time: assistant.time,
            metadata: assistant.metadata.clone(),
            agent: assistant.agent.clone(),
            model: assistant.model.clone(),
            content: Vec::new(),
            snapshot: assistant.snapshot.clone(),
            finish: assistant.finish,
            raw_finish: assistant.raw_finish.clone(),
            cost: assistant.cost,
            tokens: assistant.tokens,
            error: assistant.error.clone(),
            retry: assistant.retry.clone(),
        })
    } else {
        row.message.clone()
    };
    MessageRow { session_id: row.session_id.clone(), position: row.position, message }
}

impl Rows for MemoryRows {
    type Error = Infallible;

    fn session(&mut self, id: &SessionId) -> Result<Option<SessionInfo>, Infallible> {
        Ok(self.sessions.get(id).cloned())
    }

    fn put_session(&mut self, session: &SessionInfo) -> Result<(), Infallible> {
        self.sessions.insert(session.id.clone(), session.clone());
        Ok(())
    }

    fn delete_session(&mut self, id: &SessionId) -> Result<(), Infallible> {
        self.sessions.remove(id);
        self.contexts.remove(id);
        for message in self.order.remove(id).unwrap_or_default().into_values() {
            self.messages.remove(&message);
        }
        self.inputs.retain(|_, row| row.session_id != *id);
        Ok(())
    }

    fn message(&mut self, id: &MessageId) -> Result<Option<MessageRow>, Infallible> {
        Ok(self.messages.get(id).map(without_content))
    }

    fn insert_message(&mut self, row: &MessageRow) -> Result<(), Infallible> {
        let id = row.message.id().clone();
        self.order.entry(row.session_id.clone()).or_default().insert(row.position, id.clone());
        self.messages.insert(id, row.clone());
        Ok(())
    }

    fn update_message(&mut self, row: &MessageRow) -> Result<(), Infallible> {
        if let Some(stored) = self.messages.get_mut(row.message.id()) {
            match (&mut stored.message, &row.message) {
                (Message::Assistant(old), Message::Assistant(new)) => {
                    let content = std::mem::take(&mut old.content);
                    *old = new.clone();
                    old.content = content;
                }
                (old, new) => *old = new.clone(),
            }
        }
        Ok(())
    }

    fn newest_assistant(&mut self, session: &SessionId) -> Result<Option<MessageRow>, Infallible> {
        Ok(self.messages(session).rev().find(|row| matches!(row.message, Message::Assistant(_))).map(without_content))
    }

    fn shell_message(&mut self, session: &SessionId, call: &CallId) -> Result<Option<MessageRow>, Infallible> {
        Ok(self
            .messages(session)
            .rev()
            .find(|row| matches!(&row.message, Message::Shell(shell) if shell.call_id == *call))
            .cloned())
    }

    fn push_content(&mut self, message: &MessageId, item: &AssistantContent) -> Result<(), Infallible> {
        if let Some(items) = self.items(message) {
            items.push(item.clone());
        }
        Ok(())
    }

    fn content(
        &mut self,
        session: &SessionId,
        message: &MessageId,
        kind: ItemKind,
        item_id: &str,
    ) -> Result<Option<(u32, AssistantContent)>, Infallible> {
        if self.messages.get(message).is_none_or(|row| row.session_id != *session) {
            return Ok(None);
        }
        let found = self.items(message).and_then(|items| {
            let index = items.iter().rposition(|item| item.kind() == kind && item.id() == item_id)?;
            Some((u32::try_from(index).ok()?, items.get(index)?.clone()))
        });
        Ok(found)
    }

    fn set_content(&mut self, message: &MessageId, index: u32, item: &AssistantContent) -> Result<(), Infallible> {
        if let Some(slot) = self.items(message).and_then(|items| items.get_mut(usize::try_from(index).ok()?)) {
            *slot = item.clone();
        }
        Ok(())
    }

    fn input(&mut self, id: &MessageId) -> Result<Option<InputRow>, Infallible> {
        Ok(self.inputs.get(id).cloned())
    }

    fn insert_input(&mut self, row: &InputRow) -> Result<(), Infallible> {
        self.inputs.insert(row.id.clone(), row.clone());
        Ok(())
    }

    fn update_input(&mut self, row: &InputRow) -> Result<(), Infallible> {
        self.insert_input(row)
    }

    fn context(&mut self, session: &SessionId) -> Result<Option<ContextRow>, Infallible> {
        Ok(self.contexts.get(session).cloned())
    }

    fn put_context(&mut self, session: &SessionId, row: Option<&ContextRow>) -> Result<(), Infallible> {
        match row {
            Some(row) => self.contexts.insert(session.clone(), row.clone()),
            None => self.contexts.remove(session),
        };
        Ok(())
    }

    fn delete_from(&mut self, session: &SessionId, from: Position) -> Result<(), Infallible> {
        let gone = self.order.get_mut(session).map(|order| order.split_off(&from)).unwrap_or_default();
        for id in gone.into_values() {
            self.messages.remove(&id);
        }
        let at = from.first_event();
        self.inputs.retain(|_, row| {
            row.session_id != *session || (row.admitted_seq < at && row.promoted_seq.is_none_or(|seq| seq < at))
        });
        Ok(())
    }
}
