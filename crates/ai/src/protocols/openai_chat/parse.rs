// ---------------------------------------------------------------------------------------------
// 4. Parser state
// 6. Stream parsing
// ---------------------------------------------------------------------------------------------

use std::collections::BTreeMap;

use serde_json::Value;

use super::chunk::{Choice, Chunk, Delta, Text, ToolCallDelta};
use super::reasoning::{Details, FIELDS, META_DETAILS, META_FIELD};
use super::{ID, NAME};
use crate::protocols::shared::{self, event_error};
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::protocols::utils::tool_stream::{MAX_TOOL_INPUT_BYTES, ToolDelta, ToolStream};
use crate::provider_error::{Failure, classify};
use crate::route::framing::Frame;
use crate::schema::errors::{AIError, AIErrorKind};
use crate::schema::events::{FinishKind, FinishReason, LLMEvent};
use crate::schema::ids::ContentBlockId;
use crate::schema::request::LLMRequest;
use crate::schema::usage::{Usage, UsageCounts, token_count};
use crate::schema::{JsonObject, provider_metadata};

/// What is remembered between chunks. It owns everything terminal: reason, usage, pending calls.
#[derive(Debug)]
pub struct ChatState {
    request: LLMRequest,
    text: ContentBlockId,
    reasoning: ContentBlockId,
    n_reasoning: u32,
    lifecycle: Lifecycle,
    tools: ToolStream<u64>,
    /// Calls that still lack their id or name.
    unnamed: BTreeMap<u64, Unnamed>,
    latest_index: Option<u64>,
    details: Details,
    reasoning_field: Option<String>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
}

#[derive(Debug, Default)]
struct Unnamed {
    id: Option<String>,
    name: Option<String>,
    input: String,
}

impl ChatState {
    pub(super) fn new(request: &LLMRequest) -> Self {
        Self {
            request: request.clone(),
            text: ContentBlockId::from("text-0"),
            reasoning: ContentBlockId::from("reasoning-0"),
            n_reasoning: 0,
            lifecycle: Lifecycle::new(),
            tools: ToolStream::new(ID.into()),
            unnamed: BTreeMap::new(),
            latest_index: None,
            details: Details::default(),
            reasoning_field: None,
            usage: None,
            finish: None,
        }
    }

    pub(super) fn chunk(&mut self, chunk: &Chunk<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if let Some(error) = chunk.error
            && error.get() != "null"
        {
            return Err(provider_failure(error.get(), frame));
        }
        let choice = chunk.choices.as_ref().and_then(|choices| choices.0.as_ref());
        for raw in [chunk.usage, choice.and_then(|choice| choice.usage)].into_iter().flatten() {
            if self.take_usage(raw.get()) {
                break;
            }
        }
        match choice {
            None => Ok(()),
            Some(choice) if self.finish.is_some() => after_finish(choice, frame),
            Some(choice) => {
                if let Some(delta) = &choice.delta {
                    self.delta(delta, out)?;
                }
                self.finish_reason(choice, frame, out)
            }
        }
    }

    /// Keeps a usage object; `null` and anything else is none.
    fn take_usage(&mut self, raw: &str) -> bool {
        let Ok(Value::Object(object)) = serde_json::from_str(raw) else { return false };
        let usage = usage_from(object, self.request.model.metadata_key());
        self.usage = Some(Usage::replace(self.usage.take(), usage));
        true
    }

    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        self.reasoning(delta, out);
        let answers = [&delta.content, &delta.refusal].into_iter().flatten().any(|text| !text.0.is_empty())
            || delta.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        if answers && self.details.is_empty() {
            // Nothing can join the block any more: scalar reasoning ends where the answer begins.
            self.close_reasoning(out);
        }
        for text in [&delta.content, &delta.refusal].into_iter().flatten() {
            self.lifecycle.text_delta(&self.text, &text.0, out);
        }
        if let Some(calls) = &delta.tool_calls {
            for (position, call) in calls.iter().enumerate() {
                self.tool(call, position, calls.len(), out)?;
            }
        }
        Ok(())
    }

    fn reasoning(&mut self, delta: &Delta<'_>, out: &mut Vec<LLMEvent>) {
        if delta.others.is_empty() && delta.reasoning_details.is_none() {
            return;
        }
        let configured = self.request.model.compatibility.reasoning_field.as_deref();
        let scalar =
            configured.into_iter().chain(FIELDS).find_map(|field| delta.other(field).map(|text| (field, text)));
        if let Some((field, _)) = scalar {
            self.reasoning_field.get_or_insert_with(|| field.to_owned());
        }
        let mut visible = String::new();
        if let Some(raw) = delta.reasoning_details {
            let entries: Vec<Value> = serde_json::from_str(raw.get()).unwrap_or_default();
            let (is_any, text) = self.details.take(entries, self.reasoning_field.is_some());
            if is_any {
                self.lifecycle.reasoning_start(&self.reasoning, None, out);
            }
            visible = text;
        }
        let text = if visible.is_empty() { scalar.map_or("", |(_, text)| text) } else { &visible };
        self.lifecycle.reasoning_delta(&self.reasoning, text, out);
    }

    fn tool(
        &mut self,
        call: &ToolCallDelta<'_>,
        position: usize,
        count: usize,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let index = self.tool_index(call, position, count);
        self.latest_index = Some(index);
        let text = call.arguments();
        if self.tools.get(&index).is_some() {
            return self.tools.append_existing(&index, &text, out);
        }
        let pending = self.unnamed.entry(index).or_default();
        if pending.id.is_none() {
            pending.id = call.id().map(str::to_owned);
        }
        if pending.name.is_none() {
            pending.name = call.name().map(str::to_owned);
        }
        if pending.input.len() + text.len() > MAX_TOOL_INPUT_BYTES {
            return Err(AIError::invalid_output(format!(
                "{NAME} tool call arguments exceed {MAX_TOOL_INPUT_BYTES} bytes"
            )));
        }
        pending.input.push_str(&text);
        if pending.id.is_some() && pending.name.is_some() {
            self.name_tool(index, out)?;
        }
        Ok(())
    }

    /// Which call a delta belongs to.
    fn tool_index(&self, call: &ToolCallDelta<'_>, position: usize, count: usize) -> u64 {
        let id_at = |index: u64| {
            self.tools
                .get(&index)
                .map(|tool| tool.id.as_str())
                .or_else(|| self.unnamed.get(&index).and_then(|tool| tool.id.as_deref()))
        };
        let known = |id: &str| {
            let named = self.tools.iter().find(|(_, tool)| tool.id == id).map(|(index, _)| *index);
            named.or_else(|| {
                let by_id = |(_, tool): &(&u64, &Unnamed)| tool.id.as_deref() == Some(id);
                self.unnamed.iter().find(by_id).map(|(index, _)| *index)
            })
        };
        let is_free = |index: u64| self.tools.get(&index).is_none() && !self.unnamed.contains_key(&index);
        if let Some(index) = call.index {
            return index;
        }
        if let Some(index) = call.id().and_then(known) {
            return index;
        }
        let guess =
            if count > 1 { u64::try_from(position).unwrap_or(u64::MAX) } else { self.latest_index.unwrap_or(0) };
        let is_other = match (call.id(), id_at(guess)) {
            (Some(new), Some(old)) => new != old,
            (_, _) => false,
        };
        if !is_other {
            return guess;
        }
        (0..u64::MAX).find(|index| is_free(*index)).unwrap_or(guess)
    }

    /// Announces a call whose identity is complete.
    fn name_tool(&mut self, index: u64, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(tool) = self.unnamed.remove(&index) else { return Ok(()) };
        self.lifecycle.step_start(out);
        let delta = ToolDelta { id: tool.id.as_deref(), name: tool.name.as_deref(), text: &tool.input };
        self.tools.append_or_start(&index, delta, MISSING_IDENTITY, out)
    }

    fn finish_reason(&mut self, choice: &Choice<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(word) = text(choice.finish_reason.as_ref()) else { return Ok(()) };
        let raw = text(choice.native_finish_reason.as_ref()).unwrap_or(word);
        let normalized = match word {
            "stop" | "end" | "eos" | "end_turn" | "stop_sequence" => FinishKind::Stop,
            "length" | "max_tokens" => FinishKind::Length,
            "tool_calls" | "function_call" => FinishKind::ToolCalls,
            "content_filter" => FinishKind::ContentFilter,
            failed => {
                let kind = match failed {
                    "error" | "network_error" | "insufficient_system_resource" => {
                        AIErrorKind::ProviderInternal { retry_after_ms: None }
                    }
                    _ => AIErrorKind::UnknownProvider,
                };
                let message = format!("Provider finish_reason: {failed}");
                return Err(AIError::new(kind, message).with_body(frame.text()));
            }
        };
        if is_cut(normalized) {
            self.unnamed.clear();
        } else {
            self.name_all(frame, out)?;
        }
        self.finish = Some(FinishReason::new(normalized, Some(raw)));
        Ok(())
    }

    /// Gives ids to calls that never got one; a call without a name is an error.
    fn name_all(&mut self, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let indexes: Vec<u64> = self.unnamed.keys().copied().collect();
        for index in indexes {
            let made_up = shared::made_up_id("call", &self.request, index);
            let Some(tool) = self.unnamed.get_mut(&index) else { continue };
            if tool.name.is_none() {
                return Err(event_error(MISSING_IDENTITY, Some(frame)));
            }
            tool.id.get_or_insert(made_up);
            self.name_tool(index, out)?;
        }
        Ok(())
    }

    /// Ends the response: reasoning, calls, terminal pair.
    pub(super) fn halt(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let is_required = self.request.model.compatibility.is_finish_required();
        let has_output = !self.tools.is_empty() || !self.unnamed.is_empty() || self.lifecycle.is_started();
        let mut reason = match self.finish.take() {
            Some(reason) => reason,
            None if is_required || !has_output => {
                return Err(AIError::incomplete_stream(format!("{NAME} stream ended without finish_reason")));
            }
            None => {
                self.name_all(&Frame::default(), out)?;
                FinishReason::new(FinishKind::Stop, None)
            }
        };
        if reason.normalized == FinishKind::Stop && !self.tools.is_empty() {
            reason.normalized = FinishKind::ToolCalls;
        }
        self.end_reasoning(out);
        if is_cut(reason.normalized) {
            self.tools.clear();
        }
        self.tools.finish_all(out)?;
        self.lifecycle.finish(reason, self.usage.take(), None, out);
        Ok(())
    }

    /// Ends the open block; what comes later opens another one.
    fn close_reasoning(&mut self, out: &mut Vec<LLMEvent>) {
        if self.lifecycle.is_reasoning_open(&self.reasoning) {
            let field = self.reasoning_field.clone();
            self.end_reasoning(out);
            self.reasoning_field = field;
            self.n_reasoning += 1;
            self.reasoning = ContentBlockId::from(format!("reasoning-{}", self.n_reasoning));
        }
    }

    fn end_reasoning(&mut self, out: &mut Vec<LLMEvent>) {
        if !self.lifecycle.is_reasoning_open(&self.reasoning) {
            return;
        }
        let mut values = JsonObject::new();
        if let Some(field) = self.reasoning_field.take() {
            values.insert(META_FIELD.to_owned(), Value::from(field));
        }
        if let Some(details) = std::mem::take(&mut self.details).into_value() {
            values.insert(META_DETAILS.to_owned(), details);
        }
        let metadata = provider_metadata(self.request.model.metadata_key(), values);
        self.lifecycle.reasoning_end(&self.reasoning, None, metadata, out);
    }
}

const MISSING_IDENTITY: &str = "OpenAI Chat tool call is missing its name";

/// Whether the output was cut: pending calls are not calls then.
const fn is_cut(kind: FinishKind) -> bool {
    matches!(kind, FinishKind::Length | FinishKind::ContentFilter)
}

fn text<'a>(value: Option<&'a Text<'_>>) -> Option<&'a str> {
    value.map(|text| &*text.0).filter(|text| !text.is_empty())
}

fn after_finish(choice: &Choice<'_>, frame: &Frame) -> Result<(), AIError> {
    let Some(delta) = &choice.delta else { return Ok(()) };
    let has_text = text(delta.content.as_ref()).or_else(|| text(delta.refusal.as_ref())).is_some();
    let has_reasoning = FIELDS.iter().any(|field| delta.other(field).is_some());
    let has_calls = delta
        .tool_calls
        .iter()
        .flatten()
        .any(|call| call.id().is_some() || call.name().is_some() || !call.arguments().is_empty());
    if has_text || has_reasoning || has_calls {
        return Err(event_error(format!("{NAME} received content after the finish reason"), Some(frame)));
    }
    Ok(())
}

fn provider_failure(error: &str, frame: &Frame) -> AIError {
    let value: Value = serde_json::from_str(error).unwrap_or(Value::Null);
    let message = value.as_str().or_else(|| value.get("message").and_then(Value::as_str));
    let (status, code) = match value.get("code") {
        Some(Value::Number(code)) => (code.as_u64().and_then(|code| u16::try_from(code).ok()), None),
        Some(Value::String(code)) => match code.parse::<u16>() {
            Ok(status) if (400..600).contains(&status) => (Some(status), None),
            Ok(_) | Err(_) => (None, Some(code.clone())),
        },
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => (None, None),
    };
    let code = code.or_else(|| value.get("type").and_then(Value::as_str).map(str::to_owned));
    let message = message.filter(|message| !message.trim().is_empty());
    classify(Failure {
        message: message.map_or_else(|| format!("{NAME} stream error"), str::to_owned),
        status,
        code,
        body: Some(frame.text().into_owned()),
        ..Failure::default()
    })
}

fn usage_from(raw: JsonObject, key: &str) -> Usage {
    let at = |path: &[&str]| {
        let mut value = raw.get(*path.first()?)?;
        for name in path.get(1..)? {
            value = value.get(name)?;
        }
        token_count(Some(value))
    };
    let counts = UsageCounts {
        input: at(&["prompt_tokens"]),
        output: at(&["completion_tokens"]),
        cache_read: at(&["prompt_tokens_details", "cached_tokens"])
            .or_else(|| at(&["prompt_cache_hit_tokens"]))
            .or_else(|| at(&["cached_tokens"])),
        cache_write: at(&["prompt_tokens_details", "cache_write_tokens"]),
        reasoning: at(&["completion_tokens_details", "reasoning_tokens"]),
        total: at(&["total_tokens"]),
    };
    Usage::from(counts, key, raw)
}
