use abide_schema::message::{
    AssistantMessage, Finish, ReasoningItem, SpanTime, TextItem, ToolItem, ToolProvider, ToolState, ToolTime,
};
use abide_schema::{JsonObject, Timestamp};
use serde_json::json;

use super::*;

fn model(id: &str) -> ResolvedModel {
    ResolvedModel {
        model: ModelRef::new("one".into(), id.into()),
        language: abide_ai::providers::ollama::configure(abide_ai::providers::ProviderOptions::default())
            .model(id)
            .unwrap(),
        context_limit: None,
        input_limit: None,
        output_limit: None,
        prices: Vec::new(),
        takes_images: false,
        takes_pdf: false,
        takes_tools: true,
    }
}

fn metadata() -> abide_schema::model::ProviderMetadata {
    serde_json::from_value(json!({ "one": { "signature": "s" } })).unwrap()
}

fn call(id: &str, executed: bool, state: ToolState) -> AssistantContent {
    AssistantContent::Tool(ToolItem {
        id: id.into(),
        name: "read".to_owned(),
        provider: Some(ToolProvider { executed, metadata: Some(metadata()), result_metadata: Some(metadata()) }),
        state,
        time: ToolTime { created: Timestamp::default(), ran: None, completed: None, pruned: None },
    })
}

/// An answer with everything that a history can hold.
fn answer() -> Message {
    let done = |result| ToolState::Completed {
        input: JsonObject::new(),
        structured: JsonObject::new(),
        content: vec![Content::text("output")],
        output_paths: None,
        result,
    };
    Message::Assistant(AssistantMessage {
        id: abide_schema::MessageId::from_trusted("msg_a"),
        time: SpanTime::starting(Timestamp::default()),
        metadata: None,
        agent: "build".into(),
        model: ModelRef::new("one".into(), "first".into()),
        content: vec![
            AssistantContent::Reasoning(ReasoningItem {
                id: "r".to_owned(),
                text: "thinking".to_owned(),
                provider_metadata: Some(metadata()),
                time: None,
            }),
            AssistantContent::Text(TextItem {
                id: "t".to_owned(),
                text: "words".to_owned(),
                metadata: Some(metadata()),
                open: false,
            }),
            call("done", false, done(None)),
            call("hosted", true, done(Some(json!({ "type": "text", "value": "native" })))),
            call(
                "cut",
                false,
                ToolState::Running { input: JsonObject::new(), structured: JsonObject::new(), content: Vec::new() },
            ),
            call("begun", false, ToolState::Pending { input: "{\"pa".to_owned() }),
        ],
        snapshot: None,
        finish: Some(Finish::ToolCalls),
        raw_finish: None,
        cost: None,
        tokens: None,
        error: None,
        retry: None,
    })
}

/// Says what a lowered message is made of; `*` marks parts with provider metadata.
fn shown(messages: &[Arc<ModelMessage>]) -> Vec<String> {
    let mark = |metadata: &Option<abide_schema::model::ProviderMetadata>| if metadata.is_some() { "*" } else { "" };
    let part = |part: &Part| match part {
        Part::Text(part) => format!("text{} {}", mark(&part.provider_metadata), part.text),
        Part::Reasoning(part) => format!("reasoning{} {}", mark(&part.provider_metadata), part.text),
        Part::ToolCall(part) => format!("call{} {}", mark(&part.provider_metadata), part.id.as_str()),
        Part::ToolResult(part) => format!("result{} {}", mark(&part.provider_metadata), part.id.as_str()),
        Part::Media(_) => "media".to_owned(),
    };
    messages.iter().map(|message| message.content.iter().map(part).collect::<Vec<_>>().join(", ")).collect()
}

#[test]
fn a_history_goes_back_to_its_own_model_whole() {
    assert_eq!(
        shown(&lower(&answer(), &model("first"), &[])),
        [
            "reasoning* thinking, text* words, call* done, call* hosted, result* hosted, call* cut, call* begun",
            "result* done",
            "result* cut",
            "result* begun",
        ]
    );
}

#[test]
fn another_model_gets_text_and_pairs_and_nothing_of_the_first_ones_own() {
    assert_eq!(
        shown(&lower(&answer(), &model("second"), &[])),
        [
            "text thinking, text words, call done, text [read gave: native], call cut, call begun",
            "result done",
            "result cut",
            "result begun",
        ]
    );
}

#[test]
fn switches_and_ends_of_turns_are_nothing_to_a_model() {
    let time = json!({ "created": 1 });
    for message in [
        json!({ "type": "agent-switched", "id": "msg_1", "time": time, "agent": "plan" }),
        json!({ "type": "model-switched", "id": "msg_2", "time": time, "model": { "providerID": "a", "id": "b" } }),
        json!({ "type": "idle", "id": "msg_3", "time": time, "outcome": "succeeded" }),
    ] {
        let message: Message = serde_json::from_value(message).unwrap();
        assert_eq!(lower(&message, &model("first"), &[]), []);
    }
}
