//! Failures as they are stored in events and messages.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a step, a call or an execution failed, as stored.
///
/// `type` stays the literal `unknown` for decoders of the 1.18 wire; programs match `code`, never `message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionError {
    /// Always `unknown`.
    #[serde(rename = "type")]
    pub kind: UnknownTag,
    /// Text for people and for the model.
    pub message: String,
    /// What a program branches on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// An HTTP status that was really observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl SessionError {
    /// Makes an error with a code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { kind: UnknownTag::Unknown, message: message.into(), code: Some(code), status: None }
    }

    /// Adds the observed HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: Option<u16>) -> Self {
        self.status = status;
        self
    }
}

/// The literal `unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownTag {
    /// The only value.
    #[default]
    Unknown,
}

macro_rules! error_codes {
    ($( $(#[$doc:meta])* $name:ident = $wire:literal; )*) => {
        /// What a program branches on (spec/session.md 4.4).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorCode {
            $( $(#[$doc])* #[serde(rename = $wire)] $name, )*
        }
        impl ErrorCode {
            /// Returns the code as it stands on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $wire, )* }
            }
        }
    };
}

error_codes! {
    /// The provider limits the rate.
    ProviderRateLimit = "provider.rate-limit";
    /// Credentials are missing, wrong or insufficient.
    ProviderAuth = "provider.auth";
    /// The account is out of quota.
    ProviderQuota = "provider.quota";
    /// The provider's content filter stopped the answer.
    ProviderContentFilter = "provider.content-filter";
    /// The connection failed.
    ProviderTransport = "provider.transport";
    /// The provider failed inside.
    ProviderInternal = "provider.internal";
    /// The provider's answer breaks its protocol.
    ProviderInvalidOutput = "provider.invalid-output";
    /// The provider refused the request.
    ProviderInvalidRequest = "provider.invalid-request";
    /// The request does not fit into the model's context window.
    ProviderContextOverflow = "provider.context-overflow";
    /// No model is selected, or the selected one cannot be used.
    ProviderNoRoute = "provider.no-route";
    /// An unclassified failure of the provider.
    ProviderUnknown = "provider.unknown";
    /// A permission rule denies the action.
    PermissionRejected = "permission.rejected";
    /// The tool failed in an expected way.
    ToolExecution = "tool.execution";
    /// No tool has that name.
    ToolUnknown = "tool.unknown";
    /// The tool changed since it was offered.
    ToolStale = "tool.stale";
    /// The arguments are not JSON.
    ToolInputJson = "tool.input-json";
    /// The arguments do not fit the tool's schema.
    ToolInputSchema = "tool.input-schema";
    /// Tools are off in this step.
    ToolDisabled = "tool.disabled";
    /// The provider ran a hosted tool and gave no result.
    ToolResultMissing = "tool.result-missing";
    /// The user declined.
    ToolDeclined = "tool.declined";
    /// The call was interrupted.
    ToolInterrupted = "tool.interrupted";
    /// There is nothing to compact, or no model to do it.
    CompactionUnavailable = "compaction.unavailable";
    /// The summary could not be made.
    CompactionFailed = "compaction.failed";
    /// The compaction was interrupted.
    CompactionInterrupted = "compaction.interrupted";
    /// The step was interrupted.
    Aborted = "aborted";
    /// The session was resumed too often.
    RecoveryExhausted = "recovery.exhausted";
    /// Anything else.
    Unknown = "unknown";
}

/// Fixed texts that clients and tests may rely on (spec/session.md 4.4).
pub mod text {
    /// A call that was interrupted.
    pub const TOOL_INTERRUPTED: &str = "Tool execution interrupted";
    /// A step that was interrupted.
    pub const STEP_INTERRUPTED: &str = "Provider turn interrupted";
    /// A hosted call without a result.
    pub const RESULT_MISSING: &str = "Provider did not return a tool result";
    /// A call in a step that must not use tools.
    pub const TOOLS_DISABLED: &str = "Tools are disabled after the maximum agent steps";
}

/// A failure of one model request that is followed by another attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryError {
    /// Text for people.
    pub message: String,
    /// The observed HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Whether another attempt follows.
    pub is_retryable: bool,
    /// Observed response headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<BTreeMap<String, String>>,
    /// The response body as received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
    /// More facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// What a program branches on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
}
