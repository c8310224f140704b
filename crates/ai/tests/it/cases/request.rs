//! Histories as crashes, refusals and switches leave them: what the next request must look like.
//!
//! The history is stored in a neutral form and made canonical as a session does it: metadata goes only to the
//! model that made it, and a call that has no result gets an error as its result.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use abide_ai::schema::messages::{Content, Part, ReasoningPart, Role, ToolCallPart, ToolResultPart, ToolResultValue};
use abide_ai::schema::provider_metadata;
use abide_ai::testing::scripted::ScriptedExecutor;
use abide_ai::testing::test_client;
use abide_ai::{LLMRequest, Message, ModelEntry, RequestInput};
use serde_json::{Value, json};

use crate::chat_requests::check_rules;
use crate::support::{files, fixtures};

fn case(name: &str) -> Value {
    let path = fixtures("cases/request").join(name).with_extension("json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The canonical messages of a history for the model `target`.
fn raise(history: &Value, key: &str, target: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    for message in history.as_array().unwrap() {
        let parts = message["parts"].as_array();
        match message["role"].as_str().unwrap() {
            "system-update" => messages.push(Message::system(message["text"].as_str().unwrap())),
            "user" => {
                let texts = parts.unwrap().iter().map(|part| Part::text(part["text"].as_str().unwrap()));
                messages.push(Message::user(Content(texts.collect())));
            }
            _ => {
                let is_own = message["model"] == target;
                let (mut content, mut results) = (Vec::new(), Vec::new());
                for part in parts.unwrap() {
                    let text = part["text"].as_str().unwrap_or_default();
                    match part["type"].as_str().unwrap() {
                        "reasoning" if is_own => content.push(reasoning(part, &message["provider"], key)),
                        "text" | "reasoning" => content.push(Part::text(text)),
                        _ => {
                            let (id, name) = (part["id"].as_str().unwrap(), part["name"].as_str().unwrap());
                            content.push(Part::ToolCall(ToolCallPart::make(id, name, part["input"].clone())));
                            let value = match (part["output"].as_str(), part["error"].as_str()) {
                                (Some(output), _) => ToolResultValue::text(output),
                                (None, error) => ToolResultValue::error(error.unwrap_or("the call was interrupted")),
                            };
                            results.push(Part::ToolResult(ToolResultPart::make(id, name, value)));
                        }
                    }
                }
                messages.push(Message::assistant(Content(content)));
                if !results.is_empty() {
                    messages.push(Message::new(Role::Tool, results));
                }
            }
        }
    }
    messages
}

fn reasoning(part: &Value, provider: &Value, key: &str) -> Part {
    let mut metadata = abide_ai::schema::JsonObject::new();
    if !part["signature"].is_null() {
        metadata.insert("signature".to_owned(), part["signature"].clone());
    }
    if let Some(item) = provider["reasoning_item"].as_object() {
        metadata.insert("itemId".to_owned(), item["id"].clone());
        metadata.insert("reasoningEncryptedContent".to_owned(), item["encrypted_content"].clone());
    }
    Part::Reasoning(ReasoningPart {
        text: part["text"].as_str().unwrap().to_owned(),
        provider_metadata: provider_metadata(key, metadata),
        ..ReasoningPart::default()
    })
}

fn body(case: &Value, route: &str, target: &str) -> Value {
    let own = case["provider"].as_str();
    let (package, key) = match route {
        "anthropic-messages" => ("anthropic", "anthropic"),
        "openai-responses" => ("openai/responses", "openai"),
        _ => match own {
            Some(known @ ("moonshotai" | "deepseek" | "llama.cpp")) => (known, known),
            other => ("openai-compatible", other.unwrap_or("somebody")),
        },
    };
    let entry: ModelEntry = serde_json::from_value(json!({
        "package": package, "provider": own.unwrap_or(key), "model": target,
        "settings": { "baseURL": "http://a.test/v1", "apiKey": "k" },
    }))
    .unwrap();
    let messages = raise(&case["history"], key, target).into_iter().map(Arc::new).collect();
    let request = LLMRequest::make(entry.resolve().unwrap(), RequestInput { messages, ..RequestInput::default() });
    let client = test_client(ScriptedExecutor::scripted([""; 0]));
    let first = client.prepare(&request).unwrap().body;
    assert_eq!(client.prepare(&request).unwrap().body.to_string(), first.to_string(), "the same on every request");
    first
}

/// Every call is followed at once by its result, nothing is empty, and the user has the last word.
#[test]
fn whatever_was_stored_can_be_sent() {
    for path in files(&fixtures("cases/request"), "json") {
        let case = case(&path.file_stem().unwrap().to_string_lossy());
        for route in case["routes"].as_array().unwrap() {
            let what = format!("{} over {route}", case["what"]);
            let body = body(&case, route.as_str().unwrap(), case["model"].as_str().unwrap());
            match route.as_str().unwrap() {
                "anthropic-messages" => check_messages(&what, &body),
                "openai-responses" => check_responses(&what, &body),
                _ => {
                    check_rules(&what, &body);
                    assert_eq!(body["messages"].as_array().unwrap().last().unwrap()["role"], "user", "{what}");
                }
            }
        }
    }
}

fn check_messages(what: &str, body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    let ids = |message: &Value, kind: &str, name: &str| -> Vec<String> {
        let blocks = message["content"].as_array().unwrap().iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[name].as_str().unwrap().to_owned()).collect()
    };
    for (index, message) in messages.iter().enumerate() {
        let content = message["content"].as_array().unwrap();
        assert!(!content.is_empty(), "{what}: a message without content");
        for block in content {
            let is_blank = block["text"].as_str().is_some_and(|text| text.trim().is_empty()) || block["content"] == "";
            assert!(!is_blank, "{what}: {block}");
        }
        let calls = ids(message, "tool_use", "id");
        let empty = json!({ "content": [] });
        let answers = ids(messages.get(index + 1).unwrap_or(&empty), "tool_result", "tool_use_id");
        assert_eq!(calls, answers, "{what}: results in the order of the calls, in the next message");
        let is_first = index == 0;
        assert!(!is_first || ids(message, "tool_result", "tool_use_id").is_empty(), "{what}");
    }
    assert_eq!(messages.last().unwrap()["role"], "user", "{what}");
}

fn check_responses(what: &str, body: &Value) {
    let items = body["input"].as_array().unwrap();
    let ids = |kind: &str| -> Vec<&str> {
        items.iter().filter(|item| item["type"] == kind).map(|item| item["call_id"].as_str().unwrap()).collect()
    };
    let calls = ids("function_call");
    assert_eq!(calls, ids("function_call_output"), "{what}");
    assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len(), "{what}: each id once");
    for item in items {
        for id in ["id", "call_id"].iter().filter_map(|name| item.get(*name)?.as_str()) {
            assert!(id.len() <= 64, "{what}: {id}");
        }
    }
    assert_eq!(items.last().unwrap()["role"], "user", "{what}");
}

#[test]
fn an_interrupted_call_has_an_error_as_its_result() {
    let body = body(&case("call-that-was-running-when-the-user-interrupted"), "anthropic-messages", "alpha");
    let result = &body["messages"][2]["content"][0];
    assert_eq!((&result["is_error"], &result["tool_use_id"]), (&json!(true), &json!("t1")));
    assert!(result["content"].as_str().unwrap().contains("interrupted"), "{result}");
}

#[test]
fn half_arguments_are_not_sent() {
    let body = body(&case("process-killed-while-arguments-were-still-arriving"), "anthropic-messages", "alpha");
    assert_eq!(body["messages"][1]["content"][0]["input"], json!({}));
    assert!(!body.to_string().contains("a.txt"), "{body}");
}

#[test]
fn a_turn_of_reasoning_alone_is_left_out() {
    let body = body(&case("aborted-turn-that-holds-only-reasoning"), "openai-chat", "alpha");
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "user"]);
}

#[test]
fn blank_text_goes_and_the_call_stays() {
    let body = body(&case("assistant-text-of-white-space-only"), "anthropic-messages", "alpha");
    let kinds: Vec<&Value> =
        body["messages"][1]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["tool_use"]);
}

#[test]
fn a_silent_tool_says_so() {
    let body = body(&case("tool-result-without-output"), "anthropic-messages", "alpha");
    assert_eq!(body["messages"][2]["content"][0]["content"], "(no output)");
}

#[test]
fn parallel_results_stand_together() {
    let case = case("three-parallel-calls-one-denied-one-failed-one-fine");
    let body = body(&case, "anthropic-messages", "alpha");
    let results = body["messages"][2]["content"].as_array().unwrap();
    let found: Vec<(&Value, bool)> =
        results.iter().map(|block| (&block["tool_use_id"], block["is_error"] == true)).collect();
    assert_eq!(found, [(&json!("t1"), false), (&json!("t2"), true), (&json!("t3"), true)]);
}

#[test]
fn a_signature_goes_only_to_the_model_that_made_it() {
    let case = case("switching-the-model-in-the-middle");
    let other = body(&case, "anthropic-messages", "beta").to_string();
    assert!(!other.contains("c2ln") && !other.contains("\"thinking\""), "{other}");
    let own = body(&case, "anthropic-messages", "alpha");
    let wanted = json!({ "type": "thinking", "thinking": "mine", "signature": "c2ln" });
    assert_eq!(own["messages"][1]["content"][0], wanted);
}

#[test]
fn stateless_reasoning_carries_its_ciphertext() {
    let body = body(&case("stateless-responses-route"), "openai-responses", "alpha");
    let items = body["input"].as_array().unwrap();
    let at = items.iter().position(|item| item["type"] == "reasoning").expect("the reasoning item");
    assert_eq!((&body["store"], &items[at]["encrypted_content"]), (&json!(false), &json!("ZW5j")));
    assert_eq!(items[at + 1]["role"], "assistant", "what followed it follows it");
}

#[test]
fn long_ids_are_cut_alike_for_call_and_result() {
    let body = body(&case("call-id-of-83-characters"), "openai-responses", "alpha");
    let items = body["input"].as_array().unwrap();
    let ids: Vec<&str> = items.iter().filter_map(|item| item["call_id"].as_str()).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1] && ids[0].len() <= 64, "{ids:?}");
}

#[test]
fn nine_letters_or_digits() {
    let body = body(&case("route-that-takes-nine-letters-or-digits-only"), "openai-chat", "alpha");
    let calls = body["messages"][1]["tool_calls"].as_array().unwrap();
    let ids: BTreeSet<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "two ids stay two");
    assert!(ids.iter().all(|id| id.len() == 9 && id.chars().all(|letter| letter.is_ascii_alphanumeric())), "{ids:?}");
}

#[test]
fn ids_of_a_model_that_reads_them_are_not_touched() {
    let body = body(&case("ids-with-dots-and-colons"), "openai-chat", "alpha");
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], "functions.lookup:0");
    assert_eq!(body["messages"][2]["tool_call_id"], "functions.lookup:0");
}

#[test]
fn reasoning_goes_back_where_it_is_wanted() {
    let body = body(&case("thinking-mode-that-wants-its-reasoning-back"), "openai-chat", "alpha");
    let call = &body["messages"][1];
    assert_eq!(call["reasoning_content"], "let me look");
    assert!(call["content"].is_null() || call["content"] == "", "{call}");
    assert_eq!(body["messages"][3]["reasoning_content"], "now I know");
}

#[test]
fn a_strict_template_gets_turns_in_turn() {
    let body = body(&case("strict-chat-template"), "openai-chat", "alpha");
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[test]
fn an_update_cannot_close_its_wrapper() {
    let body = body(&case("system-update-that-tries-to-close-its-own-wrapper"), "openai-chat", "alpha");
    let text = body["messages"].to_string();
    assert_eq!(text.matches("</system-update>").count(), 1, "{text}");
    assert!(!text.contains("\"system\""), "{text}");
}

#[test]
fn a_later_request_begins_with_the_earlier_one() {
    let case = case("two-turns-of-one-session");
    let whole = body(&case, "openai-chat", "alpha")["messages"].to_string();
    let mut first = case;
    first["history"].as_array_mut().unwrap().truncate(1);
    let first = body(&first, "openai-chat", "alpha")["messages"].to_string();
    assert!(whole.starts_with(first.trim_end_matches(']')), "{first}\n{whole}");
}
