//! Hooks around calls (spec/tools.md section 5).

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use abide_schema::tool::{ToolError, ToolResult};
use abide_schema::{AgentId, CallId, MessageId, SessionId};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::outcome::{ToolCall, ToolFailure};

/// The longest a hook may take: every call waits for it.
const MAX_TIME: Duration = Duration::from_secs(5);

/// A hook failed; its changes are dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// A call before its tool is looked up. `tool` and `input` may be replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct BeforeCall {
    /// The name that the model used, also of a tool that does not exist.
    pub tool: String,
    /// The arguments.
    pub input: Value,
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// The assistant message.
    pub message_id: MessageId,
    /// The call.
    pub id: CallId,
}

/// What became of a call, which may be replaced: a result by a result, an error by an error.
#[derive(Debug)]
pub enum AfterCall<'a> {
    /// It succeeded; the content is normalised.
    Completed(&'a mut ToolResult),
    /// It failed.
    Failed(&'a mut ToolError),
}

/// Sees every call of a location before and after it ran.
pub trait ToolHook: Send + Sync {
    /// Returns the name of the plugin.
    fn name(&self) -> &str;

    /// Says whether a call must not go on without this hook.
    fn is_required(&self) -> bool {
        false
    }

    /// Looks at a call before its tool is looked up.
    fn before<'a>(&'a self, _call: &'a mut BeforeCall) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Looks at what became of a call whose tool was executed or whose input was refused. `call` has the resolved name
    /// and the input as it was before decoding.
    fn after<'a>(&'a self, _call: &'a BeforeCall, _outcome: AfterCall<'a>) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The hooks of a location, in plugin order.
pub(crate) type Hooks = Arc<[Arc<dyn ToolHook>]>;

/// Runs the hooks before a call.
pub(crate) async fn before(hooks: &Hooks, call: &mut ToolCall) -> Result<(), ToolFailure> {
    for hook in hooks.iter() {
        let mut changed = event(call, &call.name);
        match guarded(hook.before(&mut changed)).await {
            Ok(()) => {
                call.name = changed.tool;
                call.input = changed.input;
            }
            Err(error) => failed(hook.as_ref(), &error)?,
        }
    }
    Ok(())
}

/// Runs the hooks after a call on its result or error.
pub(crate) async fn after(
    hooks: &Hooks,
    call: &ToolCall,
    resolved: &str,
    mut outcome: Result<ToolResult, ToolFailure>,
) -> Result<ToolResult, ToolFailure> {
    if hooks.is_empty() {
        return outcome;
    }
    let event = event(call, resolved);
    for hook in hooks.iter() {
        let mut changed = outcome.clone();
        let view = match &mut changed {
            Ok(result) => AfterCall::Completed(result),
            Err(error) => AfterCall::Failed(error),
        };
        let ran = guarded(hook.after(&event, view)).await;
        match ran {
            Ok(()) => outcome = changed,
            Err(error) => failed(hook.as_ref(), &error)?,
        }
    }
    outcome
}

fn event(call: &ToolCall, tool: &str) -> BeforeCall {
    BeforeCall {
        tool: tool.to_owned(),
        input: call.input.clone(),
        session_id: call.session_id.clone(),
        agent: call.agent.clone(),
        message_id: call.message_id.clone(),
        id: call.call_id.clone(),
    }
}

async fn guarded(hook: impl Future<Output = Result<(), HookError>>) -> Result<(), HookError> {
    let guarded = AssertUnwindSafe(hook).catch_unwind();
    match tokio::time::timeout(MAX_TIME, guarded).await {
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => Err(HookError(super::scope::panic_text(payload.as_ref()))),
        Err(_elapsed) => Err(HookError(format!("took longer than {} seconds", MAX_TIME.as_secs()))),
    }
}

fn failed(hook: &dyn ToolHook, error: &HookError) -> Result<(), ToolFailure> {
    tracing::warn!(hook = hook.name(), %error, "a tool hook failed: its changes are dropped");
    if hook.is_required() {
        return Err(ToolFailure::new(format!("Blocked: hook {} failed", hook.name())));
    }
    Ok(())
}
