//! The stream state machine: one handler per wire event.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::NAME;
use super::events::{BlockKind, Delta, Event, WireBlock};
use super::property_names::KeyMaps;
use super::usage::{merge_usage, usage_from};
use crate::protocols::shared;
use crate::protocols::utils::borrowed::Str;
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::protocols::utils::tool_stream::{PendingTool, ToolStream, input_start};
use crate::provider_error::{Failure, classify};
use crate::route::framing::Frame;
use crate::schema::errors::{AIError, AIErrorKind, AIErrorReason};
use crate::schema::events::{FinishKind, FinishReason, LLMEvent, ToolResult};
use crate::schema::ids::{ContentBlockId, ProviderId, RouteId};
use crate::schema::messages::ToolResultValue;
use crate::schema::request::LLMRequest;
use crate::schema::{JsonObject, ProviderMetadata, provider_metadata};

/// What is remembered between events.
#[derive(Debug)]
pub struct State {
    provider: ProviderId,
    route: RouteId,
    metadata_key: String,
    is_finish_required: bool,
    lifecycle: Lifecycle,
    blocks: BTreeMap<u64, Block>,
    tools: ToolStream<u64>,
    key_maps: KeyMaps,
    /// The usage object, merged over all events.
    usage: JsonObject,
    finish: Option<PendingFinish>,
    is_finished: bool,
}

/// A content block by its position.
#[derive(Debug)]
struct Block {
    kind: BlockState,
    /// How often this position was used before; ids are never reused.
    n_earlier: u32,
}

#[derive(Debug)]
enum BlockState {
    Text(ContentBlockId),
    Reasoning {
        id: ContentBlockId,
        signature: Option<String>,
        redacted: Option<Value>,
    },
    Tool,
    /// Of a type of no concern, or complete.
    Inert,
}

#[derive(Debug)]
struct PendingFinish {
    reason: FinishReason,
    stop_sequence: Option<String>,
}

impl State {
    pub(super) fn new(request: &LLMRequest) -> Self {
        let route = request.model.route.id().clone();
        Self {
            provider: request.model.provider.clone(),
            metadata_key: request.model.metadata_key().to_owned(),
            is_finish_required: request.model.compatibility.is_finish_required(),
            lifecycle: Lifecycle::new(),
            blocks: BTreeMap::new(),
            tools: ToolStream::new(route.clone()),
            key_maps: KeyMaps::of(&request.tools),
            usage: JsonObject::new(),
            finish: None,
            is_finished: false,
            route,
        }
    }

    pub(super) fn step(&mut self, event: Event<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        match event {
            Event::BlockDelta { index, delta } => self.block_delta(index, &delta, out),
            Event::BlockStart { index, block } => self.block_start(index, block, frame, out),
            Event::BlockStop { index } => self.block_stop(index, out),
            Event::MessageStart { usage } => {
                self.merge_usage(usage);
                Ok(())
            }
            Event::MessageDelta { stop_reason, stop_sequence, usage } => {
                self.merge_usage(usage);
                self.message_delta(stop_reason.as_deref(), stop_sequence.as_deref());
                Ok(())
            }
            Event::MessageStop => self.finish(out),
            Event::Error { error } => Err(failure(error, frame)),
            Event::Ignored => Ok(()),
        }
    }

    /// Ends a stream whose `message_stop` never came: after `message_delta` its reason counts.
    pub(super) fn halt(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if self.is_finished {
            return Ok(());
        }
        if self.finish.is_some() {
            return self.finish(out);
        }
        if !self.is_finish_required {
            self.tools.finish_all(out)?;
            self.lifecycle.close_blocks(out);
        }
        Ok(())
    }

    fn block_start(
        &mut self,
        index: u64,
        block: &RawValue,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let kind =
            serde_json::from_str::<BlockKind<'_>>(block.get()).map_err(|error| self.malformed(error, frame))?.kind;
        self.block_stop(index, out)?;
        let n_earlier = self.blocks.get(&index).map_or(0, |block| block.n_earlier.saturating_add(1));
        let state = match &*kind {
            "text" => self.text_start(index, n_earlier, &self.wire(block, frame)?, out),
            "thinking" => self.thinking_start(index, n_earlier, self.wire(block, frame)?, out),
            "redacted_thinking" => self.redacted_start(index, n_earlier, &self.wire(block, frame)?, out),
            "tool_use" => self.tool_start(index, None, &self.wire(block, frame)?, frame, out)?,
            "server_tool_use" => self.tool_start(index, Some(true), &self.wire(block, frame)?, frame, out)?,
            // The calls of this one are of no concern, so its results are not either.
            "mcp_tool_result" => BlockState::Inert,
            kind => {
                if let Some(name) = kind.strip_suffix("_tool_result") {
                    let block = self.wire(block, frame)?;
                    self.hosted_result(kind, name, block, frame, out)?;
                }
                BlockState::Inert
            }
        };
        self.blocks.insert(index, Block { kind: state, n_earlier });
        Ok(())
    }

    fn text_start(&mut self, index: u64, n_earlier: u32, block: &WireBlock<'_>, out: &mut Vec<LLMEvent>) -> BlockState {
        let id = block_id("text", index, n_earlier);
        self.lifecycle.text_start(&id, None, out);
        self.lifecycle.text_delta(&id, block.text.as_deref().unwrap_or_default(), out);
        BlockState::Text(id)
    }

    fn thinking_start(
        &mut self,
        index: u64,
        n_earlier: u32,
        block: WireBlock<'_>,
        out: &mut Vec<LLMEvent>,
    ) -> BlockState {
        let id = block_id("reasoning", index, n_earlier);
        self.lifecycle.reasoning_start(&id, None, out);
        self.lifecycle.reasoning_delta(&id, block.thinking.as_deref().unwrap_or_default(), out);
        let signature = block.signature.map(Str::into_owned).filter(|signature| !signature.is_empty());
        BlockState::Reasoning { id, signature, redacted: None }
    }

    fn redacted_start(
        &mut self,
        index: u64,
        n_earlier: u32,
        block: &WireBlock<'_>,
        out: &mut Vec<LLMEvent>,
    ) -> BlockState {
        let id = block_id("reasoning", index, n_earlier);
        let redacted = block.data.as_deref().map(|data| json!(data));
        self.lifecycle.reasoning_start(&id, self.metadata("redactedData", redacted.clone()), out);
        BlockState::Reasoning { id, signature: None, redacted }
    }

    fn tool_start(
        &mut self,
        index: u64,
        provider_executed: Option<bool>,
        block: &WireBlock<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<BlockState, AIError> {
        let (Some(id), Some(name)) = (block.id.as_deref(), block.name.as_deref()) else {
            return Err(self.malformed("a tool call without id or name", frame));
        };
        let input = block.input.map(RawValue::get).filter(|input| is_filled_object(input));
        let tool = PendingTool {
            id: self.tools.unique_id(id),
            name: name.to_owned(),
            input: input.unwrap_or_default().to_owned(),
            provider_executed,
            provider_metadata: None,
        };
        self.lifecycle.step_start(out);
        out.push(input_start(&tool));
        self.tools.start(index, tool);
        Ok(BlockState::Tool)
    }

    fn hosted_result(
        &mut self,
        kind: &str,
        name: &str,
        block: WireBlock<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let Some(id) = block.tool_use_id.as_deref() else {
            return Err(self.malformed("a hosted tool result without tool_use_id", frame));
        };
        let content = block.content.unwrap_or_default();
        let is_error =
            content.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("_tool_result_error"));
        let mut metadata = JsonObject::new();
        metadata.insert("blockType".to_owned(), json!(kind));
        metadata.insert("result".to_owned(), content.clone());
        self.lifecycle.step_start(out);
        out.push(LLMEvent::ToolResult(ToolResult {
            id: id.into(),
            name: name.to_owned(),
            result: if is_error { ToolResultValue::Error(content) } else { ToolResultValue::Json(content) },
            output: None,
            provider_executed: Some(true),
            provider_metadata: provider_metadata(&self.metadata_key, metadata),
        }));
        Ok(())
    }

    fn block_delta(&mut self, index: u64, delta: &Delta<'_>, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        match delta {
            Delta::Text(text) => {
                let block = self
                    .blocks
                    .entry(index)
                    .or_insert_with(|| Block { kind: BlockState::Text(block_id("text", index, 0)), n_earlier: 0 });
                if let BlockState::Text(id) = &block.kind {
                    self.lifecycle.text_delta(id, text, out);
                }
                Ok(())
            }
            Delta::Thinking(text) => {
                if let BlockState::Reasoning { id, .. } = &self.reasoning(index).kind {
                    let id = id.clone();
                    self.lifecycle.reasoning_delta(&id, text, out);
                }
                Ok(())
            }
            Delta::Signature(text) => {
                if let BlockState::Reasoning { signature, .. } = &mut self.reasoning(index).kind {
                    signature.get_or_insert_default().push_str(text);
                }
                Ok(())
            }
            Delta::InputJson(text) => {
                if self.tools.get(&index).is_some() {
                    self.tools.append_existing(&index, text, out)?;
                }
                Ok(())
            }
        }
    }

    /// The block at a position, a new reasoning block if there is none.
    fn reasoning(&mut self, index: u64) -> &mut Block {
        self.blocks.entry(index).or_insert_with(|| Block {
            kind: BlockState::Reasoning { id: block_id("reasoning", index, 0), signature: None, redacted: None },
            n_earlier: 0,
        })
    }

    fn block_stop(&mut self, index: u64, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(block) = self.blocks.get_mut(&index) else { return Ok(()) };
        match std::mem::replace(&mut block.kind, BlockState::Inert) {
            BlockState::Text(id) => self.lifecycle.text_end(&id, None, out),
            BlockState::Reasoning { id, signature, redacted } => {
                self.reasoning_end(&id, signature, redacted, out);
            }
            BlockState::Tool => self.tool_end(index, out)?,
            BlockState::Inert => {}
        }
        Ok(())
    }

    fn reasoning_end(
        &mut self,
        id: &ContentBlockId,
        signature: Option<String>,
        redacted: Option<Value>,
        out: &mut Vec<LLMEvent>,
    ) {
        let metadata = match redacted {
            Some(data) => self.metadata("redactedData", Some(data)),
            None => self.metadata("signature", signature.map(Value::String)),
        };
        if metadata.is_some() {
            // A signature without text still makes a part.
            self.lifecycle.reasoning_start(id, None, out);
        }
        self.lifecycle.reasoning_end(id, None, metadata, out);
    }

    fn tool_end(&mut self, index: u64, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let from = out.len();
        self.tools.finish(&index, out)?;
        for event in out.iter_mut().skip(from) {
            if let LLMEvent::ToolCall(call) = event {
                self.key_maps.restore(&call.name, &mut call.input);
            }
        }
        Ok(())
    }

    fn message_delta(&mut self, stop_reason: Option<&str>, stop_sequence: Option<&str>) {
        if let Some(reason) = stop_reason {
            self.finish = Some(PendingFinish {
                reason: FinishReason::new(normalized(reason), Some(reason)),
                stop_sequence: stop_sequence.map(str::to_owned),
            });
        }
    }

    fn finish(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if self.is_finished {
            return Ok(());
        }
        self.is_finished = true;
        let PendingFinish { reason, stop_sequence } = self
            .finish
            .take()
            .unwrap_or(PendingFinish { reason: FinishReason::new(FinishKind::Unknown, None), stop_sequence: None });
        self.close_left_over(is_cut(reason.normalized), out)?;
        let usage = usage_from(&self.metadata_key, std::mem::take(&mut self.usage));
        let metadata = self.metadata("stopSequence", stop_sequence.map(Value::String));
        self.lifecycle.finish(reason, usage, metadata, out);
        Ok(())
    }

    /// Closes blocks whose stop never came: reasoning, text, then calls. Calls of a cut output are
    /// dropped.
    fn close_left_over(&mut self, is_cut: bool, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if is_cut {
            self.tools.clear();
        }
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

    fn merge_usage(&mut self, usage: Option<JsonObject>) {
        if let Some(usage) = usage {
            merge_usage(&mut self.usage, usage);
        }
    }

    fn metadata(&self, name: &str, value: Option<Value>) -> Option<ProviderMetadata> {
        let mut values = JsonObject::new();
        values.insert(name.to_owned(), value?);
        provider_metadata(&self.metadata_key, values)
    }

    fn wire<'f>(&self, block: &'f RawValue, frame: &Frame) -> Result<WireBlock<'f>, AIError> {
        serde_json::from_str(block.get()).map_err(|error| self.malformed(error, frame))
    }

    fn malformed(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>, frame: &Frame) -> AIError {
        let mut reason = AIErrorReason::new(
            AIErrorKind::INVALID_OUTPUT,
            format!("Invalid {}/{} stream event", self.provider, self.route),
        );
        reason.body = Some(frame.text().into_owned());
        reason.cause = Some(Arc::from(cause.into()));
        reason.into()
    }
}

fn block_id(kind: &str, index: u64, n_earlier: u32) -> ContentBlockId {
    if n_earlier == 0 { format!("{kind}-{index}").into() } else { format!("{kind}-{index}-{n_earlier}").into() }
}

fn is_filled_object(input: &str) -> bool {
    serde_json::from_str::<JsonObject>(input).is_ok_and(|input| !input.is_empty())
}

fn normalized(reason: &str) -> FinishKind {
    match reason {
        "end_turn" | "stop_sequence" | "pause_turn" => FinishKind::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishKind::Length,
        "tool_use" => FinishKind::ToolCalls,
        "refusal" => FinishKind::ContentFilter,
        _ => FinishKind::Unknown,
    }
}

/// Whether the output was cut, so that calls left open are not calls.
const fn is_cut(reason: FinishKind) -> bool {
    match reason {
        FinishKind::Length | FinishKind::ContentFilter => true,
        FinishKind::Stop | FinishKind::ToolCalls | FinishKind::Error | FinishKind::Unknown => false,
    }
}

/// The failure that an `error` event reports.
fn failure(error: Option<&RawValue>, frame: &Frame) -> AIError {
    #[derive(Default, serde::Deserialize)]
    struct Details {
        #[serde(default, rename = "type", deserialize_with = "shared::lenient")]
        kind: Option<String>,
        #[serde(default, deserialize_with = "shared::lenient")]
        message: Option<String>,
    }
    let details: Details = error.and_then(|error| serde_json::from_str(error.get()).ok()).unwrap_or_default();
    let message = match (&details.kind, details.message) {
        (Some(kind), Some(message)) => format!("{kind}: {message}"),
        (None, Some(message)) => message,
        (Some(kind), None) => kind.clone(),
        (None, None) => format!("{NAME} stream error"),
    };
    classify(Failure { message, code: details.kind, body: Some(frame.text().into_owned()), ..Failure::default() })
}
