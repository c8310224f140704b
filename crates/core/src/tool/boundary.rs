//! The one place that runs leaves, and that makes [`Settled`] (spec/tools.md sections 2, 3 and 6).

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use abide_schema::JsonObject;
use abide_schema::live::OutputStream;
use abide_schema::tool::{Content, ToolError, ToolResult};
use futures_util::FutureExt as _;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::failure::model_text;
use super::hooks::{self, Hooks, ToolHook};
use super::image::Images;
use super::info::{Prepared, RawReturn, ToolInfo};
use super::leaf::{Load, ToolContext};
use super::outcome::{FailureKind, NormalizedResult, ProgressSink, Settled, ToolCall, ToolFailure};
use super::output::{OutputFiles, OutputLimits, bound};
use super::progress::Progress;
use super::registry::Snapshot;
use super::runtime::{Encoded, encode, normalise, structured};
use super::schema::{SchemaCache, invalid_input};
use super::scope::{CallScope, Ended, MAX_UNWIND, panic_text};
use crate::permission;
use crate::secret::Secrets;
use crate::world::World;

/// How many leaves work at a time in one location.
const MAX_RUNNING: usize = 32;
/// What the boundary of a location is made of.
pub struct BoundaryOptions {
    /// Tasks.
    pub world: World,
    /// Where complete output goes.
    pub files: OutputFiles,
    /// Limits of output.
    pub limits: OutputLimits,
    /// Hooks, in plugin order.
    pub hooks: Vec<Arc<dyn ToolHook>>,
    /// Brings images to their limits.
    pub images: Images,
    /// Values that no output holds.
    pub secrets: Secrets,
}

/// Runs the calls of one location.
pub struct Boundary {
    world: World,
    files: OutputFiles,
    limits: OutputLimits,
    hooks: Hooks,
    images: Images,
    secrets: Secrets,
    cache: SchemaCache,
    permits: Semaphore,
}

impl std::fmt::Debug for Boundary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Boundary")
    }
}

/// How a call ended, on the way out.
enum Stop {
    Failed(ToolError, FailureKind),
    Ended(Ended),
    Defect(String),
}

impl Boundary {
    /// Makes the boundary of a location.
    pub fn new(options: BoundaryOptions) -> Self {
        let BoundaryOptions { world, files, limits, hooks, images, secrets } = options;
        Self {
            world,
            files,
            limits,
            hooks: hooks.into(),
            images,
            secrets,
            cache: SchemaCache::default(),
            permits: Semaphore::new(MAX_RUNNING),
        }
    }

    /// Runs one call to its settlement.
    ///
    /// # Cancel safety
    /// Dropping the future interrupts the call: its leaf is dropped, open commits run to their end on their own.
    pub(crate) async fn execute(
        &self,
        snapshot: &Snapshot,
        call: ToolCall,
        sink: Arc<dyn ProgressSink>,
        interrupt: CancellationToken,
    ) -> Settled {
        let span =
            tracing::info_span!("tool_call", session.id = %call.session_id, call.id = %call.call_id, tool = call.name);
        let sink = Arc::new(Redacting { sink, secrets: self.secrets.clone() });
        let run = Run { boundary: self, scope: CallScope::new(), progress: Progress::new(sink), interrupt };
        let _over = run.scope.token().drop_guard();
        // Leaves are tasks of their own; this catches a bug in what surrounds them.
        let settled = AssertUnwindSafe(run.settle(snapshot, call)).catch_unwind().instrument(span).await;
        settled.unwrap_or_else(|payload| Settled::Defect { report: panic_text(payload.as_ref()) })
    }
}

/// One call on its way.
struct Run<'b> {
    boundary: &'b Boundary,
    scope: CallScope,
    progress: Progress,
    interrupt: CancellationToken,
}

impl Run<'_> {
    async fn settle(&self, snapshot: &Snapshot, call: ToolCall) -> Settled {
        let outcome = self.outcome(snapshot, call).await;
        // Open commits are part of the call, and their panic is its defect.
        let torn = self.scope.close().await;
        self.progress.close();
        match (outcome, torn) {
            (_, Some(report)) | (Err(Stop::Defect(report)), None) => {
                tracing::error!(report, "a tool call ended by a bug");
                Settled::Defect { report }
            }
            (Ok(result), None) => Settled::Completed(result),
            (Err(Stop::Ended(Ended::Declined(declined))), None) => Settled::Declined(declined),
            (Err(Stop::Ended(Ended::Interrupted)), None) => Settled::Interrupted,
            (Err(Stop::Failed(mut error, kind)), None) => {
                error.message = model_text(&error);
                self.boundary.redact_error(&mut error);
                Settled::Failed { error, kind }
            }
        }
    }

    async fn outcome(&self, snapshot: &Snapshot, mut call: ToolCall) -> Result<NormalizedResult, Stop> {
        let hooks = &self.boundary.hooks;
        let allowed = self.interruptible(hooks::before(hooks, &mut call)).await?;
        allowed.map_err(|error| Stop::Failed(error, FailureKind::Execution))?;
        let entry = snapshot.look_up(&call.name).map_err(|error| {
            let (kind, word) = error.kind();
            Stop::Failed(of_kind(error.to_string(), word), kind)
        })?;
        let tool = &entry.tool;
        // Where a provider has tools that take plain text, or a model takes this one for such a tool.
        if let (Some(freeform), serde_json::Value::String(_)) = (&tool.freeform, &call.input) {
            let text = call.input.take();
            call.input = JsonObject::from_iter([(freeform.input.clone(), text)]).into();
        }
        let ran = self.run(tool, &entry.id, &call).await;
        let (outcome, paths, kind) = match ran {
            Ok((result, paths)) => (Ok(result), paths, FailureKind::Execution),
            Err(Stop::Failed(error, kind)) => (Err(error), Vec::new(), kind),
            Err(stop @ (Stop::Ended(_) | Stop::Defect(_))) => return Err(stop),
        };
        let outcome = if hooks.is_empty() {
            outcome
        } else {
            let mut outcome = outcome;
            if let Ok(result) = &mut outcome {
                result.content = self.boundary.images.normalise(std::mem::take(&mut result.content)).await;
            }
            let after = hooks::after(hooks, &call, &entry.id, outcome.clone());
            // The leaf has acted: an interrupt only cuts the hooks short, it does not undo the result.
            tokio::select! {
                biased;
                () = self.interrupt.cancelled() => outcome,
                changed = after => changed,
            }
        };
        let result = outcome.map_err(|error| Stop::Failed(error, kind))?;
        self.bounded(tool, normalise(result), paths).await
    }

    /// Decodes, runs the leaf and checks what it returned.
    async fn run(&self, tool: &Arc<ToolInfo>, name: &str, call: &ToolCall) -> Result<(ToolResult, Vec<String>), Stop> {
        let refused = |issues: &[_]| {
            let text = invalid_input(name, issues, &call.input);
            Stop::Failed(of_kind(text, "invalid-input"), FailureKind::InputSchema)
        };
        let validated = tool.input.validate_input(call.input.clone(), &self.boundary.cache);
        let input = self.interruptible(validated).await?.map_err(|issues| refused(&issues))?;
        let prepared = tool.prepare(input).map_err(|issues| refused(&issues))?;
        let _permit = match tool.load {
            // The semaphore is never closed.
            Load::Works => self.interruptible(self.boundary.permits.acquire()).await?.ok(),
            Load::Waits => None,
        };
        let returned = self.leaf(prepared, call).await?.map_err(|failure| {
            let blocked = permission::is_blocked(&failure);
            let kind = if blocked { FailureKind::PermissionRejected } else { FailureKind::Execution };
            Stop::Failed(failure, kind)
        })?;
        match encode(tool, returned, &self.boundary.cache).await {
            Encoded::Result(result, paths) => Ok((result, paths)),
            Encoded::Failed(failure) => Err(Stop::Failed(failure, FailureKind::Execution)),
            Encoded::Defect(report) => Err(Stop::Defect(report)),
        }
    }

    /// Runs the leaf's code as a task of its own, until it returns or the call ends.
    async fn leaf(&self, prepared: Prepared, call: &ToolCall) -> Result<Result<RawReturn, ToolFailure>, Stop> {
        let context = ToolContext {
            session_id: call.session_id.clone(),
            agent: call.agent.clone(),
            message_id: call.message_id.clone(),
            id: call.call_id.clone(),
            fence: call.fence,
            progress: self.progress.clone(),
            scope: self.scope.clone(),
        };
        let body = async move { prepared(context).await }.in_current_span();
        let mut task = AbortOnDropHandle::new(self.boundary.world.spawn(body));
        let joined = tokio::select! {
            biased;
            ended = self.ended() => Err(ended),
            joined = &mut task => Ok(joined),
            never = self.progress.drive() => match never {},
        };
        let ended = match joined {
            Ok(Ok(returned)) => match self.scope.early_end() {
                None => return Ok(returned),
                // A leaf that raced its own decline does not outrun it.
                Some(ended) => ended,
            },
            Ok(Err(error)) if error.is_panic() => return Err(Stop::Defect(panic_report(error))),
            Ok(Err(_aborted)) => Ended::Interrupted,
            Err(ended) => {
                task.abort();
                // Its guards run before the call settles.
                if tokio::time::timeout(MAX_UNWIND, &mut task).await.is_err() {
                    tracing::error!("an ended tool call does not let go: its code blocks");
                }
                ended
            }
        };
        Err(Stop::Ended(ended))
    }

    async fn bounded(
        &self,
        tool: &ToolInfo,
        mut result: ToolResult,
        mut paths: Vec<String>,
    ) -> Result<NormalizedResult, Stop> {
        let Boundary { limits, files, images, secrets, .. } = self.boundary;
        result.content = images.normalise(result.content).await;
        if !secrets.is_empty() {
            secrets.redact_content(&mut result.content);
            result.output.iter_mut().for_each(|output| secrets.redact_json(output));
            result.metadata.iter_mut().flat_map(|facts| facts.values_mut()).for_each(|fact| secrets.redact_json(fact));
        }
        match bound(&mut result, tool.keep, *limits, files).await {
            Ok(stored) => paths.extend(stored.map(|path| path.display().to_string())),
            Err(error) => {
                let error = of_kind(error.to_string(), "output-retention");
                return Err(Stop::Failed(error, FailureKind::Execution));
            }
        }
        let content = std::mem::take(&mut result.content);
        Ok(NormalizedResult { structured: structured(result), content, output_paths: paths })
    }

    /// Waits for a future, or for the end of the call.
    async fn interruptible<T>(&self, future: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            ended = self.ended() => Err(Stop::Ended(ended)),
            output = future => Ok(output),
        }
    }

    /// Waits until the call ends early: by a decline, or by an interrupt.
    async fn ended(&self) -> Ended {
        tokio::select! {
            biased;
            ended = self.scope.ended() => ended,
            () = self.interrupt.cancelled() => {
                self.scope.end(Ended::Interrupted);
                self.scope.early_end().unwrap_or(Ended::Interrupted)
            }
        }
    }
}

impl Boundary {
    fn redact_error(&self, error: &mut ToolError) {
        error.message = self.secrets.redact(&error.message).into_owned();
        error.error.iter_mut().for_each(|cause| self.secrets.redact_json(cause));
        error.metadata.iter_mut().flat_map(|facts| facts.values_mut()).for_each(|fact| self.secrets.redact_json(fact));
    }
}

/// Reports without secrets. A value that is cut between two pieces of live output is not found; in the result it is.
struct Redacting {
    sink: Arc<dyn ProgressSink>,
    secrets: Secrets,
}

impl ProgressSink for Redacting {
    fn report(&self, mut structured: JsonObject, mut content: Option<Vec<Content>>) {
        structured.values_mut().for_each(|fact| self.secrets.redact_json(fact));
        if let Some(content) = &mut content {
            self.secrets.redact_content(content);
        }
        self.sink.report(structured, content);
    }

    fn output(&self, stream: OutputStream, text: &str) {
        self.sink.output(stream, &self.secrets.redact(text));
    }
}

fn of_kind(message: String, kind: &str) -> ToolError {
    let metadata = JsonObject::from_iter([("kind".to_owned(), kind.into())]);
    ToolError { message, error: None, metadata: Some(metadata) }
}

fn panic_report(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => panic_text(payload.as_ref()),
        Err(error) => error.to_string(),
    }
}
