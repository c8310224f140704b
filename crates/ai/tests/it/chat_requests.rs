//! Bodies of the Chat protocol: a canonical request goes in, the body on the wire, or a refusal, comes
//! out.
//!
//! A fixture is a JSON file: `what` is shown, the package `entry` of the model, the canonical `request`,
//! and the `body` or the message of the `error`. Every body is also held against the rules all servers
//! share. `UPDATE=1` writes what comes out into the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use abide_ai::testing::scripted::ScriptedExecutor;
use abide_ai::testing::test_client;
use abide_ai::{LLMRequest, ModelEntry, RequestInput};
use serde_json::Value;

use crate::support::{files, fixtures, is_update};

#[test]
fn bodies() {
    for path in files(&fixtures("chat-requests"), "json") {
        check(&path);
    }
}

fn check(path: &Path) {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut fixture: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let entry: ModelEntry = serde_json::from_value(fixture["entry"].clone()).unwrap();
    let input: RequestInput = serde_json::from_value(fixture["request"].clone()).unwrap();
    let request = LLMRequest::make(entry.resolve().unwrap(), input);
    let prepared = test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request);
    let (key, found) = match prepared {
        Ok(prepared) => {
            check_rules(&name, &prepared.body);
            ("body", prepared.body)
        }
        Err(error) => ("error", error.message().into()),
    };
    if is_update() {
        let object = fixture.as_object_mut().unwrap();
        object.shift_remove("body");
        object.shift_remove("error");
        object.insert(key.to_owned(), found);
        fs::write(path, serde_json::to_string_pretty(&fixture).unwrap() + "\n").unwrap();
        return;
    }
    // Text, so that key order and the form of numbers count as well.
    assert_eq!(found.to_string(), fixture.get(key).unwrap_or(&Value::Null).to_string(), "{name}");
}

/// What no server may refuse: one system message at most, and the first; no message without content; every
/// result directly after its calls, each id once.
pub(crate) fn check_rules(name: &str, body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        assert!(role != "system" || index == 0, "{name}: a system message in the middle");
        let is_blank = match &message["content"] {
            Value::String(text) => text.trim().is_empty(),
            Value::Array(parts) => parts.is_empty(),
            Value::Null => true,
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => panic!("{name}: {message}"),
        };
        let has_calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        let has_files =
            messages.get(index + 1).is_some_and(|next| next["role"] == "user" && next["content"].is_array());
        assert!(!is_blank || has_calls || (role == "tool" && has_files), "{name}: an empty message {message}");
        if role == "tool" {
            assert!(open.remove(message["tool_call_id"].as_str().unwrap()), "{name}: a result without its call");
        } else {
            assert!(open.is_empty(), "{name}: calls without results {open:?}");
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            assert!(open.insert(call["id"].as_str().unwrap()), "{name}: two calls of one id");
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(
                serde_json::from_str::<Value>(arguments).is_ok_and(|input| input.is_object()),
                "{name}: {arguments}"
            );
        }
    }
    assert!(open.is_empty(), "{name}: calls without results {open:?}");
}
