//! Servers of the Model Context Protocol in the older form: directly under `mcp`.

use abide_schema::JsonObject;
use abide_schema::config::{DiagnosticKind, Severity};
use serde_json::{Value, json};

use crate::config::report::{Report, join};

/// Converts the value of `mcp`.
pub(super) fn convert(mut mcp: JsonObject, report: &mut Report) -> JsonObject {
    let is_native = |key: &str, value: &Value| match key {
        "timeout" => !value.is_object() || value.get("type").is_none(),
        "servers" => value.get("type").is_none(),
        _ => false,
    };
    let mut out = JsonObject::new();
    let mut servers = JsonObject::new();
    let keys: Vec<String> = mcp.keys().cloned().collect();
    for key in keys {
        let Some(value) = mcp.shift_remove(&key) else { continue };
        if is_native(&key, &value) {
            out.insert(key, value);
            continue;
        }
        let old = join("/mcp", &key);
        let Value::Object(server) = value else {
            let message = format!("expected an object for the server {key:?}");
            report.add(Severity::Error, DiagnosticKind::Invalid, &old, message);
            continue;
        };
        report.moved(join("/mcp/servers", &key), old);
        servers.insert(key, Value::Object(server_of(server)));
    }
    if let Some(Value::Object(native)) = out.remove("servers") {
        servers.extend(native);
    }
    if !servers.is_empty() {
        out.insert("servers".to_owned(), Value::Object(servers));
    }
    out
}

fn server_of(mut server: JsonObject) -> JsonObject {
    if let Some(Value::Bool(is_enabled)) = server.remove("enabled") {
        server.entry("disabled").or_insert(json!(!is_enabled));
    }
    if let Some(timeout) = server.get("timeout").and_then(Value::as_u64) {
        server.insert("timeout".to_owned(), json!({ "catalog": timeout, "execution": timeout }));
    }
    if let Some(Value::Object(oauth)) = server.get_mut("oauth") {
        for (from, to) in [
            ("clientId", "client_id"),
            ("clientSecret", "client_secret"),
            ("callbackPort", "callback_port"),
            ("redirectUri", "redirect_uri"),
        ] {
            if let Some(value) = oauth.remove(from) {
                oauth.insert(to.to_owned(), value);
            }
        }
    }
    server
}
