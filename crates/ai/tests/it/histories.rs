//! Any history can be sent again: random histories, as crashes, interruptions and model switches leave
//! them, lower to bodies the providers take, or are refused by name.

use std::sync::Arc;

use abide_ai::schema::messages::{
    Content, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolContent, ToolResultPart, ToolResultValue,
};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::options::CacheHint;
use abide_ai::schema::provider_metadata;
use abide_ai::testing::scripted::ScriptedExecutor;
use abide_ai::testing::test_client;
use abide_ai::{AIErrorKind, LLMRequest, Message, RequestInput, ToolDefinition};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::model;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), Just("hello".to_owned()), ".{1,12}"]
}

/// Metadata of this provider or another, with values that were valid somewhere.
fn metadata(key: &'static str) -> impl Strategy<Value = Option<abide_ai::schema::ProviderMetadata>> {
    let name = prop_oneof![
        Just("signature"),
        Just("redactedData"),
        Just("itemId"),
        Just("phase"),
        Just("reasoningEncryptedContent"),
        Just("thoughtSignature"),
        Just("functionCallId")
    ];
    let value = prop_oneof![Just(json!("x_1")), Just(json!("")), Just(Value::Null), Just(json!("i_".repeat(50)))];
    prop::option::of((prop_oneof![Just(key), Just("other")], prop::collection::vec((name, value), 0..3))).prop_map(
        |metadata| {
            let (key, values) = metadata?;
            provider_metadata(key, values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        },
    )
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", "functions\\.[a-c]:0", "[a-b]{80}"]
}

fn input() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), Just(json!({ "b": 1, "a": [] })), Just(json!("text")), Just(json!([1]))]
}

fn result() -> impl Strategy<Value = ToolResultValue> {
    prop_oneof![
        text().prop_map(ToolResultValue::text),
        text().prop_map(ToolResultValue::error),
        input().prop_map(ToolResultValue::Json),
        prop::collection::vec(text().prop_map(ToolContent::text), 0..3).prop_map(ToolResultValue::Content),
    ]
}

fn cache() -> impl Strategy<Value = Option<CacheHint>> {
    prop::option::weighted(0.3, Just(CacheHint::ephemeral(None)))
}

fn assistant_part(key: &'static str) -> impl Strategy<Value = Part> {
    prop_oneof![
        (text(), metadata(key), cache()).prop_map(|(text, provider_metadata, cache)| {
            Part::Text(TextPart { provider_metadata, cache, ..TextPart::make(text) })
        }),
        (text(), metadata(key)).prop_map(|(text, provider_metadata)| {
            Part::Reasoning(ReasoningPart { text, provider_metadata, ..ReasoningPart::default() })
        }),
        (id(), input(), metadata(key), any::<bool>()).prop_map(|(id, input, provider_metadata, is_hosted)| {
            let provider_executed = is_hosted.then_some(true);
            Part::ToolCall(ToolCallPart {
                provider_metadata,
                provider_executed,
                ..ToolCallPart::make(id, "web_search", input)
            })
        }),
        (id(), result(), metadata(key)).prop_map(|(id, result, provider_metadata)| {
            Part::ToolResult(ToolResultPart {
                provider_metadata,
                provider_executed: Some(true),
                ..ToolResultPart::make(id, "web_search", result)
            })
        }),
    ]
}

fn message(key: &'static str) -> impl Strategy<Value = Message> {
    prop_oneof![
        prop::collection::vec(text().prop_map(Part::text), 0..3).prop_map(|parts| Message::user(Content(parts))),
        prop::collection::vec(assistant_part(key), 0..5).prop_map(|parts| Message::assistant(Content(parts))),
        prop::collection::vec((id(), result()), 0..3).prop_map(|results| {
            let part = |(id, result)| Part::ToolResult(ToolResultPart::make(id, "web_search", result));
            Message::new(Role::Tool, results.into_iter().map(part).collect::<Vec<_>>())
        }),
        text().prop_map(Message::system),
    ]
}

/// The body of a history, unless it is refused.
fn body(protocol: &str, model_id: &str, messages: Vec<Message>) -> Option<Value> {
    body_with(protocol, model_id, messages, Vec::new())
}

/// The body of a history with these tools, unless it is refused.
fn body_with(protocol: &str, model_id: &str, messages: Vec<Message>, tools: Vec<Arc<ToolDefinition>>) -> Option<Value> {
    let messages = messages.into_iter().map(Arc::new).collect();
    let input = RequestInput { messages, tools, ..RequestInput::default() };
    let request = LLMRequest::make(model(protocol, model_id, Compatibility::default()), input);
    match test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request) {
        Ok(prepared) => Some(prepared.body),
        Err(error) => {
            assert!(matches!(error.kind(), AIErrorKind::InvalidRequest { .. }), "{error:?}");
            assert!(!error.message().is_empty());
            None
        }
    }
}

fn check_texts(value: &Value) {
    // What a hosted tool gave goes back as it came.
    if value.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("_tool_result")) {
        return;
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        match (name.as_str(), value.as_str()) {
            ("text", Some(text)) => assert!(!text.trim().is_empty(), "blank text"),
            ("content", _) => assert!(value != &json!([]), "empty content"),
            _ => {}
        }
        if name != "input" {
            check_texts(value);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        check_texts(item);
    }
}

fn n_marks(value: &Value) -> usize {
    let below: usize = match value {
        Value::Object(object) => object.values().map(n_marks).sum(),
        Value::Array(list) => list.iter().map(n_marks).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    below + usize::from(value.get("cache_control").is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anthropic_messages(messages in prop::collection::vec(message("anthropic"), 0..8), is_new in any::<bool>()) {
        let id = if is_new { "claude-opus-4-8" } else { "claude-sonnet-4-5" };
        let Some(body) = body("anthropic-messages", id, messages) else { return Ok(()) };
        check_texts(&body);
        prop_assert!(n_marks(&body) <= 4);
        for message in body["messages"].as_array().unwrap() {
            let content = message["content"].as_array().unwrap();
            let last = content.last().expect("no message is empty")["type"].as_str().unwrap();
            prop_assert!(message["role"] != "assistant" || !last.ends_with("thinking"), "ends in thinking");
            for block in content {
                for id in ["id", "tool_use_id"].iter().filter_map(|name| block.get(*name)?.as_str()) {
                    prop_assert!(id.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char)), "{id}");
                }
                if block["type"] == "tool_use" {
                    prop_assert!(block["input"].is_object());
                }
            }
        }
    }

    #[test]
    fn openai_responses(messages in prop::collection::vec(message("openai"), 0..8)) {
        let Some(body) = body("openai-responses", "gpt-5.5", messages) else { return Ok(()) };
        check_texts(&body);
        let items = body["input"].as_array().unwrap();
        for (index, item) in items.iter().enumerate() {
            for id in ["id", "call_id"].iter().filter_map(|name| item.get(*name)?.as_str()) {
                prop_assert!(id.len() <= 64, "{id}");
            }
            if item["type"] == "reasoning" {
                prop_assert!(item["encrypted_content"].is_string(), "nothing to look up");
                let next = items.get(index + 1).unwrap_or(&Value::Null);
                let is_own = next["role"] == "assistant"
                    || ["reasoning", "function_call", "web_search_call"].iter().any(|kind| next["type"] == *kind);
                prop_assert!(is_own, "reasoning without what follows it: {next}");
            }
        }
    }

    #[test]
    fn gemini(messages in prop::collection::vec(message("google"), 0..8), is_new in any::<bool>()) {
        let id = if is_new { "gemini-3-pro" } else { "gemini-2.5-pro" };
        let Some(body) = body("gemini", id, messages) else { return Ok(()) };
        for turn in body["contents"].as_array().unwrap() {
            let parts = turn["parts"].as_array().unwrap();
            prop_assert!(!parts.is_empty(), "an empty turn");
            let n_results = parts.iter().filter(|part| part.get("functionResponse").is_some()).count();
            prop_assert!(n_results == 0 || n_results == parts.len(), "results stand alone: {turn}");
            let mut is_signed = false;
            for part in parts {
                let has_signature = part["thoughtSignature"].as_str().is_some_and(|signature| !signature.is_empty());
                if let Some(text) = part["text"].as_str() {
                    prop_assert!(!text.trim().is_empty() || has_signature, "blank text");
                }
                if let Some(call) = part.get("functionCall") {
                    prop_assert!(call["args"].is_object());
                    is_signed |= has_signature;
                    prop_assert!(is_signed || !is_new, "an unsigned call: {turn}");
                }
            }
        }
    }

    #[test]
    fn bedrock_converse(
        messages in prop::collection::vec(message("bedrock"), 0..8),
        is_claude in any::<bool>(),
        has_tools in any::<bool>(),
    ) {
        let id = if is_claude { "us.anthropic.claude-sonnet-4-5-20250929-v1:0" } else { "us.amazon.nova-pro-v1:0" };
        let tool = Arc::new(ToolDefinition::make("web_search", "Searches.", json!({ "type": "object" })));
        let tools = if has_tools { vec![tool] } else { Vec::new() };
        let Some(body) = body_with("bedrock-converse", id, messages, tools) else { return Ok(()) };
        let mut n_points = body["toolConfig"]["tools"].as_array().into_iter().flatten().filter(|tool| tool.get("cachePoint").is_some()).count();
        let mut before = "";
        for message in body["messages"].as_array().unwrap() {
            let role = message["role"].as_str().unwrap();
            prop_assert_ne!(role, std::mem::replace(&mut before, role), "user and assistant alternate");
            let content = message["content"].as_array().unwrap();
            let last = content.last().expect("no message is empty");
            prop_assert!(role == "user" || last.get("reasoningContent").is_none(), "ends in thinking");
            for block in content {
                n_points += usize::from(block.get("cachePoint").is_some());
                let is_call = block.get("toolUse").is_some() || block.get("toolResult").is_some();
                prop_assert!(has_tools || !is_call, "a call without tools: {block}");
                for id in ["toolUse", "toolResult"].iter().filter_map(|name| block.get(*name)?["toolUseId"].as_str()) {
                    let is_fit = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
                    prop_assert!((1..=64).contains(&id.len()) && id.chars().all(is_fit), "{id}");
                }
                if let Some(call) = block.get("toolUse") {
                    prop_assert!(call["input"].is_object());
                }
                for inner in block["toolResult"]["content"].as_array().into_iter().flatten().chain([block]) {
                    prop_assert!(inner["text"].as_str().is_none_or(|text| !text.trim().is_empty()), "blank text");
                    prop_assert!(inner.get("json").is_none_or(Value::is_object), "a bare value: {inner}");
                }
            }
        }
        prop_assert!(n_points <= 4);
    }
}
