//! What becomes of a tool call. Leaves can return success or [`ToolFailure`] only; declines, interruption and
//! defects are values that only the boundary makes and only the session step consumes.

use abide_schema::tool::{Content, Effects, ToolError};
use abide_schema::{AgentId, CallId, JsonObject, MessageId, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// An expected failure of a tool, with text for the model.
pub type ToolFailure = ToolError;

/// A call as the step hands it to the boundary.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The session.
    pub session_id: SessionId,
    /// The agent that was sampled for the step.
    pub agent: AgentId,
    /// The assistant message.
    pub message_id: MessageId,
    /// The call.
    pub call_id: CallId,
    /// The name that the model used.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// The session's fence, which mutations check before they apply.
    pub fence: u64,
}

/// A result that is normalised and bounded: ready to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NormalizedResult {
    /// The facts that events call `structured`.
    pub structured: JsonObject,
    /// What the model is told; never empty.
    pub content: Vec<Content>,
    /// Files with the complete output.
    pub output_paths: Vec<String>,
}

/// How a call failed, for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The leaf failed on purpose.
    Execution,
    /// A permission rule denies.
    PermissionRejected,
    /// No tool has the name.
    Unknown,
    /// The tool changed since it was offered.
    Stale,
    /// The arguments do not fit the schema.
    InputSchema,
}

/// What the user declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// A permission.
    Permission,
    /// A question.
    Question,
}

/// What became of a call.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Settled {
    /// It succeeded.
    Completed(NormalizedResult),
    /// It failed in a way that the model is told; the run goes on.
    Failed {
        /// What it is told.
        error: ToolError,
        /// For the event's code.
        kind: FailureKind,
    },
    /// The user declined; the run ends.
    Declined(Declined),
    /// It was interrupted.
    Interrupted,
    /// A bug; the model is told in general words.
    Defect {
        /// For the log.
        report: String,
    },
}

/// Takes reports of a running call.
pub trait ProgressSink: Send + Sync {
    /// Merges `structured` into the running state and replaces the content when given.
    fn report(&self, structured: JsonObject, content: Option<Vec<Content>>);
    /// Publishes live output.
    fn output(&self, stream: abide_schema::live::OutputStream, text: &str);
}

/// The tools of one model request: what is offered, and how a call of it runs.
pub trait ToolSnapshot: Send + Sync {
    /// Returns the definitions, sorted by name.
    fn definitions(&self) -> &[std::sync::Arc<abide_ai::ToolDefinition>];
    /// Returns the effect class of a tool, [`Effects::None`] when unknown.
    fn effects(&self, name: &str) -> Effects;
    /// Runs one call. Dropping the future interrupts it; `interrupt` asks for an orderly end.
    fn execute(
        &self,
        call: ToolCall,
        progress: std::sync::Arc<dyn ProgressSink>,
        interrupt: tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'static, Settled>;
}
