//! The collected answer, folded from events by a pure reducer.

use std::collections::BTreeMap;

use super::ProviderMetadata;
use super::events::{FinishKind, FinishReason, LLMEvent};
use super::ids::{ContentBlockId, ToolCallId};
use super::messages::{Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart};
use super::usage::Usage;

/// The whole answer of one model call.
#[derive(Clone, Debug, PartialEq)]
pub struct LLMResponse {
    /// The assistant message.
    pub message: Message,
    /// Every event in order.
    pub events: Vec<LLMEvent>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish_reason: FinishKind,
    /// The provider's own word for it.
    pub raw_finish_reason: Option<String>,
}

/// The state of the reducer; partial content is readable at any time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseState {
    /// Parts so far.
    pub content: Vec<Part>,
    /// Events so far.
    pub events: Vec<LLMEvent>,
    /// Tokens so far.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish: Option<FinishReason>,
    /// A failure reported in-band.
    pub error: Option<String>,
    /// Position of a text block in `content`.
    text: BTreeMap<ContentBlockId, usize>,
    /// Position of a reasoning block in `content`.
    reasoning: BTreeMap<ContentBlockId, usize>,
    /// Arguments that still arrive.
    pub pending_inputs: BTreeMap<ToolCallId, String>,
}

impl LLMResponse {
    /// Folds one event into the state.
    pub fn reduce(mut state: ResponseState, event: LLMEvent) -> ResponseState {
        state.apply(&event);
        state.events.push(event);
        state
    }

    /// The response, once a terminal event was seen.
    pub fn complete(state: &ResponseState) -> Option<Self> {
        let finish = match (&state.finish, &state.error) {
            (Some(finish), _) => finish.clone(),
            (None, Some(_)) => FinishReason::new(FinishKind::Error, None),
            (None, None) => return None,
        };
        Some(Self {
            message: Message::new(Role::Assistant, state.content.clone()),
            events: state.events.clone(),
            usage: state.usage.clone(),
            finish_reason: finish.normalized,
            raw_finish_reason: finish.raw,
        })
    }

    /// Folds a list of events.
    pub fn from_events(events: impl IntoIterator<Item = LLMEvent>) -> Option<Self> {
        Self::complete(&events.into_iter().fold(ResponseState::default(), Self::reduce))
    }

    /// All text, concatenated.
    pub fn text(&self) -> String {
        self.message
            .content
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.text.as_str()) } else { None })
            .collect()
    }

    /// All reasoning text, concatenated.
    pub fn reasoning(&self) -> String {
        self.message
            .content
            .iter()
            .filter_map(|part| if let Part::Reasoning(part) = part { Some(part.text.as_str()) } else { None })
            .collect()
    }

    /// The calls, in order.
    pub fn tool_calls(&self) -> Vec<&ToolCallPart> {
        self.message
            .content
            .iter()
            .filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
            .collect()
    }
}

impl ResponseState {
    fn text_part(&mut self, id: &ContentBlockId) -> Option<&mut TextPart> {
        let index = *self.text.entry(id.clone()).or_insert_with(|| {
            self.content.push(Part::Text(TextPart::default()));
            self.content.len() - 1
        });
        if let Some(Part::Text(part)) = self.content.get_mut(index) { Some(part) } else { None }
    }

    fn reasoning_part(&mut self, id: &ContentBlockId) -> Option<&mut ReasoningPart> {
        let index = *self.reasoning.entry(id.clone()).or_insert_with(|| {
            self.content.push(Part::Reasoning(ReasoningPart::default()));
            self.content.len() - 1
        });
        if let Some(Part::Reasoning(part)) = self.content.get_mut(index) { Some(part) } else { None }
    }

    fn apply(&mut self, event: &LLMEvent) {
        match event {
            LLMEvent::StepStart(_) | LLMEvent::ToolInputEnd(_) | LLMEvent::ToolError(_) => {}
            LLMEvent::TextStart(start) => {
                if let Some(part) = self.text_part(&start.id) {
                    keep_metadata(&mut part.provider_metadata, start.provider_metadata.as_ref());
                }
            }
            LLMEvent::TextDelta(delta) => {
                if let Some(part) = self.text_part(&delta.id) {
                    part.text.push_str(&delta.text);
                    keep_metadata(&mut part.provider_metadata, delta.provider_metadata.as_ref());
                }
            }
            LLMEvent::TextEnd(end) => {
                if let Some(part) = self.text_part(&end.id) {
                    keep_metadata(&mut part.provider_metadata, end.provider_metadata.as_ref());
                }
            }
            LLMEvent::ReasoningStart(start) => {
                if let Some(part) = self.reasoning_part(&start.id) {
                    keep_metadata(&mut part.provider_metadata, start.provider_metadata.as_ref());
                }
            }
            LLMEvent::ReasoningDelta(delta) => {
                if let Some(part) = self.reasoning_part(&delta.id) {
                    part.text.push_str(&delta.text);
                    keep_metadata(&mut part.provider_metadata, delta.provider_metadata.as_ref());
                }
            }
            LLMEvent::ReasoningEnd(end) => {
                if let Some(part) = self.reasoning_part(&end.id) {
                    keep_metadata(&mut part.provider_metadata, end.provider_metadata.as_ref());
                    if let Some(text) = &end.text
                        && part.text.is_empty()
                    {
                        part.text.clone_from(text);
                    }
                }
            }
            LLMEvent::ToolInputStart(start) => {
                self.pending_inputs.insert(start.id.clone(), String::new());
            }
            LLMEvent::ToolInputDelta(delta) => {
                self.pending_inputs.entry(delta.id.clone()).or_default().push_str(&delta.text);
            }
            LLMEvent::ToolInputError(error) => {
                self.pending_inputs.remove(&error.id);
            }
            LLMEvent::ToolCall(call) => {
                self.pending_inputs.remove(&call.id);
                self.content.push(Part::ToolCall(ToolCallPart {
                    provider_executed: call.provider_executed,
                    provider_metadata: call.provider_metadata.clone(),
                    ..ToolCallPart::make(call.id.clone(), call.name.clone(), call.input.clone())
                }));
            }
            LLMEvent::ToolResult(result) => {
                self.content.push(Part::ToolResult(ToolResultPart {
                    provider_executed: result.provider_executed,
                    provider_metadata: result.provider_metadata.clone(),
                    ..ToolResultPart::make(result.id.clone(), result.name.clone(), result.result.clone())
                }));
            }
            LLMEvent::StepFinish(finish) => self.keep_usage(finish.usage.as_ref()),
            LLMEvent::Finish(finish) => {
                self.keep_usage(finish.usage.as_ref());
                self.finish = Some(finish.reason.clone());
            }
            LLMEvent::ProviderError(error) => {
                self.error.get_or_insert_with(|| error.message.clone());
            }
        }
    }

    fn keep_usage(&mut self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.usage = Some(usage.clone());
        }
    }
}

fn keep_metadata(kept: &mut Option<ProviderMetadata>, new: Option<&ProviderMetadata>) {
    if let Some(new) = new {
        *kept = Some(new.clone());
    }
}
