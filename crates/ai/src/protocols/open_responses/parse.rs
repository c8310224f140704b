//! The stream state machine: one handler per wire event.

mod calls;
mod failure;
mod reasoning;
mod text;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::calls::Calls;
use self::reasoning::ReasoningItems;
use self::text::TextItems;
use super::dialect::Dialect;
use super::events::{Event, ItemKind, Place, WireCall, WireMessage, WireReasoning, WireResponse};
use super::usage::usage_from;
use crate::protocols::utils::borrowed::Str;
use crate::protocols::utils::lifecycle::Lifecycle;
use crate::route::framing::Frame;
use crate::schema::errors::{AIError, AIErrorKind, AIErrorReason};
use crate::schema::events::{FinishKind, FinishReason, LLMEvent, ToolCall, ToolResult};
use crate::schema::ids::{ProviderId, RouteId, ToolCallId};
use crate::schema::request::LLMRequest;
use crate::schema::{JsonObject, ProviderMetadata, provider_metadata};

/// What is remembered between events.
#[derive(Debug)]
pub struct State {
    dialect: &'static dyn Dialect,
    provider: ProviderId,
    route: RouteId,
    is_finish_required: bool,
    metadata: Metadata,
    lifecycle: Lifecycle,
    /// Item ids by output index: the known one wins over what later events say.
    items: BTreeMap<u64, Arc<str>>,
    text: TextItems,
    reasoning: ReasoningItems,
    calls: Calls,
    /// Hosted items that were reported.
    hosted: Vec<Arc<str>>,
    is_finished: bool,
}

/// Builds metadata under the key of the route.
#[derive(Debug)]
struct Metadata(String);

impl Metadata {
    fn of(&self, values: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Option<ProviderMetadata> {
        let values: JsonObject =
            values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        provider_metadata(&self.0, values)
    }

    fn item(&self, id: &str) -> Option<ProviderMetadata> {
        self.of([("itemId", Some(id.into()))])
    }
}

impl State {
    pub(super) fn new(request: &LLMRequest, dialect: &'static dyn Dialect) -> Self {
        let route = request.model.route.id().clone();
        Self {
            dialect,
            provider: request.model.provider.clone(),
            is_finish_required: request.model.compatibility.is_finish_required(),
            metadata: Metadata(request.model.metadata_key().to_owned()),
            lifecycle: Lifecycle::new(),
            items: BTreeMap::new(),
            text: TextItems::default(),
            reasoning: ReasoningItems::default(),
            calls: Calls::new(route.clone()),
            hosted: Vec::new(),
            is_finished: false,
            route,
        }
    }

    pub(super) fn step(&mut self, event: Event<'_>, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        match event {
            Event::TextDelta(place, text) => {
                let id = self.resolve(&place, frame)?;
                if self.reasoning.is_known(&id) {
                    return Ok(());
                }
                self.text.delta(&id, &text, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            Event::TextDone(place, text) => {
                let id = self.resolve(&place, frame)?;
                if self.reasoning.is_known(&id) {
                    return Ok(());
                }
                self.text.done(&id, &text, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            Event::ReasoningDelta(place, part, text) => {
                let id = self.resolve(&place, frame)?;
                self.reasoning.delta(&id, part, &text, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            Event::ReasoningDone(place, part, text) => {
                let id = self.resolve(&place, frame)?;
                self.reasoning.done(&id, part, &text, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            Event::ReasoningPart(place, part) => {
                let id = self.resolve(&place, frame)?;
                self.reasoning.part_added(&id, part, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            Event::ArgumentsDelta(place, text) => {
                let call = self.call_at(&place, frame)?;
                self.calls.delta(call, &text, out)
            }
            Event::ArgumentsDone(place, text) => {
                let call = self.call_at(&place, frame)?;
                self.calls.arguments_done(call, &text, out)
            }
            Event::ItemAdded(output_index, item) => self.item_added(output_index, item, frame, out),
            Event::ItemDone(output_index, item) => self.item_done(output_index, item, frame, out),
            Event::Completed(response) => self.completed(response, frame, out),
            Event::Incomplete(response) => self.incomplete(response, frame, out),
            Event::Failed => Err(failure::failure(frame, &format!("{} response failed", self.dialect.name()))),
            Event::Error => Err(failure::failure(frame, &format!("{} stream error", self.dialect.name()))),
            Event::Ignored => Ok(()),
        }
    }

    /// Closes what is open when the stream may end without a terminal event.
    pub(super) fn halt(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        if !self.is_finished && !self.is_finish_required {
            self.calls.finish_all(out)?;
            self.reasoning.close(&self.metadata, &mut self.lifecycle, out);
            self.lifecycle.close_blocks(out);
        }
        Ok(())
    }

    /// The item an event belongs to: the known id of its output index, else the id it names.
    fn resolve(&self, place: &Place<'_>, frame: &Frame) -> Result<Arc<str>, AIError> {
        if let Some(known) = place.output_index.and_then(|index| self.items.get(&index)) {
            return Ok(Arc::clone(known));
        }
        match &place.item_id {
            Some(id) => Ok(Arc::from(&**id)),
            None => Err(AIError::invalid_output(format!("{} is missing item_id", place.kind)).with_body(frame.text())),
        }
    }

    fn call_at(&self, place: &Place<'_>, frame: &Frame) -> Result<Option<usize>, AIError> {
        if let Some(call) = self.calls.at_output(place.output_index) {
            return Ok(Some(call));
        }
        Ok(self.calls.of_item(&self.resolve(place, frame)?))
    }

    fn item_added(
        &mut self,
        output_index: Option<u64>,
        item: &RawValue,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let kind: ItemKind<'_> = self.read(item, frame)?;
        match &*kind.kind {
            "message" => {
                let message: WireMessage<'_> = self.read(item, frame)?;
                let id = self.required_id(message.id.as_deref(), "message", frame)?;
                self.register(output_index, &id);
                let phase = message.phase.map(Str::into_owned);
                self.text.added(&id, phase, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            "reasoning" => {
                let reasoning: WireReasoning<'_> = self.read(item, frame)?;
                let id = self.required_id(reasoning.id.as_deref(), "reasoning", frame)?;
                self.register(output_index, &id);
                let encrypted = reasoning.encrypted_content.as_deref();
                self.reasoning
                    .added(&id, encrypted, &self.metadata, &mut self.lifecycle, out)
                    .map_err(|error| error.with_body(frame.text()))
            }
            "function_call" => {
                let call: WireCall<'_> = self.read(item, frame)?;
                self.register_call_item(output_index, &call);
                self.call_started(output_index, &call, frame, out).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn item_done(
        &mut self,
        output_index: Option<u64>,
        item: &RawValue,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let kind: ItemKind<'_> = self.read(item, frame)?;
        match &*kind.kind {
            "message" => {
                let message: WireMessage<'_> = self.read(item, frame)?;
                let mut id = self.known_id(output_index, message.id.as_deref(), "message", frame)?;
                if self.reasoning.is_known(&id) {
                    // The place of one item, the content of another: its own id counts, if it has one.
                    id = self.required_id(message.id.as_deref(), "message", frame)?;
                }
                if self.reasoning.is_known(&id) {
                    return Ok(());
                }
                self.text.item_done(&id, message, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            "reasoning" => {
                let reasoning: WireReasoning<'_> = self.read(item, frame)?;
                let mut id = self.known_id(output_index, reasoning.id.as_deref(), "reasoning", frame)?;
                if self.text.is_known(&id) {
                    id = self.required_id(reasoning.id.as_deref(), "reasoning", frame)?;
                }
                if self.text.is_known(&id) {
                    return Ok(());
                }
                self.reasoning.item_done(&id, reasoning, &self.metadata, &mut self.lifecycle, out);
                Ok(())
            }
            "function_call" => {
                let call: WireCall<'_> = self.read(item, frame)?;
                self.call_done(output_index, &call, frame, out)
            }
            kind if self.dialect.is_hosted(kind) => self.hosted(kind, item, frame, out),
            _ => Ok(()),
        }
    }

    fn register(&mut self, output_index: Option<u64>, id: &Arc<str>) {
        if let Some(index) = output_index {
            self.items.insert(index, Arc::clone(id));
        }
    }

    fn register_call_item(&mut self, output_index: Option<u64>, call: &WireCall<'_>) {
        if let Some(id) = call.id.as_deref() {
            self.register(output_index, &Arc::from(id));
        }
    }

    fn required_id(&self, id: Option<&str>, kind: &str, frame: &Frame) -> Result<Arc<str>, AIError> {
        id.map(Arc::from).ok_or_else(|| {
            AIError::invalid_output(format!("{} {kind} item is missing id", self.dialect.name()))
                .with_body(frame.text())
        })
    }

    fn known_id(
        &self,
        output_index: Option<u64>,
        id: Option<&str>,
        kind: &str,
        frame: &Frame,
    ) -> Result<Arc<str>, AIError> {
        match output_index.and_then(|index| self.items.get(&index)) {
            Some(known) => Ok(Arc::clone(known)),
            None => self.required_id(id, kind, frame),
        }
    }

    /// Registers a call unless it is known. The call id names it, not the item id.
    fn call_started(
        &mut self,
        output_index: Option<u64>,
        call: &WireCall<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<usize, AIError> {
        let Some(call_id) = call.call_id.as_deref() else {
            let message = format!("{} function_call item is missing call_id", self.dialect.name());
            return Err(AIError::invalid_output(message).with_body(frame.text()));
        };
        if let Some(known) = self.calls.of_call(call_id) {
            return Ok(known);
        }
        let name = call.name.as_deref().unwrap_or_default();
        let item_id = call.id.as_deref();
        let metadata = item_id.and_then(|id| self.metadata.item(id));
        self.lifecycle.step_start(out);
        Ok(self.calls.start(calls::NewCall { call_id, item_id, output_index, name, metadata }, out))
    }

    fn call_done(
        &mut self,
        output_index: Option<u64>,
        call: &WireCall<'_>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let known = match call.call_id {
            Some(_) => None,
            None => self.calls.at_output(output_index).or_else(|| self.calls.of_item(call.id.as_deref()?)),
        };
        let index = match known {
            Some(known) => known,
            None => self.call_started(output_index, call, frame, out)?,
        };
        self.calls.finish(index, call.arguments.as_deref(), out)
    }

    fn hosted(&mut self, kind: &str, item: &RawValue, frame: &Frame, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let item: JsonObject = self.read(item, frame)?;
        let id = self.required_id(item.get("id").and_then(Value::as_str), kind, frame)?;
        if self.hosted.contains(&id) {
            return Ok(());
        }
        let Some(hosted) = self.dialect.hosted(kind, &item).map_err(|error| error.with_body(frame.text()))? else {
            return Ok(());
        };
        self.hosted.push(Arc::clone(&id));
        let metadata = self.metadata.item(&id);
        let id = ToolCallId::new(id);
        self.lifecycle.step_start(out);
        out.push(LLMEvent::ToolCall(ToolCall {
            id: id.clone(),
            name: hosted.name.clone(),
            input: hosted.input,
            provider_executed: Some(true),
            provider_metadata: metadata.clone(),
        }));
        out.push(LLMEvent::ToolResult(ToolResult {
            id,
            name: hosted.name,
            result: hosted.result,
            output: None,
            provider_executed: Some(true),
            provider_metadata: metadata,
        }));
        Ok(())
    }

    fn completed(
        &mut self,
        response: Option<&RawValue>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let response = self.response(response, frame)?;
        for item in response.output.iter().flatten() {
            let Ok(kind) = serde_json::from_str::<ItemKind<'_>>(item.get()) else { continue };
            if &*kind.kind == "function_call" {
                let call: WireCall<'_> = self.read(item, frame)?;
                self.call_done(None, &call, frame, out)?;
            }
        }
        self.calls.finish_all(out)?;
        let raw = response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref());
        let reason = self.reason(raw, FinishKind::Stop);
        self.finish(reason, response, out);
        Ok(())
    }

    fn incomplete(
        &mut self,
        response: Option<&RawValue>,
        frame: &Frame,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let response = self.response(response, frame)?;
        let raw = response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref());
        let reason = self.reason(raw, FinishKind::Unknown);
        self.finish(reason, response, out);
        Ok(())
    }

    fn finish(&mut self, reason: FinishReason, response: WireResponse<'_>, out: &mut Vec<LLMEvent>) {
        if self.is_finished {
            return;
        }
        self.is_finished = true;
        for item in response.output.iter().flatten() {
            let is_reasoning =
                serde_json::from_str::<ItemKind<'_>>(item.get()).is_ok_and(|item| &*item.kind == "reasoning");
            if is_reasoning
                && let Ok(reasoning) = serde_json::from_str::<WireReasoning<'_>>(item.get())
                && let Some(id) = reasoning.id.as_deref().map(Arc::<str>::from)
                && self.reasoning.is_open(&id)
            {
                self.reasoning.item_done(&id, reasoning, &self.metadata, &mut self.lifecycle, out);
            }
        }
        self.reasoning.close(&self.metadata, &mut self.lifecycle, out);
        let usage = response.usage.filter(|usage| !usage.is_empty()).map(|usage| usage_from(&self.metadata.0, usage));
        let metadata = self.metadata.of([
            ("responseId", response.id.map(|id| id.into_owned().into())),
            ("serviceTier", response.service_tier.map(|tier| tier.into_owned().into())),
        ]);
        self.lifecycle.finish(reason, usage, metadata, out);
    }

    fn reason(&self, raw: Option<&str>, silent: FinishKind) -> FinishReason {
        let with_calls = |otherwise| if self.calls.has_any_finished() { FinishKind::ToolCalls } else { otherwise };
        let normalized = match raw {
            None => with_calls(silent),
            Some("max_output_tokens") => FinishKind::Length,
            Some("content_filter") => FinishKind::ContentFilter,
            Some(_) => with_calls(FinishKind::Unknown),
        };
        FinishReason::new(normalized, raw)
    }

    fn response<'f>(&self, response: Option<&'f RawValue>, frame: &Frame) -> Result<WireResponse<'f>, AIError> {
        response.map_or_else(|| Ok(WireResponse::default()), |response| self.read(response, frame))
    }

    fn read<'f, T: Deserialize<'f>>(&self, raw: &'f RawValue, frame: &Frame) -> Result<T, AIError> {
        serde_json::from_str(raw.get()).map_err(|error| self.malformed(error, frame))
    }

    fn malformed(&self, cause: impl Error + Send + Sync + 'static, frame: &Frame) -> AIError {
        let message = format!("Invalid {}/{} stream event", self.provider, self.route);
        let mut reason = AIErrorReason::new(AIErrorKind::INVALID_OUTPUT, message);
        reason.body = Some(frame.text().into_owned());
        reason.cause = Some(Arc::new(cause));
        reason.into()
    }
}
