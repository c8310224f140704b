//! Opening and closing of text and reasoning blocks, and the terminal pair.

use crate::schema::ProviderMetadata;
use crate::schema::events::{
    BlockDelta, BlockStart, Finish, FinishReason, LLMEvent, ReasoningEnd, StepFinish, StepStart, TextEnd,
};
use crate::schema::ids::ContentBlockId;
use crate::schema::usage::Usage;

/// Which blocks are open. Every operation appends events in a legal order.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle {
    is_started: bool,
    text: Vec<ContentBlockId>,
    reasoning: Vec<ContentBlockId>,
}

impl Lifecycle {
    /// Nothing is open.
    pub fn new() -> Self {
        Self::default()
    }

    /// Emits `step-start`, once.
    pub fn step_start(&mut self, out: &mut Vec<LLMEvent>) {
        if !self.is_started {
            self.is_started = true;
            out.push(LLMEvent::StepStart(StepStart { index: 0 }));
        }
    }

    /// Whether anything was emitted.
    pub const fn is_started(&self) -> bool {
        self.is_started
    }

    /// Whether a text block is open.
    pub fn is_text_open(&self, id: &ContentBlockId) -> bool {
        self.text.contains(id)
    }

    /// Whether a reasoning block is open.
    pub fn is_reasoning_open(&self, id: &ContentBlockId) -> bool {
        self.reasoning.contains(id)
    }

    /// The open reasoning blocks, in order.
    pub fn open_reasoning(&self) -> &[ContentBlockId] {
        &self.reasoning
    }

    /// The open text blocks, in order.
    pub fn open_text(&self) -> &[ContentBlockId] {
        &self.text
    }

    /// Opens a text block unless it is open.
    pub fn text_start(
        &mut self,
        id: &ContentBlockId,
        provider_metadata: Option<ProviderMetadata>,
        out: &mut Vec<LLMEvent>,
    ) {
        self.step_start(out);
        if !self.is_text_open(id) {
            self.text.push(id.clone());
            out.push(LLMEvent::TextStart(BlockStart { id: id.clone(), provider_metadata }));
        }
    }

    /// Appends text, opening the block if needed; empty text does nothing.
    pub fn text_delta(&mut self, id: &ContentBlockId, text: &str, out: &mut Vec<LLMEvent>) {
        if text.is_empty() {
            return;
        }
        self.text_start(id, None, out);
        out.push(LLMEvent::TextDelta(BlockDelta { id: id.clone(), text: text.to_owned(), provider_metadata: None }));
    }

    /// Closes a text block if it is open.
    pub fn text_end(
        &mut self,
        id: &ContentBlockId,
        provider_metadata: Option<ProviderMetadata>,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(index) = self.text.iter().position(|open| open == id) {
            self.text.remove(index);
            out.push(LLMEvent::TextEnd(TextEnd { id: id.clone(), provider_metadata }));
        }
    }

    /// Opens a reasoning block unless it is open.
    pub fn reasoning_start(
        &mut self,
        id: &ContentBlockId,
        provider_metadata: Option<ProviderMetadata>,
        out: &mut Vec<LLMEvent>,
    ) {
        self.step_start(out);
        if !self.is_reasoning_open(id) {
            self.reasoning.push(id.clone());
            out.push(LLMEvent::ReasoningStart(BlockStart { id: id.clone(), provider_metadata }));
        }
    }

    /// Appends reasoning text, opening the block if needed; empty text does nothing.
    pub fn reasoning_delta(&mut self, id: &ContentBlockId, text: &str, out: &mut Vec<LLMEvent>) {
        if text.is_empty() {
            return;
        }
        self.reasoning_start(id, None, out);
        out.push(LLMEvent::ReasoningDelta(BlockDelta {
            id: id.clone(),
            text: text.to_owned(),
            provider_metadata: None,
        }));
    }

    /// Closes a reasoning block if it is open; `text` only when there were no deltas.
    pub fn reasoning_end(
        &mut self,
        id: &ContentBlockId,
        text: Option<String>,
        provider_metadata: Option<ProviderMetadata>,
        out: &mut Vec<LLMEvent>,
    ) {
        if let Some(index) = self.reasoning.iter().position(|open| open == id) {
            self.reasoning.remove(index);
            out.push(LLMEvent::ReasoningEnd(ReasoningEnd { id: id.clone(), text, provider_metadata }));
        }
    }

    /// Closes what is open (reasoning, then text).
    pub fn close_blocks(&mut self, out: &mut Vec<LLMEvent>) {
        for id in std::mem::take(&mut self.reasoning) {
            out.push(LLMEvent::ReasoningEnd(ReasoningEnd { id, text: None, provider_metadata: None }));
        }
        for id in std::mem::take(&mut self.text) {
            out.push(LLMEvent::TextEnd(TextEnd { id, provider_metadata: None }));
        }
    }

    /// Ends the call: `step-start` if it is missing, closes open blocks, emits the terminal pair.
    pub fn finish(
        &mut self,
        reason: FinishReason,
        usage: Option<Usage>,
        provider_metadata: Option<ProviderMetadata>,
        out: &mut Vec<LLMEvent>,
    ) {
        self.step_start(out);
        self.close_blocks(out);
        terminal_pair(reason, usage, provider_metadata, out);
    }
}

/// Emits `step-finish` and `finish` with the same reason, usage and metadata.
pub fn terminal_pair(
    reason: FinishReason,
    usage: Option<Usage>,
    provider_metadata: Option<ProviderMetadata>,
    out: &mut Vec<LLMEvent>,
) {
    out.push(LLMEvent::StepFinish(StepFinish {
        index: 0,
        reason: reason.clone(),
        usage: usage.clone(),
        provider_metadata: provider_metadata.clone(),
    }));
    out.push(LLMEvent::Finish(Finish { reason, usage, provider_metadata }));
}
