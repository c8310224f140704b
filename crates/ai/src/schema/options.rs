//! Request-shaping options and how layers of them merge.

use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::JsonObject;

/// Sampling and length options; every field is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GenerationOptions {
    /// Output cap in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Top-k sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// Frequency penalty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Presence penalty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Sampling seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Stop sequences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
}

impl GenerationOptions {
    /// Makes empty options.
    pub fn make() -> Self {
        Self::default()
    }

    /// Lays `over` on top of these options, per field; `stop` is replaced as a whole.
    pub fn merge(&self, over: &Self) -> Self {
        Self {
            max_tokens: over.max_tokens.or(self.max_tokens),
            temperature: over.temperature.or(self.temperature),
            top_p: over.top_p.or(self.top_p),
            top_k: over.top_k.or(self.top_k),
            frequency_penalty: over.frequency_penalty.or(self.frequency_penalty),
            presence_penalty: over.presence_penalty.or(self.presence_penalty),
            seed: over.seed.or(self.seed),
            stop: over.stop.clone().or_else(|| self.stop.clone()),
        }
    }
}

/// A timer setting: off, or a duration (milliseconds on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No timer (`false` on the wire).
    Off,
    /// Expires after this long.
    After(Duration),
}

impl Serialize for Timeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::After(duration) => serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(false) => Ok(Self::Off),
            Value::Number(number) => match number.as_f64() {
                Some(ms) if ms > 0.0 && ms < 1e15 => Ok(Self::After(Duration::from_secs_f64(ms / 1000.0))),
                _ => Err(serde::de::Error::custom(format!(
                    "expected a timeout in milliseconds above 0, or false, got {number}"
                ))),
            },
            other @ (Value::Null | Value::Bool(true) | Value::String(_) | Value::Array(_) | Value::Object(_)) => Err(
                serde::de::Error::custom(format!("expected a timeout in milliseconds above 0, or false, got {other}")),
            ),
        }
    }
}

/// Overlays and timers of the HTTP exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpOptions {
    /// Fields laid over the request body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<JsonObject>,
    /// Extra request headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<IndexMap<String, String>>,
    /// Extra query parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<IndexMap<String, String>>,
    /// Longest wait for response headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_timeout: Option<Timeout>,
    /// Longest silence within the response body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_timeout: Option<Timeout>,
    /// Longest time without any content within the response body, whatever else keeps it alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_timeout: Option<Timeout>,
}

impl HttpOptions {
    /// Makes empty options.
    pub fn make() -> Self {
        Self::default()
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.body.as_ref().is_none_or(JsonObject::is_empty)
            && self.headers.as_ref().is_none_or(IndexMap::is_empty)
            && self.query.as_ref().is_none_or(IndexMap::is_empty)
            && self.header_timeout.is_none()
            && self.chunk_timeout.is_none()
            && self.content_timeout.is_none()
    }

    /// Lays `over` on top: body deeply, headers (by name, any case) and query per key.
    pub fn merge(&self, over: &Self) -> Self {
        Self {
            body: merge_objects(self.body.as_ref(), over.body.as_ref()),
            headers: merge_headers(self.headers.as_ref(), over.headers.as_ref()),
            query: merge_maps(self.query.as_ref(), over.query.as_ref()),
            header_timeout: over.header_timeout.or(self.header_timeout),
            chunk_timeout: over.chunk_timeout.or(self.chunk_timeout),
            content_timeout: over.content_timeout.or(self.content_timeout),
        }
    }
}

fn merge_maps(
    base: Option<&IndexMap<String, String>>,
    over: Option<&IndexMap<String, String>>,
) -> Option<IndexMap<String, String>> {
    let mut merged = base.cloned().unwrap_or_default();
    for (key, value) in over.into_iter().flatten() {
        merged.insert(key.clone(), value.clone());
    }
    (!merged.is_empty()).then_some(merged)
}

fn merge_headers(
    base: Option<&IndexMap<String, String>>,
    over: Option<&IndexMap<String, String>>,
) -> Option<IndexMap<String, String>> {
    let mut merged = base.cloned().unwrap_or_default();
    for (name, value) in over.into_iter().flatten() {
        merged.retain(|known, _| !known.eq_ignore_ascii_case(name));
        merged.insert(name.clone(), value.clone());
    }
    (!merged.is_empty()).then_some(merged)
}

/// Merges two optional objects deeply; `None` when both are absent or empty.
pub fn merge_objects(base: Option<&JsonObject>, over: Option<&JsonObject>) -> Option<JsonObject> {
    let mut merged = base.cloned().unwrap_or_default();
    for (key, value) in over.into_iter().flatten() {
        merge_into(&mut merged, key, value);
    }
    (!merged.is_empty()).then_some(merged)
}

/// Lays `over` onto `base` deeply: objects merge, arrays, scalars and `null` replace.
pub fn merge_json(base: &mut JsonObject, over: &JsonObject) {
    for (key, value) in over {
        merge_into(base, key, value);
    }
}

fn merge_into(base: &mut JsonObject, key: &str, value: &Value) {
    if let (Some(Value::Object(old)), Value::Object(new)) = (base.get_mut(key), value) {
        merge_json(old, new);
    } else {
        base.insert(key.to_owned(), value.clone());
    }
}

/// Sizes of a model, as far as a protocol must know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Longest output in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
}

/// The kind of a prompt-cache mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Kept for minutes.
    Ephemeral,
    /// Kept as long as the provider can.
    Persistent,
}

/// A mark that a provider may cache the prompt up to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheHint {
    /// The kind of mark.
    #[serde(rename = "type")]
    pub kind: CacheKind,
    /// Wanted life time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

impl CacheHint {
    /// An ephemeral mark.
    pub const fn ephemeral(ttl_seconds: Option<u64>) -> Self {
        Self { kind: CacheKind::Ephemeral, ttl_seconds }
    }

    /// Whether the mark asks for the one-hour bucket.
    pub const fn is_one_hour(self) -> bool {
        matches!(self.ttl_seconds, Some(seconds) if seconds >= 3600)
    }
}

/// Where automatic cache marks go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The crate places marks.
    #[default]
    Auto,
    /// No automatic marks and no cache key.
    None,
    /// Exactly these.
    Marks(CacheMarks),
}

/// An explicit cache policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CacheMarks {
    /// Mark the last tool definition.
    #[serde(skip_serializing_if = "is_false")]
    pub tools: bool,
    /// Mark the first and last system part.
    #[serde(skip_serializing_if = "is_false")]
    pub system: bool,
    /// Mark messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessageMarks>,
    /// Wanted life time in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Which messages get a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageMarks {
    /// The latest user message.
    LatestUserMessage,
    /// The latest assistant message.
    LatestAssistant,
    /// The last n messages.
    Tail(usize),
}

impl Serialize for CachePolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::None => serializer.serialize_str("none"),
            Self::Marks(marks) => marks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for CachePolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.as_str() {
            Some("auto") => return Ok(Self::Auto),
            Some("none") => return Ok(Self::None),
            Some(_) | None => {}
        }
        if value.is_object() {
            return CacheMarks::deserialize(value).map(Self::Marks).map_err(serde::de::Error::custom);
        }
        Err(serde::de::Error::custom(format!("expected a cache policy \"auto\", \"none\" or an object, got {value}")))
    }
}
