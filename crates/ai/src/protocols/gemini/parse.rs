//! The stream state machine.

use serde_json::json;

use super::NAME;
use super::events::{Event, EventCall, EventPart, Failed};
use crate::protocols::shared;
use crate::protocols::utils::borrowed::Str;
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::provider_error::{Failure, classify};
use crate::route::framing::Frame;
use crate::schema::errors::{AIError, AIErrorKind};
use crate::schema::events::{FinishKind, FinishReason, LLMEvent, ToolCall};
use crate::schema::ids::{ContentBlockId, ToolCallId};
use crate::schema::request::LLMRequest;
use crate::schema::usage::{Usage, UsageCounts, sum_tokens, token_count};
use crate::schema::{JsonObject, ProviderMetadata, provider_metadata};

/// What is remembered between events.
#[derive(Debug)]
pub struct State {
    request: LLMRequest,
    lifecycle: Lifecycle,
    text: Block,
    reasoning: Block,
    n_calls: u64,
    usage: Option<Usage>,
    /// Why the answer ended, in the provider's word.
    finish: Option<String>,
    finish_message: Option<String>,
    /// Why the prompt was not answered.
    block_reason: Option<String>,
    /// Whether counters came without a piece of the answer, as some gateways end a stream.
    has_closing_usage: bool,
    /// The last event, for the error of a failed generation.
    last: String,
}

/// A kind of block of which one at a time may be open.
#[derive(Debug, Default)]
struct Block {
    /// How many were closed; ids are never reused.
    n_closed: u64,
    /// What to send back with the block.
    signature: Option<String>,
}

impl Block {
    fn id(&self, kind: &str) -> ContentBlockId {
        format!("{kind}-{}", self.n_closed).into()
    }

    fn sign(&mut self, signature: Option<Str<'_>>) {
        if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
            self.signature = Some(signature.into_owned());
        }
    }
}

impl State {
    pub(super) fn new(request: &LLMRequest) -> Self {
        Self {
            request: request.clone(),
            lifecycle: Lifecycle::new(),
            text: Block::default(),
            reasoning: Block::default(),
            n_calls: 0,
            usage: None,
            finish: None,
            finish_message: None,
            block_reason: None,
            has_closing_usage: false,
            last: String::new(),
        }
    }

    pub(super) fn step(&mut self, event: Event<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if let Some(error) = event.error {
            let failed = serde_json::from_str(error.get()).unwrap_or_default();
            return Err(failure(failed, frame));
        }
        let candidate = event.candidates.unwrap_or_default().into_iter().next().unwrap_or_default();
        let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
        if let Some(raw) = event.usage_metadata {
            self.has_closing_usage = parts.is_empty();
            let usage = usage_from(self.request.model.metadata_key(), raw);
            self.usage = Some(Usage::replace(self.usage.take(), usage));
        }
        for part in parts {
            self.part(part, out);
        }
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason.into_owned());
            self.finish_message = candidate.finish_message.map(Str::into_owned);
            self.last = frame.text().into_owned();
        }
        if let Some(reason) = event.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            self.block_reason = Some(reason.into_owned());
        }
        Ok(())
    }

    fn part(&mut self, part: EventPart<'_>, out: &mut Vec<LLMEvent>) {
        if let Some(call) = part.function_call {
            self.tool_call(call, part.thought_signature, out);
        } else if let Some(text) = part.text {
            if part.thought.unwrap_or(false) {
                self.thought(&text, part.thought_signature, out);
            } else {
                self.text(&text, part.thought_signature, out);
            }
        }
    }

    fn thought(&mut self, text: &str, signature: Option<Str<'_>>, out: &mut Vec<LLMEvent>) {
        if !text.is_empty() {
            self.close_text(out);
            self.lifecycle.reasoning_delta(&self.reasoning.id("reasoning"), text, out);
        }
        self.reasoning.sign(signature);
    }

    fn text(&mut self, text: &str, signature: Option<Str<'_>>, out: &mut Vec<LLMEvent>) {
        if !text.is_empty() {
            self.close_reasoning(out);
            self.lifecycle.text_delta(&self.text.id("text"), text, out);
        }
        self.text.sign(signature);
    }

    fn tool_call(&mut self, call: EventCall<'_>, signature: Option<Str<'_>>, out: &mut Vec<LLMEvent>) {
        self.close_reasoning(out);
        self.close_text(out);
        let wire_id = call.id.map(Str::into_owned).filter(|id| !id.is_empty());
        let id: ToolCallId = match &wire_id {
            Some(id) => id.as_str().into(),
            None => shared::made_up_id("tool", &self.request, self.n_calls).into(),
        };
        self.n_calls = self.n_calls.saturating_add(1);
        let signature = signature.map(Str::into_owned).filter(|signature| !signature.is_empty());
        let mut metadata = JsonObject::new();
        for (name, value) in [("functionCallId", wire_id), ("thoughtSignature", signature)] {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), value.into());
            }
        }
        self.lifecycle.step_start(out);
        out.push(LLMEvent::ToolCall(ToolCall {
            id,
            name: call.name.into_owned(),
            input: call.args.filter(|args| !args.is_null()).unwrap_or_else(|| json!({})),
            provider_executed: None,
            provider_metadata: provider_metadata(self.request.model.metadata_key(), metadata),
        }));
    }

    fn close_reasoning(&mut self, out: &mut Vec<LLMEvent>) {
        let id = self.reasoning.id("reasoning");
        let signature = self.reasoning.signature.take();
        if signature.is_some() {
            // A signature without text still makes a part.
            self.lifecycle.reasoning_start(&id, None, out);
        }
        if self.lifecycle.is_reasoning_open(&id) {
            self.lifecycle.reasoning_end(&id, None, self.signed(signature), out);
            self.reasoning.n_closed = self.reasoning.n_closed.saturating_add(1);
        }
    }

    fn close_text(&mut self, out: &mut Vec<LLMEvent>) {
        let id = self.text.id("text");
        let signature = self.text.signature.take();
        if signature.is_some() {
            self.lifecycle.text_start(&id, None, out);
        }
        if self.lifecycle.is_text_open(&id) {
            self.lifecycle.text_end(&id, self.signed(signature), out);
            self.text.n_closed = self.text.n_closed.saturating_add(1);
        }
    }

    fn signed(&self, signature: Option<String>) -> Option<ProviderMetadata> {
        let mut metadata = JsonObject::new();
        metadata.insert("thoughtSignature".to_owned(), signature?.into());
        provider_metadata(self.request.model.metadata_key(), metadata)
    }

    /// Ends the response. Without a reason it is complete only if counters closed it, or if no reason
    /// is required; the guard reports the rest.
    pub(super) fn halt(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let is_finish_required = self.request.model.compatibility.is_finish_required();
        let is_ended = self.finish.is_some()
            || self.block_reason.is_some()
            || self.has_closing_usage
            || (!is_finish_required && self.lifecycle.is_started());
        if !is_ended {
            return Ok(());
        }
        let has_calls = self.n_calls > 0;
        let reason = match (self.finish.take(), self.block_reason.take()) {
            (Some(raw), _) => FinishReason::new(normalized(&raw, has_calls), Some(&raw)),
            (None, Some(raw)) => FinishReason::new(FinishKind::ContentFilter, Some(&raw)),
            (None, None) if has_calls => FinishReason::new(FinishKind::ToolCalls, None),
            (None, None) => FinishReason::new(FinishKind::Unknown, None),
        };
        self.close_reasoning(out);
        self.close_text(out);
        if reason.normalized == FinishKind::Error && !self.lifecycle.is_started() {
            return Err(self.failed_generation(&reason));
        }
        self.lifecycle.finish(reason, self.usage.take(), None, out);
        Ok(())
    }

    /// A generation that failed before it said anything is no answer; the next try may be one.
    fn failed_generation(&mut self, reason: &FinishReason) -> AIError {
        let raw = reason.raw.as_deref().unwrap_or_default();
        let message = match self.finish_message.take().filter(|message| !message.is_empty()) {
            Some(message) => format!("{NAME} gave no answer ({raw}): {message}"),
            None => format!("{NAME} gave no answer ({raw})"),
        };
        AIError::new(AIErrorKind::MALFORMED_EVENT, message).with_body(std::mem::take(&mut self.last))
    }
}

fn normalized(raw: &str, has_calls: bool) -> FinishKind {
    match raw {
        "STOP" if has_calls => FinishKind::ToolCalls,
        "STOP" => FinishKind::Stop,
        "MAX_TOKENS" => FinishKind::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishKind::ContentFilter,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE"
        | "NO_IMAGE" => FinishKind::Error,
        _ => FinishKind::Unknown,
    }
}

fn usage_from(metadata_key: &str, raw: JsonObject) -> Usage {
    let count = |name: &str| token_count(raw.get(name));
    let thoughts = count("thoughtsTokenCount");
    let candidates = count("candidatesTokenCount");
    let counts = UsageCounts {
        input: count("promptTokenCount"),
        // Thoughts are not part of the candidates.
        output: candidates.and_then(|_| sum_tokens(&[candidates, thoughts])),
        cache_read: count("cachedContentTokenCount"),
        cache_write: None,
        reasoning: thoughts,
        total: count("totalTokenCount"),
    };
    Usage::from(counts, metadata_key, raw)
}

/// The failure that an `error` event reports.
fn failure(failed: Failed, frame: &Frame) -> AIError {
    let message = match (failed.message.filter(|message| !message.trim().is_empty()), &failed.status) {
        (Some(message), _) => message,
        (None, Some(status)) => status.clone(),
        (None, None) => format!("{NAME} stream error"),
    };
    classify(Failure {
        message,
        status: failed.code,
        code: failed.status,
        body: Some(frame.text().into_owned()),
        ..Failure::default()
    })
}
