//! The publisher: a pure state machine from the model's stream to durable events, live deltas and tool starts
//! (spec/session.md 7.4). It does no I/O and reads no clock; the driver passes the time in.

use std::collections::HashMap;

use abide_ai::LLMEvent;
use abide_ai::schema::events::{FinishKind, FinishReason};
use abide_ai::schema::messages::ToolResultValue;
use abide_schema::error::{ErrorCode, SessionError, text};
use abide_schema::event::{
    EventData, ReasoningEnded, ReasoningStarted, TextEnded, TextStarted, ToolCalled, ToolFailed, ToolInputEnded,
    ToolInputStarted, ToolSuccess,
};
use abide_schema::message::{CallProvider, Finish, ItemKind};
use abide_schema::model::ProviderMetadata;
use abide_schema::tool::{Content, Effects};
use abide_schema::{CallId, JsonObject, MessageId, SessionId, Timestamp};
use serde_json::Value;

/// The most calls of one step; more fail.
pub const MAX_CALLS_PER_STEP: usize = 128;

/// A breach of the stream's protocol; fails the step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// A local call that may start once its `tool.called` is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalCall {
    /// The call.
    pub id: CallId,
    /// The tool's name as the model used it.
    pub name: String,
    /// The arguments as the model gave them.
    pub input: Value,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Append this event.
    Event(EventData),
    /// Broadcast (coalesced) text of a fragment.
    Delta {
        /// The kind of the fragment; `Tool` means raw arguments.
        kind: ItemKind,
        /// The fragment.
        id: String,
        /// The text.
        text: String,
    },
    /// A fragment ended: its draft is obsolete.
    Ended {
        /// The kind of the fragment.
        kind: ItemKind,
        /// The fragment.
        id: String,
    },
    /// Start this call after the events before it are committed.
    Call(LocalCall),
}

#[derive(Debug)]
struct Fragment {
    kind: ItemKind,
    id: String,
    name: String,
    text: String,
    ordinal: u32,
    ended: bool,
}

/// Where a call stands in the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStage {
    /// Its arguments arrive.
    Input,
    /// It was announced.
    Called,
    /// It has its terminal event.
    Settled,
}

/// A call of the step.
#[derive(Clone, Debug)]
pub struct StepCall {
    /// The call.
    pub id: CallId,
    /// The tool's name.
    pub name: String,
    /// Where it stands.
    pub stage: CallStage,
    /// Whether the provider runs it.
    pub hosted: bool,
}

/// The publisher of one attempt of one step.
#[derive(Debug)]
pub struct Publisher {
    session_id: SessionId,
    message_id: MessageId,
    tools_disabled: bool,
    fragments: Vec<Fragment>,
    index: HashMap<(ItemKind, String), usize>,
    calls: Vec<StepCall>,
    n_items: u32,
    output_started: bool,
    wants_continuation: bool,
    finish: Option<FinishReason>,
    usage: Option<abide_ai::Usage>,
    provider_error: Option<SessionError>,
}

impl Publisher {
    /// Makes a publisher; with `tools_disabled` each local call is refused.
    pub fn new(session_id: SessionId, message_id: MessageId, tools_disabled: bool) -> Self {
        Self {
            session_id,
            message_id,
            tools_disabled,
            fragments: Vec::new(),
            index: HashMap::new(),
            calls: Vec::new(),
            n_items: 0,
            output_started: false,
            wants_continuation: false,
            finish: None,
            usage: None,
            provider_error: None,
        }
    }

    /// Says whether text, reasoning or a call began: from then on neither retry nor overflow recovery may happen.
    pub const fn output_started(&self) -> bool {
        self.output_started
    }

    /// Says whether a local call was made whose result the model must see.
    pub const fn wants_continuation(&self) -> bool {
        self.wants_continuation
    }

    /// Returns how the model says it finished.
    pub const fn finish(&self) -> Option<&FinishReason> {
        self.finish.as_ref()
    }

    /// Returns the usage.
    pub const fn usage(&self) -> Option<&abide_ai::Usage> {
        self.usage.as_ref()
    }

    /// Returns the failure that the provider reported in its stream.
    pub const fn provider_error(&self) -> Option<&SessionError> {
        self.provider_error.as_ref()
    }

    /// Returns the calls, in order.
    pub fn calls(&self) -> &[StepCall] {
        &self.calls
    }

    /// Notes that a call has its terminal event.
    pub fn settled(&mut self, id: &CallId) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.id == *id) {
            call.stage = CallStage::Settled;
        }
    }

    /// Takes one stream event.
    ///
    /// # Errors
    /// [`Violation`] when the stream breaks its protocol; what was pushed to `out` before it stays valid.
    pub fn on(
        &mut self,
        event: LLMEvent,
        now: Timestamp,
        effects: &dyn Fn(&str) -> Effects,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        if self.provider_error.is_some() {
            return Ok(());
        }
        match event {
            LLMEvent::StepStart(_) => Ok(()),
            LLMEvent::TextStart(block) => self.begin(ItemKind::Text, block.id.as_str(), "", None, now, out),
            LLMEvent::TextDelta(block) => self.delta(ItemKind::Text, block.id.as_str(), block.text, out),
            LLMEvent::TextEnd(block) => {
                self.end(ItemKind::Text, block.id.as_str(), None, block.provider_metadata, now, out)
            }
            LLMEvent::ReasoningStart(block) => {
                self.begin(ItemKind::Reasoning, block.id.as_str(), "", block.provider_metadata, now, out)
            }
            LLMEvent::ReasoningDelta(block) => self.delta(ItemKind::Reasoning, block.id.as_str(), block.text, out),
            LLMEvent::ReasoningEnd(block) => {
                self.end(ItemKind::Reasoning, block.id.as_str(), block.text, block.provider_metadata, now, out)
            }
            LLMEvent::ToolInputStart(start) => {
                self.begin_input(start.id.as_str(), &start.name, start.provider_executed == Some(true), now, out)
            }
            LLMEvent::ToolInputDelta(delta) => {
                self.check_name(delta.id.as_str(), &delta.name)?;
                self.delta(ItemKind::Tool, delta.id.as_str(), delta.text, out)
            }
            LLMEvent::ToolInputEnd(end) => {
                self.check_name(end.id.as_str(), &end.name)?;
                self.end(ItemKind::Tool, end.id.as_str(), None, None, now, out)
            }
            LLMEvent::ToolInputError(error) => self.input_error(&error, now, out),
            LLMEvent::ToolCall(call) => self.call(call, now, effects, out),
            LLMEvent::ToolResult(result) => self.hosted_result(result, now, out),
            LLMEvent::ToolError(error) => {
                let failure = SessionError::new(ErrorCode::ToolExecution, error.message);
                self.hosted_failure(error.id.as_str(), failure, None, error.provider_metadata, now, out)
            }
            LLMEvent::StepFinish(finish) => {
                if self.finish.is_some() {
                    return Err(Violation("Duplicate step finish".to_owned()));
                }
                self.finish = Some(finish.reason);
                self.take_usage(finish.usage);
                Ok(())
            }
            LLMEvent::Finish(finish) => {
                if self.finish.is_none() {
                    self.finish = Some(finish.reason);
                }
                self.take_usage(finish.usage);
                Ok(())
            }
            LLMEvent::ProviderError(error) => {
                use abide_ai::schema::errors::RequestClassification;
                let code = match error.classification {
                    Some(RequestClassification::ContextOverflow) => ErrorCode::ProviderContextOverflow,
                    Some(RequestClassification::PayloadTooLarge) => ErrorCode::ProviderInvalidRequest,
                    None => ErrorCode::ProviderUnknown,
                };
                self.provider_error = Some(SessionError::new(code, error.message));
                Ok(())
            }
        }
    }

    /// Ends what is open, in the order text, reasoning, tool input.
    pub fn close(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        for kind in [ItemKind::Text, ItemKind::Reasoning, ItemKind::Tool] {
            let open: Vec<String> = self
                .fragments
                .iter()
                .filter(|fragment| fragment.kind == kind && !fragment.ended)
                .map(|fragment| fragment.id.clone())
                .collect();
            for id in open {
                // The fragment is open, so ending it cannot be a violation.
                let _known_open = self.end(kind, &id, None, None, now, out);
            }
        }
    }

    /// Returns the text of an open fragment so far, for drafts.
    pub fn open_text(&self, kind: ItemKind, id: &str) -> Option<&str> {
        let at = self.index.get(&(kind, id.to_owned()))?;
        self.fragments.get(*at).filter(|fragment| !fragment.ended).map(|fragment| fragment.text.as_str())
    }

    /// Makes the terminal event of a failed call and notes it.
    pub fn fail(&mut self, id: &CallId, error: SessionError, now: Timestamp) -> EventData {
        let hosted = self.calls.iter().rev().find(|call| call.id == *id).is_some_and(|call| call.hosted);
        self.settled(id);
        ToolFailed {
            timestamp: now,
            session_id: self.session_id.clone(),
            assistant_message_id: self.message_id.clone(),
            call_id: id.clone(),
            error,
            provider: CallProvider { executed: hosted, metadata: None },
            result: None,
            structured: None,
            content: None,
            verdict: None,
        }
        .into()
    }

    fn take_usage(&mut self, usage: Option<abide_ai::Usage>) {
        if let Some(usage) = usage {
            self.usage = Some(abide_ai::Usage::replace(self.usage.take(), usage));
        }
    }

    fn begin(
        &mut self,
        kind: ItemKind,
        id: &str,
        name: &str,
        metadata: Option<ProviderMetadata>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        if self.index.contains_key(&(kind, id.to_owned())) {
            return Err(Violation(format!("Duplicate {} start: {id}", fragment_name(kind))));
        }
        self.output_started = true;
        let ordinal = self.n_items;
        self.n_items += 1;
        self.index.insert((kind, id.to_owned()), self.fragments.len());
        self.fragments.push(Fragment {
            kind,
            id: id.to_owned(),
            name: name.to_owned(),
            text: String::new(),
            ordinal,
            ended: false,
        });
        let (timestamp, session_id, assistant_message_id) = (now, self.session_id.clone(), self.message_id.clone());
        let ordinal = Some(ordinal);
        out.push(Output::Event(match kind {
            ItemKind::Text => {
                TextStarted { timestamp, session_id, assistant_message_id, text_id: id.to_owned(), ordinal }.into()
            }
            ItemKind::Reasoning => ReasoningStarted {
                timestamp,
                session_id,
                assistant_message_id,
                reasoning_id: id.to_owned(),
                ordinal,
                provider_metadata: metadata,
            }
            .into(),
            ItemKind::Tool => ToolInputStarted {
                timestamp,
                session_id,
                assistant_message_id,
                call_id: id.into(),
                name: name.to_owned(),
                ordinal,
            }
            .into(),
        }));
        Ok(())
    }

    fn begin_input(
        &mut self,
        id: &str,
        name: &str,
        hosted: bool,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        self.begin(ItemKind::Tool, id, name, None, now, out)?;
        self.calls.push(StepCall { id: id.into(), name: name.to_owned(), stage: CallStage::Input, hosted });
        Ok(())
    }

    fn delta(&mut self, kind: ItemKind, id: &str, text: String, out: &mut Vec<Output>) -> Result<(), Violation> {
        let known = self.index.get(&(kind, id.to_owned())).copied();
        let fragment = known
            .and_then(|at| self.fragments.get_mut(at))
            .ok_or_else(|| Violation(format!("{} delta before start: {id}", capital(fragment_name(kind)))))?;
        if fragment.ended {
            return Err(Violation(format!("{} delta after end: {id}", capital(fragment_name(kind)))));
        }
        fragment.text.push_str(&text);
        out.push(Output::Delta { kind, id: id.to_owned(), text });
        Ok(())
    }

    fn end(
        &mut self,
        kind: ItemKind,
        id: &str,
        whole: Option<String>,
        metadata: Option<ProviderMetadata>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        let known = self.index.get(&(kind, id.to_owned())).copied();
        let fragment = known
            .and_then(|at| self.fragments.get_mut(at))
            .ok_or_else(|| Violation(format!("{} end before start: {id}", capital(fragment_name(kind)))))?;
        if fragment.ended {
            return Err(Violation(format!("Duplicate {} end: {id}", fragment_name(kind))));
        }
        fragment.ended = true;
        if let Some(whole) = whole.filter(|_| fragment.text.is_empty()) {
            fragment.text = whole;
        }
        let text = std::mem::take(&mut fragment.text);
        let ordinal = Some(fragment.ordinal);
        let (timestamp, session_id, assistant_message_id) = (now, self.session_id.clone(), self.message_id.clone());
        out.push(Output::Ended { kind, id: id.to_owned() });
        out.push(Output::Event(match kind {
            ItemKind::Text => TextEnded {
                timestamp,
                session_id,
                assistant_message_id,
                text_id: id.to_owned(),
                text,
                ordinal,
                metadata,
            }
            .into(),
            ItemKind::Reasoning => ReasoningEnded {
                timestamp,
                session_id,
                assistant_message_id,
                reasoning_id: id.to_owned(),
                text,
                ordinal,
                provider_metadata: metadata,
            }
            .into(),
            ItemKind::Tool => {
                ToolInputEnded { timestamp, session_id, assistant_message_id, call_id: id.into(), text }.into()
            }
        }));
        Ok(())
    }

    fn check_name(&self, id: &str, name: &str) -> Result<(), Violation> {
        let known = self.index.get(&(ItemKind::Tool, id.to_owned())).and_then(|at| self.fragments.get(*at));
        match known {
            Some(fragment) if fragment.name != name => {
                Err(Violation(format!("Tool name changed from {} to {name}: {id}", fragment.name)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Makes sure that the call's input has begun and ended.
    fn complete_input(
        &mut self,
        id: &str,
        name: &str,
        hosted: bool,
        raw: String,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        self.check_name(id, name)?;
        let known = self.index.get(&(ItemKind::Tool, id.to_owned())).copied();
        let Some(at) = known else {
            self.begin_input(id, name, hosted, now, out)?;
            if let Some(fragment) = self.fragments.last_mut() {
                fragment.text = raw;
            }
            return self.end(ItemKind::Tool, id, None, None, now, out);
        };
        if let Some(fragment) = self.fragments.get_mut(at).filter(|fragment| !fragment.ended) {
            if fragment.text.is_empty() {
                fragment.text = raw;
            }
            self.end(ItemKind::Tool, id, None, None, now, out)?;
        }
        Ok(())
    }

    fn input_error(
        &mut self,
        error: &abide_ai::schema::events::ToolInputError,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        let id = error.id.as_str();
        self.complete_input(id, &error.name, false, error.raw.clone(), now, out)?;
        self.require_open(id)?;
        let failure = if self.tools_disabled {
            SessionError::new(ErrorCode::ToolDisabled, text::TOOLS_DISABLED)
        } else {
            self.wants_continuation = true;
            SessionError::new(ErrorCode::ToolInputJson, error.message.clone())
        };
        let event = self.fail(&id.into(), failure, now);
        out.push(Output::Event(event));
        Ok(())
    }

    fn require_open(&self, id: &str) -> Result<(), Violation> {
        match self.calls.iter().rev().find(|call| call.id.as_str() == id).map(|call| call.stage) {
            Some(CallStage::Input) => Ok(()),
            Some(CallStage::Called | CallStage::Settled) | None => Err(Violation(format!("Duplicate tool call: {id}"))),
        }
    }

    fn call(
        &mut self,
        call: abide_ai::schema::events::ToolCall,
        now: Timestamp,
        effects: &dyn Fn(&str) -> Effects,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        let id = call.id.as_str();
        let hosted = call.provider_executed == Some(true);
        self.complete_input(id, &call.name, hosted, call.input.to_string(), now, out)?;
        self.require_open(id)?;
        let refusal = if hosted {
            None
        } else if self.tools_disabled {
            Some(SessionError::new(ErrorCode::ToolDisabled, text::TOOLS_DISABLED))
        } else if self.calls.len() > MAX_CALLS_PER_STEP {
            self.wants_continuation = true;
            Some(SessionError::new(
                ErrorCode::ToolExecution,
                format!("Too many tool calls in one step: at most {MAX_CALLS_PER_STEP} run, make the others again"),
            ))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let event = self.fail(&id.into(), refusal, now);
            out.push(Output::Event(event));
            return Ok(());
        }
        let input = match &call.input {
            Value::Object(map) => map.clone(),
            other => JsonObject::from_iter([("value".to_owned(), other.clone())]),
        };
        if let Some(entry) = self.calls.iter_mut().rev().find(|entry| entry.id.as_str() == id) {
            entry.stage = CallStage::Called;
            entry.hosted = hosted;
        }
        let class = effects(&call.name);
        out.push(Output::Event(
            ToolCalled {
                timestamp: now,
                session_id: self.session_id.clone(),
                assistant_message_id: self.message_id.clone(),
                call_id: id.into(),
                tool: call.name.clone(),
                input,
                provider: CallProvider { executed: hosted, metadata: call.provider_metadata },
                effects: (!hosted && class != Effects::None).then_some(class),
            }
            .into(),
        ));
        if !hosted {
            self.wants_continuation = true;
            out.push(Output::Call(LocalCall { id: id.into(), name: call.name, input: call.input }));
        }
        Ok(())
    }

    fn hosted_result(
        &mut self,
        result: abide_ai::schema::events::ToolResult,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        let id = result.id.as_str();
        let native = serde_json::to_value(&result.result).ok();
        if let ToolResultValue::Error(value) = &result.result {
            let message = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let failure = SessionError::new(ErrorCode::ToolExecution, message);
            return self.hosted_failure(id, failure, native, result.provider_metadata, now, out);
        }
        match self.calls.iter().rev().find(|call| call.id.as_str() == id).map(|call| call.stage) {
            None | Some(CallStage::Input) => return Err(Violation(format!("Tool result before call: {id}"))),
            Some(CallStage::Settled) => return Err(Violation(format!("Duplicate tool result: {id}"))),
            Some(CallStage::Called) => {}
        }
        let (structured, content) = match &result.result {
            ToolResultValue::Json(Value::Object(map)) => (map.clone(), Vec::new()),
            ToolResultValue::Json(value) | ToolResultValue::Text(value) => {
                let words = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                (JsonObject::new(), vec![Content::text(words)])
            }
            ToolResultValue::Content(items) => (JsonObject::new(), items.iter().map(to_content).collect()),
            ToolResultValue::Error(_) => (JsonObject::new(), Vec::new()),
        };
        self.settled(&id.into());
        out.push(Output::Event(
            ToolSuccess {
                timestamp: now,
                session_id: self.session_id.clone(),
                assistant_message_id: self.message_id.clone(),
                call_id: id.into(),
                structured,
                content,
                provider: CallProvider { executed: true, metadata: result.provider_metadata },
                output_paths: None,
                result: native,
            }
            .into(),
        ));
        Ok(())
    }

    fn hosted_failure(
        &mut self,
        id: &str,
        error: SessionError,
        native: Option<Value>,
        metadata: Option<ProviderMetadata>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), Violation> {
        match self.calls.iter().rev().find(|call| call.id.as_str() == id).map(|call| call.stage) {
            None | Some(CallStage::Input) => return Err(Violation(format!("Tool result before call: {id}"))),
            // An error result after a terminal is ignored.
            Some(CallStage::Settled) => return Ok(()),
            Some(CallStage::Called) => {}
        }
        self.settled(&id.into());
        out.push(Output::Event(
            ToolFailed {
                timestamp: now,
                session_id: self.session_id.clone(),
                assistant_message_id: self.message_id.clone(),
                call_id: id.into(),
                error,
                provider: CallProvider { executed: true, metadata },
                result: native,
                structured: None,
                content: None,
                verdict: None,
            }
            .into(),
        ));
        Ok(())
    }
}

fn to_content(item: &abide_ai::schema::messages::ToolContent) -> Content {
    use abide_ai::schema::messages::ToolContent;
    match item {
        ToolContent::Text { text } => Content::text(text.clone()),
        ToolContent::File { uri, mime, name } => {
            Content::File { uri: uri.clone(), mime: mime.clone(), name: name.clone() }
        }
    }
}

const fn fragment_name(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Text => "text",
        ItemKind::Reasoning => "reasoning",
        ItemKind::Tool => "tool input",
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Maps the normalised finish of the `ai` crate.
pub const fn finish(kind: FinishKind) -> Finish {
    match kind {
        FinishKind::Stop => Finish::Stop,
        FinishKind::Length => Finish::Length,
        FinishKind::ToolCalls => Finish::ToolCalls,
        FinishKind::ContentFilter => Finish::ContentFilter,
        FinishKind::Error => Finish::Error,
        FinishKind::Unknown => Finish::Unknown,
    }
}

#[cfg(test)]
mod tests;
