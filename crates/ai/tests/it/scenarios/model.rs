//! Schema, options and response.

use abide_ai::protocols::openai_responses;
use abide_ai::route::{ModelSelection, RoutePatch};
use abide_ai::schema::JsonObject;
use abide_ai::schema::messages::{Content, Part, Role, TextPart, ToolResultPart, ToolResultValue};
use abide_ai::schema::model::Defaults;
use abide_ai::schema::options::{GenerationOptions, HttpOptions, Timeout, merge_objects};
use abide_ai::schema::response::ResponseState;
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, sse_events};
use abide_ai::testing::test_client;
use abide_ai::{
    LLMEvent, LLMRequest, LLMResponse, Message, RequestInput, RequestPatch, StreamOptions, SystemPart, ToolChoice,
    ToolDefinition,
};
use serde_json::{Value, json};

use crate::support::{ask, model, route, run};

fn object(value: &Value) -> Option<JsonObject> {
    value.as_object().cloned()
}

fn body(request: &LLMRequest) -> Value {
    test_client(ScriptedExecutor::scripted([""; 0])).prepare(request).unwrap().body
}

#[test]
fn s1_a_minimal_request_decodes_and_an_unknown_event_does_not() {
    let input: RequestInput = serde_json::from_value(json!({
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi", "later": 1 }], "later": 2 }],
        "later": { "a": 1 },
    }))
    .unwrap();
    assert_eq!(input.messages[0].content, [Part::text("hi")]);
    assert_eq!(serde_json::from_value::<RequestInput>(json!({})).unwrap(), RequestInput::default());
    let known: LLMEvent = serde_json::from_value(json!({ "type": "step-start", "index": 0, "later": 1 })).unwrap();
    assert_eq!(known.kind(), "step-start");
    let error = serde_json::from_value::<LLMEvent>(json!({ "type": "step-leap", "index": 0 })).unwrap_err();
    assert!(error.to_string().contains("step-leap"), "{error}");
}

#[test]
fn s2_route_ids_and_model_ids_are_free() {
    let own = route("openai-chat").with(RoutePatch { id: Some("my own/route".into()), ..RoutePatch::default() });
    let model = own.model(ModelSelection::new("vendor/never-heard:of@it")).unwrap();
    assert_eq!((model.route.id().as_str(), model.id.as_str()), ("my own/route", "vendor/never-heard:of@it"));
    assert_eq!(body(&ask(model))["model"], "vendor/never-heard:of@it");
}

#[test]
fn s3_short_forms_build_the_same_structs() {
    let text = || Part::Text(TextPart::make("hi"));
    assert_eq!(Message::user("hi"), Message::new(Role::User, Content(vec![text()])));
    assert_eq!(Message::user("hi"), Message::user(text()));
    assert_eq!(Message::assistant("hi"), Message::assistant(Content(vec![text()])));
    assert_eq!(Message::system("hi"), Message::new(Role::System, text()));
    let result = || ToolResultPart::make("c1", "t", ToolResultValue::text("done"));
    assert_eq!(Message::tool(result()), Message::new(Role::Tool, Part::ToolResult(result())));
    let model = || model("openai-chat", "m", abide_ai::schema::model::Compatibility::default());
    let request = abide_ai::llm::request(
        model(),
        RequestInput {
            system: vec![SystemPart::make("be brief")],
            messages: vec![Message::user("first").into()],
            prompt: Some("then".to_owned()),
            ..RequestInput::default()
        },
    );
    let messages: Vec<Message> = request.messages.iter().map(|message| (**message).clone()).collect();
    assert_eq!(messages, [Message::user("first"), Message::user("then")], "the prompt comes last");
    assert_eq!(request.system, [SystemPart::make("be brief")]);
}

#[test]
fn s4_an_update_keeps_what_it_does_not_change() {
    let request = ask(model("openai-chat", "m", abide_ai::schema::model::Compatibility::default()))
        .update(RequestPatch { id: Some(Some("r1".to_owned())), ..RequestPatch::default() });
    assert!(request.update(RequestPatch::default()).is_same(&request));
    let changed =
        request.update(RequestPatch { prompt_cache_key: Some(Some("k".to_owned())), ..RequestPatch::default() });
    assert!(!changed.is_same(&request));
    assert_eq!(changed.prompt_cache_key.as_deref(), Some("k"));
    assert_eq!((&changed.id, &changed.messages), (&request.id, &request.messages));
    assert_eq!(request.prompt_cache_key, None);
}

#[test]
fn s6_generation_options_merge_by_field() {
    let options = |value: Value| serde_json::from_value::<GenerationOptions>(value).unwrap();
    let base = options(json!({ "maxTokens": 5, "temperature": 0.7, "stop": ["a", "b"], "seed": 1 }));
    let merged = base.merge(&options(json!({ "temperature": 0, "stop": ["c"] })));
    let wanted = json!({ "maxTokens": 5, "temperature": 0.0, "seed": 1, "stop": ["c"] });
    assert_eq!(merged, options(wanted));
    let chat = route("openai-chat").with(RoutePatch {
        defaults: Defaults { generation: Some(base), ..Defaults::default() },
        ..RoutePatch::default()
    });
    let request = ask(chat.model(ModelSelection::new("m")).unwrap()).update(RequestPatch {
        generation: Some(Some(options(json!({ "temperature": 0, "stop": ["c"] })))),
        ..RequestPatch::default()
    });
    let body = body(&request);
    assert_eq!(body["temperature"].to_string(), "0", "zero is a value");
    assert_eq!((&body["stop"], &body["seed"], &body["max_completion_tokens"]), (&json!(["c"]), &json!(1), &json!(5)));
}

#[test]
fn s7_option_objects_merge_deeply() {
    #[track_caller]
    fn check(base: &Value, over: &Value, wanted: &Value) {
        assert_eq!(merge_objects(object(base).as_ref(), object(over).as_ref()), object(wanted));
    }
    check(&json!({ "a": { "b": 1, "c": 2 } }), &json!({ "a": { "b": 3 } }), &json!({ "a": { "b": 3, "c": 2 } }));
    check(&json!({ "a": [1, 2] }), &json!({ "a": [3] }), &json!({ "a": [3] }));
    check(&json!({ "a": { "b": 1 } }), &json!({ "a": null }), &json!({ "a": null }));
    check(&json!({ "a": { "b": 1 } }), &json!({ "a": "x" }), &json!({ "a": "x" }));
    check(&json!({ "a": "x" }), &json!({ "a": { "b": 1 } }), &json!({ "a": { "b": 1 } }));
    check(&json!({ "a": 1 }), &Value::Null, &json!({ "a": 1 }));
    check(&Value::Null, &Value::Null, &Value::Null);
}

#[test]
fn s8_http_overlays_merge_and_false_is_kept() {
    let options = |value: Value| serde_json::from_value::<HttpOptions>(value).unwrap();
    let base = options(json!({
        "headers": { "X-A": "1", "x-b": "1" }, "query": { "q": "1" }, "body": { "a": { "b": 1 } },
        "headerTimeout": 5, "chunkTimeout": 6, "contentTimeout": 7,
    }));
    let merged = base.merge(&options(json!({
        "headers": { "x-a": "2" }, "query": { "p": "2" }, "body": { "a": { "c": 2 } },
        "headerTimeout": false, "contentTimeout": 8,
    })));
    let wanted = json!({
        "headers": { "x-b": "1", "x-a": "2" }, "query": { "q": "1", "p": "2" }, "body": { "a": { "b": 1, "c": 2 } },
        "headerTimeout": false, "chunkTimeout": 6, "contentTimeout": 8,
    });
    assert_eq!(merged, options(wanted));
    assert_eq!(merged.header_timeout, Some(Timeout::Off));
    for wrong in [json!({ "headerTimeout": 0 }), json!({ "chunkTimeout": true }), json!({ "chunkTimeout": "5s" })] {
        let error = serde_json::from_value::<HttpOptions>(wrong).unwrap_err();
        assert!(error.to_string().contains("milliseconds above 0, or false"), "{error}");
    }
}

#[test]
fn s9_nothing_merges_to_nothing() {
    assert!(HttpOptions::default().merge(&HttpOptions::default()).is_empty());
    let empty =
        || Some(HttpOptions { headers: Some([].into()), body: Some(JsonObject::new()), ..HttpOptions::default() });
    let chat = route("openai-chat")
        .with(RoutePatch { defaults: Defaults { http: empty(), ..Defaults::default() }, ..RoutePatch::default() });
    let request = ask(chat.model(ModelSelection::new("m")).unwrap())
        .update(RequestPatch { http: Some(empty()), ..RequestPatch::default() });
    assert_eq!(body(&request), body(&ask(route("openai-chat").model(ModelSelection::new("m")).unwrap())));
}

#[test]
fn s10_whole_numbers_have_no_fraction() {
    let generation: GenerationOptions = serde_json::from_value(
        json!({ "temperature": 1.0, "topP": 0.2, "frequencyPenalty": 0, "presencePenalty": -2.0 }),
    )
    .unwrap();
    let request = ask(route("openai-chat").model(ModelSelection::new("m")).unwrap())
        .update(RequestPatch { generation: Some(Some(generation)), ..RequestPatch::default() });
    let body = body(&request);
    let texts = ["temperature", "top_p", "frequency_penalty", "presence_penalty"].map(|name| body[name].to_string());
    assert_eq!(texts, ["1", "0.2", "0", "-2"]);
}

fn state(events: &Value) -> ResponseState {
    let events: Vec<LLMEvent> = serde_json::from_value(events.clone()).unwrap();
    events.into_iter().fold(ResponseState::default(), LLMResponse::reduce)
}

#[test]
fn s14_closed_blocks_are_no_end() {
    let state = state(&json!([
        { "type": "step-start", "index": 0 },
        { "type": "text-start", "id": "t" },
        { "type": "text-delta", "id": "t", "text": "all" },
        { "type": "text-end", "id": "t" },
    ]));
    assert_eq!(LLMResponse::complete(&state), None);
    assert_eq!(state.content, [Part::text("all")]);
}

#[test]
fn s15_the_usage_of_the_finish_wins() {
    let finish = |usage: Value| {
        let mut finish = json!({ "type": "finish", "reason": { "normalized": "stop" } });
        if !usage.is_null() {
            finish["usage"] = usage;
        }
        let step = json!({ "type": "step-finish", "index": 0, "reason": { "normalized": "stop" }, "usage": { "inputTokens": 1 } });
        LLMResponse::complete(&state(&json!([{ "type": "step-start", "index": 0 }, step, finish]))).unwrap()
    };
    let input = |response: LLMResponse| response.usage.and_then(|usage| usage.input_tokens);
    assert_eq!(input(finish(json!({ "inputTokens": 2 }))), Some(2));
    assert_eq!(input(finish(Value::Null)), Some(1), "a finish that is silent erases nothing");
}

#[test]
fn s16_arguments_alone_are_no_content() {
    let start = json!([
        { "type": "step-start", "index": 0 },
        { "type": "tool-input-start", "id": "c", "name": "t" },
        { "type": "tool-input-delta", "id": "c", "name": "t", "text": "{}" },
        { "type": "tool-input-end", "id": "c", "name": "t" },
    ]);
    assert!(state(&start).content.is_empty());
    let call: LLMEvent =
        serde_json::from_value(json!({ "type": "tool-call", "id": "c", "name": "t", "input": {} })).unwrap();
    let state = LLMResponse::reduce(state(&start), call);
    assert!(matches!(state.content.as_slice(), [Part::ToolCall(_)]) && state.pending_inputs.is_empty());
}

/// The driver refuses such a stream before the reducer could; both refuse.
#[tokio::test]
async fn s17_a_stream_without_a_terminal_event_fails() {
    let open = sse_events([json!({ "choices": [{ "index": 0, "delta": { "content": "half" } }] })])
        .replace("data: [DONE]\n\n", "");
    let request = ask(route("openai-chat").model(ModelSelection::new("m")).unwrap());
    let client = test_client(ScriptedExecutor::fixed(open.clone()));
    let error = client.generate(&request, StreamOptions::default()).await.unwrap_err();
    assert!(error.is_incomplete_stream(), "{error:?}");
    let (events, _) = tokio::task::spawn_blocking(move || run(&request, ScriptedBody::bytes(open))).await.unwrap();
    assert_eq!(LLMResponse::from_events(events), None);
}

#[test]
fn s18_words_of_the_provider_pass_through() {
    let options = json!({
        "reasoningEffort": "ultra-9", "serviceTier": "warp", "include": ["some.future.thing"], "textVerbosity": "epic",
        "promptCacheRetention": "99h",
    });
    let request = ask(openai_responses::route().model(ModelSelection::new("m")).unwrap())
        .update(RequestPatch { provider_options: Some(object(&options)), ..RequestPatch::default() });
    let body = body(&request);
    for (pointer, wanted) in [
        ("/reasoning/effort", "ultra-9"),
        ("/service_tier", "warp"),
        ("/include/0", "some.future.thing"),
        ("/text/verbosity", "epic"),
        ("/prompt_cache_retention", "99h"),
    ] {
        assert_eq!(body.pointer(pointer), Some(&json!(wanted)), "{pointer}");
    }
}

#[test]
fn s5_words_make_tool_choices() {
    for mode in ["auto", "none", "required"] {
        assert_eq!(json!(ToolChoice::make(mode)), json!({ "type": mode }));
        assert_eq!(json!(ToolChoice::named(mode)), json!({ "type": "tool", "name": mode }));
    }
    assert_eq!(json!(ToolChoice::make("read")), json!({ "type": "tool", "name": "read" }));
    let tool = ToolDefinition::make("read", "Reads.", json!({ "type": "object" }));
    assert_eq!(json!(ToolChoice::named(tool.name)), json!({ "type": "tool", "name": "read" }));
}
