//! Waits of a step's loop that may have nothing to wait for.

use abide_ai::{AIError, LLMEvent, LlmStream};
use futures_util::StreamExt as _;
use tokio::time::Instant;

/// Waits until `due`; for ever without it.
pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Waits for the next item of the stream; for ever without one.
pub(super) async fn next_item(stream: &mut Option<LlmStream>) -> Option<Result<LLMEvent, AIError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
