//! Function calls. The call id names a call; item id and output index only say where its arguments
//! arrive.

use std::sync::Arc;

use crate::protocols::utils::tool_stream::{PendingTool, ToolStream, input_start};
use crate::schema::ProviderMetadata;
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::ids::{RouteId, ToolCallId};

/// Calls in the order in which they began.
#[derive(Debug)]
pub(super) struct Calls {
    known: Vec<Call>,
    pending: ToolStream<usize>,
}

#[derive(Debug)]
struct Call {
    id: ToolCallId,
    item_id: Option<Arc<str>>,
    output_index: Option<u64>,
    is_finished: bool,
}

/// A call as it begins.
pub(super) struct NewCall<'a> {
    pub(super) call_id: &'a str,
    pub(super) item_id: Option<&'a str>,
    pub(super) output_index: Option<u64>,
    pub(super) name: &'a str,
    pub(super) metadata: Option<ProviderMetadata>,
}

impl Calls {
    pub(super) const fn new(route: RouteId) -> Self {
        Self { known: Vec::new(), pending: ToolStream::new(route) }
    }

    /// The latest call at an output index; some gateways use one index for all.
    pub(super) fn at_output(&self, output_index: Option<u64>) -> Option<usize> {
        output_index?;
        self.known.iter().rposition(|call| call.output_index == output_index)
    }

    /// The call of an item.
    pub(super) fn of_item(&self, item_id: &str) -> Option<usize> {
        self.known.iter().position(|call| call.item_id.as_deref() == Some(item_id))
    }

    /// The call of a call id.
    pub(super) fn of_call(&self, call_id: &str) -> Option<usize> {
        self.known.iter().position(|call| call.id == *call_id)
    }

    /// Whether any call is complete.
    pub(super) fn has_any_finished(&self) -> bool {
        self.known.iter().any(|call| call.is_finished)
    }

    /// A call begins.
    pub(super) fn start(&mut self, call: NewCall<'_>, out: &mut Vec<LLMEvent>) -> usize {
        let tool = PendingTool {
            id: call.call_id.into(),
            name: call.name.to_owned(),
            provider_metadata: call.metadata,
            ..PendingTool::default()
        };
        out.push(input_start(&tool));
        let index = self.known.len();
        self.known.push(Call {
            id: tool.id.clone(),
            item_id: call.item_id.map(Arc::from),
            output_index: call.output_index,
            is_finished: false,
        });
        self.pending.start(index, tool);
        index
    }

    /// Arguments grow. Those of an unknown call are ignored: its item brings them whole.
    pub(super) fn delta(&mut self, call: Option<usize>, text: &str, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        match call {
            Some(call) if self.pending.get(&call).is_some() => self.pending.append_existing(&call, text, out),
            Some(_) | None => Ok(()),
        }
    }

    /// Arguments are complete: what is missing is added, anything else replaces what was streamed.
    pub(super) fn arguments_done(
        &mut self,
        call: Option<usize>,
        text: &str,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        let Some((call, tool)) = call.and_then(|call| Some((call, self.pending.get_mut(&call)?))) else {
            return Ok(());
        };
        if let Some(suffix) = text.strip_prefix(tool.input.as_str()) {
            return self.pending.append_existing(&call, suffix, out);
        }
        text.clone_into(&mut tool.input);
        Ok(())
    }

    /// A call is complete; its final arguments win, if there are any.
    pub(super) fn finish(
        &mut self,
        call: usize,
        arguments: Option<&str>,
        out: &mut Vec<LLMEvent>,
    ) -> Result<(), AIError> {
        if let Some(call) = self.known.get_mut(call) {
            call.is_finished = true;
        }
        match arguments.filter(|arguments| !arguments.is_empty()) {
            Some(arguments) => self.pending.finish_with_input(&call, arguments, out),
            None => self.pending.finish(&call, out),
        }
    }

    /// All calls are complete.
    pub(super) fn finish_all(&mut self, out: &mut Vec<LLMEvent>) -> Result<(), AIError> {
        for call in &mut self.known {
            call.is_finished = true;
        }
        self.pending.finish_all(out)
    }
}
