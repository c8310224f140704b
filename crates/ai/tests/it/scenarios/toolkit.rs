//! The shared toolkit, tool schemas and cache marks.

use std::sync::Arc;

use abide_ai::protocols::shared::{fit_thinking_budget, normalize_media, prompt_cache_key, wrap_system_update};
use abide_ai::protocols::utils::tool_schema::{Projection, project, strict};
use abide_ai::protocols::utils::tool_stream::{MAX_TOOL_INPUT_BYTES, PendingTool, ToolDelta, ToolStream};
use abide_ai::schema::messages::{MediaPart, Part, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::{Compatibility, ToolSchemaKind};
use abide_ai::schema::options::{CacheHint, CacheMarks, CachePolicy, MessageMarks};
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, sse_events, sse_named};
use abide_ai::testing::test_client;
use abide_ai::{AIErrorKind, LLMEvent, LLMRequest, Message, RequestInput, RequestPatch, SystemPart, ToolDefinition};
use serde_json::{Value, json};

use crate::support::{ask, model, run};

fn kinds(events: &[LLMEvent]) -> Vec<&'static str> {
    events.iter().map(LLMEvent::kind).collect()
}

#[test]
fn s65_arguments_need_a_start_and_the_final_text_wins() {
    let mut tools: ToolStream<u32> = ToolStream::new("r".into());
    let mut out = Vec::new();
    let error = tools.append_existing(&1, "{}", &mut out).unwrap_err();
    assert!(matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }) && out.is_empty());
    for (key, id) in [(2, "second"), (1, "first")] {
        let tool = PendingTool { id: id.into(), name: "t".to_owned(), ..PendingTool::default() };
        tools.start(key, tool);
    }
    tools.append_existing(&1, "{\"a\":1}", &mut out).unwrap();
    tools.append_existing(&2, "{\"half", &mut out).unwrap();
    tools.finish_with_input(&2, "{\"whole\":2}", &mut out).unwrap();
    tools.finish(&9, &mut out).unwrap();
    tools.finish_all(&mut out).unwrap();
    let calls: Vec<(&str, &Value)> =
        out.iter().filter_map(LLMEvent::as_tool_call).map(|call| (call.id.as_str(), &call.input)).collect();
    assert_eq!(calls, [("second", &json!({ "whole": 2 })), ("first", &json!({ "a": 1 }))]);
    assert!(tools.is_empty(), "finishing clears");
    let before = out.len();
    tools.finish_all(&mut out).unwrap();
    assert_eq!(out.len(), before);
    for (key, id) in [(5, "e"), (3, "c"), (4, "d")] {
        tools.start(key, PendingTool { id: id.into(), name: "t".to_owned(), ..PendingTool::default() });
    }
    let mut out = Vec::new();
    tools.finish_all(&mut out).unwrap();
    let ids: Vec<&str> = out.iter().filter_map(LLMEvent::as_tool_call).map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["c", "d", "e"], "in the order of the keys");
}

#[test]
fn s66_the_first_identity_stays() {
    let mut tools: ToolStream<u32> = ToolStream::new("r".into());
    let mut out = Vec::new();
    let delta = |id, name, text| ToolDelta { id, name, text };
    let error = tools.append_or_start(&0, delta(Some(""), Some("t"), "{"), "no identity", &mut out).unwrap_err();
    assert_eq!((error.message(), out.len()), ("no identity", 0));
    tools.append_or_start(&0, delta(Some("c1"), Some("t"), ""), "no identity", &mut out).unwrap();
    tools.append_or_start(&0, delta(Some(""), Some(""), "{}"), "no identity", &mut out).unwrap();
    tools.append_or_start(&0, delta(Some("other"), Some("u"), ""), "no identity", &mut out).unwrap();
    tools.finish_all(&mut out).unwrap();
    assert_eq!(kinds(&out), ["tool-input-start", "tool-input-delta", "tool-input-end", "tool-call"]);
    let call = out.last().and_then(LLMEvent::as_tool_call).unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str()), ("c1", "t"));
}

/// Arguments without end stop the stream instead of filling the memory.
#[test]
fn arguments_are_bounded() {
    let fill = "x".repeat(1024 * 1024);
    let n_deltas = MAX_TOOL_INPUT_BYTES / fill.len() + 1;
    let chat = |text: &str, id: Option<&str>| {
        let call = json!({ "index": 0, "id": id, "function": { "name": id.map(|_| "t"), "arguments": text } });
        json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] })
    };
    let chat: Vec<Value> =
        std::iter::once(chat("", Some("c1"))).chain((0..n_deltas).map(|_| chat(&fill, None))).collect();
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "c1", "name": "t" } });
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": fill } });
    let messages: Vec<Value> = std::iter::once(block).chain((0..n_deltas).map(|_| delta.clone())).collect();
    let item = json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "t" } });
    let delta = json!({ "type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": fill });
    let responses: Vec<Value> = std::iter::once(item).chain((0..n_deltas).map(|_| delta.clone())).collect();
    for (protocol, body) in [
        ("openai-chat", sse_events(chat)),
        ("anthropic-messages", sse_named(messages)),
        ("openai-responses", sse_named(responses)),
    ] {
        let (events, error) = run(&ask(model(protocol, "m", Compatibility::default())), ScriptedBody::bytes(body));
        let error = error.unwrap_or_else(|| panic!("{protocol}: {} events", events.len()));
        assert!(matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }), "{protocol}: {error:?}");
        assert!(error.message().contains(&MAX_TOOL_INPUT_BYTES.to_string()), "{protocol}: {error}");
    }
}

#[test]
fn s67_a_wrapped_update_cannot_close_its_wrapper() {
    let text = "a & b < c > d</system-update>\nroot";
    let wanted = "<system-update>\na &amp; b &lt; c &gt; d&lt;/system-update&gt;\nroot\n</system-update>";
    assert_eq!(wrap_system_update(text), wanted);
}

#[test]
fn s68_media_is_checked() {
    let check = |mime: &str, data: &str| {
        normalize_media("Test", &MediaPart::make(mime, data)).map(|media| media.url()).map_err(|error| {
            assert!(matches!(error.kind(), AIErrorKind::InvalidRequest { .. }));
            error.message().to_owned()
        })
    };
    assert_eq!(check("IMAGE/PNG", "aGk="), Ok("data:image/png;base64,aGk=".to_owned()));
    assert_eq!(check("image/jpg", "data:image/jpeg;base64,aGk="), Ok("data:image/jpeg;base64,aGk=".to_owned()));
    assert_eq!(check("image/png", "https://a.test/x.png"), Ok("https://a.test/x.png".to_owned()));
    for (mime, data) in [
        ("image/png", "data:image/gif;base64,aGk="),
        ("image/png", "aGk"),
        ("image/png", "a Gk="),
        ("image/png", "!!!!"),
        ("image/png", ""),
        ("image/svg+xml", "aGk="),
    ] {
        let message = check(mime, data).unwrap_err();
        assert!(message.starts_with("Test ") && message.contains(mime), "{mime} {data:?}: {message}");
    }
    let large = "A".repeat(29 * 1024 * 1024);
    assert!(check("image/png", &large).unwrap_err().contains("exceeds"));
}

#[test]
fn s69_the_cache_key_is_short_and_can_be_switched_off() {
    let request = |key: &str, cache| {
        ask(model("openai-responses", "m", Compatibility::default())).update(RequestPatch {
            prompt_cache_key: Some(Some(key.to_owned())),
            cache: Some(cache),
            ..RequestPatch::default()
        })
    };
    let long = "é".repeat(70);
    let key = prompt_cache_key(&request(&long, CachePolicy::Auto)).unwrap();
    assert_eq!((key.chars().count(), key.as_str()), (64, "é".repeat(64).as_str()));
    assert_eq!(prompt_cache_key(&request("k", CachePolicy::None)), None);
    assert_eq!(prompt_cache_key(&request("", CachePolicy::Auto)), None);
}

#[test]
fn s70_thinking_leaves_room_for_the_answer() {
    #[track_caller]
    fn check(budget: i64, max: Option<u64>, wanted: i64) {
        assert_eq!(fit_thinking_budget(budget, max, 1024), wanted);
    }
    check(4000, Some(8000), 4000);
    check(8000, Some(8000), 4000);
    check(8000, Some(1000), 1024);
    check(8000, None, 8000);
    check(-1, Some(100), -1);
    check(0, Some(100), 0);
}

fn schema(value: &Value, kind: ToolSchemaKind) -> Value {
    match project(value.as_object().unwrap(), kind) {
        Projection::Same => value.clone(),
        Projection::Changed(schema) => Value::Object(schema),
        Projection::NoObject => Value::Null,
    }
}

#[test]
fn s71_an_explicit_sanitizer_wins_over_the_name_of_the_model() {
    let tuple =
        json!({ "type": "object", "properties": { "a": { "type": "array", "items": [{ "type": "string" }] } } });
    let sent = |id: &str, tool_schema| {
        let model = model("openai-chat", id, Compatibility { tool_schema, ..Compatibility::default() });
        let tool = Arc::new(ToolDefinition::make("t", "d", tuple.clone()));
        let request = ask(model).update(RequestPatch { tools: Some(vec![tool]), ..RequestPatch::default() });
        let body = test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request).unwrap().body;
        body["tools"][0]["function"]["parameters"]["properties"]["a"]["items"].clone()
    };
    let (changed, same) = (json!({ "type": "string" }), json!([{ "type": "string" }]));
    assert_eq!(sent("kimi-k2", None), changed);
    assert_eq!(sent("google/gemini-3", None), changed);
    assert_eq!(sent("gpt-5", None), same);
    assert_eq!(sent("gpt-5", Some(ToolSchemaKind::Moonshot)), changed);
    assert_eq!(sent("kimi-k2", Some(ToolSchemaKind::None)), same);
}

#[test]
fn s72_what_gemini_takes() {
    #[track_caller]
    fn check(property: &Value, wanted: &Value) {
        let root = json!({ "type": "object", "properties": { "p": property } });
        assert_eq!(schema(&root, ToolSchemaKind::Gemini)["properties"]["p"], *wanted);
    }
    check(&json!({ "type": "integer", "enum": [1, 2] }), &json!({ "type": "string", "enum": ["1", "2"] }));
    check(
        &json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a", "gone"] }),
        &json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
    );
    check(&json!({ "type": "array" }), &json!({ "type": "array", "items": { "type": "string" } }));
    check(
        &json!({ "type": "array", "items": { "description": "d" } }),
        &json!({ "type": "array", "items": { "description": "d", "type": "string" } }),
    );
    check(&json!({ "type": "string", "properties": {}, "required": [] }), &json!({ "type": "string" }));
    check(&json!({ "const": "c" }), &json!({ "enum": ["c"], "type": "string" }));
    check(&json!({ "type": ["string", "null"] }), &json!({ "nullable": true, "type": "string" }));
    check(
        &json!({ "type": ["string", "integer", "null"] }),
        &json!({ "nullable": true, "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
    );
    check(
        &json!({ "type": "string", "default": "x", "maxLength": 5, "minLength": 1, "$comment": "c", "additionalProperties": false }),
        &json!({ "type": "string", "minLength": 1 }),
    );
}

#[test]
fn s73_what_moonshot_takes() {
    #[track_caller]
    fn check(property: &Value, wanted: &Value) {
        let root = json!({ "type": "object", "properties": { "p": property } });
        assert_eq!(schema(&root, ToolSchemaKind::Moonshot)["properties"]["p"], *wanted);
    }
    let (a, b) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    check(&json!({ "type": "array", "items": [a, b] }), &json!({ "type": "array", "items": { "anyOf": [a, b] } }));
    check(&json!({ "type": "array", "items": [a] }), &json!({ "type": "array", "items": a }));
    check(&json!({ "type": "array", "items": [] }), &json!({ "type": "array", "items": {} }));
    check(
        &json!({ "type": "array", "prefixItems": [a, b] }),
        &json!({ "type": "array", "items": { "anyOf": [a, b] } }),
    );
    check(&json!({ "type": "array", "prefixItems": [a], "items": b }), &json!({ "type": "array", "items": b }));
    check(&json!({ "type": "array", "items": a, "unevaluatedItems": false }), &json!({ "type": "array", "items": a }));
    // References are written out before, so none is left that could have siblings.
    let root = json!({
        "type": "object", "properties": { "p": { "$ref": "#/$defs/T", "description": "d" } },
        "$defs": { "T": { "type": "array", "items": [a, b] } },
    });
    let sent = schema(&root, ToolSchemaKind::Moonshot);
    assert_eq!(sent["properties"]["p"]["items"], json!({ "anyOf": [a, b] }), "{sent}");
    assert!(!sent.to_string().contains("$ref"), "{sent}");
}

#[test]
fn what_openai_takes_strictly() {
    #[track_caller]
    fn check(input: &Value, wanted: &Value) {
        assert_eq!(json!(strict(input.as_object().unwrap())), *wanted);
    }
    check(
        &json!({ "anyOf": [
            { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
            { "type": "object", "properties": { "b": { "type": "integer" } } },
        ] }),
        &json!({
            "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "integer" } },
            "additionalProperties": false,
        }),
    );
    let property = |schema: Value| json!({ "type": "object", "properties": { "p": schema } });
    let (text, nothing) = (json!({ "type": "string" }), json!({ "type": "null" }));
    check(
        &property(json!({ "description": "d", "anyOf": [text, nothing] })),
        &property(json!({ "description": "d", "type": "string" })),
    );
    let two = json!({ "anyOf": [text, { "type": "integer" }] });
    check(&property(json!({ "anyOf": [text, { "type": "integer" }, nothing] })), &property(two));
    check(&property(text.clone()), &property(text));
}

/// A request with every place a mark can go to.
fn full(protocol: &str, cache: CachePolicy) -> LLMRequest {
    let tool = |name: &str| Arc::new(ToolDefinition::make(name, "d", json!({ "type": "object" })));
    let input = RequestInput {
        system: ["one", "two", "three"].map(SystemPart::make).to_vec(),
        messages: ["u1", "u2"]
            .into_iter()
            .flat_map(|text| [Message::user(text), Message::assistant(format!("re {text}"))])
            .chain([Message::user("last")])
            .map(Arc::new)
            .collect(),
        tools: vec![tool("a"), tool("b")],
        cache,
        prompt_cache_key: Some("k".to_owned()),
        ..RequestInput::default()
    };
    LLMRequest::make(model(protocol, "m", Compatibility::default()), input)
}

/// The places of marks in an Anthropic body.
fn places(request: &LLMRequest) -> Vec<String> {
    fn walk(at: &str, value: &Value, out: &mut Vec<String>) {
        if let Some(mark) = value.get("cache_control") {
            let ttl = mark["ttl"].as_str().map(|ttl| format!(" {ttl}")).unwrap_or_default();
            out.push(format!("{at}{ttl}"));
        }
        for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| *key != "cache_control") {
            walk(&format!("{at}/{key}"), value, out);
        }
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            walk(&format!("{at}/{index}"), value, out);
        }
    }
    let body = test_client(ScriptedExecutor::scripted([""; 0])).prepare(request).unwrap().body;
    let mut out = Vec::new();
    walk("", &body, &mut out);
    out.sort();
    out
}

#[test]
fn s74_marks_of_the_default() {
    let wanted = ["/messages/4/content/0", "/system/0", "/system/2", "/tools/1"];
    assert_eq!(places(&full("anthropic-messages", CachePolicy::Auto)), wanted);
}

#[test]
fn s75_routes_without_marks_are_left_alone() {
    for protocol in ["openai-chat", "openai-responses"] {
        let request = full(protocol, CachePolicy::Auto);
        assert!(abide_ai::cache_policy::apply(&request).is_same(&request));
        assert!(places(&request).is_empty(), "{protocol}");
    }
}

#[test]
fn s76_explicit_policies() {
    let marks = |marks: CacheMarks| places(&full("anthropic-messages", CachePolicy::Marks(marks)));
    assert!(places(&full("anthropic-messages", CachePolicy::None)).is_empty());
    assert_eq!(marks(CacheMarks { tools: true, ..CacheMarks::default() }), ["/tools/1"]);
    let messages = |which| marks(CacheMarks { messages: Some(which), ..CacheMarks::default() });
    assert_eq!(messages(MessageMarks::Tail(2)), ["/messages/3/content/0", "/messages/4/content/0"]);
    assert_eq!(messages(MessageMarks::LatestAssistant), ["/messages/3/content/0"]);
    assert_eq!(messages(MessageMarks::LatestUserMessage), ["/messages/4/content/0"]);
    // A mark of the caller stays, whatever the policy says.
    let mut tools = full("anthropic-messages", CachePolicy::None).tools.clone();
    Arc::make_mut(&mut tools[0]).cache = Some(CacheHint::ephemeral(None));
    let request = full("anthropic-messages", CachePolicy::None)
        .update(RequestPatch { tools: Some(tools), ..RequestPatch::default() });
    assert_eq!(places(&request), ["/tools/0"]);
}

#[test]
fn s77_an_hour_is_asked_for_from_an_hour_on() {
    let with = |ttl_seconds| {
        places(&full(
            "anthropic-messages",
            CachePolicy::Marks(CacheMarks { tools: true, ttl_seconds, ..CacheMarks::default() }),
        ))
    };
    assert_eq!(with(Some(3600)), ["/tools/1 1h"]);
    assert_eq!(with(Some(300)), ["/tools/1"]);
    assert_eq!(with(None), ["/tools/1"]);
}

#[test]
fn s78_four_marks_at_most_tools_first() {
    let hint = Some(CacheHint::ephemeral(None));
    let base = full("anthropic-messages", CachePolicy::None);
    let mut tools = base.tools.clone();
    for tool in &mut tools {
        Arc::make_mut(tool).cache = hint;
    }
    let mut system = base.system.clone();
    for part in &mut system {
        part.cache = hint;
    }
    let mut messages = base.messages.clone();
    for message in &mut messages {
        Arc::make_mut(message).content[0].set_cache(hint);
    }
    let request = base.update(RequestPatch {
        tools: Some(tools),
        system: Some(system),
        messages: Some(messages),
        ..RequestPatch::default()
    });
    assert_eq!(places(&request), ["/system/0", "/system/1", "/tools/0", "/tools/1"]);
    let auto = request.update(RequestPatch { cache: Some(CachePolicy::Auto), ..RequestPatch::default() });
    assert_eq!(places(&auto).len(), 4, "automatic marks fill what is left, which is nothing");
}

/// Twenty-one pictures, one of them wide: the wide one would make the provider refuse them all.
#[test]
fn a_wide_picture_in_a_crowd_is_left_out() {
    let png = |width: u32, height: u32| {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        MediaPart::from_bytes("image/png", &bytes)
    };
    let body = |n_small: usize, wide: u32, in_result: bool| {
        let small = (0..n_small).map(|_| Part::Media(png(10, 10)));
        let parts: Vec<Part> =
            if in_result { small.collect() } else { std::iter::once(Part::Media(png(wide, 5))).chain(small).collect() };
        let mut messages = vec![Message::user(abide_ai::schema::messages::Content(parts))];
        if in_result {
            let file = json!([{ "type": "file", "uri": png(wide, 5).data, "mime": "image/png" }]);
            let call = abide_ai::schema::messages::ToolCallPart::make("c", "t", json!({}));
            messages.push(Message::assistant(Part::ToolCall(call)));
            let value = ToolResultValue::make(json!({ "type": "content", "value": file }));
            messages.push(Message::tool(ToolResultPart::make("c", "t", value)));
        }
        let input = RequestInput { messages: messages.into_iter().map(Arc::new).collect(), ..RequestInput::default() };
        let request = LLMRequest::make(model("anthropic-messages", "m", Compatibility::default()), input);
        test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request).unwrap().body.to_string()
    };
    let note =
        |width: u32, limit: u32| format!("image left out: {width} x 5 pixels; no side may be longer than {limit}");
    for in_result in [false, true] {
        let crowded = body(20, 2001, in_result);
        assert!(crowded.contains(&note(2001, 2000)), "{crowded}");
        assert_eq!(crowded.matches("\"image\"").count(), 20);
        assert!(!body(20, 2000, in_result).contains("left out"));
        assert!(!body(19, 7999, in_result).contains("left out"), "twenty may be larger");
        assert!(body(1, 8001, in_result).contains(&note(8001, 8000)));
    }
}
