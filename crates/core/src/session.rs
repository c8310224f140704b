//! Sessions: admission, execution, recovery (spec/session.md sections 6 to 8).
//!
//! [`Sessions`] is the public face. Decisions are pure and stand in modules of their own: the publisher (stream to
//! events), `settle` (what a crash left), `context` (what the model is told of its environment), `compaction`,
//! `retry`, `lower`. The drivers `drain`, `step` and `summary` append events, then carry out effects.

pub mod children;
pub mod compaction;
pub mod context;
#[cfg(test)]
mod desk;
mod drain;
mod elsewhere;
mod engine;
mod errors;
mod fork;
mod inbox;
mod jobs;
pub mod lower;
pub mod place;
mod progress;
mod prompt;
pub mod publisher;
pub mod recovery;
mod relocate;
pub mod retry;
mod revert;
mod sessions;
pub mod settle;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
mod state;
mod step;
mod stream;
mod summary;
pub mod title;
mod transfer;
pub mod usage;

pub use drain::{DrainEnd, Scope};
pub use engine::EngineOptions;
pub use errors::SessionsError;
pub use fork::{ForkPoint, ForkSession, PastSession};
pub use prompt::{FileInput, media_type};
pub use relocate::MoveSession;
pub use revert::{RestoreError, StageRevert};
pub use sessions::{CreateSession, PromptSession, Sessions, SessionsParts};
pub use state::SessionState;
pub use transfer::{Bundle, ImportError, Imported};
