// ---------------------------------------------------------------------------------------------
// 4. Parser state
// 6. Stream parsing
// ---------------------------------------------------------------------------------------------

use serde_json::{Value, json};

use super::chunk::{CallDelta, Choice, Chunk, Content};
use super::ids::CallIds;
use super::lower::META_THINKING;
use super::{ID, NAME};
use crate::protocols::shared::event_error;
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::protocols::utils::tool_stream::{ToolDelta, ToolStream};
use crate::provider_error::{Failure, classify};
use crate::route::framing::Frame;
use crate::schema::errors::AIError;
use crate::schema::events::{FinishKind, FinishReason, LLMEvent};
use crate::schema::ids::ContentBlockId;
use crate::schema::request::LLMRequest;
use crate::schema::usage::{Usage, UsageCounts, token_count};
use crate::schema::{JsonObject, provider_metadata};

/// What is remembered between chunks. It owns everything terminal: reason, usage, pending calls.
#[derive(Debug)]
pub struct MistralState {
    metadata_key: String,
    is_finish_required: bool,
    n_messages: usize,
    lifecycle: Lifecycle,
    /// The block that grows.
    active: Option<Active>,
    n_blocks: u32,
    ids: CallIds,
    tools: ToolStream<u64>,
    /// The id of each call as the stream gave it.
    raw_ids: Vec<(u64, Option<String>)>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
}

#[derive(Debug)]
enum Active {
    Text(ContentBlockId),
    /// With the native items so far.
    Thinking(ContentBlockId, Vec<Value>),
}

impl MistralState {
    pub(super) fn new(request: &LLMRequest) -> Self {
        Self {
            metadata_key: request.model.metadata_key().to_owned(),
            is_finish_required: request.model.compatibility.is_finish_required(),
            n_messages: request.messages.len(),
            lifecycle: Lifecycle::new(),
            active: None,
            n_blocks: 0,
            ids: CallIds::of(request),
            tools: ToolStream::new(ID.into()),
            raw_ids: Vec::new(),
            usage: None,
            finish: None,
        }
    }

    pub(super) fn chunk(&mut self, chunk: Chunk<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if chunk.error.is_some() || chunk.object.as_deref() == Some("error") {
            return Err(provider_failure(frame));
        }
        if let Some(raw) = chunk.usage {
            self.take_usage(raw.get());
        }
        let Some(choice) = chunk.choices.and_then(|choices| choices.into_iter().next()) else { return Ok(()) };
        if self.finish.is_some() {
            return after_finish(&choice, frame);
        }
        if let Some(delta) = choice.delta {
            match delta.content {
                Some(Content::Text(text)) => self.text(&text, out),
                Some(Content::Items(items)) => {
                    for item in items {
                        match &*item.kind {
                            "text" => self.text(item.text.as_deref().unwrap_or_default(), out),
                            "thinking" => self.thinking(item.thinking, out),
                            _ => {}
                        }
                    }
                }
                None => {}
            }
            for (position, call) in delta.tool_calls.iter().flatten().enumerate() {
                self.tool(call, position, frame, out)?;
            }
        }
        if let Some(word) = choice.finish_reason.as_deref().filter(|word| !word.is_empty()) {
            self.finish = Some(finish_reason(word));
        }
        Ok(())
    }

    fn take_usage(&mut self, raw: &str) {
        if let Ok(Value::Object(object)) = serde_json::from_str(raw) {
            let usage = usage_from(object, &self.metadata_key);
            self.usage = Some(Usage::replace(self.usage.take(), usage));
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<LLMEvent>) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.active, Some(Active::Text(_))) {
            self.close_block(out);
            self.active = Some(Active::Text(self.next_block("text")));
        }
        if let Some(Active::Text(id)) = &self.active {
            self.lifecycle.text_delta(id, text, out);
        }
    }

    fn thinking(&mut self, thinking: Option<Value>, out: &mut Vec<LLMEvent>) {
        let items = match thinking {
            Some(Value::Array(items)) => items,
            Some(Value::String(text)) => vec![json!({ "type": "text", "text": text })],
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => return,
        };
        if items.is_empty() {
            return;
        }
        if !matches!(self.active, Some(Active::Thinking(..))) {
            self.close_block(out);
            self.active = Some(Active::Thinking(self.next_block("reasoning"), Vec::new()));
        }
        let Some(Active::Thinking(id, kept)) = &mut self.active else { return };
        self.lifecycle.reasoning_start(id, None, out);
        for item in items {
            let text = plain_text(&item);
            self.lifecycle.reasoning_delta(id, text.unwrap_or_default(), out);
            match (kept.last_mut().filter(|last| plain_text(last).is_some()), text) {
                (Some(last), Some(text)) => {
                    if let Some(Value::String(before)) = last.get_mut("text") {
                        before.push_str(text);
                    }
                }
                (_, _) => kept.push(item),
            }
        }
    }

    fn next_block(&mut self, kind: &str) -> ContentBlockId {
        let id = ContentBlockId::from(format!("{kind}-{}", self.n_blocks));
        self.n_blocks += 1;
        id
    }

    fn close_block(&mut self, out: &mut Vec<LLMEvent>) {
        match self.active.take() {
            Some(Active::Text(id)) => self.lifecycle.text_end(&id, None, out),
            Some(Active::Thinking(id, items)) => {
                let mut values = JsonObject::new();
                values.insert(META_THINKING.to_owned(), Value::Array(items));
                self.lifecycle.reasoning_end(&id, None, provider_metadata(&self.metadata_key, values), out);
            }
            None => {}
        }
    }

    fn tool(
        &mut self,
        call: &CallDelta<'_>,
        position: usize,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let index = self.tool_index(call, position);
        if self.tools.get(&index).is_some() {
            return self.tools.append_existing(&index, &call.arguments(), out);
        }
        let raw = call.id().map(str::to_owned);
        // A server without ids gets one that no call of the history has.
        let made_up = || format!("{}:{index}", self.n_messages);
        let id = self.ids.add(&raw.clone().unwrap_or_else(made_up));
        self.raw_ids.push((index, raw));
        self.close_block(out);
        self.lifecycle.step_start(out);
        let delta = ToolDelta { id: Some(&id), name: call.name(), text: &call.arguments() };
        self.tools
            .append_or_start(&index, delta, &format!("{NAME} tool call is missing its name"), out)
            .map_err(|error| error.with_body(frame.text()))
    }

    /// Which call a delta belongs to: the one of its index, unless that has another id; else the one of
    /// its id; without both the latest, or a new one for each of several in one chunk.
    fn tool_index(&self, call: &CallDelta<'_>, position: usize) -> u64 {
        let next = self.raw_ids.iter().map(|(index, _)| index + 1).max().unwrap_or(0);
        let by_id =
            |id: &str| self.raw_ids.iter().find(|(_, known)| known.as_deref() == Some(id)).map(|(index, _)| *index);
        let id_at =
            |index: u64| self.raw_ids.iter().find(|(known, _)| *known == index).and_then(|(_, id)| id.as_deref());
        match (call.id(), call.index) {
            (Some(id), index) => by_id(id).unwrap_or_else(|| match index {
                Some(index) if id_at(index).is_none() => index,
                Some(_) | None => next,
            }),
            (None, Some(index)) => index,
            (None, None) if call.name().is_some() || position > 0 => next,
            (None, None) => next.saturating_sub(1),
        }
    }

    /// Ends the response: blocks, calls, terminal pair.
    pub(super) fn halt(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let has_output = !self.tools.is_empty() || self.lifecycle.is_started();
        let mut reason = match self.finish.take() {
            Some(reason) => reason,
            None if self.is_finish_required || !has_output => {
                return Err(AIError::incomplete_stream(format!("{NAME} stream ended without finish_reason")));
            }
            None => FinishReason::new(FinishKind::Stop, None),
        };
        if reason.normalized == FinishKind::Stop && !self.tools.is_empty() {
            reason.normalized = FinishKind::ToolCalls;
        }
        self.close_block(out);
        if matches!(reason.normalized, FinishKind::Length | FinishKind::ContentFilter | FinishKind::Error) {
            self.tools.clear();
        }
        self.tools.finish_all(out)?;
        self.lifecycle.finish(reason, self.usage.take(), None, out);
        Ok(())
    }
}

/// The text of a native thinking item that is nothing but text.
fn plain_text(item: &Value) -> Option<&str> {
    if item.get("type").and_then(Value::as_str) != Some("text") {
        return None;
    }
    item.get("text").and_then(Value::as_str)
}

fn finish_reason(word: &str) -> FinishReason {
    let normalized = match word {
        "stop" => FinishKind::Stop,
        "length" | "model_length" => FinishKind::Length,
        "tool_calls" => FinishKind::ToolCalls,
        "content_filter" => FinishKind::ContentFilter,
        "error" | "network_error" => FinishKind::Error,
        _ => FinishKind::Unknown,
    };
    FinishReason::new(normalized, Some(word))
}

fn after_finish(choice: &Choice<'_>, frame: &Frame) -> Result<(), AIError> {
    let Some(delta) = &choice.delta else { return Ok(()) };
    let has_content = match &delta.content {
        None => false,
        Some(Content::Text(text)) => !text.is_empty(),
        Some(Content::Items(items)) => items.iter().any(|item| {
            item.text.as_deref().is_some_and(|text| !text.is_empty())
                || item.thinking.as_ref().and_then(Value::as_array).is_some_and(|items| !items.is_empty())
        }),
    };
    let has_calls = delta.tool_calls.iter().flatten().any(|call| call.name().is_some() || !call.arguments().is_empty());
    if has_content || has_calls {
        return Err(event_error(format!("{NAME} received content after the finish reason"), Some(frame)));
    }
    Ok(())
}

fn provider_failure(frame: &Frame) -> AIError {
    let event: Value = serde_json::from_slice(&frame.data).unwrap_or_default();
    let details = event.get("error").filter(|error| !error.is_null()).unwrap_or(&event);
    let text = |name: &str| details.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let code = details.get("code");
    let status = code
        .and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()))
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));
    let code = if status.is_some() { None } else { code.and_then(Value::as_str) };
    classify(Failure {
        message: text("message")
            .or_else(|| details.as_str())
            .map_or_else(|| format!("{NAME} stream error"), str::to_owned),
        status,
        code: code.or_else(|| text("type")).map(str::to_owned),
        body: Some(frame.text().into_owned()),
        ..Failure::default()
    })
}

fn usage_from(raw: JsonObject, key: &str) -> Usage {
    let cached = |details: &str| token_count(raw.get(details)?.get("cached_tokens"));
    let counts = UsageCounts {
        input: token_count(raw.get("prompt_tokens")),
        output: token_count(raw.get("completion_tokens")),
        cache_read: token_count(raw.get("num_cached_tokens"))
            .or_else(|| cached("prompt_tokens_details"))
            .or_else(|| cached("prompt_token_details")),
        cache_write: None,
        reasoning: None,
        total: token_count(raw.get("total_tokens")),
    };
    Usage::from(counts, key, raw)
}
