//! Reasoning over the Chat protocol: accumulation of streamed details, and replay of history.

use serde_json::Value;

use super::quirks::Quirks;
use super::{NAME, ReasoningReplay};
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{Message, ReasoningPart};
use crate::schema::request::LLMRequest;

/// The scalar fields servers use, most usual first.
pub(super) const FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
/// Metadata: the field that carried reasoning.
pub(super) const META_FIELD: &str = "reasoningField";
/// Metadata: the structured details.
pub(super) const META_DETAILS: &str = "reasoningDetails";

const RESERVED: [&str; 4] = ["role", "content", "refusal", "tool_calls"];

/// What a detail entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Summary,
    Encrypted,
    KimiSummary,
    KimiEncrypted,
}

impl Kind {
    fn of(entry: &JsonObject) -> Option<Self> {
        match entry.get("type").and_then(Value::as_str) {
            Some("reasoning.text") => Some(Self::Text),
            Some("reasoning.summary") => Some(Self::Summary),
            Some("reasoning.encrypted") if entry.contains_key("data") => Some(Self::Encrypted),
            Some("summary") => Some(Self::KimiSummary),
            Some("encrypted") if entry.contains_key("encrypted") => Some(Self::KimiEncrypted),
            Some(_) | None => None,
        }
    }

    /// The field of text that is joined.
    const fn text_field(self) -> Option<&'static str> {
        match self {
            Self::Text => Some("text"),
            Self::Summary | Self::KimiSummary => Some("summary"),
            Self::Encrypted | Self::KimiEncrypted => None,
        }
    }

    const fn is_kimi(self) -> bool {
        matches!(self, Self::KimiSummary | Self::KimiEncrypted)
    }
}

/// Details of one response.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    entries: Vec<JsonObject>,
}

impl Details {
    /// Takes the details of one chunk and gives their visible text; unknown entries are dropped.
    /// Kimi summaries are visible only as long as there is no scalar reasoning.
    pub(super) fn take(&mut self, entries: Vec<Value>, has_scalar: bool) -> (bool, String) {
        let mut visible = String::new();
        let mut is_any = false;
        for entry in entries {
            let Value::Object(entry) = entry else { continue };
            let Some(kind) = Kind::of(&entry) else { continue };
            is_any = true;
            let text = kind.text_field().and_then(|field| entry.get(field)).and_then(Value::as_str);
            if let Some(text) = text
                && !(kind == Kind::KimiSummary && has_scalar)
            {
                visible.push_str(text);
            }
            self.add(kind, entry);
        }
        (is_any, visible)
    }

    fn add(&mut self, kind: Kind, entry: JsonObject) {
        if let Some(field) = kind.text_field()
            && let Some(last) = self.entries.last_mut()
            && Kind::of(last) == Some(kind)
            && are_compatible(last, &entry)
        {
            let joined =
                [last.get(field), entry.get(field)].into_iter().flatten().filter_map(Value::as_str).collect::<String>();
            last.insert(field.to_owned(), Value::from(joined));
            for (key, value) in entry {
                let is_absent = last.get(&key).is_none_or(is_blank);
                if is_absent {
                    last.insert(key, value);
                }
            }
            return;
        }
        self.entries.push(entry);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn into_value(self) -> Option<Value> {
        (!self.entries.is_empty()).then(|| Value::Array(self.entries.into_iter().map(Value::Object).collect()))
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

fn are_compatible(a: &JsonObject, b: &JsonObject) -> bool {
    ["id", "index", "format", "signature"].into_iter().all(|key| match (a.get(key), b.get(key)) {
        (Some(a), Some(b)) => is_blank(a) || is_blank(b) || a == b,
        (_, _) => true,
    })
}

/// What an assistant message says about its reasoning.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// The scalar field under its name, or nothing.
    pub(super) field: JsonObject,
    /// The details.
    pub(super) details: Option<Vec<Value>>,
}

/// Puts the reasoning of a stored message back into its wire form.
pub(super) fn replay(
    request: &LLMRequest,
    quirks: &Quirks,
    mode: ReasoningReplay,
    message: &Message,
    parts: &[&ReasoningPart],
) -> Result<Replayed, AIError> {
    let key = request.model.metadata_key();
    let configured = request.model.compatibility.reasoning_field.as_deref();
    if let Some(field) = configured
        && RESERVED.contains(&field)
    {
        return Err(AIError::invalid_request(format!(
            "{NAME} reasoningField {field:?} is a field of every message; choose another"
        )));
    }
    let own = |part: &ReasoningPart, name: &str| part.provider_metadata.as_ref()?.get(key)?.get(name).cloned();
    // Details may come after the answer, in a block of their own: what is there goes back.
    let entries = |part: &&ReasoningPart| match own(part, META_DETAILS) {
        Some(Value::Array(entries)) if !entries.is_empty() => Some(entries),
        Some(_) | None => None,
    };
    let found: Vec<Vec<Value>> = parts.iter().filter_map(entries).collect();
    let is_all_details = found.len() == parts.len();
    let details = (!found.is_empty()).then(|| details_for_wire(found.concat()));
    let is_kimi = details.as_ref().is_some_and(|entries| {
        entries.iter().filter_map(Value::as_object).any(|entry| Kind::of(entry).is_some_and(Kind::is_kimi))
    });
    let mut replayed = Replayed { field: JsonObject::new(), details };
    if mode == ReasoningReplay::Details {
        // Without details the field is refused or read as text; with them it stands beside them.
        if replayed.details.is_some() {
            let text: String = parts.iter().map(|part| part.text.as_str()).collect();
            if !text.is_empty() {
                replayed.field.insert(configured.unwrap_or("reasoning").to_owned(), Value::from(text));
            }
        }
        return Ok(replayed);
    }
    let is_scalar_needed = replayed.details.is_none() || !is_all_details || is_kimi;
    if !quirks.takes_reasoning || !(is_scalar_needed || quirks.needs_reasoning) {
        return Ok(replayed);
    }
    let text = if parts.is_empty() {
        native_reasoning(message)
    } else {
        parts.iter().map(|part| part.text.as_str()).collect()
    };
    let field = configured
        .map(str::to_owned)
        .or_else(|| parts.iter().find_map(|part| own(part, META_FIELD)?.as_str().map(str::to_owned)));
    let field = field.unwrap_or_else(|| "reasoning_content".to_owned());
    if (is_scalar_needed && !text.is_empty()) || quirks.needs_reasoning {
        replayed.field.insert(field, Value::from(text));
    }
    Ok(replayed)
}

fn details_for_wire(entries: Vec<Value>) -> Vec<Value> {
    entries
        .into_iter()
        .filter_map(|entry| {
            let Value::Object(mut entry) = entry else { return None };
            if Kind::of(&entry)?.is_kimi() {
                entry.shift_remove("index");
            }
            Some(Value::Object(entry))
        })
        .collect()
}

fn native_reasoning(message: &Message) -> String {
    message
        .native
        .as_ref()
        .and_then(|native| native.get("openaiCompatible")?.get("reasoning_content")?.as_str())
        .unwrap_or_default()
        .to_owned()
}
