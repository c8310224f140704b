//! Failures reported inside the stream.

use serde_json::Value;

use crate::provider_error::{Failure, classify};
use crate::route::framing::Frame;
use crate::schema::errors::AIError;

/// The failure that an event reports. Only its details are classified: a failed response repeats
/// the instructions of the caller, whose words mean nothing here.
pub(super) fn failure(frame: &Frame, fallback: &str) -> AIError {
    let event: Value = serde_json::from_slice(&frame.data).unwrap_or_default();
    let nested = [event.get("response").and_then(|response| response.get("error")), event.get("error")];
    let details = nested.into_iter().flatten().find(|details| code(details).is_some() || message(details).is_some());
    let (found_code, found_message) = match details {
        Some(details) => (code(details).or_else(|| text(details, "type")), message(details)),
        None => (code(&event), message(&event)),
    };
    let classified = match details {
        Some(details) => details.to_string(),
        None if event.get("response").is_some() => String::new(),
        None => event.to_string(),
    };
    let text = match (found_code, found_message) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) if has_more(&event) => event.to_string(),
        (None, None) => fallback.to_owned(),
    };
    let status = ["status", "status_code"]
        .iter()
        .find_map(|name| event.get(*name).or_else(|| details?.get(*name))?.as_u64())
        .and_then(|status| u16::try_from(status).ok());
    let error = classify(Failure {
        message: text,
        status,
        code: found_code.map(str::to_owned),
        body: Some(classified),
        ..Failure::default()
    });
    error.into_reason().with(|reason| reason.body = Some(frame.text().into_owned())).into()
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

fn code(value: &Value) -> Option<&str> {
    text(value, "code")
}

fn message(value: &Value) -> Option<&str> {
    text(value, "message")
}

/// Whether an event says anything beyond its type.
fn has_more(event: &Value) -> bool {
    event.as_object().is_some_and(|event| {
        event
            .iter()
            .any(|(name, value)| !value.is_null() && !matches!(name.as_str(), "type" | "sequence_number" | "response"))
    })
}
