//! One-call dispatch, structured output, and the reducer.

use abide_ai::schema::JsonObject;
use abide_ai::schema::events::{FinishKind, ToolCall};
use abide_ai::schema::messages::{ToolContent, ToolOutput, ToolResultValue};
use abide_ai::schema::response::ResponseState;
use abide_ai::schema::usage::{subtract_tokens, sum_tokens, total_tokens};
use abide_ai::testing::scripted::{ScriptedExecutor, sse_events};
use abide_ai::testing::test_client;
use abide_ai::tool::{Tool, ToolFailure, Tools, to_definitions};
use abide_ai::tool_runtime::ToolRuntime;
use abide_ai::{LLMEvent, LLMResponse, Part, StreamOptions, ToolChoice, ToolDefinition, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{ask, model};

#[derive(Deserialize, JsonSchema)]
struct City {
    /// Which one.
    city: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Weather {
    degrees: i32,
}

fn tools() -> Tools {
    let weather = Tool::make("Tells the weather.", async |city: City, context: abide_ai::tool::ToolContext| match city
        .city
        .as_str()
    {
        "Paris" => Ok(Weather { degrees: 22 }),
        other => {
            Err(ToolFailure { error: Some(json!({ "id": context.id })), ..ToolFailure::new(format!("no {other}")) })
        }
    });
    let schema = JsonObject::new;
    [
        ("weather", weather.clone()),
        ("spoken", weather.with_model_output(|value| vec![ToolContent::text(format!("{} degrees", value["degrees"]))])),
        ("echo", Tool::dynamic("Says it back.", schema(), async |input, _| Ok(input))),
        ("text", Tool::dynamic("Says a word.", schema(), async |_, _| Ok(json!("word")))),
        ("remote", Tool::described("Runs elsewhere.", schema())),
    ]
    .map(|(name, tool)| (name.to_owned(), tool))
    .into()
}

#[tokio::test]
async fn dispatch() {
    let tools = tools();
    let check = async |name: &str, input: Value, wanted: Value, kinds: &[&str]| {
        let call = ToolCall {
            id: "c1".into(),
            name: name.to_owned(),
            input,
            provider_executed: None,
            provider_metadata: None,
        };
        let done = ToolRuntime::dispatch(&tools, &call).await;
        assert_eq!(json!(done.result), wanted, "{name}");
        assert_eq!(done.events.iter().map(LLMEvent::kind).collect::<Vec<_>>(), kinds, "{name}");
        assert_eq!(done.output.is_none(), done.result.is_error(), "{name}");
        done
    };
    let (fine, failed): (&[&str], &[&str]) = (&["tool-result"], &["tool-error", "tool-result"]);
    let paris = || json!({ "city": "Paris" });
    check("weather", paris(), json!({ "type": "json", "value": { "degrees": 22 } }), fine).await;
    let spoken = check("spoken", paris(), json!({ "type": "text", "value": "22 degrees" }), fine).await;
    assert_eq!(spoken.output.unwrap().structured, json!({ "degrees": 22 }));
    check("text", json!({}), json!({ "type": "text", "value": "word" }), fine).await;
    check("echo", json!({ "a": 1 }), json!({ "type": "json", "value": { "a": 1 } }), fine).await;
    let tagged = json!({ "type": "content", "value": [{ "type": "text", "text": "t" }] });
    check("echo", tagged.clone(), tagged, fine).await;
    let lost =
        check("weather", json!({ "city": "Atlantis" }), json!({ "type": "error", "value": "no Atlantis" }), failed);
    assert_eq!(lost.await.events[0].as_tool_error().unwrap().error, Some(json!({ "id": "c1" })));
    check("gone", json!({}), json!({ "type": "error", "value": "Unknown tool: gone" }), failed).await;
    let value = "Tool has no execute handler: remote";
    check("remote", json!({}), json!({ "type": "error", "value": value }), failed).await;
    let value = "Invalid tool input: missing field `city`";
    check("weather", json!({}), json!({ "type": "error", "value": value }), failed).await;
}

#[test]
fn definitions_keep_the_order_of_the_record() {
    let definitions = to_definitions(&tools());
    let names: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["weather", "spoken", "echo", "text", "remote"]);
    assert_eq!(definitions[0].input_schema["properties"]["city"]["description"], "Which one.");
    assert!(definitions[0].output_schema.is_some() && definitions[4].output_schema.is_none());
}

#[test]
fn output_and_result_mirror_each_other() {
    let text = ToolOutput { structured: json!(1), content: vec![ToolContent::text("a")] };
    assert_eq!(text.to_result(), ToolResultValue::text("a"));
    let two = ToolOutput { content: vec![ToolContent::text("a"), ToolContent::text("b")], ..text };
    assert_eq!(two.to_result(), ToolResultValue::Content(two.content));
    assert_eq!(ToolOutput::from_result(&ToolResultValue::error("no")), None);
    assert_eq!(ToolResultValue::make_as(json!("x"), "content"), ToolResultValue::Content(Vec::new()));
    assert_eq!(ToolResultValue::make(json!({ "type": "text", "value": "x" })), ToolResultValue::text("x"));
    assert_eq!(ToolResultValue::make(json!({ "type": "odd" })), ToolResultValue::Json(json!({ "type": "odd" })));
}

#[test]
fn tool_choices() {
    for (word, wanted) in [("auto", json!({ "type": "auto" })), ("read", json!({ "type": "tool", "name": "read" }))] {
        assert_eq!(json!(ToolChoice::make(word)), wanted);
    }
    assert_eq!(json!(ToolChoice::named("auto")), json!({ "type": "tool", "name": "auto" }));
    let tool = ToolDefinition::make("t", "d", Value::Null);
    assert_eq!(ToolChoice::from(&tool), ToolChoice::named("t"));
}

#[tokio::test]
async fn objects() {
    let check = async |arguments: &str, wanted: Result<Weather, &str>| {
        let call = json!({ "index": 0, "id": "c1", "function": { "name": "generate_object", "arguments": arguments } });
        let delta = if arguments.is_empty() { json!({ "content": "no" }) } else { json!({ "tool_calls": [call] }) };
        let body = sse_events([json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": "stop" }] })]);
        let executor = ScriptedExecutor::fixed(body);
        let request = ask(model("openai-chat", "m", abide_ai::schema::model::Compatibility::default()));
        let found = test_client(executor.clone()).generate_object::<Weather>(&request, StreamOptions::default()).await;
        let body = &executor.bodies()[0];
        assert_eq!(body["tool_choice"], json!({ "type": "function", "function": { "name": "generate_object" } }));
        assert!(body["tools"][0]["function"]["parameters"]["properties"]["degrees"].is_object());
        match (found, wanted) {
            (Ok(found), Ok(wanted)) => assert_eq!(found.object, wanted),
            (Err(error), Err(wanted)) => assert!(error.message().starts_with(wanted), "{error}"),
            (found, wanted) => panic!("{found:?}, expected {wanted:?}"),
        }
    };
    check("{\"degrees\":3}", Ok(Weather { degrees: 3 })).await;
    check("", Err("generateObject: model did not call the forced `generate_object` tool")).await;
    check("{\"degrees\":\"x\"}", Err("generateObject: tool input failed schema decode: invalid type")).await;
}

fn events(values: Value) -> Vec<LLMEvent> {
    serde_json::from_value(values).unwrap()
}

#[test]
fn interleaved_blocks_keep_their_order_and_last_metadata() {
    let response = LLMResponse::from_events(events(json!([
        { "type": "step-start", "index": 0 },
        { "type": "reasoning-start", "id": "r", "providerMetadata": { "p": { "a": 1 } } },
        { "type": "text-delta", "id": "t", "text": "one " },
        { "type": "reasoning-delta", "id": "r", "text": "hm" },
        { "type": "text-delta", "id": "t", "text": "two" },
        { "type": "tool-input-start", "id": "c", "name": "n" },
        { "type": "tool-input-delta", "id": "c", "name": "n", "text": "{}" },
        { "type": "tool-input-end", "id": "c", "name": "n" },
        { "type": "tool-call", "id": "c", "name": "n", "input": {} },
        { "type": "reasoning-end", "id": "r", "providerMetadata": { "p": { "b": 2 } } },
        { "type": "reasoning-start", "id": "late" },
        { "type": "reasoning-end", "id": "late", "text": "whole" },
        { "type": "step-finish", "index": 0, "reason": { "normalized": "stop" }, "usage": { "inputTokens": 3 } },
        { "type": "finish", "reason": { "normalized": "stop", "raw": "end" } },
    ])))
    .unwrap();
    let wanted = json!([
        { "type": "reasoning", "text": "hm", "providerMetadata": { "p": { "b": 2 } } },
        { "type": "text", "text": "one two" },
        { "type": "tool-call", "id": "c", "name": "n", "input": {} },
        { "type": "reasoning", "text": "whole" },
    ]);
    assert_eq!(json!(response.message.content), wanted);
    assert_eq!((response.text(), response.reasoning()), ("one two".to_owned(), "hmwhole".to_owned()));
    assert_eq!((response.finish_reason, response.raw_finish_reason.as_deref()), (FinishKind::Stop, Some("end")));
    assert_eq!(response.usage.unwrap().input_tokens, Some(3), "a finish without usage keeps the earlier one");
    assert_eq!(response.message.content.iter().filter(|part| matches!(part, Part::ToolCall(_))).count(), 1);
}

#[test]
fn without_an_end_there_is_no_response_but_partial_content() {
    let list = events(json!([
        { "type": "text-delta", "id": "t", "text": "par" },
        { "type": "text-end", "id": "t" },
    ]));
    let state = list.into_iter().fold(ResponseState::default(), LLMResponse::reduce);
    assert_eq!(LLMResponse::complete(&state), None);
    assert_eq!(state.content, [Part::text("par")]);
    assert!(serde_json::from_value::<LLMEvent>(json!({ "type": "unheard-of" })).is_err());
}

#[test]
fn token_arithmetic() {
    assert_eq!(subtract_tokens(Some(3), Some(5)), Some(0));
    assert_eq!((subtract_tokens(None, Some(5)), subtract_tokens(Some(3), None)), (None, Some(3)));
    assert_eq!((sum_tokens(&[None, None]), sum_tokens(&[None, Some(2)])), (None, Some(2)));
    assert_eq!((total_tokens(Some(1), None, None), total_tokens(Some(1), Some(2), Some(9))), (Some(1), Some(9)));
    let usage = Usage { output_tokens: Some(2), reasoning_tokens: Some(5), ..Usage::default() };
    assert_eq!(usage.visible_output_tokens(), Some(0));
}
