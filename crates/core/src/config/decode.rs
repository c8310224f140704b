//! From the value of a document to its typed form. What does not fit is left out with a finding; the rest counts.

use abide_schema::JsonObject;
use abide_schema::config::{
    AbideConfig, AgentConfig, CapabilitiesConfig, CommandConfig, CompactionConfig, ConfigDocument, Diagnostic,
    DiagnosticKind, ExperimentalConfig, LimitConfig, McpConfig, ModelConfig, ProviderConfig, Severity,
    ToolOutputConfig,
};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fields::fields;
use super::report::{Report, join, nearest};

/// Keys that are accepted without any effect.
const IGNORED: [&str; 3] = ["$schema", "worktree", "cache"];

/// Decodes a document whose old keys are already converted. Returns it with the value that counts.
pub(crate) fn decode(mut object: JsonObject, report: &mut Report) -> (ConfigDocument, JsonObject) {
    object.retain(|key, value| !value.is_null() && !IGNORED.contains(&key.as_str()));
    let known = fields::<ConfigDocument>();
    let unknown: Vec<String> = object.keys().filter(|key| !known.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        report_unknown(&join("", &key), &key, known.iter().copied().chain(super::v1::KEYS), report);
        object.remove(&key);
    }
    let mut document = ConfigDocument::default();
    object.retain(|key, value| {
        let pointer = join("", key);
        let value = value.take_into_normal();
        let Some(kept) = decode_key(&mut document, key, value.clone(), &pointer, report) else { return false };
        *value = kept;
        true
    });
    (document, object)
}

/// Drops nulls of an object in place: they mean "not said".
trait TakeIntoNormal {
    fn take_into_normal(&mut self) -> &mut Self;
}

impl TakeIntoNormal for Value {
    fn take_into_normal(&mut self) -> &mut Self {
        if let Self::Object(map) = self {
            map.retain(|_, value| !value.is_null());
        }
        self
    }
}

/// Decodes one key into the document; returns the value that counts, `None` when nothing of it does.
fn decode_key(
    document: &mut ConfigDocument,
    key: &str,
    value: Value,
    pointer: &str,
    report: &mut Report,
) -> Option<Value> {
    match key {
        "agents" => record(&mut document.agents, value, pointer, report, decode_agent),
        "commands" => record(&mut document.commands, value, pointer, report, decode_command),
        "providers" => record(&mut document.providers, value, pointer, report, decode_provider),
        "permissions" => list(&mut document.permissions, value, pointer, report),
        "skills" => list(&mut document.skills, value, pointer, report),
        "instructions" => list(&mut document.instructions, value, pointer, report),
        "plugins" => list(&mut document.plugins, value, pointer, report),
        "references" => whole(&mut document.references, value, pointer, report),
        "shell" => some(&mut document.shell, value, pointer, report),
        "model" => some(&mut document.model, value, pointer, report),
        "default_agent" => some(&mut document.default_agent, value, pointer, report),
        "update" => some(&mut document.update, value, pointer, report),
        "share" => some(&mut document.share, value, pointer, report),
        "enterprise" => some(&mut document.enterprise, value, pointer, report),
        "username" => some(&mut document.username, value, pointer, report),
        "snapshots" => some(&mut document.snapshots, value, pointer, report),
        "watcher" => some(&mut document.watcher, value, pointer, report),
        "formatter" => some(&mut document.formatter, value, pointer, report),
        "lsp" => some(&mut document.lsp, value, pointer, report),
        "media" => some(&mut document.media, value, pointer, report),
        "tool_output" => some_known::<ToolOutputConfig>(&mut document.tool_output, value, pointer, report),
        "mcp" => some_known::<McpConfig>(&mut document.mcp, value, pointer, report),
        "compaction" => some_known::<CompactionConfig>(&mut document.compaction, value, pointer, report),
        "websearch" => some(&mut document.websearch, value, pointer, report),
        "warming" => some(&mut document.warming, value, pointer, report),
        "experimental" => some_known::<ExperimentalConfig>(&mut document.experimental, value, pointer, report),
        "abide" => some_known::<AbideConfig>(&mut document.abide, value, pointer, report),
        _ => None,
    }
}

/// Decodes a value that counts as a whole.
fn take<T: DeserializeOwned>(value: &Value, pointer: &str, report: &mut Report) -> Option<T> {
    match T::deserialize(value) {
        Ok(value) => Some(value),
        Err(error) => {
            let message = format!("the value {} cannot be used: {error}", shown(value));
            report.push(
                Diagnostic::new(Severity::Error, DiagnosticKind::Invalid, message)
                    .at(pointer)
                    .hint("correct it; until then it is left out"),
            );
            None
        }
    }
}

fn some<T: DeserializeOwned>(slot: &mut Option<T>, value: Value, pointer: &str, report: &mut Report) -> Option<Value> {
    *slot = Some(take(&value, pointer, report)?);
    Some(value)
}

fn whole<T: DeserializeOwned>(slot: &mut T, value: Value, pointer: &str, report: &mut Report) -> Option<Value> {
    *slot = take(&value, pointer, report)?;
    Some(value)
}

/// Decodes an object with fixed fields, field by field.
fn some_known<T: DeserializeOwned + Default>(
    slot: &mut Option<T>,
    value: Value,
    pointer: &str,
    report: &mut Report,
) -> Option<Value> {
    let Value::Object(object) = value else {
        return some(slot, value, pointer, report);
    };
    let object = by_field::<T>(object, pointer, report);
    *slot = Some(T::deserialize(&Value::Object(object.clone())).unwrap_or_default());
    Some(Value::Object(object))
}

/// Keeps the fields that `T` reads on their own; reports the others.
fn by_field<T: DeserializeOwned>(mut object: JsonObject, pointer: &str, report: &mut Report) -> JsonObject {
    let known = fields::<T>();
    object.retain(|key, value| {
        let child = join(pointer, key);
        if !known.contains(&key.as_str()) {
            report_unknown(&child, key, known.iter().copied(), report);
            return false;
        }
        let single: JsonObject = std::iter::once((key.clone(), value.clone())).collect();
        match T::deserialize(&Value::Object(single)) {
            Ok(_) => true,
            Err(error) => {
                report_invalid(&child, value, &error, "correct it; until then it is left out", report);
                false
            }
        }
    });
    object
}

/// Decodes a list item by item.
fn list<T: DeserializeOwned>(slot: &mut Vec<T>, value: Value, pointer: &str, report: &mut Report) -> Option<Value> {
    let Value::Array(items) = value else {
        return whole(slot, value, pointer, report);
    };
    let mut kept = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        if let Some(decoded) = take(&item, &format!("{pointer}/{index}"), report) {
            slot.push(decoded);
            kept.push(item);
        }
    }
    Some(Value::Array(kept))
}

type DecodeEntry<T> = fn(JsonObject, &str, &mut Report) -> Option<(T, JsonObject)>;

/// Decodes a record entry by entry.
fn record<K, T>(
    slot: &mut IndexMap<K, T>,
    value: Value,
    pointer: &str,
    report: &mut Report,
    decode: DecodeEntry<T>,
) -> Option<Value>
where
    K: for<'a> From<&'a str> + std::hash::Hash + Eq,
{
    let Value::Object(entries) = value else {
        let message = format!("expected an object with one entry for each name, got {}", shown(&value));
        report.add(Severity::Error, DiagnosticKind::Invalid, pointer, message);
        return None;
    };
    let mut kept = JsonObject::new();
    for (name, entry) in entries {
        let child = join(pointer, &name);
        match entry {
            Value::Null => {}
            Value::Object(mut object) => {
                object.retain(|_, value| !value.is_null());
                if let Some((decoded, object)) = decode(object, &child, report) {
                    slot.insert(K::from(name.as_str()), decoded);
                    kept.insert(name, Value::Object(object));
                }
            }
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                let message = format!("expected an object, got {}", shown(&other));
                report.add(Severity::Error, DiagnosticKind::Invalid, &child, message);
            }
        }
    }
    Some(Value::Object(kept))
}

/// Decodes an entry as a whole: one wrong field drops it.
fn entry<T: DeserializeOwned>(
    mut object: JsonObject,
    pointer: &str,
    what: &str,
    report: &mut Report,
) -> Option<(T, JsonObject)> {
    let known = fields::<T>();
    object.retain(|key, _| {
        let is_known = known.contains(&key.as_str());
        if !is_known {
            report_unknown(&join(pointer, key), key, known.iter().copied(), report);
        }
        is_known
    });
    let value = Value::Object(object);
    match T::deserialize(&value) {
        Ok(decoded) => {
            let Value::Object(object) = value else { return None };
            Some((decoded, object))
        }
        Err(error) => {
            let Value::Object(object) = value else { return None };
            // Which field is it? The first that does not fit on its own.
            let culprit = object.iter().find_map(|(key, value)| {
                let single: JsonObject = std::iter::once((key.clone(), value.clone())).collect();
                T::deserialize(&Value::Object(single)).err().map(|error| (key, value, error))
            });
            let way_out = format!("correct it; until then {what} is left out");
            match culprit {
                Some((key, value, error)) => report_invalid(&join(pointer, key), value, &error, &way_out, report),
                None => report_invalid(pointer, &Value::Object(object), &error, &way_out, report),
            }
            None
        }
    }
}

const COLORS: [&str; 7] = ["primary", "secondary", "accent", "success", "warning", "error", "info"];

fn decode_agent(object: JsonObject, pointer: &str, report: &mut Report) -> Option<(AgentConfig, JsonObject)> {
    let (agent, object) = entry::<AgentConfig>(object, pointer, "this agent", report)?;
    if let Some(color) = &agent.color {
        let is_hex = color.len() == 7 && color.starts_with('#') && color.chars().skip(1).all(|c| c.is_ascii_hexdigit());
        if !is_hex && !COLORS.contains(&color.as_str()) {
            let message = format!("the color {color:?} is neither #rrggbb nor one of {}", COLORS.join(", "));
            report.add(Severity::Error, DiagnosticKind::Invalid, &join(pointer, "color"), message);
            return None;
        }
    }
    if agent.steps == Some(0) {
        let message = "steps is 0, an agent needs at least 1".to_owned();
        report.add(Severity::Error, DiagnosticKind::Invalid, &join(pointer, "steps"), message);
        return None;
    }
    Some((agent, object))
}

fn decode_command(object: JsonObject, pointer: &str, report: &mut Report) -> Option<(CommandConfig, JsonObject)> {
    entry(object, pointer, "this command", report)
}

fn decode_provider(mut object: JsonObject, pointer: &str, report: &mut Report) -> Option<(ProviderConfig, JsonObject)> {
    // Models are decoded one by one, so that one wrong model does not take its provider along.
    let models = object.remove("models");
    let (mut provider, mut object) = entry::<ProviderConfig>(object, pointer, "this provider", report)?;
    if let Some(models) = models {
        let kept = record(&mut provider.models, models, &join(pointer, "models"), report, decode_model)?;
        object.insert("models".to_owned(), kept);
    }
    Some((provider, object))
}

fn decode_model(mut object: JsonObject, pointer: &str, report: &mut Report) -> Option<(ModelConfig, JsonObject)> {
    for (key, known) in [("capabilities", fields::<CapabilitiesConfig>()), ("limit", fields::<LimitConfig>())] {
        if let Some(Value::Object(inner)) = object.get_mut(key) {
            let child = join(pointer, key);
            inner.retain(|name, _| {
                let is_known = known.contains(&name.as_str());
                if !is_known {
                    report_unknown(&join(&child, name), name, known.iter().copied(), report);
                }
                is_known
            });
        }
    }
    entry(object, pointer, "this model", report)
}

fn report_unknown<'a>(pointer: &str, key: &str, known: impl IntoIterator<Item = &'a str>, report: &mut Report) {
    let mut diagnostic = Diagnostic::new(
        Severity::Warning,
        DiagnosticKind::Unknown,
        format!("the key {key:?} is not known and has no effect"),
    )
    .at(pointer);
    if let Some(name) = nearest(key, known) {
        diagnostic = diagnostic.hint(format!("did you mean {name:?}?"));
    }
    report.push(diagnostic);
}

fn report_invalid(pointer: &str, value: &Value, error: &serde_json::Error, way_out: &str, report: &mut Report) {
    let message = format!("the value {} cannot be used: {error}", shown(value));
    report
        .push(Diagnostic::new(Severity::Error, DiagnosticKind::Invalid, message).at(pointer).hint(way_out.to_owned()));
}

/// A value for a message: short, and never a secret.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(map) => format!("{{{}}}", map.keys().cloned().collect::<Vec<_>>().join(", ")),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let mut cut: String = text.chars().take(80).collect();
            if cut.len() < text.len() {
                cut.push('…');
            }
            format!("{cut:?}")
        }
    }
}
