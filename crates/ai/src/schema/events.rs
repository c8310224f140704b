//! What a model call streams.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProviderMetadata;
use super::ids::{ContentBlockId, ToolCallId};
use super::messages::{ToolOutput, ToolResultValue};
use super::usage::Usage;

/// Why the model stopped, in the words of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishKind {
    /// The answer is complete.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model waits for tool results.
    ToolCalls,
    /// The provider cut the answer.
    ContentFilter,
    /// The provider reports a failed generation.
    Error,
    /// The provider said nothing this crate knows.
    Unknown,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishReason {
    /// In the words of this crate.
    pub normalized: FinishKind,
    /// In the provider's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

impl FinishReason {
    /// Makes a reason.
    pub fn new(normalized: FinishKind, raw: Option<&str>) -> Self {
        Self { normalized, raw: raw.map(str::to_owned) }
    }
}

/// Declares event payloads with optional provider metadata.
macro_rules! payload {
    ($($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $type,)*
            /// Provider data by metadata key.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub provider_metadata: Option<ProviderMetadata>,
        }
    )+};
}

payload! {
    /// A block opens.
    BlockStart {
        /// The block.
        id: ContentBlockId,
    }
    /// Text of a block, never empty.
    BlockDelta {
        /// The block.
        id: ContentBlockId,
        /// The text.
        text: String,
    }
    /// A text block closes; carries final metadata.
    TextEnd {
        /// The block.
        id: ContentBlockId,
    }
    /// A reasoning block closes; its metadata is authoritative.
    ReasoningEnd {
        /// The block.
        id: ContentBlockId,
        /// The whole text, only when it came at the end without deltas.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    }
    /// The arguments of a call begin.
    ToolInputStart {
        /// The call.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// Whether the provider runs the tool itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_executed: Option<bool>,
    }
    /// The arguments of a call are complete and valid JSON.
    ToolInputEnd {
        /// The call.
        id: ToolCallId,
        /// The tool.
        name: String,
    }
    /// The arguments of a local call are not JSON; replaces `tool-input-end` and `tool-call`.
    ToolInputError {
        /// The call.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// The text as received; diagnostic only, never executed.
        raw: String,
        /// What is wrong.
        message: String,
    }
    /// A parsed call.
    ToolCall {
        /// The call.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// The arguments.
        input: Value,
        /// Whether the provider runs the tool itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_executed: Option<bool>,
    }
    /// A result: hosted tools in the stream, local tools from the dispatcher.
    ToolResult {
        /// The call.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// The result.
        result: ToolResultValue,
        /// The output behind the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<ToolOutput>,
        /// Whether the provider ran the tool itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_executed: Option<bool>,
    }
    /// A local call failed (only from the dispatcher).
    ToolError {
        /// The call.
        id: ToolCallId,
        /// The tool.
        name: String,
        /// What went wrong.
        message: String,
        /// Details.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
    }
    /// The step is over.
    StepFinish {
        /// Always 0 from this crate.
        index: u32,
        /// Why.
        reason: FinishReason,
        /// Tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
    /// The call is over; terminal.
    Finish {
        /// Why.
        reason: FinishReason,
        /// Tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
    /// A failure reported in-band; terminal.
    ProviderErrorEvent {
        /// What went wrong.
        message: String,
        /// What kind of request error it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        classification: Option<super::errors::RequestClassification>,
    }
}

/// First output of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStart {
    /// Always 0 from this crate.
    pub index: u32,
}

/// A raw fragment of JSON arguments, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInputDelta {
    /// The call.
    pub id: ToolCallId,
    /// The tool.
    pub name: String,
    /// The fragment.
    pub text: String,
}

macro_rules! events {
    ($($(#[$meta:meta])* $variant:ident($payload:ty) $tag:literal $is:ident $as_:ident;)+) => {
        /// One event of a model call.
        ///
        /// Order: `step-start` once, first; starts before deltas before ends; all blocks closed
        /// before the terminal pair `step-finish`, `finish`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "type", rename_all = "kebab-case")]
        pub enum LLMEvent {
            $($(#[$meta])* $variant($payload),)+
        }

        impl LLMEvent {
            /// The tag on the wire.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $tag,)+
                }
            }

            $(
                #[doc = concat!("Whether this is `", $tag, "`.")]
                pub const fn $is(&self) -> bool {
                    matches!(self, Self::$variant(_))
                }

                #[doc = concat!("The payload of `", $tag, "`.")]
                pub const fn $as_(&self) -> Option<&$payload> {
                    if let Self::$variant(payload) = self { Some(payload) } else { None }
                }
            )+
        }
    };
}

events! {
    /// First output of the call.
    StepStart(StepStart) "step-start" is_step_start as_step_start;
    /// A text block opens.
    TextStart(BlockStart) "text-start" is_text_start as_text_start;
    /// Non-empty text.
    TextDelta(BlockDelta) "text-delta" is_text_delta as_text_delta;
    /// A text block closes.
    TextEnd(TextEnd) "text-end" is_text_end as_text_end;
    /// A reasoning block opens.
    ReasoningStart(BlockStart) "reasoning-start" is_reasoning_start as_reasoning_start;
    /// Non-empty reasoning text.
    ReasoningDelta(BlockDelta) "reasoning-delta" is_reasoning_delta as_reasoning_delta;
    /// A reasoning block closes.
    ReasoningEnd(ReasoningEnd) "reasoning-end" is_reasoning_end as_reasoning_end;
    /// The arguments of a call begin.
    ToolInputStart(ToolInputStart) "tool-input-start" is_tool_input_start as_tool_input_start;
    /// A raw fragment of arguments.
    ToolInputDelta(ToolInputDelta) "tool-input-delta" is_tool_input_delta as_tool_input_delta;
    /// The arguments are complete.
    ToolInputEnd(ToolInputEnd) "tool-input-end" is_tool_input_end as_tool_input_end;
    /// The arguments are not JSON.
    ToolInputError(ToolInputError) "tool-input-error" is_tool_input_error as_tool_input_error;
    /// A parsed call.
    ToolCall(ToolCall) "tool-call" is_tool_call as_tool_call;
    /// A result of a tool.
    ToolResult(ToolResult) "tool-result" is_tool_result as_tool_result;
    /// A local call failed.
    ToolError(ToolError) "tool-error" is_tool_error as_tool_error;
    /// The step is over.
    StepFinish(StepFinish) "step-finish" is_step_finish as_step_finish;
    /// The call is over.
    Finish(Finish) "finish" is_finish as_finish;
    /// A failure reported in-band.
    ProviderError(ProviderErrorEvent) "provider-error" is_provider_error as_provider_error;
}

impl LLMEvent {
    /// Whether no event may follow this one.
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Finish(_) | Self::ProviderError(_))
    }

    /// The tokens this event reports.
    pub const fn usage(&self) -> Option<&Usage> {
        if let Self::StepFinish(StepFinish { usage, .. }) | Self::Finish(Finish { usage, .. }) = self {
            usage.as_ref()
        } else {
            None
        }
    }
}
