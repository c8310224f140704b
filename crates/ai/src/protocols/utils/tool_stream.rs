//! Accumulation of streamed tool arguments.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::protocols::shared::parse_tool_input;
use crate::schema::ProviderMetadata;
use crate::schema::errors::AIError;
use crate::schema::events::{LLMEvent, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputError, ToolInputStart};
use crate::schema::ids::{RouteId, ToolCallId};

/// The most bytes of accumulated arguments of one call.
pub const MAX_TOOL_INPUT_BYTES: usize = 8 * 1024 * 1024;

/// A call whose arguments arrive.
#[derive(Clone, Debug, Default)]
pub struct PendingTool {
    /// The call id.
    pub id: ToolCallId,
    /// The tool.
    pub name: String,
    /// Arguments so far.
    pub input: String,
    /// Whether the provider runs the tool itself.
    pub provider_executed: Option<bool>,
    /// Provider data of the call.
    pub provider_metadata: Option<ProviderMetadata>,
}

/// One delta of a call; empty strings count as absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolDelta<'a> {
    /// The call id.
    pub id: Option<&'a str>,
    /// The tool.
    pub name: Option<&'a str>,
    /// A fragment of arguments.
    pub text: &'a str,
}

/// Pending calls by a key of the stream (an index or an item id), finished in key order.
#[derive(Clone, Debug)]
pub struct ToolStream<K> {
    route: RouteId,
    pending: BTreeMap<K, PendingTool>,
    /// Ids that were given out.
    ids: BTreeSet<ToolCallId>,
}

impl<K: Ord + Clone> ToolStream<K> {
    /// Nothing is pending.
    pub const fn new(route: RouteId) -> Self {
        Self { route, pending: BTreeMap::new(), ids: BTreeSet::new() }
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// A pending call.
    pub fn get(&self, key: &K) -> Option<&PendingTool> {
        self.pending.get(key)
    }

    /// A pending call.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut PendingTool> {
        self.pending.get_mut(key)
    }

    /// Pending calls in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &PendingTool)> {
        self.pending.iter()
    }

    /// The id of a new call: the given one, unless another call of the response has it. Results find
    /// their calls by id, so two calls never share one.
    pub fn unique_id(&mut self, id: &str) -> ToolCallId {
        let mut unique = ToolCallId::from(id);
        let mut n = 1_u64;
        while !self.ids.insert(unique.clone()) {
            n += 1;
            unique = format!("{id}_{n}").into();
        }
        unique
    }

    /// Registers a call without events; emit [`input_start`] yourself.
    pub fn start(&mut self, key: K, tool: PendingTool) {
        self.pending.insert(key, tool);
    }

    /// Appends a delta, starting the call with the identity of its first delta.
    ///
    /// # Errors
    /// `InvalidProviderOutput` with the given message when a new call lacks id or name, or when the
    /// arguments grow over [`MAX_TOOL_INPUT_BYTES`].
    pub fn append_or_start(
        &mut self,
        key: &K,
        delta: ToolDelta<'_>,
        missing: &str,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        if !self.pending.contains_key(key) {
            let id = delta.id.filter(|id| !id.is_empty());
            let name = delta.name.filter(|name| !name.is_empty());
            let (Some(id), Some(name)) = (id, name) else {
                return Err(AIError::invalid_output(missing));
            };
            let tool = PendingTool { id: self.unique_id(id), name: name.to_owned(), ..PendingTool::default() };
            out.push(input_start(&tool));
            self.pending.insert(key.clone(), tool);
        }
        self.append_existing(key, delta.text, out)
    }

    /// Appends arguments to a started call; empty text does nothing.
    ///
    /// # Errors
    /// `InvalidProviderOutput` when the call was never started or its arguments grow too large.
    pub fn append_existing(&mut self, key: &K, text: &str, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(tool) = self.pending.get_mut(key) else {
            return Err(AIError::invalid_output(format!(
                "{} received tool arguments for a call that was never started",
                self.route
            )));
        };
        if text.is_empty() {
            return Ok(());
        }
        if tool.input.len() + text.len() > MAX_TOOL_INPUT_BYTES {
            return Err(AIError::invalid_output(format!(
                "{} arguments of tool call {} exceed {MAX_TOOL_INPUT_BYTES} bytes",
                self.route, tool.name
            )));
        }
        tool.input.push_str(text);
        out.push(LLMEvent::ToolInputDelta(ToolInputDelta {
            id: tool.id.clone(),
            name: tool.name.clone(),
            text: text.to_owned(),
        }));
        Ok(())
    }

    /// Finishes a call; an unknown key does nothing.
    ///
    /// # Errors
    /// `InvalidProviderOutput` when the arguments of a provider-executed call are not JSON.
    pub fn finish(&mut self, key: &K, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(tool) = self.pending.remove(key) else { return Ok(()) };
        finish_tool(&self.route, tool, out)
    }

    /// Finishes a call with its final arguments, which win over the accumulated ones.
    ///
    /// # Errors
    /// See [`ToolStream::finish`].
    pub fn finish_with_input(&mut self, key: &K, input: &str, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        let Some(mut tool) = self.pending.remove(key) else { return Ok(()) };
        input.clone_into(&mut tool.input);
        finish_tool(&self.route, tool, out)
    }

    /// Finishes all calls in key order.
    ///
    /// # Errors
    /// See [`ToolStream::finish`].
    pub fn finish_all(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        for tool in std::mem::take(&mut self.pending).into_values() {
            finish_tool(&self.route, tool, out)?;
        }
        Ok(())
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        self.pending.clear();
    }
}

/// The `tool-input-start` of a call.
pub fn input_start(tool: &PendingTool) -> LLMEvent {
    LLMEvent::ToolInputStart(ToolInputStart {
        id: tool.id.clone(),
        name: tool.name.clone(),
        provider_executed: tool.provider_executed,
        provider_metadata: tool.provider_metadata.clone(),
    })
}

fn finish_tool(route: &RouteId, tool: PendingTool, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
    match parse_tool_input(route, &tool.name, &tool.input) {
        Ok(input) => {
            out.extend(call_events(tool, input));
            Ok(())
        }
        Err(error) if tool.provider_executed == Some(true) => Err(error),
        Err(error) => {
            out.push(LLMEvent::ToolInputError(ToolInputError {
                id: tool.id,
                name: tool.name,
                raw: tool.input,
                message: error.message().to_owned(),
                provider_metadata: tool.provider_metadata,
            }));
            Ok(())
        }
    }
}

fn call_events(tool: PendingTool, input: Value) -> [LLMEvent; 2] {
    [
        LLMEvent::ToolInputEnd(ToolInputEnd {
            id: tool.id.clone(),
            name: tool.name.clone(),
            provider_metadata: tool.provider_metadata.clone(),
        }),
        LLMEvent::ToolCall(ToolCall {
            id: tool.id,
            name: tool.name,
            input,
            provider_executed: tool.provider_executed,
            provider_metadata: tool.provider_metadata,
        }),
    ]
}
