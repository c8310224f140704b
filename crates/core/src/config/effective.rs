//! What the documents say together, each value with the document it comes from. Secrets are masked.

use abide_schema::JsonObject;
use serde_json::{Value, json};

use super::report::join;
use super::{Config, Document, Origin};

/// One value that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveValue {
    /// Where in a document of the present form, as a JSON pointer.
    pub pointer: String,
    /// The value; a secret is shown as `[redacted]`.
    pub value: Value,
    /// The document it comes from.
    pub origin: Origin,
    /// Line and column in that document, when they are known.
    pub place: Option<(usize, usize)>,
}

/// Lists that are joined over the documents.
const JOINED: [&str; 4] = ["permissions", "skills", "instructions", "plugins"];

/// What is shown instead of a secret.
pub const REDACTED: &str = "[redacted]";

impl Config {
    /// Returns every value that counts, in the order in which keys first appear. Rules are listed one by one, in
    /// the order in which they are asked.
    pub fn effective(&self) -> Vec<EffectiveValue> {
        let mut out = Vec::new();
        for document in &self.documents {
            for (key, value) in &document.value {
                let pointer = join("", key);
                if JOINED.contains(&key.as_str()) {
                    joined(document, &pointer, value, &mut out);
                } else {
                    merge(document, &pointer, key, value, &mut out);
                }
            }
        }
        out
    }

    /// Returns the values together as one document of the present form, secrets masked.
    pub fn effective_document(&self) -> Value {
        let mut out = json!({});
        for entry in self.effective() {
            insert(&mut out, &entry.pointer, entry.value);
        }
        out
    }
}

/// Adds the items of a list.
fn joined(document: &Document, pointer: &str, value: &Value, out: &mut Vec<EffectiveValue>) {
    let Value::Array(items) = value else { return };
    for (index, item) in items.iter().enumerate() {
        let at =
            out.iter().filter(|entry| entry.pointer.rsplit_once('/').is_some_and(|(list, _)| list == pointer)).count();
        out.push(EffectiveValue {
            pointer: format!("{pointer}/{at}"),
            value: masked("", item),
            origin: document.origin.clone(),
            place: document.report.place(&format!("{pointer}/{index}")),
        });
    }
}

/// Adds the leaves of a value; each replaces what earlier documents say.
fn merge(document: &Document, pointer: &str, key: &str, value: &Value, out: &mut Vec<EffectiveValue>) {
    if let Value::Object(map) = value
        && !map.is_empty()
    {
        for (key, value) in map {
            merge(document, &join(pointer, key), key, value, out);
        }
        return;
    }
    let entry = EffectiveValue {
        pointer: pointer.to_owned(),
        value: masked(key, value),
        origin: document.origin.clone(),
        place: document.report.place(pointer),
    };
    match out.iter_mut().find(|there| there.pointer == pointer) {
        // An agent's own rules are joined like all rules.
        Some(there) if key == "permissions" => {
            if let (Value::Array(list), Value::Array(more)) = (&mut there.value, entry.value) {
                list.extend(more);
                there.origin = entry.origin;
                there.place = entry.place;
            }
        }
        Some(there) => *there = entry,
        None => out.push(entry),
    }
}

fn insert(out: &mut Value, pointer: &str, value: Value) {
    let mut slot = out;
    let mut parts = pointer.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let part = part.replace("~1", "/").replace("~0", "~");
        let is_last = parts.peek().is_none();
        match slot {
            Value::Array(items) => {
                items.push(value);
                return;
            }
            Value::Object(map) => {
                let is_list =
                    parts.peek().is_some_and(|next| next.parse::<usize>().is_ok()) && JOINED.contains(&part.as_str());
                let next = map.entry(part).or_insert_with(|| if is_list { json!([]) } else { json!({}) });
                if is_last {
                    *next = value;
                    return;
                }
                slot = next;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        }
    }
}

/// A value without its secrets.
pub fn masked(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(masked_object(map)),
        Value::Array(items) => Value::Array(items.iter().map(|item| masked(key, item)).collect()),
        Value::String(text) if is_secret(key) && !text.is_empty() => json!(REDACTED),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn masked_object(map: &JsonObject) -> JsonObject {
    map.iter().map(|(key, value)| (key.clone(), masked(key, value))).collect()
}

/// Says whether a key usually holds a secret.
pub fn is_secret(key: &str) -> bool {
    let key: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    // Counts of tokens are no secrets.
    if key.ends_with("tokens") || key.contains("tokencount") || key.contains("maxtoken") {
        return false;
    }
    ["authorization", "apikey", "token", "secret", "password", "cookie", "credential", "accesskey", "privatekey"]
        .iter()
        .any(|part| key.contains(part))
}
