//! The row operations that projections need.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::InboxKind;
use crate::json::JsonObject;
use crate::message::{AssistantContent, ItemKind, Message};
use crate::prompt::{Delivery, Prompt};
use crate::session::SessionInfo;
use crate::{CallId, MessageId, Seq, SessionId, Timestamp};

/// The place of a message in the transcript: the log position of the event that made it, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The event's log position.
    pub seq: Seq,
    /// The index among the messages that the event made.
    pub sub: u32,
}

impl Position {
    /// Returns the first event that lies wholly at or after the place: a place within an event is after that event's
    /// own inputs.
    pub fn first_event(self) -> Seq {
        if self.sub == 0 { self.seq } else { self.seq.next() }
    }
}

/// A message with its place. In rows of a database the content of an assistant message is kept apart.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// Its session.
    pub session_id: SessionId,
    /// Its place.
    pub position: Position,
    /// The message.
    pub message: Message,
}

/// What an input carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "lowercase")]
pub enum InputPayload {
    /// A prompt.
    Prompt {
        /// The prompt.
        prompt: Prompt,
    },
    /// Another item.
    Item {
        /// Its content.
        payload: JsonObject,
    },
}

/// An admitted input: exactly one of pending, promoted, cancelled.
#[derive(Clone, Debug, PartialEq)]
pub struct InputRow {
    /// The input, and the message that it becomes.
    pub id: MessageId,
    /// Its session.
    pub session_id: SessionId,
    /// What it is.
    pub kind: InboxKind,
    /// What it carries.
    pub payload: InputPayload,
    /// When it joins.
    pub delivery: Delivery,
    /// Log position of the admission.
    pub admitted_seq: Seq,
    /// Contract position of the admission, if it has one.
    pub admitted_contract_seq: Option<Seq>,
    /// Log position of the promotion.
    pub promoted_seq: Option<Seq>,
    /// Contract position of the promotion.
    pub promoted_contract_seq: Option<Seq>,
    /// Log position of the cancellation.
    pub cancelled_seq: Option<Seq>,
    /// Hash of the raw request, for retries.
    pub input_hash: Option<String>,
    /// Free-form facts of the input.
    pub metadata: Option<JsonObject>,
    /// When it was admitted.
    pub time_created: Timestamp,
}

impl InputRow {
    /// Says whether the input waits.
    pub const fn is_pending(&self) -> bool {
        self.promoted_seq.is_none() && self.cancelled_seq.is_none()
    }
}

/// The context epoch of a session: hashes of the values that the model has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextRow {
    /// Hash of the baseline text.
    pub baseline_hash: String,
    /// Log position of `context.baselined`.
    pub baseline_seq: Seq,
    /// Source key to value hash, at the begin of the epoch.
    pub epoch_values: BTreeMap<String, String>,
    /// Source key to value hash, now.
    pub current_values: BTreeMap<String, String>,
}

/// The row operations that projections need; all of one transaction.
#[expect(clippy::missing_errors_doc, reason = "every operation fails only as the storage below fails")]
pub trait Rows {
    /// How a row operation fails.
    type Error: std::error::Error + 'static;

    /// Reads a session.
    fn session(&mut self, id: &SessionId) -> Result<Option<SessionInfo>, Self::Error>;
    /// Inserts or replaces a session.
    fn put_session(&mut self, session: &SessionInfo) -> Result<(), Self::Error>;
    /// Deletes a session with all its rows.
    fn delete_session(&mut self, id: &SessionId) -> Result<(), Self::Error>;

    /// Reads a message of any session, without the content of an assistant message.
    fn message(&mut self, id: &MessageId) -> Result<Option<MessageRow>, Self::Error>;
    /// Inserts a message with its content.
    fn insert_message(&mut self, row: &MessageRow) -> Result<(), Self::Error>;
    /// Replaces all of a message except the content of an assistant message.
    fn update_message(&mut self, row: &MessageRow) -> Result<(), Self::Error>;
    /// Reads the newest assistant message of a session, without content.
    fn newest_assistant(&mut self, session: &SessionId) -> Result<Option<MessageRow>, Self::Error>;
    /// Reads the newest shell message with this call.
    fn shell_message(&mut self, session: &SessionId, call: &CallId) -> Result<Option<MessageRow>, Self::Error>;

    /// Appends an item to an assistant message.
    fn push_content(&mut self, message: &MessageId, item: &AssistantContent) -> Result<(), Self::Error>;
    /// Reads the latest item with this kind and id of a message of this session, and its index.
    fn content(
        &mut self,
        session: &SessionId,
        message: &MessageId,
        kind: ItemKind,
        item_id: &str,
    ) -> Result<Option<(u32, AssistantContent)>, Self::Error>;
    /// Replaces an item.
    fn set_content(&mut self, message: &MessageId, index: u32, item: &AssistantContent) -> Result<(), Self::Error>;

    /// Reads an input of any session.
    fn input(&mut self, id: &MessageId) -> Result<Option<InputRow>, Self::Error>;
    /// Inserts an input.
    fn insert_input(&mut self, row: &InputRow) -> Result<(), Self::Error>;
    /// Replaces an input.
    fn update_input(&mut self, row: &InputRow) -> Result<(), Self::Error>;

    /// Reads the context epoch.
    fn context(&mut self, session: &SessionId) -> Result<Option<ContextRow>, Self::Error>;
    /// Writes or removes the context epoch.
    fn put_context(&mut self, session: &SessionId, row: Option<&ContextRow>) -> Result<(), Self::Error>;

    /// Deletes messages at or after `from`, and inputs that were admitted or promoted at or after its
    /// [`Position::first_event`].
    fn delete_from(&mut self, session: &SessionId, from: Position) -> Result<(), Self::Error>;
}
