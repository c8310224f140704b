//! Older keys become the present ones, key by key, so that one document may mix both. Where both say the same
//! thing, the present key wins, with a finding.

mod agent;
mod mcp;
mod permission;
mod provider;

use std::path::Path;

use abide_schema::JsonObject;
use abide_schema::config::{Diagnostic, DiagnosticKind, Severity};
use serde_json::{Value, json};

pub(crate) use agent::{agent as convert_agent, is_older_agent};
pub(crate) use permission::normal_rules;

use super::report::{Report, join};

/// The older keys, for hints.
pub(crate) const KEYS: [&str; 19] = [
    "logLevel",
    "server",
    "command",
    "reference",
    "snapshot",
    "plugin",
    "autoshare",
    "autoupdate",
    "disabled_providers",
    "enabled_providers",
    "small_model",
    "mode",
    "agent",
    "provider",
    "permission",
    "tools",
    "attachment",
    "subagent_depth",
    "attachments",
];

/// Known keys of other programs that share the file.
const UNSUPPORTED: [&str; 4] = ["layout", "keybinds", "theme", "tui"];
const UNSUPPORTED_COMPACTION: [&str; 1] = ["tail_turns"];
const UNSUPPORTED_EXPERIMENTAL: [&str; 5] =
    ["disable_paste_summary", "batch_tool", "openTelemetry", "primary_tools", "continue_loop_on_deny"];

/// Converts a document in place.
pub(crate) fn convert(object: &mut JsonObject, home: &Path, report: &mut Report) {
    let mut converter = Converter { object, home, report };
    converter.scalars();
    converter.permissions();
    converter.agents();
    converter.commands();
    converter.lists();
    converter.providers();
    converter.policies();
    converter.mcp();
    converter.settings();
    converter.unsupported();
}

struct Converter<'a, 'b> {
    object: &'a mut JsonObject,
    home: &'a Path,
    report: &'b mut Report,
}

impl Converter<'_, '_> {
    /// Takes an older key, unless it is absent or null.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.object.shift_remove(key).filter(|value| !value.is_null())
    }

    fn has(&self, key: &str) -> bool {
        self.object.get(key).is_some_and(|value| !value.is_null())
    }

    fn conflict(&mut self, old: &str, new: &str) {
        self.report.push(
            Diagnostic::new(
                Severity::Warning,
                DiagnosticKind::Conflict,
                format!("both {old:?} and {new:?} are set; {new:?} counts"),
            )
            .at(old_pointer(old))
            .hint(format!("remove {old:?}")),
        );
    }

    /// Sets a present key from an older one, unless it is there.
    fn set(&mut self, old: &str, new: &str, value: Value) {
        if self.has(new) {
            self.conflict(old, new);
        } else {
            self.report.moved(join("", new), join("", old));
            self.object.insert(new.to_owned(), value);
        }
    }

    fn scalars(&mut self) {
        if let Some(value) = self.take("autoupdate") {
            let policy = match &value {
                Value::Bool(false) => json!("disable"),
                Value::Bool(true) => json!("auto"),
                Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => value,
            };
            self.set("autoupdate", "update", policy);
        }
        if let Some(value) = self.take("autoshare")
            && value == json!(true)
            && !self.has("share")
        {
            self.set("autoshare", "share", json!("auto"));
        }
        for (old, new) in [("snapshot", "snapshots"), ("attachments", "media"), ("attachment", "media")] {
            if let Some(value) = self.take(old) {
                self.set(old, new, value);
            }
        }
        if let Some(level) = self.take("logLevel") {
            let level = level.as_str().map_or(level.clone(), |text| json!(text.to_lowercase()));
            self.within("abide", &["log", "level"], "logLevel", level);
        }
        if let Some(server) = self.take("server") {
            self.within("abide", &["server"], "server", server);
        }
        if let Some(depth) = self.take("subagent_depth") {
            self.within("experimental", &["subagent_depth"], "subagent_depth", depth);
        }
    }

    /// Sets a value inside of an object of the document, unless it is there.
    fn within(&mut self, key: &str, path: &[&str], old: &str, value: Value) {
        let mut pointer = join("", key);
        let mut slot = self.object.entry(key.to_owned()).or_insert_with(|| json!({}));
        for part in path {
            pointer = join(&pointer, part);
            if !slot.is_object() {
                return;
            }
            let Value::Object(map) = slot else { return };
            slot = map.entry((*part).to_owned()).or_insert(Value::Null);
            if slot.is_null() && path.last() != Some(part) {
                *slot = json!({});
            }
        }
        match slot {
            Value::Null => {
                *slot = value;
                self.report.moved(pointer, old_pointer(old));
            }
            Value::Object(there) => {
                if let Value::Object(value) = value {
                    for (key, value) in value {
                        there.entry(key).or_insert(value);
                    }
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => self.conflict(old, &pointer),
        }
    }

    /// `tools`, then `permission`, then `permissions` become one list.
    fn permissions(&mut self) {
        let mut rules = Vec::new();
        if let Some(tools) = self.take("tools") {
            permission::push_tools(&tools, "/tools", &mut rules, self.report);
        }
        for key in ["permission", "permissions"] {
            if let Some(value) = self.take(key) {
                permission::push_rules(&value, &join("", key), self.home, &mut rules, self.report);
            }
        }
        if !rules.is_empty() {
            for (index, (_, old)) in rules.iter().enumerate() {
                self.report.moved(format!("/permissions/{index}"), old.clone());
            }
            let rules = rules.into_iter().map(|(rule, _)| rule).collect();
            self.object.insert("permissions".to_owned(), Value::Array(rules));
        }
    }

    /// `agent`, then `mode`, become `agents`.
    fn agents(&mut self) {
        for key in ["agent", "mode"] {
            let Some(Value::Object(entries)) = self.take(key) else { continue };
            for (name, value) in entries {
                let old = join(&join("", key), &name);
                let Value::Object(value) = value else {
                    let message = format!("expected an object for the agent {name:?}");
                    self.report.add(Severity::Error, DiagnosticKind::Invalid, &old, message);
                    continue;
                };
                let mut converted = agent::agent(value, self.home, &old, self.report);
                if key == "mode" {
                    converted.insert("mode".to_owned(), json!("primary"));
                }
                // What `mode` says comes after what `agent` says; the present key comes after both.
                self.merge_entry("agents", &name, converted, &old, key == "mode");
            }
        }
        if let Some(Value::Object(agents)) = self.object.get_mut("agents") {
            for (name, value) in agents.iter_mut() {
                let pointer = join("/agents", name);
                if let Value::Object(agent) = value
                    && let Some(rules) = agent.get_mut("permissions")
                {
                    *rules = normal_rules(rules, &join(&pointer, "permissions"), self.home, self.report);
                }
            }
        }
        if let Some(model) = self.take("small_model") {
            let mut title = JsonObject::new();
            title.insert("model".to_owned(), model);
            let is_set = self.object.get("agents").and_then(|agents| agents.pointer("/title/model")).is_some();
            if !is_set {
                self.merge_entry("agents", "title", title, "/small_model", false);
            }
        }
    }

    /// Merges a converted entry below an entry of the present form.
    fn merge_entry(&mut self, record: &str, name: &str, converted: JsonObject, old: &str, is_over_converted: bool) {
        let pointer = join(&join("", record), name);
        let entries = self.object.entry(record.to_owned()).or_insert_with(|| json!({}));
        let Value::Object(entries) = entries else { return };
        let Some(Value::Object(there)) = entries.get_mut(name) else {
            self.report.moved(pointer, old);
            entries.insert(name.to_owned(), Value::Object(converted));
            return;
        };
        for (key, value) in converted {
            if there.contains_key(&key) && !is_over_converted {
                let message = format!("{key:?} of {name:?} is set in both forms; {record:?} counts");
                self.report.push(
                    Diagnostic::new(Severity::Warning, DiagnosticKind::Conflict, message)
                        .at(join(old, &key))
                        .hint(format!("keep it under {record:?} alone")),
                );
            } else {
                there.insert(key, value);
            }
        }
    }

    fn commands(&mut self) {
        if let Some(Value::Object(entries)) = self.take("command") {
            for (name, value) in entries {
                let old = join("/command", &name);
                if let Value::Object(mut command) = value {
                    agent::join_variant(&mut command);
                    self.merge_entry("commands", &name, command, &old, false);
                }
            }
        }
        if let Some(Value::Object(commands)) = self.object.get_mut("commands") {
            for (_, command) in commands.iter_mut() {
                if let Value::Object(command) = command {
                    agent::join_variant(command);
                }
            }
        }
        if let Some(Value::Object(entries)) = self.take("reference") {
            for (name, value) in entries {
                let old = join("/reference", &name);
                let references = self.object.entry("references").or_insert_with(|| json!({}));
                if let Value::Object(references) = references {
                    self.report.moved(join("/references", &name), old);
                    references.entry(name).or_insert(value);
                }
            }
        }
    }

    fn lists(&mut self) {
        if let Some(Value::Array(plugins)) = self.take("plugin") {
            let mut all: Vec<Value> = plugins
                .into_iter()
                .map(|plugin| match &plugin {
                    Value::Array(pair) => match (pair.first(), pair.get(1)) {
                        (Some(package), Some(options)) => json!({ "package": package, "options": options }),
                        (Some(package), None) => package.clone(),
                        (None, _) => plugin,
                    },
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => plugin,
                })
                .collect();
            self.report.moved("/plugins", "/plugin");
            if let Some(Value::Array(native)) = self.object.shift_remove("plugins") {
                all.extend(native);
            }
            self.object.insert("plugins".to_owned(), Value::Array(all));
        }
        if let Some(Value::Object(skills)) = self.object.get("skills") {
            let mut all = Vec::new();
            for key in ["paths", "urls"] {
                if let Some(Value::Array(items)) = skills.get(key) {
                    all.extend(items.iter().cloned());
                }
            }
            self.object.insert("skills".to_owned(), Value::Array(all));
        }
    }

    fn providers(&mut self) {
        if let Some(Value::Object(entries)) = self.take("provider") {
            for (id, value) in entries {
                let old = join("/provider", &id);
                let Value::Object(value) = value else {
                    let message = format!("expected an object for the provider {id:?}");
                    self.report.add(Severity::Error, DiagnosticKind::Invalid, &old, message);
                    continue;
                };
                let converted = provider::provider(&id, value, &old, self.report);
                self.merge_entry("providers", &id, converted, &old, false);
            }
        }
        if let Some(Value::Object(providers)) = self.object.get_mut("providers") {
            for (_, value) in providers.iter_mut() {
                if let Value::Object(provider) = value {
                    provider::flatten_api(provider);
                }
            }
        }
    }

    fn policies(&mut self) {
        let mut statements = Vec::new();
        let mut push = |effect: &str, resource: &Value| {
            statements.push(json!({ "effect": effect, "action": "provider.use", "resource": resource }));
        };
        if let Some(Value::Array(ids)) = self.take("enabled_providers") {
            push("deny", &json!("*"));
            for id in &ids {
                push("allow", id);
            }
        }
        if let Some(Value::Array(ids)) = self.take("disabled_providers") {
            for id in &ids {
                push("deny", id);
            }
        }
        if statements.is_empty() {
            return;
        }
        let experimental = self.object.entry("experimental").or_insert_with(|| json!({}));
        if let Value::Object(experimental) = experimental {
            if let Some(Value::Array(native)) = experimental.remove("policies") {
                statements.extend(native);
            }
            experimental.insert("policies".to_owned(), Value::Array(statements));
        }
    }

    fn mcp(&mut self) {
        if let Some(Value::Object(mcp)) = self.take("mcp") {
            let converted = mcp::convert(mcp, self.report);
            self.object.insert("mcp".to_owned(), Value::Object(converted));
        }
        let timeout = match self.object.get_mut("experimental") {
            Some(Value::Object(experimental)) => experimental.remove("mcp_timeout"),
            Some(_) | None => None,
        };
        if let Some(timeout) = timeout {
            let value = json!({ "catalog": timeout, "execution": timeout });
            self.within("mcp", &["timeout"], "experimental/mcp_timeout", value);
        }
    }

    fn settings(&mut self) {
        if let Some(Value::Object(compaction)) = self.object.get_mut("compaction") {
            if let Some(tokens) = compaction.remove("preserve_recent_tokens") {
                let keep = compaction.entry("keep").or_insert_with(|| json!({}));
                if let Value::Object(keep) = keep {
                    keep.entry("tokens").or_insert(tokens);
                }
                self.report.moved("/compaction/keep/tokens", "/compaction/preserve_recent_tokens");
            }
            if let Some(reserved) = compaction.remove("reserved") {
                compaction.entry("buffer").or_insert(reserved);
                self.report.moved("/compaction/buffer", "/compaction/reserved");
            }
        }
    }

    fn unsupported(&mut self) {
        let mut found: Vec<String> = Vec::new();
        for key in UNSUPPORTED {
            if self.take(key).is_some() {
                found.push(join("", key));
            }
        }
        for (outer, keys) in
            [("compaction", &UNSUPPORTED_COMPACTION[..]), ("experimental", &UNSUPPORTED_EXPERIMENTAL[..])]
        {
            if let Some(Value::Object(object)) = self.object.get_mut(outer) {
                for key in keys {
                    if object.remove(*key).is_some() {
                        found.push(join(&join("", outer), key));
                    }
                }
            }
        }
        for pointer in found {
            let message = "this key has no effect in abide".to_owned();
            self.report.add(Severity::Info, DiagnosticKind::Unsupported, &pointer, message);
        }
    }
}

fn old_pointer(old: &str) -> String {
    format!("/{old}")
}
