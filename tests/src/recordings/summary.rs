//! Events in the words of `expected.json`.

use std::collections::VecDeque;

use abide_ai::schema::JsonObject;
use abide_ai::schema::ProviderMetadata;
use abide_ai::schema::messages::Part;
use abide_ai::{LLMEvent, LLMResponse};
use serde_json::{Value, json};

use super::call::Outcome;
use super::exchange::{Exchange, Wire};

/// Whether the events say what is expected.
pub(super) fn check(exchange: &Exchange, outcome: &Outcome, expected: &Value) -> Result<(), String> {
    if exchange.status >= 400 {
        return check_refusal(exchange, outcome, expected);
    }
    if outcome.error.is_some() {
        return Err(outcome.error_text());
    }
    check_order(&outcome.events)?;
    let found = summary(exchange, outcome)?;
    let mut wrong = Vec::new();
    let names = expected.as_object().into_iter().chain([&found]).flat_map(JsonObject::keys);
    for name in names {
        let (old, new) = (expected.get(name), found.get(name));
        if old != new && !wrong.iter().any(|line: &String| line.starts_with(name)) {
            wrong.push(format!("{name}: expected {}, got {}", shown(old), shown(new)));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}

fn check_refusal(exchange: &Exchange, outcome: &Outcome, expected: &Value) -> Result<(), String> {
    let Some(error) = &outcome.error else { return Err("no error".to_owned()) };
    let body: Value = error.body().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    let status = error.http().map(|http| http.status);
    if !outcome.events.is_empty() || status != Some(exchange.status) || Some(&body) != expected.get("error") {
        return Err(format!("{} events, status {status:?}, {}", outcome.events.len(), outcome.error_text()));
    }
    Ok(())
}

/// The promises about order that hold for every successful stream.
fn check_order(events: &[LLMEvent]) -> Result<(), String> {
    let kinds: Vec<&str> = events.iter().map(LLMEvent::kind).collect();
    if !matches!(kinds.as_slice(), ["step-start", .., "step-finish", "finish"]) {
        return Err(format!("begins or ends wrongly: {kinds:?}"));
    }
    let mut open: Vec<String> = Vec::new();
    for event in events {
        let (id, is_start, is_end) = match event {
            LLMEvent::TextStart(start) | LLMEvent::ReasoningStart(start) => (start.id.to_string(), true, false),
            LLMEvent::TextDelta(delta) | LLMEvent::ReasoningDelta(delta) => (delta.id.to_string(), false, false),
            LLMEvent::TextEnd(end) => (end.id.to_string(), false, true),
            LLMEvent::ReasoningEnd(end) => (end.id.to_string(), false, true),
            LLMEvent::ToolInputStart(start) => (start.id.to_string(), true, false),
            LLMEvent::ToolInputDelta(delta) => (delta.id.to_string(), false, false),
            LLMEvent::ToolInputEnd(end) => (end.id.to_string(), false, true),
            LLMEvent::StepFinish(_) if !open.is_empty() => return Err(format!("left open: {open:?}")),
            LLMEvent::StepStart(_)
            | LLMEvent::ToolInputError(_)
            | LLMEvent::ToolCall(_)
            | LLMEvent::ToolResult(_)
            | LLMEvent::ToolError(_)
            | LLMEvent::StepFinish(_)
            | LLMEvent::Finish(_)
            | LLMEvent::ProviderError(_) => continue,
        };
        if is_start == open.contains(&id) {
            return Err(format!("{} of {id} comes at the wrong time", event.kind()));
        }
        if is_start {
            open.push(id);
        } else if is_end {
            open.retain(|other| *other != id);
        }
    }
    Ok(())
}

fn summary(exchange: &Exchange, outcome: &Outcome) -> Result<JsonObject, String> {
    let response = LLMResponse::from_events(outcome.events.iter().cloned()).ok_or("no terminal event")?;
    let mut found = JsonObject::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            found.insert(name.to_owned(), value);
        }
    };
    set("protocol", protocol(exchange.wire).into());
    set("status", exchange.status.into());
    set("text", response.text().into());
    set("reasoning", response.reasoning().into());
    set("toolCalls", calls(exchange.wire, &response).into());
    let mut finish = JsonObject::new();
    finish.insert("normalized".to_owned(), json!(response.finish_reason));
    if let Some(raw) = &response.raw_finish_reason {
        finish.insert("raw".to_owned(), raw.as_str().into());
    }
    set("finish", finish.into());
    let mut usage = json!(response.usage);
    if let Some(usage) = usage.as_object_mut() {
        usage.shift_remove("providerMetadata");
    }
    set("usage", usage);
    set("deltas", deltas(&outcome.events));
    set("reasoningField", reasoning_field(&outcome.events));
    if exchange.wire == Wire::Bedrock {
        set("frames", n_frames(exchange)?.into());
    }
    if exchange.wire == Wire::Gemini {
        set("signatures", signatures(&response));
    }
    if exchange.wire == Wire::Responses {
        set("messageItems", message_items(&response));
        set("reasoningItems", reasoning_items(&response));
        let finish = outcome.events.iter().find_map(LLMEvent::as_finish);
        let metadata = finish.and_then(|finish| finish.provider_metadata.as_ref());
        set("responseId", value(metadata, "responseId"));
        set("serviceTier", value(metadata, "serviceTier"));
    }
    Ok(found)
}

const fn protocol(wire: Wire) -> &'static str {
    match wire {
        Wire::Chat => "openai-chat",
        Wire::Bedrock => "bedrock-converse",
        Wire::Gemini => "gemini",
        Wire::Messages => "anthropic-messages",
        Wire::Responses => "openai-responses",
    }
}

/// A value in the only namespace of the metadata.
fn value(metadata: Option<&ProviderMetadata>, name: &str) -> Value {
    metadata.and_then(|metadata| metadata.values().next()?.get(name).cloned()).unwrap_or_default()
}

fn calls(wire: Wire, response: &LLMResponse) -> Vec<Value> {
    response
        .tool_calls()
        .into_iter()
        .map(|call| {
            let mut entry = JsonObject::new();
            let is_made_up = wire == Wire::Gemini && value(call.provider_metadata.as_ref(), "functionCallId").is_null();
            if !is_made_up {
                entry.insert("id".to_owned(), call.id.as_str().into());
            }
            let item_id = value(call.provider_metadata.as_ref(), "itemId");
            if !item_id.is_null() {
                entry.insert("itemId".to_owned(), item_id);
            }
            entry.insert("name".to_owned(), call.name.as_str().into());
            entry.insert("input".to_owned(), call.input.clone());
            entry.into()
        })
        .collect()
}

fn deltas(events: &[LLMEvent]) -> Value {
    let count = |is: fn(&LLMEvent) -> bool| events.iter().filter(|event| is(event)).count();
    json!({
        "text": count(LLMEvent::is_text_delta),
        "reasoning": count(LLMEvent::is_reasoning_delta),
        "toolInput": count(LLMEvent::is_tool_input_delta),
    })
}

fn reasoning_field(events: &[LLMEvent]) -> Value {
    events
        .iter()
        .filter_map(LLMEvent::as_reasoning_end)
        .map(|end| value(end.provider_metadata.as_ref(), "reasoningField"))
        .find(|field| !field.is_null())
        .unwrap_or_default()
}

fn n_frames(exchange: &Exchange) -> Result<usize, String> {
    let mut frames = VecDeque::new();
    let mut decoder = exchange.request.model.route.framing().decoder();
    decoder.push(&exchange.body, &mut frames).map_err(|error| error.to_string())?;
    Ok(frames.len())
}

fn signatures(response: &LLMResponse) -> Value {
    let parts = response.message.content.iter();
    let signed = parts.filter(|part| !value(part.provider_metadata(), "thoughtSignature").is_null());
    match signed.count() {
        0 => Value::Null,
        count => count.into(),
    }
}

fn message_items(response: &LLMResponse) -> Value {
    let items: Vec<Value> = response
        .message
        .content
        .iter()
        .filter_map(|part| if let Part::Text(text) = part { text.provider_metadata.as_ref() } else { None })
        .filter_map(|metadata| metadata.values().next().cloned().map(Value::Object))
        .collect();
    if items.is_empty() { Value::Null } else { items.into() }
}

fn reasoning_items(response: &LLMResponse) -> Value {
    let items: Vec<Value> = response
        .message
        .content
        .iter()
        .filter_map(|part| if let Part::Reasoning(reasoning) = part { Some(reasoning) } else { None })
        .map(|reasoning| {
            let metadata = reasoning.provider_metadata.as_ref();
            json!({
                "itemId": value(metadata, "itemId"),
                "encrypted": value(metadata, "reasoningEncryptedContent").is_string(),
                "summaryParts": usize::from(!reasoning.text.is_empty()),
            })
        })
        .collect();
    if items.is_empty() { Value::Null } else { items.into() }
}
