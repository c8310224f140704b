//! The pure reducer: durable events to session state (spec/session.md sections 4.1 and 5.2).
//!
//! Written once, over the row operations of [`Rows`]: the store implements them on its transaction, clients,
//! the engine and the simulator use [`MemoryRows`]. [`apply`] reads neither clock nor randomness; what it does
//! depends on the event and the rows alone, so that a rebuilt projection equals the live one.

mod apply;
mod memory;
mod rows;

pub use apply::{INPUT_HASH_KEY, apply};
pub use memory::MemoryRows;
pub use rows::{ContextRow, InputPayload, InputRow, MessageRow, Position, Rows};

use crate::MessageId;

/// Why an event cannot be projected.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError<E: std::error::Error + 'static> {
    /// The session exists already.
    #[error("the session is already projected")]
    SessionAlreadyProjected,
    /// The event's session has no row: nothing was created, or it was deleted.
    #[error("the session has no projection")]
    SessionMissing,
    /// An input is not in the state that the event needs.
    #[error("input {id} is not in a state for this event")]
    InputLifecycleConflict {
        /// The input.
        id: MessageId,
    },
    /// A message with this id exists already.
    #[error("message {id} exists already")]
    MessageExists {
        /// The message.
        id: MessageId,
    },
    /// The boundary of a revert is no message of the session.
    #[error("message {id} is no message of the session")]
    UnknownBoundary {
        /// The message.
        id: MessageId,
    },
    /// A row operation failed.
    #[error("row operation failed: {0}")]
    Rows(#[source] E),
}

#[cfg(test)]
mod tests;
