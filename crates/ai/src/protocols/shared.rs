//! Small helpers every protocol uses. The only place of the crate that reads and writes JSON text.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::route::framing::Frame;
use crate::route::protocol::DecodeError;
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::ids::RouteId;
use crate::schema::messages::{
    Message, Part, Role, SystemPart, ToolChoice, ToolChoiceMode, ToolResultPart, ToolResultValue,
};
use crate::schema::options::CachePolicy;
use crate::schema::request::LLMRequest;

pub use super::utils::media::{Media, normalize_media, normalize_tool_file};

/// The most Unicode scalars of a prompt cache key.
const MAX_CACHE_KEY: usize = 64;

/// Compact JSON text: key order kept, whole numbers without fraction, non-ASCII unescaped.
///
/// # Errors
/// When a value has no JSON form.
pub fn json_bytes(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, WholeNumbers);
    value.serialize(&mut serializer)?;
    Ok(bytes)
}

/// As [`json_bytes`], as a string.
pub fn json_text(value: &Value) -> String {
    let bytes = json_bytes(value).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// The compact formatter, but floats that are whole numbers are written as such.
struct WholeNumbers;

impl serde_json::ser::Formatter for WholeNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
        if value.fract() == 0.0 && value.abs() < 9e15 {
            return self.write_i64(writer, value as i64);
        }
        serde_json::ser::CompactFormatter.write_f64(writer, value)
    }
}

/// Whether two JSON values are equal: key order does not count, `1` and `1.0` are the same number.
pub fn same_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_json(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Decodes a frame into an event that may borrow from it.
///
/// # Errors
/// When it is not such an event.
pub fn decode<'f, T: Deserialize<'f>>(frame: &'f Frame) -> Result<T, DecodeError> {
    serde_json::from_slice(&frame.data).map_err(Into::into)
}

/// Decodes JSON of the provider.
///
/// # Errors
/// `InvalidProviderOutput` with the message, the raw text and the cause.
pub fn parse_json<T: DeserializeOwned>(raw: &str, message: &str) -> Result<T, AIError> {
    serde_json::from_str(raw).map_err(|error| AIError::invalid_output(message).with_body(raw).with_cause(error))
}

/// Decodes the arguments of a call; empty text is `{}`.
///
/// # Errors
/// `InvalidProviderOutput` with the raw text as body.
pub fn parse_tool_input(route: &RouteId, name: &str, raw: &str) -> Result<Value, AIError> {
    if raw.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    parse_json(raw, &format!("Invalid JSON input for {route} tool call {name}"))
}

/// Decodes provider options or other caller input.
///
/// # Errors
/// `InvalidRequest` with the decoder's message.
pub fn validate_with<T: DeserializeOwned>(value: Value) -> Result<T, AIError> {
    serde_json::from_value(value).map_err(|error| AIError::invalid_request(error.to_string()).with_cause(error))
}

/// Makes an `InvalidProviderOutput`.
pub fn event_error(message: impl Into<String>, frame: Option<&Frame>) -> AIError {
    let error = AIError::invalid_output(message);
    match frame {
        Some(frame) => error.with_body(frame.text()),
        None => error,
    }
}

/// System texts, joined with a line feed.
pub fn join_text(parts: &[SystemPart]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// A checked tool choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The model decides.
    Auto,
    /// No calls.
    None,
    /// At least one call.
    Required,
    /// The named tool.
    Tool(&'a str),
}

/// Checks a tool choice.
///
/// # Errors
/// `InvalidRequest` when mode `tool` has no name.
pub fn match_tool_choice<'a>(route: &str, choice: &'a ToolChoice) -> Result<Choice<'a>, AIError> {
    Ok(match choice.mode {
        ToolChoiceMode::Auto => Choice::Auto,
        ToolChoiceMode::None => Choice::None,
        ToolChoiceMode::Required => Choice::Required,
        ToolChoiceMode::Tool => match choice.name.as_deref() {
            Some(name) if !name.is_empty() => Choice::Tool(name),
            Some(_) | None => {
                return Err(AIError::invalid_request(format!("{route} tool choice requires a tool name")));
            }
        },
    })
}

/// The refusal of content a role cannot carry.
pub fn unsupported_content(route: &str, role: Role, supported: &[&str]) -> AIError {
    let list = match supported {
        [] => "no".to_owned(),
        [one] => (*one).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [head @ .., last] => format!("{}, and {last}", head.join(", ")),
    };
    AIError::invalid_request(format!("{route} {} messages only support {list} content for now", role.as_str()))
}

/// The text of a tool result: a string as it is, anything else as JSON text.
pub fn tool_result_text(part: &ToolResultPart) -> Cow<'_, str> {
    match &part.result {
        ToolResultValue::Text(Value::String(text)) | ToolResultValue::Error(Value::String(text)) => Cow::Borrowed(text),
        ToolResultValue::Text(value) | ToolResultValue::Error(value) | ToolResultValue::Json(value) => {
            Cow::Owned(json_text(value))
        }
        ToolResultValue::Content(items) => {
            Cow::Owned(serde_json::to_value(items).map(|value| json_text(&value)).unwrap_or_default())
        }
    }
}

/// The texts of a chronological system update.
///
/// # Errors
/// `InvalidRequest` for anything but text.
pub fn system_update_text(route: &str, message: &Message) -> Result<String, AIError> {
    let mut texts = Vec::new();
    for part in &message.content {
        match part {
            Part::Text(text) => texts.push(text.text.as_str()),
            Part::Media(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => {
                return Err(unsupported_content(route, Role::System, &["text"]));
            }
        }
    }
    Ok(texts.join("\n"))
}

/// Wraps an operator text for routes without such a role; its content cannot close the wrapper.
pub fn wrap_system_update(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len() + 40);
    wrapped.push_str("<system-update>\n");
    for letter in text.chars() {
        match letter {
            '&' => wrapped.push_str("&amp;"),
            '<' => wrapped.push_str("&lt;"),
            '>' => wrapped.push_str("&gt;"),
            other => wrapped.push(other),
        }
    }
    wrapped.push_str("\n</system-update>");
    wrapped
}

/// A text as one segment of a URL path: everything but letters, digits and `-._~` is escaped.
pub fn url_segment(text: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// An id for the n-th call of an answer that gives none: no call of this history or answer has it, and
/// replaying the same answer to the same request gives the same one.
pub fn made_up_id(prefix: &str, request: &LLMRequest, n: u64) -> String {
    let mut hasher = DefaultHasher::new();
    request.id.hash(&mut hasher);
    request.messages.len().hash(&mut hasher);
    if let Some(last) = request.messages.last() {
        serde_json::to_string(last).unwrap_or_default().hash(&mut hasher);
    }
    format!("{prefix}_{:016x}_{n}", hasher.finish())
}

/// The affinity key of a request; none when caching is off.
pub fn prompt_cache_key(request: &LLMRequest) -> Option<String> {
    if request.cache == CachePolicy::None {
        return None;
    }
    let key = request.prompt_cache_key.as_deref()?;
    (!key.is_empty()).then(|| key.chars().take(MAX_CACHE_KEY).collect())
}

/// A thinking budget that leaves room for the answer: at most half of the output cap, at least `min`.
/// `-1` and `0` have a meaning of their own and pass.
pub fn fit_thinking_budget(budget: i64, max_tokens: Option<u64>, min: i64) -> i64 {
    let Some(max_tokens) = max_tokens else { return budget };
    let half = i64::try_from(max_tokens / 2).unwrap_or(i64::MAX);
    if budget <= half { budget } else { half.max(min) }
}

/// Reads an optional field that may be `null` and is dropped when it has another type.
///
/// # Errors
/// Never for a wrong type.
pub fn lenient<'de, D: serde::Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// What an option of a variant must be to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionKind {
    /// An object.
    Object,
    /// An object, of which only these fields are sent.
    Fields(&'static [&'static str]),
    /// A list.
    List,
    /// A string.
    Text,
    /// A boolean.
    Flag,
}

/// Options of a request that a variant of a protocol takes under a name of its own; one of another
/// form is dropped alone.
pub(crate) fn options(request: &LLMRequest, known: &[(&str, &str, OptionKind)]) -> JsonObject {
    let mut out = JsonObject::new();
    for (option, field, kind) in known {
        let found = request.option(option).and_then(|value| match (kind, value) {
            (OptionKind::Fields(fields), Value::Object(object)) => {
                let kept = object.iter().filter(|(key, _)| fields.contains(&key.as_str()));
                Some(Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect()))
            }
            (OptionKind::Object, Value::Object(_))
            | (OptionKind::List, Value::Array(_))
            | (OptionKind::Text, Value::String(_))
            | (OptionKind::Flag, Value::Bool(_)) => Some(value.clone()),
            (_, _) => None,
        });
        if let Some(value) = found {
            out.insert((*field).to_owned(), value);
        }
    }
    out
}
