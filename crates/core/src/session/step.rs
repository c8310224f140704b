//! One step: one logical model response, its tool calls and their settlement (spec/session.md 7.3 to 7.6).
//!
//! The decisions are the publisher's and the pure functions beside it; this driver appends the events, then carries
//! out the effects. Nothing runs before its announcement is committed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use abide_ai::schema::events::FinishKind;
use abide_ai::{AIError, LLMEvent, LLMRequest, LlmStream};
use abide_schema::agent::AgentInfo;
use abide_schema::error::{ErrorCode, SessionError, text};
use abide_schema::event::{
    EventData, Retried, StepEnded, StepFailed, StepStarted, StepStreamed, ToolFailed, ToolProgress, ToolSuccess,
};
use abide_schema::live::{
    LiveEvent, ReasoningDelta, SessionStatus, StatusChanged, TextDelta, ToolInputDelta, UsageUpdated,
};
use abide_schema::message::{CallProvider, Finish, ItemKind};
use abide_schema::tool::{Content, Effects};
use abide_schema::{CallId, JsonObject, MessageId};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fault;
use crate::session::drain::{Drain, DrainError};
use crate::session::errors;
use crate::session::place::ResolvedModel;
use crate::session::progress::{Progress, Sink};
use crate::session::publisher::{CallStage, LocalCall, Output, Publisher, Violation, finish};
use crate::session::stream::{next_item, sleep_until};
use crate::session::{retry, usage};
use crate::store::{AttemptState, CallKey, Draft, Durability, Hook, Item, StepAttempt};
use crate::tool::outcome::{Declined, FailureKind, Settled, ToolCall, ToolSnapshot};

/// Tool calls of one step that run at the same time.
const MAX_PARALLEL_CALLS: usize = 16;
/// How long a cancelled tool may take to clean up.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// What the stream says is committed and broadcast at most this often.
const FLUSH_INTERVAL: Duration = Duration::from_millis(16);
/// Drafts are at most this old ...
const DRAFT_INTERVAL: Duration = Duration::from_millis(500);
/// ... or this many bytes behind.
const DRAFT_BYTES: usize = 4096;
/// Stream events that are taken together when they are ready.
const MAX_READY: usize = 256;
/// Reports of running tools that may wait.
const PROGRESS_CAPACITY: usize = 256;

/// What is sampled once for a step.
pub(super) struct StepPlan {
    pub(super) agent: Arc<AgentInfo>,
    pub(super) model: ResolvedModel,
}

/// How a step ended.
#[derive(Debug)]
pub(super) enum StepEnd {
    /// Settled; `continues` when the model must see results.
    Completed { continues: bool },
    /// The request did not fit, nothing was said: compact and go on. `recorded` when the step had started, so that
    /// its failure is in the log.
    Overflow { error: SessionError, recorded: bool },
    /// The answer broke off after it had begun; the step is failed.
    Incomplete,
    /// Cancelled; the step is settled.
    Interrupted,
    /// The user declined; the step is settled.
    Declined,
    /// Failed; the step is settled.
    Failed(SessionError),
}

/// Why the stream is over.
enum StreamEnd {
    Done,
    Failed(Box<AIError>),
    Broken(Violation),
    Cancelled,
    Declined,
}

/// What the stream said and is not committed yet. It waits for company: a commit costs the same for one event and for
/// ten. Nothing waits longer than [`FLUSH_INTERVAL`], and a call never does.
#[derive(Default)]
struct Outbox {
    /// Events in order, each with the deltas that subscribers see before it.
    items: Vec<Item>,
    hooks: Vec<Hook>,
    /// Deltas after the last event, those of one fragment joined.
    deltas: Vec<(ItemKind, String, String)>,
    /// When it is committed at the latest.
    due: Option<Instant>,
}

struct DraftMark {
    written: usize,
    at: Instant,
    stored: bool,
}

/// The driver of one step.
pub(super) struct Step<'d> {
    drain: &'d mut Drain,
    plan: StepPlan,
    message: MessageId,
    tools: Arc<dyn ToolSnapshot>,
    tools_disabled: bool,
    publisher: Publisher,
    started: bool,
    running: JoinSet<Settled>,
    running_ids: HashMap<tokio::task::Id, CallId>,
    /// The effect class of each announced call.
    effects: HashMap<CallId, Effects>,
    tool_interrupt: CancellationToken,
    permits: Arc<Semaphore>,
    progress_tx: mpsc::Sender<Progress>,
    progress_rx: mpsc::Receiver<Progress>,
    last_progress: HashMap<CallId, Instant>,
    outbox: Outbox,
    drafts: HashMap<(ItemKind, String), DraftMark>,
    out: Vec<Output>,
    declined: Option<Declined>,
    effects_ran: bool,
}

impl<'d> Step<'d> {
    pub(super) fn new(
        drain: &'d mut Drain,
        plan: StepPlan,
        tools: Arc<dyn ToolSnapshot>,
        tools_disabled: bool,
    ) -> Self {
        let message = drain.world().message_id();
        let publisher = Publisher::new(drain.id().clone(), message.clone(), tools_disabled);
        let (progress_tx, progress_rx) = mpsc::channel(PROGRESS_CAPACITY);
        Self {
            drain,
            plan,
            message,
            tools,
            tools_disabled,
            publisher,
            started: false,
            running: JoinSet::new(),
            running_ids: HashMap::new(),
            effects: HashMap::new(),
            tool_interrupt: CancellationToken::new(),
            permits: Arc::new(Semaphore::new(MAX_PARALLEL_CALLS)),
            progress_tx,
            progress_rx,
            last_progress: HashMap::new(),
            outbox: Outbox::default(),
            drafts: HashMap::new(),
            out: Vec::new(),
            declined: None,
            effects_ran: false,
        }
    }

    /// Runs the step to its end: attempts with retries, then settlement.
    pub(super) async fn run(mut self, overflow_allowed: bool) -> Result<StepEnd, DrainError> {
        let settings = self.drain.place().settings();
        let mut attempt = 1u32;
        loop {
            let request = self.drain.request(&self.plan, self.tools.definitions(), self.tools_disabled).await?;
            let end = self.attempt(request, attempt).await?;
            let failure = match &end {
                StreamEnd::Failed(error) if !self.publisher.output_started() => error,
                StreamEnd::Done
                | StreamEnd::Failed(_)
                | StreamEnd::Broken(_)
                | StreamEnd::Cancelled
                | StreamEnd::Declined => {
                    return self.settle(end, overflow_allowed).await;
                }
            };
            let overflow = failure.is_context_overflow() && overflow_allowed;
            let budget = retry::max_retries(failure, settings.max_retries);
            if overflow || attempt > budget || !retry::is_retryable(failure) {
                return self.settle(end, overflow_allowed).await;
            }
            attempt += 1;
            let random = self.drain.world().random();
            let wait = retry::delay(settings.retry_base, attempt, failure.retry_after(), random);
            let error = errors::retry_error(failure);
            if !self.wait_for_attempt(attempt, wait, error).await? {
                return self.settle(StreamEnd::Cancelled, overflow_allowed).await;
            }
            // Nothing of the failed attempt counts: its finish, its usage, its error.
            let (session, message) = (self.drain.id().clone(), self.message.clone());
            self.publisher = Publisher::new(session, message, self.tools_disabled);
        }
    }

    /// Announces the next attempt and waits; false when cancelled meanwhile.
    async fn wait_for_attempt(
        &mut self,
        attempt: u32,
        wait: Duration,
        error: abide_schema::error::RetryError,
    ) -> Result<bool, DrainError> {
        self.start().await;
        let now = self.drain.world().now();
        let at = now.plus_millis(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let message = error.message.clone();
        self.queue(Retried {
            timestamp: now,
            session_id: self.drain.id().clone(),
            attempt,
            error,
            assistant_message_id: Some(self.message.clone()),
            at: Some(at),
        });
        self.flush().await?;
        fault::point("retry.after_scheduled").await?;
        self.drain.publish(StatusChanged {
            session_id: self.drain.id().clone(),
            status: SessionStatus::Retry { attempt, message, next: u64::try_from(at.as_millis()).unwrap_or(0) },
        });
        let cancel = self.drain.cancel_token();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(false),
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }

    /// Makes one model request and drives its stream and the tools until both are over.
    async fn attempt(&mut self, request: LLMRequest, attempt: u32) -> Result<StreamEnd, DrainError> {
        let store = self.drain.store().clone();
        let record = StepAttempt {
            session: self.drain.id().clone(),
            message: self.message.clone(),
            attempt,
            state: AttemptState::Dispatched,
            updated: self.drain.world().now(),
        };
        store.put_attempt(record).await?;
        fault::point("attempt.before_dispatch").await?;
        let mut stream = Some(self.drain.models().stream(request));
        fault::point("attempt.after_dispatch").await?;
        let mut end = None;
        let cancel = self.drain.cancel_token();
        while stream.is_some() || !self.running.is_empty() {
            let due = self.outbox.due;
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !matches!(end, Some(StreamEnd::Cancelled)) => {
                    end = Some(StreamEnd::Cancelled);
                    stream = None;
                    self.stop_tools().await?;
                }
                Some(joined) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    self.tool_ended(joined, stream.is_none()).await?;
                    if self.declined.is_some() && stream.is_some() {
                        stream = None;
                        end = Some(StreamEnd::Declined);
                    }
                    if self.declined.is_some() {
                        self.stop_tools().await?;
                    }
                }
                Some(report) = self.progress_rx.recv() => self.progress(report).await?,
                () = sleep_until(due), if due.is_some() => self.flush_due().await?,
                item = next_item(&mut stream), if stream.is_some() => {
                    if let Some(over) = self.take_ready(&mut stream, item).await? {
                        stream = None;
                        end.get_or_insert(over);
                        self.stream_over(end.as_ref()).await?;
                    }
                }
            }
        }
        if self.declined.is_some() && !matches!(end, Some(StreamEnd::Cancelled)) {
            return Ok(StreamEnd::Declined);
        }
        Ok(end.unwrap_or(StreamEnd::Done))
    }

    /// Takes one stream item and all that are ready behind it, then commits what they mean.
    async fn take_ready(
        &mut self,
        stream: &mut Option<LlmStream>,
        first: Option<Result<LLMEvent, AIError>>,
    ) -> Result<Option<StreamEnd>, DrainError> {
        let now = self.drain.world().now();
        let tools = self.tools.clone();
        let effects = move |name: &str| tools.effects(name);
        let mut item = first;
        let mut over = None;
        for taken in 0.. {
            match item {
                None => over = Some(StreamEnd::Done),
                Some(Err(error)) => over = Some(StreamEnd::Failed(Box::new(error))),
                Some(Ok(event)) => {
                    if let Err(violation) = self.publisher.on(event, now, &effects, &mut self.out) {
                        over = Some(StreamEnd::Broken(violation));
                    }
                }
            }
            if over.is_some() || taken >= MAX_READY {
                break;
            }
            let ready = match stream.as_mut() {
                Some(stream) => stream.next().now_or_never(),
                None => None,
            };
            match ready {
                Some(next) => item = next,
                None => break,
            }
        }
        self.take_outputs().await?;
        fault::point("stream.after_event").await?;
        Ok(over)
    }

    /// Notes the end of the stream while tools still run.
    async fn stream_over(&mut self, end: Option<&StreamEnd>) -> Result<(), DrainError> {
        if self.running.is_empty() || !self.started {
            return Ok(());
        }
        let now = self.drain.world().now();
        self.publisher.close(now, &mut self.out);
        self.take_outputs().await?;
        if matches!(end, Some(StreamEnd::Done)) {
            self.queue(StepStreamed {
                timestamp: now,
                session_id: self.drain.id().clone(),
                assistant_message_id: self.message.clone(),
            });
        }
        Ok(())
    }

    /// Queues `step.started` the first time that it is needed.
    async fn start(&mut self) {
        if self.started {
            return;
        }
        self.started = true;
        let snapshot = self.drain.start_snapshot().await;
        self.queue(StepStarted {
            timestamp: self.drain.world().now(),
            session_id: self.drain.id().clone(),
            assistant_message_id: self.message.clone(),
            agent: self.plan.agent.id.clone(),
            model: self.plan.model.model.clone(),
            snapshot,
            attempt: None,
        });
    }

    /// Queues an event behind everything that was said before it.
    fn queue(&mut self, event: impl Into<EventData>) {
        let live = self.take_deltas();
        self.outbox.items.push(Item { live, ..Item::from(event) });
        self.wait_for_company();
    }

    fn wait_for_company(&mut self) {
        if self.outbox.due.is_none() {
            self.outbox.due = Some(Instant::now() + FLUSH_INTERVAL);
        }
    }

    /// Commits what is queued, and broadcasts it.
    async fn flush(&mut self) -> Result<(), DrainError> {
        self.outbox.due = None;
        let items = std::mem::take(&mut self.outbox.items);
        let hooks = std::mem::take(&mut self.outbox.hooks);
        let must_stay = |item: &Item| {
            matches!(
                item.data,
                EventData::ToolCalled(_)
                    | EventData::ToolSuccess(_)
                    | EventData::ToolFailed(_)
                    | EventData::StepEnded(_)
                    | EventData::StepFailed(_)
            )
        };
        let durability = if items.iter().any(must_stay) { Durability::Synced } else { Durability::Committed };
        self.drain.append_items(items, hooks, durability).await?;
        for event in self.take_deltas() {
            self.drain.store().publish_live(event);
        }
        Ok(())
    }

    /// Commits what has waited long enough, and keeps the drafts of open fragments up to date.
    async fn flush_due(&mut self) -> Result<(), DrainError> {
        self.flush().await?;
        let open: Vec<(ItemKind, String)> = self.drafts.keys().cloned().collect();
        for (kind, id) in open {
            self.draft(kind, id).await?;
        }
        Ok(())
    }

    /// Takes what the publisher decided, in order. A call starts once its announcement and all before it is committed.
    async fn take_outputs(&mut self) -> Result<(), DrainError> {
        let outputs = std::mem::take(&mut self.out);
        if outputs.is_empty() {
            return Ok(());
        }
        self.start().await;
        let mut grown: Vec<(ItemKind, String)> = Vec::new();
        for output in outputs {
            match output {
                Output::Event(event) => {
                    if let EventData::ToolCalled(called) = &event {
                        self.effects.insert(called.call_id.clone(), called.effects.unwrap_or_default());
                    }
                    self.queue(event);
                }
                Output::Delta { kind, id, text } => {
                    self.delta(kind, &id, &text);
                    if grown.last().is_none_or(|(last_kind, last)| *last_kind != kind || *last != id) {
                        grown.push((kind, id));
                    }
                }
                Output::Ended { kind, id } => {
                    if self.drafts.remove(&(kind, id.clone())).is_some_and(|mark| mark.stored) {
                        let message = self.message.clone();
                        self.outbox.hooks.push(Hook::DropDraft { message, kind, item_id: id });
                    }
                }
                Output::Call(call) => {
                    self.flush().await?;
                    fault::point("tool.after_called").await?;
                    self.start_call(call);
                }
            }
        }
        for (kind, id) in grown {
            self.draft(kind, id).await?;
        }
        Ok(())
    }

    fn delta(&mut self, kind: ItemKind, id: &str, text: &str) {
        match self.outbox.deltas.last_mut() {
            Some((last_kind, last_id, pending)) if *last_kind == kind && last_id == id => pending.push_str(text),
            Some(_) | None => self.outbox.deltas.push((kind, id.to_owned(), text.to_owned())),
        }
        self.wait_for_company();
    }

    /// Makes ephemeral events of the deltas that wait.
    fn take_deltas(&mut self) -> Vec<LiveEvent> {
        let timestamp = self.drain.world().now();
        let message = |(kind, id, delta): (ItemKind, String, String)| {
            let (session_id, assistant_message_id) = (self.drain.id().clone(), self.message.clone());
            match kind {
                ItemKind::Text => {
                    self.drain.live(TextDelta { timestamp, session_id, assistant_message_id, text_id: id, delta })
                }
                ItemKind::Reasoning => self.drain.live(ReasoningDelta {
                    timestamp,
                    session_id,
                    assistant_message_id,
                    reasoning_id: id,
                    delta,
                }),
                ItemKind::Tool => self.drain.live(ToolInputDelta {
                    timestamp,
                    session_id,
                    assistant_message_id,
                    call_id: id.as_str().into(),
                    delta,
                }),
            }
        };
        let deltas = std::mem::take(&mut self.outbox.deltas);
        deltas.into_iter().map(message).collect()
    }

    /// Stores what an open fragment holds when the stored draft is too old or too far behind.
    async fn draft(&mut self, kind: ItemKind, id: String) -> Result<(), DrainError> {
        let Some(text) = self.publisher.open_text(kind, &id) else { return Ok(()) };
        let now = Instant::now();
        let mark = self.drafts.entry((kind, id.clone())).or_insert(DraftMark { written: 0, at: now, stored: false });
        let grown = text.len().saturating_sub(mark.written);
        if grown == 0 || (grown < DRAFT_BYTES && now.duration_since(mark.at) < DRAFT_INTERVAL) {
            return Ok(());
        }
        *mark = DraftMark { written: text.len(), at: now, stored: true };
        let text = text.to_owned();
        // A draft belongs to a fragment that has begun.
        self.flush().await?;
        let draft = Draft {
            session: self.drain.id().clone(),
            message: self.message.clone(),
            kind,
            item_id: id,
            text,
            updated: self.drain.world().now(),
        };
        self.drain.store().put_draft(draft).await?;
        Ok(fault::point("draft.after_write").await?)
    }

    fn key(&self, call: &CallId) -> CallKey {
        CallKey { session: self.drain.id().clone(), message: self.message.clone(), call: call.clone() }
    }

    fn start_call(&mut self, local: LocalCall) {
        let class = self.effects.get(&local.id).copied().unwrap_or_default();
        if !matches!(class, Effects::None | Effects::Network) {
            self.effects_ran = true;
        }
        let call = ToolCall {
            session_id: self.drain.id().clone(),
            agent: self.plan.agent.id.clone(),
            message_id: self.message.clone(),
            call_id: local.id.clone(),
            name: local.name,
            input: local.input,
            fence: self.drain.fence(),
        };
        let sink = Sink::new(
            self.drain.store().clone(),
            self.drain.world().clone(),
            self.drain.location().clone(),
            call.session_id.clone(),
            call.message_id.clone(),
            call.call_id.clone(),
            self.progress_tx.clone(),
        );
        let future = self.tools.execute(call, Arc::new(sink), self.tool_interrupt.child_token());
        let permits = self.permits.clone();
        let handle = self.running.spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire_owned().await.ok();
            future.await
        });
        self.running_ids.insert(handle.id(), local.id);
    }

    async fn tool_ended(
        &mut self,
        joined: Result<(tokio::task::Id, Settled), tokio::task::JoinError>,
        stream_over: bool,
    ) -> Result<(), DrainError> {
        let (task, settled) = match joined {
            Ok((task, settled)) => (task, settled),
            Err(error) => {
                let report = error.to_string();
                let settled = if error.is_cancelled() { Settled::Interrupted } else { Settled::Defect { report } };
                (error.id(), settled)
            }
        };
        let Some(call) = self.running_ids.remove(&task) else { return Ok(()) };
        fault::point("tool.before_settle").await?;
        let event = self.settlement(&call, settled);
        self.publisher.settled(&call);
        let class = self.effects.get(&call).copied().unwrap_or_default();
        let hooks = match class {
            Effects::Files => vec![Hook::SettleMutation(self.key(&call))],
            Effects::Process => vec![Hook::DropProcess(self.key(&call))],
            Effects::None | Effects::Session | Effects::Network | Effects::External => Vec::new(),
        };
        self.queue(event);
        self.outbox.hooks.extend(hooks);
        if stream_over && self.running.is_empty() && !self.effects_ran {
            // The step's end follows at once and takes it along.
            return Ok(());
        }
        self.flush().await
    }

    fn settlement(&mut self, call: &CallId, settled: Settled) -> EventData {
        let (timestamp, session_id, assistant_message_id) =
            (self.drain.world().now(), self.drain.id().clone(), self.message.clone());
        let failed = |error: SessionError, structured: Option<JsonObject>| {
            EventData::from(ToolFailed {
                timestamp,
                session_id: session_id.clone(),
                assistant_message_id: assistant_message_id.clone(),
                call_id: call.clone(),
                error,
                provider: CallProvider::default(),
                result: None,
                structured,
                content: None,
                verdict: None,
            })
        };
        match settled {
            Settled::Completed(result) => ToolSuccess {
                timestamp,
                session_id: session_id.clone(),
                assistant_message_id: assistant_message_id.clone(),
                call_id: call.clone(),
                structured: result.structured,
                content: result.content,
                provider: CallProvider::default(),
                output_paths: Some(result.output_paths),
                result: None,
            }
            .into(),
            Settled::Failed { error, kind } => {
                let code = match kind {
                    FailureKind::Execution => ErrorCode::ToolExecution,
                    FailureKind::PermissionRejected => ErrorCode::PermissionRejected,
                    FailureKind::Unknown => ErrorCode::ToolUnknown,
                    FailureKind::Stale => ErrorCode::ToolStale,
                    FailureKind::InputSchema => ErrorCode::ToolInputSchema,
                };
                failed(SessionError::new(code, error.message), error.metadata)
            }
            Settled::Declined(what) => {
                self.declined = Some(what);
                let words = match what {
                    Declined::Permission => "Declined by the user",
                    Declined::Question => "The user dismissed the question",
                };
                failed(SessionError::new(ErrorCode::ToolDeclined, words), None)
            }
            Settled::Interrupted => failed(SessionError::new(ErrorCode::ToolInterrupted, text::TOOL_INTERRUPTED), None),
            Settled::Defect { report } => {
                tracing::error!(session.id = %session_id, call.id = %call, report, "tool defect");
                let words = "Tool execution failed: an internal error of the tool, see the log";
                failed(SessionError::new(ErrorCode::ToolExecution, words), None)
            }
        }
    }

    /// Asks the running tools to end, and abandons those that take too long.
    async fn stop_tools(&mut self) -> Result<(), DrainError> {
        self.tool_interrupt.cancel();
        self.drain.place().withdraw(self.drain.id());
        let deadline = Instant::now() + CANCEL_GRACE;
        while !self.running.is_empty() {
            match tokio::time::timeout_at(deadline, self.running.join_next_with_id()).await {
                Ok(Some(joined)) => self.tool_ended(joined, false).await?,
                Ok(None) => break,
                Err(_elapsed) => {
                    tracing::warn!(session.id = %self.drain.id(), "tools did not end in time and are abandoned");
                    self.running.abort_all();
                    while let Some(joined) = self.running.join_next_with_id().await {
                        self.tool_ended(joined, false).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a report durable, at most once per call and second and bounded in size.
    async fn progress(&mut self, report: Progress) -> Result<(), DrainError> {
        const INTERVAL: Duration = Duration::from_secs(1);
        const MAX_BYTES: usize = 16 * 1024;
        let now = Instant::now();
        let recent = self.last_progress.get(&report.call).is_some_and(|last| now.duration_since(*last) < INTERVAL);
        let live = self.running_ids.values().any(|call| *call == report.call);
        if recent || !live {
            return Ok(());
        }
        let size = report.content.iter().filter_map(Content::as_text).map(str::len).sum::<usize>();
        if size > MAX_BYTES {
            return Ok(());
        }
        self.last_progress.insert(report.call.clone(), now);
        self.queue(ToolProgress {
            timestamp: self.drain.world().now(),
            session_id: self.drain.id().clone(),
            assistant_message_id: self.message.clone(),
            call_id: report.call,
            structured: report.structured,
            content: report.content,
        });
        self.flush().await
    }

    /// Settles the step in the order of spec/session.md 7.6.
    async fn settle(mut self, end: StreamEnd, overflow_allowed: bool) -> Result<StepEnd, DrainError> {
        let interrupted = matches!(end, StreamEnd::Cancelled);
        let streamed = matches!(end, StreamEnd::Done) || self.publisher.finish().is_some();
        let failure = self.failure(&end);
        let is_overflow =
            failure.as_ref().is_some_and(|(error, _)| error.code == Some(ErrorCode::ProviderContextOverflow));
        let recoverable = is_overflow && overflow_allowed && !self.publisher.output_started();
        if recoverable && let (Some((error, _)), false) = (failure.clone(), self.started) {
            self.drain.note(vec![Hook::DropStep { message: self.message.clone() }]).await?;
            return Ok(StepEnd::Overflow { error, recorded: false });
        }
        if !self.started && (interrupted || matches!(end, StreamEnd::Declined)) {
            self.drain.note(vec![Hook::DropStep { message: self.message.clone() }]).await?;
            return Ok(if interrupted { StepEnd::Interrupted } else { StepEnd::Declined });
        }
        let now = self.drain.world().now();
        self.publisher.close(now, &mut self.out);
        self.start().await;
        self.take_outputs().await?;
        self.fail_open_calls(&end, failure.as_ref().map(|(error, _)| error));
        let (snapshot, files) = self.end_snapshot().await?;
        let missing = self.missing_results();
        let tokens = self.publisher.usage().map(usage::tokens);
        let cost = tokens.as_ref().map(|tokens| {
            let reported = self.publisher.usage().and_then(usage::reported_cost);
            reported.unwrap_or_else(|| usage::cost(&self.plan.model.prices, tokens))
        });
        let continues = self.publisher.wants_continuation() && failure.is_none() && !self.tools_disabled;
        let (session_id, id) = (self.drain.id().clone(), self.message.clone());
        // An interrupted step whose stream had ended well is an ended step.
        let step_error = match (&failure, &end) {
            (Some((error, _)), _) => Some(error.clone()),
            (None, StreamEnd::Cancelled | StreamEnd::Declined) if !streamed => {
                Some(SessionError::new(ErrorCode::Aborted, text::STEP_INTERRUPTED))
            }
            (None, _) => missing.filter(|_| self.publisher.finish().is_none()),
        };
        let terminal: EventData = match &step_error {
            Some(error) => StepFailed {
                timestamp: now,
                session_id,
                assistant_message_id: id,
                error: error.clone(),
                cost,
                tokens,
                snapshot,
                files,
            }
            .into(),
            None => StepEnded {
                timestamp: now,
                session_id,
                assistant_message_id: id,
                finish: self.finish_word(),
                cost: cost.unwrap_or(0.0),
                tokens: tokens.unwrap_or_default(),
                raw_finish: self.publisher.finish().and_then(|finish| finish.raw.clone()),
                snapshot,
                files,
                metadata: None,
            }
            .into(),
        };
        self.queue(terminal);
        self.outbox.hooks.push(Hook::DropStep { message: self.message.clone() });
        if step_error.is_none() && matches!(end, StreamEnd::Done | StreamEnd::Failed(_) | StreamEnd::Broken(_)) {
            self.outbox.hooks.extend(self.drain.got_on());
        }
        fault::point("step.before_terminal").await?;
        self.flush().await?;
        fault::point("step.after_terminal").await?;
        if tokens.is_some() {
            self.publish_usage();
        }
        Ok(match (end, failure) {
            (StreamEnd::Cancelled, _) => StepEnd::Interrupted,
            (StreamEnd::Declined, _) => StepEnd::Declined,
            (StreamEnd::Done | StreamEnd::Failed(_) | StreamEnd::Broken(_), Some((error, incomplete))) => {
                if recoverable {
                    StepEnd::Overflow { error, recorded: true }
                } else if incomplete && self.publisher.output_started() {
                    StepEnd::Incomplete
                } else {
                    StepEnd::Failed(error)
                }
            }
            (StreamEnd::Done | StreamEnd::Failed(_) | StreamEnd::Broken(_), None) => match step_error {
                Some(error) => StepEnd::Failed(error),
                None => StepEnd::Completed { continues },
            },
        })
    }

    fn publish_usage(&self) {
        if let Some(session) = self.drain.session() {
            self.drain.publish(UsageUpdated {
                timestamp: self.drain.world().now(),
                session_id: session.id.clone(),
                cost: session.cost,
                tokens: session.tokens,
            });
        }
    }

    fn finish_word(&self) -> Finish {
        let called = self.publisher.wants_continuation();
        match self.publisher.finish().map(|reason| finish(reason.normalized)) {
            Some(Finish::Stop) if called => Finish::ToolCalls,
            Some(word) => word,
            None => Finish::Unknown,
        }
    }

    /// Returns why the step failed, if it did, and whether that is an answer that broke off.
    fn failure(&self, end: &StreamEnd) -> Option<(SessionError, bool)> {
        match end {
            StreamEnd::Cancelled | StreamEnd::Declined => None,
            StreamEnd::Broken(violation) => {
                Some((SessionError::new(ErrorCode::ProviderInvalidOutput, violation.0.clone()), false))
            }
            StreamEnd::Failed(error) => {
                let broke_off =
                    error.is_incomplete_stream() || matches!(error.kind(), abide_ai::AIErrorKind::Transport(_));
                Some((errors::session_error(error), broke_off))
            }
            StreamEnd::Done => {
                if let Some(error) = self.publisher.provider_error() {
                    return Some((error.clone(), false));
                }
                match self.publisher.finish().map(|reason| reason.normalized) {
                    Some(FinishKind::ContentFilter) => Some((
                        SessionError::new(
                            ErrorCode::ProviderContentFilter,
                            "The provider's content filter stopped the answer",
                        ),
                        false,
                    )),
                    Some(FinishKind::Error) => Some((
                        SessionError::new(ErrorCode::ProviderInternal, "The provider reports that the answer failed"),
                        false,
                    )),
                    None => Some((
                        SessionError::new(ErrorCode::ProviderInvalidOutput, "The answer ended without a finish"),
                        true,
                    )),
                    Some(FinishKind::Stop | FinishKind::Length | FinishKind::ToolCalls | FinishKind::Unknown) => None,
                }
            }
        }
    }

    /// Fails what has no terminal event yet: calls that were never announced, and announced local ones.
    fn fail_open_calls(&mut self, end: &StreamEnd, failure: Option<&SessionError>) {
        let now = self.drain.world().now();
        let open: Vec<(CallId, CallStage)> = self
            .publisher
            .calls()
            .iter()
            .filter(|call| match call.stage {
                CallStage::Input => true,
                CallStage::Called => !call.hosted,
                CallStage::Settled => false,
            })
            .map(|call| (call.id.clone(), call.stage))
            .collect();
        for (call, stage) in open {
            let error = match (failure, end, stage) {
                (Some(failure), _, CallStage::Input) => failure.clone(),
                (_, StreamEnd::Done, CallStage::Input) => {
                    SessionError::new(ErrorCode::ToolInputJson, "The arguments of the call never became complete")
                }
                (_, _, _) => SessionError::new(ErrorCode::ToolInterrupted, text::TOOL_INTERRUPTED),
            };
            let event = self.publisher.fail(&call, error, now);
            self.queue(event);
        }
    }

    /// Fails hosted calls that got no result; returns the error when there was one.
    fn missing_results(&mut self) -> Option<SessionError> {
        let now = self.drain.world().now();
        let open: Vec<CallId> = self
            .publisher
            .calls()
            .iter()
            .filter(|call| call.hosted && call.stage == CallStage::Called)
            .map(|call| call.id.clone())
            .collect();
        let mut missing = None;
        for call in open {
            let error = SessionError::new(ErrorCode::ToolResultMissing, text::RESULT_MISSING);
            let event = self.publisher.fail(&call, error.clone(), now);
            self.queue(event);
            missing = Some(error);
        }
        missing
    }

    /// Takes the end snapshot when the step may have changed files. Settlements are committed before.
    async fn end_snapshot(&mut self) -> Result<(Option<String>, Option<Vec<String>>), DrainError> {
        if !self.effects_ran {
            let same = self.drain.known_snapshot();
            let files = same.is_some().then(Vec::new);
            return Ok((same, files));
        }
        self.flush().await?;
        Ok(self.drain.end_snapshot().await)
    }
}
