//! The Chat protocol, and answers written in the test.

use std::sync::Arc;

use abide_ai::schema::messages::{Content, Part, ReasoningPart, ToolCallPart, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::Compatibility;
use abide_ai::schema::provider_metadata;
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, sse_events};
use abide_ai::testing::test_client;
use abide_ai::{LLMEvent, LLMRequest, Message, ModelEntry, RequestInput, StreamOptions, ToolDefinition};
use serde_json::{Value, json};

use crate::support::{ask, model, run};

fn entry(value: &Value) -> ModelEntry {
    serde_json::from_value(value.clone()).unwrap()
}

fn body(entry: &ModelEntry, messages: Vec<Message>) -> Value {
    let tool = Arc::new(ToolDefinition::make("t", "d", json!({ "type": "object" })));
    let generation = serde_json::from_value(json!({ "maxTokens": 9 })).unwrap();
    let messages = messages.into_iter().map(Arc::new).collect();
    let input = RequestInput { messages, tools: vec![tool], generation, ..RequestInput::default() };
    let request = LLMRequest::make(entry.resolve().unwrap(), input);
    test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request).unwrap().body
}

fn reasoned(key: &str, metadata: &[(&str, Value)], text: &str) -> Message {
    let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let reasoning = ReasoningPart {
        text: text.to_owned(),
        provider_metadata: provider_metadata(key, metadata),
        ..ReasoningPart::default()
    };
    Message::assistant(Content(vec![Part::Reasoning(reasoning), Part::text("answer")]))
}

#[test]
fn s83_openrouter_sends_reasoning_only_with_details() {
    let openrouter = entry(&json!({
        "package": "openrouter", "provider": "openrouter", "model": "deepseek/deepseek-r1", "settings": { "apiKey": "k" },
    }));
    let details = json!([{ "type": "reasoning.text", "text": "because", "signature": "s", "index": 0 }]);
    let history = |metadata: &[(&str, Value)]| {
        vec![Message::user("q"), reasoned("openrouter", metadata, "because"), Message::user("next")]
    };
    let sent = body(&openrouter, history(&[("reasoningDetails", details.clone())]));
    assert_eq!(sent["messages"][1]["reasoning_details"], details, "unmodified");
    assert_eq!(sent["messages"][1]["reasoning"], "because");
    let sent = body(&openrouter, history(&[("reasoningField", json!("reasoning"))]));
    let assistant = sent["messages"][1].as_object().unwrap();
    assert_eq!(assistant.keys().collect::<Vec<_>>(), ["role", "content"], "{sent}");
}

/// By the name of the provider, or by its host under any name.
#[test]
fn s84_what_is_detected() {
    #[track_caller]
    fn check(provider: &str, base_url: &str, model: &str, wanted: [bool; 4]) {
        let settings = json!({ "baseURL": base_url, "apiKey": "k" });
        let entry =
            entry(&json!({ "package": "openai/chat", "provider": provider, "model": model, "settings": settings }));
        let sent = body(&entry, vec![Message::user("q")]);
        let found = [
            sent.get("max_tokens").is_some(),
            sent.get("store").is_some(),
            sent["tools"][0]["function"].get("strict").is_some(),
            sent.get("tool_stream").is_some(),
        ];
        assert_eq!(found, wanted, "{provider} {base_url} {model}: max_tokens, store, strict, tool_stream");
    }
    let own = "http://a.test/v1";
    check("openai", "https://api.openai.com/v1", "gpt-5", [false, true, true, false]);
    check("somebody", own, "m", [false, true, true, false]);
    for (provider, host) in
        [("deepseek", "api.deepseek.com"), ("cerebras", "api.cerebras.ai"), ("chutes", "llm.chutes.ai")]
    {
        check(provider, own, "m", [true, false, true, false]);
        check("proxy", &format!("https://{host}/v1"), "m", [true, false, true, false]);
    }
    for (provider, host) in
        [("moonshotai", "api.moonshot.ai"), ("togetherai", "api.together.xyz"), ("nvidia", "integrate.api.nvidia.com")]
    {
        check(provider, own, "m", [true, false, false, false]);
        check("proxy", &format!("https://{host}/v1"), "m", [true, false, false, false]);
    }
    check("cloudflare-ai-gateway", own, "m", [true, false, false, false]);
    check("cloudflare-workers-ai", own, "m", [true, false, true, false]);
    for provider in ["xai", "vercel-ai-gateway", "ant-ling", "opencode", "moonshotai-cn"] {
        check(provider, own, "m", [false, false, true, false]);
    }
    check("proxy", "https://api.x.ai/v1", "m", [false, false, true, false]);
    for provider in ["zai", "zai-coding-plan", "zhipuai", "zhipuai-coding-plan"] {
        check(provider, own, "glm-4.7", [true, false, true, true]);
    }
    check("proxy", "https://api.z.ai/v4", "glm-4.7", [true, false, true, true]);
    check("proxy", "https://open.bigmodel.cn/v4", "glm-4.7", [true, false, true, true]);
    for old in ["glm-4.5", "glm-4.5-air", "glm-4.5-flash", "glm-4.5v"] {
        check("zai", own, old, [true, false, true, false]);
    }
    // What the caller knows wins over what is detected.
    let entry = entry(&json!({
        "package": "openai/chat", "provider": "zai", "model": "glm-4.7", "settings": { "apiKey": "k", "baseURL": own },
        "compatibility": { "maxTokensField": "max_completion_tokens", "supportsStore": true, "supportsStrictMode": false,
            "zaiToolStream": false, "supportsUsageInStreaming": false },
    }));
    let sent = body(&entry, vec![Message::user("q")]);
    assert_eq!((&sent["max_completion_tokens"], &sent["store"]), (&json!(9), &json!(false)));
    assert!(sent["tools"][0]["function"].get("strict").is_none() && sent.get("tool_stream").is_none());
    assert!(sent.get("stream_options").is_none());
}

#[test]
fn s86_an_assistant_turn_between_tool_and_user() {
    let roles = |model: &str, compatibility: Value| {
        let entry = entry(&json!({
            "package": "openai-compatible", "provider": "p", "model": model, "settings": { "baseURL": "http://a.test/v1" },
            "compatibility": compatibility,
        }));
        let call = ToolCallPart::make("c1", "t", json!({}));
        let result = ToolResultPart::make("c1", "t", ToolResultValue::text("done"));
        let history = vec![
            Message::user("q"),
            Message::assistant(Part::ToolCall(call)),
            Message::tool(result),
            Message::user("and?"),
        ];
        let sent = body(&entry, history);
        let roles =
            sent["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap().to_owned());
        roles.collect::<Vec<_>>().join(" ")
    };
    for model in ["mistral-large", "codestral-2508", "mistralai/devstral-small"] {
        assert_eq!(roles(model, json!({})), "user assistant tool assistant user", "{model}");
    }
    assert_eq!(roles("gpt-5", json!({})), "user assistant tool user");
    assert_eq!(roles("gpt-5", json!({ "requireAssistantAfterTool": true })), "user assistant tool assistant user");
    assert_eq!(roles("mistral-large", json!({ "requireAssistantAfterTool": false })), "user assistant tool user");
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn events(chunks: Vec<Value>) -> (Vec<LLMEvent>, Option<abide_ai::AIError>) {
    run(&ask(model("openai-chat", "m", Compatibility::default())), ScriptedBody::bytes(sse_events(chunks)))
}

fn calls(events: &[LLMEvent]) -> Vec<(&str, &str, &Value)> {
    let calls = events.iter().filter_map(LLMEvent::as_tool_call);
    calls.map(|call| (call.id.as_str(), call.name.as_str(), &call.input)).collect()
}

#[test]
fn s89_identity_may_come_late() {
    let call = |value: Value| chunk(&json!({ "tool_calls": [value] }), None);
    let end = || chunk(&json!({}), Some("tool_calls"));
    for late in [
        // arguments, then the id, then the name
        vec![
            call(json!({ "index": 0, "function": { "arguments": "{\"a\"" } })),
            call(json!({ "index": 0, "id": "c1", "function": { "arguments": ":1" } })),
            call(json!({ "index": 0, "function": { "name": "t", "arguments": "}" } })),
        ],
        // the name, then the id with the rest
        vec![
            call(json!({ "index": 0, "function": { "name": "t", "arguments": "" } })),
            call(json!({ "index": 0, "id": "c1", "function": { "arguments": "{\"a\":1}" } })),
        ],
    ] {
        let (events, error) = events(late.into_iter().chain([end()]).collect());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(calls(&events), [("c1", "t", &json!({ "a": 1 }))]);
    }
    // A call that never gets a name cannot be run.
    let (_, error) = events(vec![call(json!({ "index": 0, "id": "c1", "function": { "arguments": "{}" } })), end()]);
    assert!(error.is_some());
}

#[test]
fn s92_after_the_finish_only_usage_counts() {
    let usage = |input: u64| json!({ "choices": [], "usage": { "prompt_tokens": input, "completion_tokens": 1 } });
    let said = || chunk(&json!({ "content": "hi" }), None);
    let end = || chunk(&json!({ "content": "" }), Some("stop"));
    let mut again = end();
    again["usage"] = json!({ "prompt_tokens": 0, "completion_tokens": 0 });
    let (found, error) = events(vec![said(), end(), usage(7), again]);
    assert!(error.is_none(), "{error:?}");
    let finish = found.last().and_then(LLMEvent::as_finish).unwrap();
    assert_eq!(finish.usage.as_ref().and_then(|usage| usage.input_tokens), Some(7), "zeros erase nothing");
    for late in [
        json!({ "content": "more" }),
        json!({ "reasoning_content": "more" }),
        json!({ "refusal": "no" }),
        json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "t", "arguments": "{}" } }] }),
    ] {
        let (_, error) = events(vec![said(), end(), chunk(&late, None)]);
        let error = error.unwrap_or_else(|| panic!("{late}"));
        assert_eq!(error.message(), "OpenAI Chat received content after the finish reason", "{late}");
    }
}

#[test]
fn s94_without_a_reason_no_call_is_finished() {
    let call = json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "t", "arguments": "{}" } }] });
    let (found, error) = events(vec![chunk(&call, None)]);
    assert!(calls(&found).is_empty());
    let error = error.expect("incomplete");
    assert!(error.is_incomplete_stream());
    assert_eq!(error.message(), "OpenAI Chat stream ended without finish_reason");
}

#[tokio::test]
async fn s144_scripted_answers_repeat_the_last() {
    let text = |text: &str| sse_events([chunk(&json!({ "content": text }), Some("stop"))]);
    let request = ask(model("openai-chat", "m", Compatibility::default()));
    let client = test_client(ScriptedExecutor::scripted([text("one"), text("two")]));
    for wanted in ["one", "two", "two"] {
        assert_eq!(client.generate(&request, StreamOptions::default()).await.unwrap().text(), wanted);
    }
    let none = test_client(ScriptedExecutor::scripted([""; 0]));
    assert!(none.generate(&request, StreamOptions::default()).await.is_err(), "an empty list answers nothing");
}
