//! The stream state machine: one handler per wire event.

use std::collections::BTreeMap;

use serde_json::Value;

use super::events::{BlockDelta, BlockStart, Event, ReasoningDelta, StartedTool};
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::protocols::utils::tool_stream::{PendingTool, ToolStream, input_start};
use crate::provider_error::{Failure, classify};
use crate::route::framing::Frame;
use crate::schema::errors::AIError;
use crate::schema::events::{FinishKind, FinishReason, LLMEvent};
use crate::schema::ids::ContentBlockId;
use crate::schema::request::LLMRequest;
use crate::schema::usage::{Usage, UsageCounts, sum_tokens, token_count};
use crate::schema::{JsonObject, ProviderMetadata, provider_metadata};

/// What is remembered between events.
#[derive(Debug)]
pub struct State {
    metadata_key: String,
    is_finish_required: bool,
    lifecycle: Lifecycle,
    blocks: BTreeMap<u64, Block>,
    tools: ToolStream<u64>,
    has_calls: bool,
    usage: Option<Usage>,
    /// Why the answer ended, in the provider's word.
    stop_reason: Option<String>,
}

/// A content block by its position.
#[derive(Debug)]
struct Block {
    kind: BlockState,
    /// How often this position was used before; ids are never reused.
    n_earlier: u32,
}

#[derive(Debug, Default)]
enum BlockState {
    Text(ContentBlockId),
    Reasoning {
        id: ContentBlockId,
        signature: Option<String>,
        redacted: Option<String>,
    },
    Tool,
    /// Complete.
    #[default]
    Inert,
}

impl State {
    pub(super) fn new(request: &LLMRequest) -> Self {
        Self {
            metadata_key: request.model.metadata_key().to_owned(),
            is_finish_required: request.model.compatibility.is_finish_required(),
            lifecycle: Lifecycle::new(),
            blocks: BTreeMap::new(),
            tools: ToolStream::new(request.model.route.id().clone()),
            has_calls: false,
            usage: None,
            stop_reason: None,
        }
    }

    pub(super) fn step(&mut self, event: Event<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        match event {
            Event::BlockDelta(delta) => self.block_delta(delta, out),
            Event::BlockStart(start) => self.block_start(start, out),
            Event::BlockStop(stop) => self.block_stop(stop.content_block_index, out),
            Event::MessageStop(stop) => {
                self.stop_reason = Some(stop.stop_reason.into_owned());
                Ok(())
            }
            Event::Metadata(metadata) => {
                if let Some(raw) = metadata.usage {
                    let usage = usage_from(&self.metadata_key, raw);
                    self.usage = Some(Usage::replace(self.usage.take(), usage));
                }
                Ok(())
            }
            Event::Exception { kind, message } => Err(classify(Failure {
                message: message.unwrap_or_else(|| kind.clone()),
                code: Some(kind),
                body: Some(frame.text().into_owned()),
                ..Failure::default()
            })),
            Event::Ignored => Ok(()),
        }
    }

    fn block_start(&mut self, event: BlockStart<'_>, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let index = event.content_block_index;
        self.block_stop(index, out)?;
        let Some(StartedTool { tool_use_id, name }) = event.start.and_then(|start| start.tool_use) else {
            return Ok(());
        };
        let tool = PendingTool { id: (&*tool_use_id).into(), name: name.into_owned(), ..PendingTool::default() };
        self.lifecycle.step_start(out);
        out.push(input_start(&tool));
        self.tools.start(index, tool);
        *self.block(index) = BlockState::Tool;
        Ok(())
    }

    fn block_delta(&mut self, event: BlockDelta<'_>, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let index = event.content_block_index;
        let Some(delta) = event.delta else { return Ok(()) };
        if let Some(text) = delta.text {
            self.text(index, &text, out)?;
        }
        if let Some(reasoning) = delta.reasoning_content {
            self.reasoning(index, reasoning, out)?;
        }
        if let Some(tool) = delta.tool_use {
            self.tools.append_existing(&index, tool.input.as_deref().unwrap_or_default(), out)?;
        }
        Ok(())
    }

    /// Text blocks usually come without a start.
    fn text(&mut self, index: u64, text: &str, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if text.is_empty() {
            return Ok(());
        }
        if !matches!(self.block(index), BlockState::Text(_)) {
            self.block_stop(index, out)?;
            let id = self.block_id("text", index);
            *self.block(index) = BlockState::Text(id);
        }
        if let BlockState::Text(id) = self.block(index) {
            let id = id.clone();
            self.lifecycle.text_delta(&id, text, out);
        }
        Ok(())
    }

    fn reasoning(&mut self, index: u64, delta: ReasoningDelta<'_>, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if !matches!(self.block(index), BlockState::Reasoning { .. }) {
            self.block_stop(index, out)?;
            let id = self.block_id("reasoning", index);
            *self.block(index) = BlockState::Reasoning { id, signature: None, redacted: None };
        }
        let BlockState::Reasoning { id, signature, redacted } = self.block(index) else { return Ok(()) };
        for (kept, more) in [(signature, delta.signature), (redacted, delta.redacted_content)] {
            if let Some(more) = more.filter(|more| !more.is_empty()) {
                kept.get_or_insert_default().push_str(&more);
            }
        }
        let id = id.clone();
        self.lifecycle.reasoning_delta(&id, delta.text.as_deref().unwrap_or_default(), out);
        Ok(())
    }

    /// The block at a position.
    fn block(&mut self, index: u64) -> &mut BlockState {
        let new = || Block { kind: BlockState::Inert, n_earlier: 0 };
        &mut self.blocks.entry(index).or_insert_with(new).kind
    }

    fn block_id(&self, kind: &str, index: u64) -> ContentBlockId {
        match self.blocks.get(&index).map_or(0, |block| block.n_earlier) {
            0 => format!("{kind}-{index}").into(),
            n_earlier => format!("{kind}-{index}-{n_earlier}").into(),
        }
    }

    fn block_stop(&mut self, index: u64, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(block) = self.blocks.get_mut(&index) else { return Ok(()) };
        let state = std::mem::take(&mut block.kind);
        if !matches!(state, BlockState::Inert) {
            block.n_earlier = block.n_earlier.saturating_add(1);
        }
        match state {
            BlockState::Text(id) => self.lifecycle.text_end(&id, None, out),
            BlockState::Reasoning { id, signature, redacted } => {
                let metadata = match redacted {
                    Some(data) => self.metadata("redactedData", Some(data)),
                    None => self.metadata("signature", signature),
                };
                if metadata.is_some() {
                    // A signature without text still makes a part.
                    self.lifecycle.reasoning_start(&id, None, out);
                }
                self.lifecycle.reasoning_end(&id, None, metadata, out);
            }
            BlockState::Tool => {
                let from = out.len();
                self.tools.finish(&index, out)?;
                self.has_calls |= out.iter().skip(from).any(LLMEvent::is_tool_call);
            }
            BlockState::Inert => {}
        }
        Ok(())
    }

    /// Ends the response: reason and counters come in different events, and either may be the last.
    pub(super) fn halt(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(raw) = self.stop_reason.take() else {
            if !self.is_finish_required {
                self.close_left_over(out)?;
            }
            return Ok(());
        };
        if matches!(normalized(&raw, false), FinishKind::Length | FinishKind::ContentFilter) {
            // Calls of a cut output are no calls.
            self.tools.clear();
        }
        self.close_left_over(out)?;
        let reason = FinishReason::new(normalized(&raw, self.has_calls), Some(&raw));
        let usage = self.usage.take();
        self.lifecycle.finish(reason, usage, None, out);
        Ok(())
    }

    /// Closes blocks whose stop never came: reasoning, text, then calls.
    fn close_left_over(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let mut left_over: Vec<(u8, u64)> = self
            .blocks
            .iter()
            .filter_map(|(index, block)| match &block.kind {
                BlockState::Reasoning { .. } => Some((0, *index)),
                BlockState::Text(_) => Some((1, *index)),
                BlockState::Tool => Some((2, *index)),
                BlockState::Inert => None,
            })
            .collect();
        left_over.sort_unstable();
        for (_, index) in left_over {
            self.block_stop(index, out)?;
        }
        Ok(())
    }

    fn metadata(&self, name: &str, value: Option<String>) -> Option<ProviderMetadata> {
        let mut values = JsonObject::new();
        values.insert(name.to_owned(), Value::String(value?));
        provider_metadata(&self.metadata_key, values)
    }
}

fn normalized(reason: &str, has_calls: bool) -> FinishKind {
    match reason {
        "end_turn" | "stop_sequence" if has_calls => FinishKind::ToolCalls,
        "end_turn" | "stop_sequence" => FinishKind::Stop,
        "max_tokens" => FinishKind::Length,
        "tool_use" => FinishKind::ToolCalls,
        "content_filtered" | "guardrail_intervened" => FinishKind::ContentFilter,
        _ => FinishKind::Unknown,
    }
}

fn usage_from(metadata_key: &str, raw: JsonObject) -> Usage {
    let count = |name: &str| token_count(raw.get(name));
    let (fresh, output, total) = (count("inputTokens"), count("outputTokens"), count("totalTokens"));
    let (read, write) = (count("cacheReadInputTokens"), count("cacheWriteInputTokens"));
    // Some models count cached tokens apart from the input: then only all four make the total.
    let whole = sum_tokens(&[fresh, output, read, write]);
    let is_apart = (read.is_some() || write.is_some()) && total.is_some() && total == whole;
    let input = if is_apart { sum_tokens(&[fresh, read, write]) } else { fresh };
    let counts = UsageCounts { input, output, cache_read: read, cache_write: write, reasoning: None, total };
    Usage::from(counts, metadata_key, raw)
}
