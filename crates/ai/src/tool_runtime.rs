//! Dispatch of one canonical call. It never streams providers, keeps history or starts another round.

use serde_json::Value;

use crate::schema::events::{LLMEvent, ToolCall, ToolError, ToolResult};
use crate::schema::messages::{ToolOutput, ToolResultValue};
use crate::tool::{Handled, ToolContext, ToolFailure, Tools};

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatched {
    /// What the model sees.
    pub result: ToolResultValue,
    /// The output behind it; none for a failure.
    pub output: Option<ToolOutput>,
    /// `tool-result`, after a `tool-error` when the call failed.
    pub events: Vec<LLMEvent>,
}

/// Runs single calls.
#[derive(Clone, Copy, Debug)]
pub struct ToolRuntime;

impl ToolRuntime {
    /// Runs one call. An unknown tool, input that does not fit and a [`ToolFailure`] become results the
    /// model can mend; a panic of the handler is not caught.
    ///
    /// # Cancel safety
    /// As the handler: dropping the future drops it.
    pub async fn dispatch(tools: &Tools, call: &ToolCall) -> Dispatched {
        let Some(tool) = tools.get(&call.name) else {
            return failed(call, ToolFailure::new(format!("Unknown tool: {}", call.name)));
        };
        let context = ToolContext { id: call.id.clone(), name: call.name.clone() };
        let value = match tool.handle(call.input.clone(), context).await {
            None => {
                let message = format!("Tool has no execute handler: {}", call.name);
                return failed(call, ToolFailure::new(message));
            }
            Some(Handled::InvalidInput(reason)) => {
                return failed(call, ToolFailure::new(format!("Invalid tool input: {reason}")));
            }
            Some(Handled::InvalidOutput(reason)) => {
                let message = format!("Tool returned an invalid value for its success schema: {reason}");
                return failed(call, ToolFailure::new(message));
            }
            Some(Handled::Failed(failure)) => return failed(call, failure),
            Some(Handled::Value(value)) => value,
        };
        if tool.is_plain_dynamic() && is_tagged(&value) {
            let result = ToolResultValue::make(value);
            let output = ToolOutput::from_result(&result);
            return settled(call, result, output);
        }
        let content = tool.content(&value);
        let output = ToolOutput { structured: tool.structured(value), content };
        settled(call, output.to_result(), Some(output))
    }
}

fn is_tagged(value: &Value) -> bool {
    value.get("value").is_some()
        && matches!(value.get("type").and_then(Value::as_str), Some("json" | "text" | "error" | "content"))
}

fn settled(call: &ToolCall, result: ToolResultValue, output: Option<ToolOutput>) -> Dispatched {
    let event = LLMEvent::ToolResult(ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        result: result.clone(),
        output: output.clone(),
        provider_executed: None,
        provider_metadata: None,
    });
    Dispatched { result, output, events: vec![event] }
}

fn failed(call: &ToolCall, failure: ToolFailure) -> Dispatched {
    let error = LLMEvent::ToolError(ToolError {
        id: call.id.clone(),
        name: call.name.clone(),
        message: failure.message.clone(),
        error: failure.error,
        provider_metadata: None,
    });
    let mut dispatched = settled(call, ToolResultValue::error(failure.message), None);
    dispatched.events.insert(0, error);
    dispatched
}
