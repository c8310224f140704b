use abide_ai::schema::events as ev;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp(7);

fn decode(event: &Value) -> LLMEvent {
    let kind = event["type"].as_str().unwrap();
    let body = event.clone();
    macro_rules! take {
        ($($tag:literal => $variant:ident($payload:ty),)+) => {
            match kind {
                $( $tag => LLMEvent::$variant(serde_json::from_value::<$payload>(body).unwrap()), )+
                other => panic!("no event {other}"),
            }
        };
    }
    take! {
        "step-start" => StepStart(ev::StepStart),
        "text-start" => TextStart(ev::BlockStart),
        "text-delta" => TextDelta(ev::BlockDelta),
        "text-end" => TextEnd(ev::TextEnd),
        "reasoning-start" => ReasoningStart(ev::BlockStart),
        "reasoning-delta" => ReasoningDelta(ev::BlockDelta),
        "reasoning-end" => ReasoningEnd(ev::ReasoningEnd),
        "tool-input-start" => ToolInputStart(ev::ToolInputStart),
        "tool-input-delta" => ToolInputDelta(ev::ToolInputDelta),
        "tool-input-end" => ToolInputEnd(ev::ToolInputEnd),
        "tool-input-error" => ToolInputError(ev::ToolInputError),
        "tool-call" => ToolCall(ev::ToolCall),
        "tool-result" => ToolResult(ev::ToolResult),
        "step-finish" => StepFinish(ev::StepFinish),
        "finish" => Finish(ev::Finish),
        "provider-error" => ProviderError(ev::ProviderErrorEvent),
    }
}

fn publisher(disabled: bool) -> Publisher {
    Publisher::new(SessionId::from_trusted("ses_a"), MessageId::from_trusted("msg_a"), disabled)
}

/// Feeds a stream and writes what came out, one word or two for each output; a violation is the last line.
fn run(publisher: &mut Publisher, stream: Value) -> Vec<String> {
    let mut out = Vec::new();
    let mut broken = None;
    for event in stream.as_array().unwrap() {
        if let Err(violation) = publisher.on(decode(event), NOW, &|_| Effects::None, &mut out) {
            broken = Some(violation.0);
            break;
        }
    }
    let mut lines: Vec<String> = out
        .into_iter()
        .map(|output| match output {
            Output::Event(event) => {
                let value = event.to_value().unwrap();
                let name = event.def().name.trim_start_matches("session.next.").to_owned();
                let detail = value["text"].as_str().or(value["error"]["code"].as_str()).unwrap_or_default();
                format!("{name} {detail}").trim_end().to_owned()
            }
            Output::Delta { id, text, .. } => format!("delta {id} {text}"),
            Output::Ended { .. } => String::new(),
            Output::Call(call) => format!("start {}", call.id),
        })
        .filter(|line| !line.is_empty())
        .collect();
    lines.extend(broken.map(|text| format!("violation: {text}")));
    lines
}

#[track_caller]
fn check(stream: Value, expected: &[&str]) {
    assert_eq!(run(&mut publisher(false), stream), expected);
}

#[test]
fn a_local_call_starts_after_its_announcement() {
    check(
        json!([
            {"type": "step-start", "index": 0},
            {"type": "tool-input-start", "id": "c", "name": "read"},
            {"type": "tool-input-delta", "id": "c", "name": "read", "text": "{\"a\""},
            {"type": "tool-input-delta", "id": "c", "name": "read", "text": ":1}"},
            {"type": "tool-input-end", "id": "c", "name": "read"},
            {"type": "tool-call", "id": "c", "name": "read", "input": {"a": 1}},
        ]),
        &[
            "tool.input.started",
            "delta c {\"a\"",
            "delta c :1}",
            "tool.input.ended {\"a\":1}",
            "tool.called",
            "start c",
        ],
    );
}

#[test]
fn a_call_without_input_events_gets_them() {
    check(
        json!([{"type": "tool-call", "id": "c", "name": "read", "input": {"a": 1}}]),
        &["tool.input.started", "tool.input.ended {\"a\":1}", "tool.called", "start c"],
    );
}

#[test]
fn arguments_that_are_not_json_fail_the_call_and_the_model_goes_on() {
    let mut publisher = publisher(false);
    let lines = run(
        &mut publisher,
        json!([
            {"type": "tool-input-start", "id": "c", "name": "read"},
            {"type": "tool-input-delta", "id": "c", "name": "read", "text": "{bad"},
            {"type": "tool-input-error", "id": "c", "name": "read", "raw": "{bad", "message": "no"},
        ]),
    );
    assert_eq!(lines, ["tool.input.started", "delta c {bad", "tool.input.ended {bad", "tool.failed tool.input-json"]);
    assert!(publisher.wants_continuation());
}

#[test]
fn hosted_calls_run_nothing_here() {
    check(
        json!([
            {"type": "tool-call", "id": "c", "name": "web", "input": {}, "providerExecuted": true},
            {"type": "tool-result", "id": "c", "name": "web", "result": {"type": "json", "value": {"x": 1}}, "providerExecuted": true},
            {"type": "tool-result", "id": "c", "name": "web", "result": {"type": "error", "value": "late"}, "providerExecuted": true},
        ]),
        &["tool.input.started", "tool.input.ended {}", "tool.called", "tool.success"],
    );
}

#[test]
fn disabled_tools_are_refused() {
    let mut publisher = publisher(true);
    let lines = run(&mut publisher, json!([{"type": "tool-call", "id": "c", "name": "read", "input": {}}]));
    assert_eq!(lines, ["tool.input.started", "tool.input.ended {}", "tool.failed tool.disabled"]);
    assert!(!publisher.wants_continuation());
}

#[test]
fn nothing_counts_after_a_provider_error() {
    check(
        json!([
            {"type": "text-start", "id": "t"},
            {"type": "provider-error", "message": "no"},
            {"type": "text-delta", "id": "t", "text": "late"},
        ]),
        &["text.started"],
    );
}

#[test]
fn breaches_of_the_protocol_are_named() {
    check(
        json!([{"type": "text-start", "id": "t"}, {"type": "text-start", "id": "t"}]),
        &["text.started", "violation: Duplicate text start: t"],
    );
    check(json!([{"type": "text-delta", "id": "t", "text": "x"}]), &["violation: Text delta before start: t"]);
    check(json!([{"type": "reasoning-end", "id": "r"}]), &["violation: Reasoning end before start: r"]);
    check(
        json!([{"type": "tool-input-delta", "id": "c", "name": "read", "text": "x"}]),
        &["violation: Tool input delta before start: c"],
    );
    check(
        json!([
            {"type": "tool-input-start", "id": "c", "name": "read"},
            {"type": "tool-input-delta", "id": "c", "name": "write", "text": "x"},
        ]),
        &["tool.input.started", "violation: Tool name changed from read to write: c"],
    );
    check(
        json!([
            {"type": "tool-call", "id": "c", "name": "read", "input": {}},
            {"type": "tool-call", "id": "c", "name": "read", "input": {}},
        ]),
        &["tool.input.started", "tool.input.ended {}", "tool.called", "start c", "violation: Duplicate tool call: c"],
    );
    check(
        json!([{"type": "tool-result", "id": "c", "name": "web", "result": {"type": "json", "value": 1}}]),
        &["violation: Tool result before call: c"],
    );
    check(
        json!([
            {"type": "step-finish", "index": 0, "reason": {"normalized": "stop"}},
            {"type": "step-finish", "index": 0, "reason": {"normalized": "stop"}},
        ]),
        &["violation: Duplicate step finish"],
    );
}

#[test]
fn open_fragments_are_closed_in_order() {
    let mut publisher = publisher(false);
    let lines = run(
        &mut publisher,
        json!([
            {"type": "tool-input-start", "id": "c", "name": "read"},
            {"type": "reasoning-start", "id": "r"},
            {"type": "reasoning-delta", "id": "r", "text": "think"},
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "text": "hi"},
        ]),
    );
    assert_eq!(lines.len(), 5);
    let mut out = Vec::new();
    publisher.close(NOW, &mut out);
    let names: Vec<&str> = out
        .iter()
        .filter_map(|output| if let Output::Event(event) = output { Some(event.def().name) } else { None })
        .collect();
    assert_eq!(names, ["session.next.text.ended", "session.next.reasoning.ended", "session.next.tool.input.ended"]);
}
