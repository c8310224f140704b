//! The drain: one span in which one owner promotes eligible input and runs steps until no continuation remains
//! (spec/session.md 7.2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use abide_ai::schema::options::{GenerationOptions, HttpOptions};
use abide_ai::{LLMRequest, Message as ModelMessage, RequestInput, SystemPart, ToolChoice, ToolDefinition};
use abide_schema::agent::AgentInfo;
use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::{
    ContextBaselined, ContextUpdated, EventData, InboxDelivered, InboxKind, Prompted, StepFailed, StepStarted,
    Synthetic,
};
use abide_schema::live::{LiveData, LiveEvent};
use abide_schema::location::LocationRef;
use abide_schema::message::Message;
use abide_schema::model::ModelRef;
use abide_schema::project::{InputPayload, InputRow};
use abide_schema::prompt::Delivery;
use abide_schema::session::SessionInfo;
use abide_schema::{MessageId, SessionId};
use tokio_util::sync::CancellationToken;

use crate::fault::{self, Fault};
use crate::session::context::{self, Blob, Decision};
use crate::session::engine::Engine;
use crate::session::lower;
use crate::session::place::{ModelClient, Place, PlaceError, ResolvedModel};
use crate::session::relocate::Underway;
use crate::session::state::SessionState;
use crate::session::step::{Step, StepEnd, StepPlan};
use crate::session::{compaction, retry, title};
use crate::store::{AppendError, Batch, Durability, Hook, Item, Store, StoreError};
use crate::world::World;

/// How long the first content of a step waits for the snapshot of its files.
const SNAPSHOT_WAIT: Duration = Duration::from_secs(5);

/// Which inputs a boundary may promote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Steers only: work goes on.
    Steer,
    /// Queued ones too: the session would be idle.
    Input,
}

/// How a drain ended.
#[derive(Clone, Debug, PartialEq)]
pub enum DrainEnd {
    /// Nothing is left to do.
    Complete,
    /// Cancelled, or the user declined.
    Interrupted,
    /// A step or a boundary failed.
    Failed(SessionError),
}

/// Why a drain cannot go on at all: it no longer owns the session, or the store failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrainError {
    /// Another owner has the session.
    #[error("the session was taken over by another owner")]
    Fenced,
    /// The store failed.
    #[error(transparent)]
    Append(AppendError),
}

impl From<AppendError> for DrainError {
    fn from(error: AppendError) -> Self {
        if matches!(error, AppendError::Fenced { .. }) { Self::Fenced } else { Self::Append(error) }
    }
}

impl From<StoreError> for DrainError {
    fn from(error: StoreError) -> Self {
        Self::Append(AppendError::Storage(error))
    }
}

impl From<Fault> for DrainError {
    /// An injected failure stands for a failing store.
    fn from(fault: Fault) -> Self {
        Self::Append(AppendError::Storage(StoreError::Other(fault.to_string())))
    }
}

/// The instruction after an answer that broke off.
const CONTINUE_TEXT: &str = "The connection to the model broke while it was answering. What it had said so far is \
above. Go on from there without repeating it.";

/// What the model is told in the last step it may take.
const LAST_STEP_TEXT: &str = "MAXIMUM STEPS REACHED. Tools are off now. Answer in text only: say what was done, what \
is left, and what should come next.";

#[derive(Default)]
struct Lowered {
    model: Option<ModelRef>,
    by_id: HashMap<MessageId, LoweredMessage>,
}

/// A message that can no longer change, with the estimated tokens of its request messages.
struct LoweredMessage {
    messages: Vec<Arc<ModelMessage>>,
    /// All of them.
    tokens: u64,
    /// Those after the first: the results of an assistant message's calls.
    tokens_of_results: u64,
}

impl LoweredMessage {
    fn new(messages: Vec<Arc<ModelMessage>>) -> Self {
        let mut sizes = messages.iter().map(|message| lower::estimate(message));
        let first = sizes.next().unwrap_or(0);
        let tokens_of_results = sizes.sum();
        Self { messages, tokens: first + tokens_of_results, tokens_of_results }
    }
}

enum Snapshot {
    None,
    Pending(tokio::task::JoinHandle<Option<String>>),
    Known(Option<String>),
}

/// The estimated size of the next prompt, in tokens.
struct PromptEstimate {
    /// All of it.
    tokens: u64,
    /// The part of the history after the latest checkpoint.
    since_checkpoint: u64,
}

/// The driver of one drain.
pub(crate) struct Drain {
    engine: Arc<Engine>,
    id: SessionId,
    fence: u64,
    place: Arc<dyn Place>,
    location: LocationRef,
    state: SessionState,
    cancel: CancellationToken,
    lowered: Lowered,
    snapshot: Snapshot,
    baseline: Option<String>,
    stashed: Vec<Hook>,
    overflow_used: bool,
    /// Recovery resumed the execution and no step was completed since.
    resumed: bool,
    /// Where the work stands that goes on in another place after a move.
    pub(super) underway: Underway,
}

impl Drain {
    pub(super) fn new(
        engine: Arc<Engine>,
        fence: u64,
        place: Arc<dyn Place>,
        state: SessionState,
        cancel: CancellationToken,
        id: SessionId,
        resumed: bool,
    ) -> Self {
        let location = place.info().to_ref();
        Self {
            engine,
            id,
            fence,
            place,
            location,
            state,
            cancel,
            lowered: Lowered::default(),
            snapshot: Snapshot::None,
            baseline: None,
            stashed: Vec::new(),
            overflow_used: false,
            resumed,
            underway: Underway::new(false),
        }
    }

    /// Returns the change that the first completed step after a resume brings: the execution got on.
    pub(super) fn got_on(&mut self) -> Option<Hook> {
        std::mem::take(&mut self.resumed).then_some(Hook::ResetAttempts)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(super) fn world(&self) -> &World {
        &self.engine.world
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.engine.store
    }

    pub(super) fn models(&self) -> &dyn ModelClient {
        &*self.engine.models
    }

    pub(super) fn place(&self) -> &dyn Place {
        &*self.place
    }

    pub(super) fn location(&self) -> &LocationRef {
        &self.location
    }

    pub(super) const fn fence(&self) -> u64 {
        self.fence
    }

    pub(super) fn session(&self) -> Option<&SessionInfo> {
        self.state.session()
    }

    pub(super) fn state(&self) -> &SessionState {
        &self.state
    }

    pub(super) fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    pub(super) fn publish(&self, data: impl Into<LiveData>) {
        self.engine.store.publish_live(self.live(data));
    }

    /// Makes an ephemeral event of this session.
    pub(super) fn live(&self, data: impl Into<LiveData>) -> LiveEvent {
        LiveEvent { id: self.engine.world.event_id(), location: Some(self.location.clone()), data: data.into() }
    }

    /// Appends events under the fence and folds them into the state. Empty input appends nothing.
    pub(super) async fn append(
        &mut self,
        events: Vec<EventData>,
        hooks: Vec<Hook>,
        durability: Durability,
    ) -> Result<(), DrainError> {
        self.append_items(events.into_iter().map(Item::from).collect(), hooks, durability).await
    }

    /// Appends events with the ephemeral ones that go before them. Empty input appends nothing.
    pub(super) async fn append_items(
        &mut self,
        mut items: Vec<Item>,
        hooks: Vec<Hook>,
        durability: Durability,
    ) -> Result<(), DrainError> {
        if items.is_empty() {
            self.stashed.extend(hooks);
            return Ok(());
        }
        for item in &mut items {
            item.location = Some(self.location.clone());
        }
        let mut batch = Batch::new(self.id.clone(), items);
        batch.fence = Some(self.fence);
        batch.hooks = std::mem::take(&mut self.stashed);
        batch.hooks.extend(hooks);
        batch.durability = durability;
        let committed = self.engine.store.append(batch).await?;
        self.state.absorb(&committed);
        if self.state.has_gap() {
            self.state.catch_up(&*self.engine.store.clone()).await?;
        }
        Ok(())
    }

    /// Keeps operational changes for the next append.
    pub(super) async fn note(&mut self, hooks: Vec<Hook>) -> Result<(), DrainError> {
        self.append(Vec::new(), hooks, Durability::Committed).await
    }

    // ---- snapshots -------------------------------------------------------------------------------------------

    /// Begins to take a snapshot beside the request, unless the last one still holds.
    fn begin_snapshot(&mut self) {
        if self.place.settings().snapshot && matches!(self.snapshot, Snapshot::None) {
            let place = self.place.clone();
            self.snapshot = Snapshot::Pending(self.engine.world.spawn(async move { place.capture().await }));
        }
    }

    /// Waits for the snapshot from before the step; a slow one is given up for this step.
    pub(super) async fn start_snapshot(&mut self) -> Option<String> {
        if let Snapshot::Pending(handle) = &mut self.snapshot {
            let taken = tokio::time::timeout(SNAPSHOT_WAIT, handle).await;
            self.snapshot = Snapshot::Known(taken.ok().and_then(Result::ok).flatten());
        }
        self.known_snapshot()
    }

    pub(super) fn known_snapshot(&self) -> Option<String> {
        match &self.snapshot {
            Snapshot::Known(snapshot) => snapshot.clone(),
            Snapshot::None | Snapshot::Pending(_) => None,
        }
    }

    /// Takes the snapshot after a step that may have changed files, and lists what changed.
    pub(super) async fn end_snapshot(&mut self) -> (Option<String>, Option<Vec<String>>) {
        let before = self.known_snapshot();
        if !self.place.settings().snapshot {
            return (None, None);
        }
        let after = self.place.capture().await;
        let files = match (&before, &after) {
            (Some(before), Some(after)) if before == after => Some(Vec::new()),
            (Some(before), Some(after)) => Some(self.place.changed(before, after).await),
            (_, _) => None,
        };
        self.snapshot = Snapshot::Known(after.clone());
        (after, files)
    }

    // ---- the loop --------------------------------------------------------------------------------------------

    /// Runs boundaries and steps until nothing is left to do.
    pub(super) async fn run(&mut self, underway: Underway, scope: Scope) -> Result<DrainEnd, DrainError> {
        let Underway { mut number, mut continuing, mut force } = underway;
        let mut broken_off = 0u32;
        loop {
            if self.cancel.is_cancelled() {
                return Ok(DrainEnd::Interrupted);
            }
            let (head, pending) = self.engine.store.head_and_pending(&self.id).await?;
            self.state.catch_up_to(&*self.engine.store.clone(), head).await?;
            let eligible = if continuing { Scope::Steer } else { scope };
            if let Some(item) = head_of_line(&pending, eligible).filter(|item| is_control(item)) {
                let is_move = item.kind == InboxKind::Move;
                if let Some(end) = self.control(item.clone()).await? {
                    return Ok(end);
                }
                // A compaction is what was asked for; a move only changes where the work is done.
                force &= is_move;
                if self.moved().is_some() {
                    self.underway = Underway { number, continuing, force };
                    return Ok(DrainEnd::Complete);
                }
                continue;
            }
            let promotable = head_of_line(&pending, eligible).is_some();
            if !force && !continuing && !promotable {
                return Ok(DrainEnd::Complete);
            }
            let Some(session) = self.state.session().cloned() else {
                return Ok(DrainEnd::Failed(SessionError::new(ErrorCode::Unknown, "The session was deleted")));
            };
            if session.location != self.location {
                // Moved: the work goes on in the new place.
                self.underway = Underway { number, continuing, force };
                return Ok(DrainEnd::Complete);
            }
            let agent = match self.place.agent(session.agent.as_ref()) {
                Ok(agent) => agent,
                Err(error) => return Ok(DrainEnd::Failed(place_error(&error))),
            };
            let observed = self.place.context(&agent).await;
            if self.state.context().is_none()
                && let Some(end) = self.begin_epoch(&observed).await?
            {
                return Ok(end);
            }
            let promoted = self.promote(&pending, eligible).await?;
            if promoted == 0 && !force && !continuing {
                // Somebody cancelled it meanwhile: look again.
                continue;
            }
            if promoted > 0 {
                number = 1;
                broken_off = 0;
                self.overflow_used = false;
                self.retitle().await?;
            }
            self.reconcile(&observed).await?;
            self.begin_snapshot();
            let model = match self.place.model(session.model.as_ref(), &agent).await {
                Ok(model) => model,
                Err(error) => return self.no_model(&session, &agent, &error).await,
            };
            let rules = session.permissions.clone().unwrap_or_default();
            let rules: Vec<_> = agent.permissions.iter().cloned().chain(rules).collect();
            let tools = self.place.tools(&agent, &model, &rules);
            if let Some(end) = self.compact_if_full(&agent, &model, tools.definitions()).await? {
                return Ok(end);
            }
            let disabled = agent.steps.is_some_and(|steps| number >= steps);
            let overflow_allowed = !self.overflow_used && self.place.settings().compaction_auto;
            let plan = StepPlan { agent: agent.clone(), model: model.clone() };
            let end = Step::new(self, plan, tools, disabled).run(overflow_allowed).await?;
            number += 1;
            force = false;
            match end {
                StepEnd::Completed { continues } => {
                    continuing = continues;
                    self.overflow_used = false;
                    broken_off = 0;
                }
                StepEnd::Interrupted | StepEnd::Declined => return Ok(DrainEnd::Interrupted),
                StepEnd::Failed(error) => return Ok(DrainEnd::Failed(error)),
                StepEnd::Overflow { error, recorded } => {
                    self.overflow_used = true;
                    if let Some(end) = self.compact_after_overflow(&agent, &model, error, recorded).await? {
                        return Ok(end);
                    }
                    continuing = true;
                }
                StepEnd::Incomplete => {
                    broken_off += 1;
                    if broken_off > retry::MAX_CONTINUATIONS {
                        let error = SessionError::new(
                            ErrorCode::ProviderInvalidOutput,
                            "The model's answer broke off again and again",
                        );
                        return Ok(DrainEnd::Failed(error));
                    }
                    if !self.continue_after_break(broken_off).await? {
                        return Ok(DrainEnd::Interrupted);
                    }
                    continuing = true;
                }
            }
        }
    }

    /// Waits, then asks the model to go on. False when cancelled meanwhile.
    async fn continue_after_break(&mut self, times: u32) -> Result<bool, DrainError> {
        let wait = retry::delay(self.place.settings().retry_base, times + 1, None, self.engine.world.random());
        let cancel = self.cancel.clone();
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(false),
            () = tokio::time::sleep(wait) => {}
        }
        self.synthetic(CONTINUE_TEXT, "The answer broke off").await?;
        Ok(true)
    }

    pub(super) async fn synthetic(&mut self, text: &str, description: &str) -> Result<(), DrainError> {
        let event = Synthetic {
            timestamp: self.engine.world.now(),
            session_id: self.id.clone(),
            message_id: self.engine.world.message_id(),
            text: text.to_owned(),
            description: Some(description.to_owned()),
            metadata: None,
        };
        self.append(vec![event.into()], Vec::new(), Durability::Committed).await
    }

    /// Executes a control item at the head of the line.
    async fn control(&mut self, item: InputRow) -> Result<Option<DrainEnd>, DrainError> {
        if item.kind == InboxKind::Move {
            return self.apply_move(&item).await;
        }
        let now = self.engine.world.now();
        let delivered = InboxDelivered { timestamp: now, session_id: self.id.clone(), inbox_id: item.id.clone() };
        match self.append(vec![delivered.into()], Vec::new(), Durability::Synced).await {
            Ok(()) => {}
            Err(DrainError::Append(AppendError::InputLifecycleConflict { .. })) => return Ok(None),
            Err(error) => return Err(error),
        }
        match item.kind {
            InboxKind::Compaction => {
                self.begin_snapshot();
                self.compact_on_request().await
            }
            InboxKind::Move | InboxKind::User | InboxKind::Synthetic => Ok(None),
        }
    }

    /// Makes promoted messages of eligible inputs; returns how many.
    async fn promote(&mut self, pending: &[InputRow], scope: Scope) -> Result<usize, DrainError> {
        let mut chosen: Vec<&InputRow> =
            pending.iter().filter(|row| row.delivery == Delivery::Steer).take_while(|row| !is_control(row)).collect();
        if chosen.is_empty()
            && scope == Scope::Input
            && let Some(queued) = pending.iter().find(|row| row.delivery == Delivery::Queue)
        {
            chosen.push(queued);
        }
        let mut promoted = 0;
        for row in chosen {
            let event: EventData = match &row.payload {
                InputPayload::Prompt { prompt } => Prompted {
                    timestamp: row.time_created,
                    session_id: self.id.clone(),
                    message_id: row.id.clone(),
                    prompt: prompt.clone(),
                    delivery: row.delivery,
                    metadata: row.metadata.clone(),
                }
                .into(),
                InputPayload::Item { .. } => InboxDelivered {
                    timestamp: self.engine.world.now(),
                    session_id: self.id.clone(),
                    inbox_id: row.id.clone(),
                }
                .into(),
            };
            match self.append(vec![event], Vec::new(), Durability::Committed).await {
                Ok(()) => {
                    promoted += 1;
                    fault::point("promote.between").await?;
                }
                // Somebody else promoted or cancelled it meanwhile.
                Err(DrainError::Append(AppendError::InputLifecycleConflict { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(promoted)
    }

    /// Gives an untitled root session a title from the first words of its first prompt.
    async fn retitle(&mut self) -> Result<(), DrainError> {
        let Some(session) = self.state.session() else { return Ok(()) };
        if session.parent_id.is_some() || !session.is_untitled() || !self.place.settings().title {
            return Ok(());
        }
        let first = self.state.messages().find_map(|row| match &row.message {
            Message::User(user) => Some(user.text.as_str()),
            _ => None,
        });
        let Some(title) = first.and_then(title::from_prompt) else { return Ok(()) };
        let old = session.title.clone();
        match self.engine.rename_if(&self.id, &self.location, title, old).await {
            Ok(events) => {
                self.state.absorb(&events);
                Ok(())
            }
            // Somebody renamed it first: theirs stays.
            Err(AppendError::GuardFailed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    // ---- context ---------------------------------------------------------------------------------------------

    /// Begins the first epoch; the drain ends when a source is unavailable.
    async fn begin_epoch(
        &mut self,
        observed: &[crate::session::place::ObservedSource],
    ) -> Result<Option<DrainEnd>, DrainError> {
        match context::decide(observed, None, None) {
            Decision::Baseline { text, values, blobs, reason } => {
                self.baselined(text, values, blobs, reason).await?;
                Ok(None)
            }
            Decision::Blocked { keys } => Ok(Some(DrainEnd::Failed(SessionError::new(
                ErrorCode::Unknown,
                format!("The context cannot be read now: {}. The input stays pending; try again", keys.join(", ")),
            )))),
            Decision::Keep | Decision::Update { .. } => Ok(None),
        }
    }

    async fn baselined(
        &mut self,
        text: String,
        values: std::collections::BTreeMap<String, String>,
        blobs: Vec<Blob>,
        reason: abide_schema::event::BaselineReason,
    ) -> Result<(), DrainError> {
        let event = ContextBaselined {
            timestamp: self.engine.world.now(),
            session_id: self.id.clone(),
            baseline: abide_schema::json::sha256_hex(text.as_bytes()),
            values,
            reason,
        };
        self.append(vec![event.into()], blob_hooks(blobs), Durability::Committed).await?;
        self.baseline = Some(text);
        Ok(())
    }

    /// Tells the model what changed in its environment, after the promoted input.
    async fn reconcile(&mut self, observed: &[crate::session::place::ObservedSource]) -> Result<(), DrainError> {
        match context::decide(observed, self.state.context(), self.state.checkpoint()) {
            Decision::Keep | Decision::Blocked { .. } => Ok(()),
            Decision::Baseline { text, values, blobs, reason } => self.baselined(text, values, blobs, reason).await,
            Decision::Update { text, delta, blobs } => {
                let event = ContextUpdated {
                    timestamp: self.engine.world.now(),
                    session_id: self.id.clone(),
                    message_id: self.engine.world.message_id(),
                    text,
                    delta: Some(delta),
                    description: Some("The environment changed".to_owned()),
                };
                self.append(vec![event.into()], blob_hooks(blobs), Durability::Committed).await?;
                Ok(fault::point("context.after_update").await?)
            }
        }
    }

    /// Returns the exact system text of the epoch.
    async fn baseline_text(&mut self) -> Result<String, DrainError> {
        if let Some(text) = &self.baseline {
            return Ok(text.clone());
        }
        let Some(hash) = self.state.context().map(|context| context.baseline_hash.clone()) else {
            return Ok(String::new());
        };
        let data = self.engine.store.blob(&hash).await?;
        let text = data.and_then(|data| String::from_utf8(data).ok()).ok_or_else(|| {
            StoreError::Corrupt(format!("the context baseline {hash} of session {} is missing", self.id))
        })?;
        self.baseline = Some(text.clone());
        Ok(text)
    }

    // ---- requests --------------------------------------------------------------------------------------------

    /// Builds the request of a step.
    pub(super) async fn request(
        &mut self,
        plan: &StepPlan,
        tools: &[Arc<ToolDefinition>],
        tools_disabled: bool,
    ) -> Result<LLMRequest, DrainError> {
        let model = &plan.model;
        let own = plan.agent.system.clone().filter(|text| !text.is_empty());
        let system = own.unwrap_or_else(|| self.place.base_prompt(model));
        let baseline = self.baseline_text().await?;
        let mut messages = self.lowered(model).await;
        if tools_disabled {
            messages.push(Arc::new(ModelMessage::user(LAST_STEP_TEXT)));
        }
        let tools = if model.takes_tools { tools } else { &[] };
        let room = model.context_limit.map(|limit| {
            let history: u64 = messages.iter().map(|message| lower::estimate(message)).sum();
            let fixed = lower::estimate_fixed([&system, &baseline], tools);
            limit.saturating_sub(history.saturating_add(fixed)).max(1024)
        });
        let max_tokens =
            model.output_limit.filter(|limit| *limit > 0).map(|limit| room.map_or(limit, |room| limit.min(room)));
        let tools = tools.to_vec();
        let has_tools = !tools.is_empty();
        let input = RequestInput {
            id: Some(self.id.to_string()),
            system: [system, baseline].into_iter().filter(|text| !text.is_empty()).map(SystemPart::make).collect(),
            messages,
            tools,
            tool_choice: (tools_disabled && has_tools).then(|| ToolChoice::make("none")),
            generation: max_tokens
                .map(|limit| GenerationOptions { max_tokens: Some(limit), ..GenerationOptions::default() }),
            http: Some(self.http_options()),
            prompt_cache_key: Some(cache_key(&self.id)),
            ..RequestInput::default()
        };
        Ok(LLMRequest::make(model.language.clone(), input))
    }

    pub(super) fn http_options(&self) -> HttpOptions {
        let mut headers = indexmap::IndexMap::new();
        headers.insert("x-session-affinity".to_owned(), self.id.to_string());
        if let Some(parent) = self.state.session().and_then(|session| session.parent_id.clone()) {
            headers.insert("x-parent-session-id".to_owned(), parent.to_string());
        }
        HttpOptions { headers: Some(headers), ..HttpOptions::default() }
    }

    /// Lowers the active history; messages that can no longer change are lowered once.
    pub(super) async fn lowered(&mut self, model: &ResolvedModel) -> Vec<Arc<ModelMessage>> {
        if self.lowered.model.as_ref() != Some(&model.model) {
            self.lowered = Lowered { model: Some(model.model.clone()), by_id: HashMap::new() };
        }
        let mut messages = Vec::new();
        for row in self.state.history() {
            let id = row.message.id();
            if let Some(known) = self.lowered.by_id.get(id) {
                messages.extend(known.messages.iter().cloned());
                continue;
            }
            let attachments = match &row.message {
                Message::User(user) => {
                    lower::resolve_attachments(&*self.place, user.files.as_deref().unwrap_or_default()).await
                }
                _ => Vec::new(),
            };
            let lowered = lower::lower(&row.message, model, &attachments);
            messages.extend(lowered.iter().cloned());
            if lower::is_final(&row.message) {
                self.lowered.by_id.insert(id.clone(), LoweredMessage::new(lowered));
            }
        }
        messages
    }

    pub(super) fn forget_lowered(&mut self) {
        self.lowered = Lowered::default();
    }

    // ---- compaction ------------------------------------------------------------------------------------------

    async fn compact_if_full(
        &mut self,
        agent: &Arc<AgentInfo>,
        model: &ResolvedModel,
        tools: &[Arc<ToolDefinition>],
    ) -> Result<Option<DrainEnd>, DrainError> {
        let settings = self.place.settings();
        let Some(limit) = model.compaction_threshold(settings.compaction_buffer) else { return Ok(None) };
        let last = self.state.history().last().map(|row| &row.message);
        if !settings.compaction_auto || matches!(last, Some(Message::Compaction(_))) {
            return Ok(None);
        }
        let prompt = self.estimate(model).await;
        if prompt.tokens < limit {
            return Ok(None);
        }
        let system = agent.system.clone().filter(|text| !text.is_empty());
        let system = system.unwrap_or_else(|| self.place.base_prompt(model));
        let fixed = lower::estimate_fixed([&system, &self.baseline_text().await?], tools);
        if !compaction::can_help(limit, prompt.since_checkpoint, fixed) {
            return Ok(None);
        }
        match self.compact(abide_schema::event::CompactionReason::Auto, agent, model).await? {
            crate::session::summary::Compacted::Done => {
                let observed = self.place.context(agent).await;
                self.reconcile(&observed).await?;
                Ok(None)
            }
            crate::session::summary::Compacted::Interrupted => Ok(Some(DrainEnd::Interrupted)),
            crate::session::summary::Compacted::Failed(error) => {
                // The step that it was for fails, visibly; a new prompt tries again.
                self.failed_step(agent, model.model.clone(), error.clone()).await?;
                Ok(Some(DrainEnd::Failed(error)))
            }
        }
    }

    /// Estimates the prompt: what the last successful step reported, plus what came after.
    async fn estimate(&mut self, model: &ResolvedModel) -> PromptEstimate {
        // Fills the cache of lowered messages.
        let _all = self.lowered(model).await;
        let mut after = 0u64;
        let mut since_checkpoint = 0u64;
        let mut anchor = None;
        for row in self.state.history().into_iter().rev() {
            if matches!(row.message, Message::Compaction(_)) && anchor.is_some() {
                break;
            }
            let lowered = self.lowered.by_id.get(row.message.id());
            let tokens = lowered.map_or(0, |lowered| lowered.tokens);
            if !matches!(row.message, Message::Compaction(_)) {
                since_checkpoint += tokens;
            }
            if anchor.is_some() {
                continue;
            }
            if let Message::Assistant(assistant) = &row.message
                && assistant.error.is_none()
                && let Some(used) = assistant.tokens.filter(|used| used.total() > 0)
            {
                anchor = Some(used.total());
                // The results of its calls came after its request.
                after += lowered.map_or(0, |lowered| lowered.tokens_of_results);
                continue;
            }
            after += tokens;
        }
        let before = anchor
            .unwrap_or_else(|| self.baseline.as_ref().map_or(0, |text| u64::try_from(text.len() / 4).unwrap_or(0)));
        PromptEstimate { tokens: before + after, since_checkpoint }
    }

    async fn compact_after_overflow(
        &mut self,
        agent: &Arc<AgentInfo>,
        model: &ResolvedModel,
        original: SessionError,
        recorded: bool,
    ) -> Result<Option<DrainEnd>, DrainError> {
        match self.compact(abide_schema::event::CompactionReason::Auto, agent, model).await? {
            crate::session::summary::Compacted::Done => Ok(None),
            crate::session::summary::Compacted::Interrupted => Ok(Some(DrainEnd::Interrupted)),
            crate::session::summary::Compacted::Failed(_) => {
                // The original failure is what the user must see.
                if !recorded {
                    self.failed_step(agent, model.model.clone(), original.clone()).await?;
                }
                Ok(Some(DrainEnd::Failed(original)))
            }
        }
    }

    async fn compact_on_request(&mut self) -> Result<Option<DrainEnd>, DrainError> {
        let Some(session) = self.state.session().cloned() else { return Ok(None) };
        let agent = match self.place.agent(session.agent.as_ref()) {
            Ok(agent) => agent,
            Err(error) => return Ok(Some(DrainEnd::Failed(place_error(&error)))),
        };
        let model = match self.place.model(session.model.as_ref(), &agent).await {
            Ok(model) => model,
            Err(error) => return Ok(Some(DrainEnd::Failed(place_error(&error)))),
        };
        match self.compact(abide_schema::event::CompactionReason::Manual, &agent, &model).await? {
            // A manual compaction that fails leaves the old boundary; the session goes on.
            crate::session::summary::Compacted::Done | crate::session::summary::Compacted::Failed(_) => Ok(None),
            crate::session::summary::Compacted::Interrupted => Ok(Some(DrainEnd::Interrupted)),
        }
    }

    // ---- failures --------------------------------------------------------------------------------------------

    /// Records that no model can be called, visibly, so that a later run tries again.
    async fn no_model(
        &mut self,
        session: &SessionInfo,
        agent: &Arc<AgentInfo>,
        error: &PlaceError,
    ) -> Result<DrainEnd, DrainError> {
        let failure = SessionError::new(ErrorCode::ProviderNoRoute, error.to_string());
        let model = session
            .model
            .clone()
            .or_else(|| agent.model.clone())
            .unwrap_or_else(|| ModelRef::new("none".into(), "none".into()));
        self.failed_step(agent, model, failure.clone()).await?;
        Ok(DrainEnd::Failed(failure))
    }

    async fn failed_step(&mut self, agent: &AgentInfo, model: ModelRef, error: SessionError) -> Result<(), DrainError> {
        let now = self.engine.world.now();
        let message = self.engine.world.message_id();
        let started = StepStarted {
            timestamp: now,
            session_id: self.id.clone(),
            assistant_message_id: message.clone(),
            agent: agent.id.clone(),
            model,
            snapshot: None,
            attempt: None,
        };
        let failed = StepFailed {
            timestamp: now,
            session_id: self.id.clone(),
            assistant_message_id: message,
            error,
            cost: None,
            tokens: None,
            snapshot: None,
            files: None,
        };
        self.append(vec![started.into(), failed.into()], Vec::new(), Durability::Synced).await
    }
}

/// Returns the input that a boundary takes next.
fn head_of_line(pending: &[InputRow], scope: Scope) -> Option<&InputRow> {
    pending.iter().find(|row| row.delivery == Delivery::Steer).or_else(|| {
        if scope == Scope::Input { pending.iter().find(|row| row.delivery == Delivery::Queue) } else { None }
    })
}

const fn is_control(row: &InputRow) -> bool {
    match row.kind {
        InboxKind::Compaction | InboxKind::Move => true,
        InboxKind::User | InboxKind::Synthetic => false,
    }
}

fn blob_hooks(blobs: Vec<Blob>) -> Vec<Hook> {
    blobs.into_iter().map(|blob| Hook::PutBlob { hash: blob.hash, data: blob.data }).collect()
}

pub(super) fn place_error(error: &PlaceError) -> SessionError {
    let code = match error {
        PlaceError::Model(_) => ErrorCode::ProviderNoRoute,
        PlaceError::Directory { .. } | PlaceError::Config(_) | PlaceError::UnknownAgent { .. } => ErrorCode::Unknown,
    };
    SessionError::new(code, error.to_string())
}

/// Returns the provider cache key of a session: at most 64 characters.
pub(super) fn cache_key(id: &SessionId) -> String {
    let text = id.as_str();
    match text.strip_prefix(SessionId::NEW_PREFIX) {
        Some(rest) if rest.len() == 64 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest.to_owned(),
        Some(_) | None => text.to_owned(),
    }
}
