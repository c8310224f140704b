//! Request bodies: a canonical request goes in, the body on the wire, or a refusal, comes out.
//!
//! A fixture is a JSON file: `what` is shown, `model`, `compatibility` and `limits` of the model, the
//! canonical `request`, and the `body` or the message of the `error`. `UPDATE=1` writes what comes out
//! into the files.

use std::fs;
use std::path::Path;

use abide_ai::route::ModelSelection;
use abide_ai::schema::model::{Compatibility, Defaults};
use abide_ai::testing::scripted::ScriptedExecutor;
use abide_ai::testing::test_client;
use abide_ai::{AIErrorKind, LLMRequest, RequestInput};
use serde_json::{Value, json};

use crate::support::{files, fixtures, is_update, route};

#[test]
fn anthropic_messages() {
    check_all("anthropic-messages");
}

#[test]
fn gemini() {
    check_all("gemini");
}

#[test]
fn mistral_chat() {
    check_all("mistral-chat");
}

#[test]
fn open_responses() {
    check_all("open-responses");
}

#[test]
fn openai_responses() {
    check_all("openai-responses");
}

fn check_all(protocol: &str) {
    for path in files(&fixtures("requests").join(protocol), "json") {
        check(protocol, &path);
    }
}

fn check(protocol: &str, path: &Path) {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut fixture: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let part = |name: &str| fixture.get(name).cloned().unwrap_or_else(|| json!({}));
    let compatibility: Compatibility = serde_json::from_value(part("compatibility")).unwrap();
    let limits = fixture.get("limits").cloned().map(|limits| serde_json::from_value(limits).unwrap());
    let input: RequestInput = serde_json::from_value(part("request")).unwrap();
    let selection = ModelSelection {
        compatibility,
        defaults: Defaults { limits, ..Defaults::default() },
        ..ModelSelection::new(fixture["model"].as_str().unwrap())
    };
    let request = LLMRequest::make(route(protocol).model(selection).unwrap(), input);
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    let (key, found) = match client.prepare(&request) {
        Ok(prepared) => ("body", prepared.body),
        Err(error) => {
            assert!(matches!(error.kind(), AIErrorKind::InvalidRequest { .. }), "{protocol}/{name}: {error:?}");
            ("error", error.message().into())
        }
    };
    if is_update() {
        let object = fixture.as_object_mut().unwrap();
        object.shift_remove("body");
        object.shift_remove("error");
        object.insert(key.to_owned(), found);
        fs::write(path, serde_json::to_string_pretty(&fixture).unwrap() + "\n").unwrap();
        return;
    }
    let expected = fixture.get(key).unwrap_or(&Value::Null);
    // Text, so that key order and the form of numbers count as well.
    assert_eq!(found.to_string(), expected.to_string(), "{protocol}/{name}");
}
