//! Making failures of tools, with their causes.

use std::error::Error;

use serde_json::{Value, json};

use super::outcome::ToolFailure;

/// The longest text of a failure that the model sees, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 8 * 1024;

/// Makes a failure of an own text and its cause: `caused("Could not write a.txt", &error)`. The model is told both.
pub fn caused(message: impl Into<String>, cause: &(dyn Error + 'static)) -> ToolFailure {
    let cause = match cause.downcast_ref::<ToolFailure>() {
        Some(failure) => failure.error.clone().unwrap_or_else(|| json!({ "message": failure.message })),
        None => json!({ "message": chain(cause) }),
    };
    ToolFailure { message: message.into(), error: Some(cause), metadata: None }
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        append_once(&mut text, &error.to_string());
        source = error.source();
    }
    text
}

fn append_once(text: &mut String, more: &str) {
    if !more.is_empty() && !text.contains(more) {
        text.push_str(": ");
        text.push_str(more);
    }
}

/// Returns the text of a failure as the model sees it: the message, then the cause's message unless it says the same,
/// cut in the middle to [`MAX_MESSAGE_BYTES`].
pub fn model_text(failure: &ToolFailure) -> String {
    let mut text = failure.message.clone();
    if let Some(cause) = failure.error.as_ref().and_then(cause_message) {
        append_once(&mut text, cause);
    }
    cut_middle(&text, MAX_MESSAGE_BYTES)
}

fn cause_message(cause: &Value) -> Option<&str> {
    cause.as_str().or_else(|| cause.get("message").and_then(Value::as_str))
}

/// Cuts `text` in the middle so that it has at most `limit` bytes and says how much is missing.
pub fn cut_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let note = format!("\n[{} bytes cut]\n", text.len().saturating_sub(limit));
    let half = limit.saturating_sub(note.len()) / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    format!("{head}{note}{tail}")
}
