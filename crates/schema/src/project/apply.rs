//! What each event does to the rows.

use crate::event::{self, EventData, InboxKind, InterruptReason, StoredEvent};
use crate::json::JsonObject;
use crate::message::{
    AgentSwitchedMessage, AssistantContent, AssistantMessage, CallProvider, CompactionMessage, CompactionStatus,
    CreatedTime, Finish, IdleMessage, ItemKind, LocationSwitchedMessage, Message, ModelSwitchedMessage, ReasoningItem,
    ReasoningTime, RetryState, ShellMessage, SkillMessage, SpanTime, StepSnapshot, SyntheticMessage, SystemMessage,
    TextItem, ToolItem, ToolProvider, ToolState, ToolTime, UserMessage,
};
use crate::model::Tokens;
use crate::project::{ContextRow, InputPayload, InputRow, MessageRow, Position, ProjectError, Rows};
use crate::prompt::{Delivery, Prompt};
use crate::session::{ForkInfo, Outcome, SessionInfo, SessionTime};
use crate::{CallId, MessageId, Seq, SessionId, Timestamp};

/// The key of an admission event's envelope metadata that holds the hash of the raw request.
pub const INPUT_HASH_KEY: &str = "inputHash";

type Outcome_<R> = Result<(), ProjectError<<R as Rows>::Error>>;

/// Folds one event into the rows.
///
/// # Errors
/// [`ProjectError`] when the event does not fit the state; nothing of the transaction may then be kept.
pub fn apply<R: Rows>(rows: &mut R, event: &StoredEvent) -> Outcome_<R> {
    Apply { rows, event }.run()
}

struct Apply<'a, R: Rows> {
    rows: &'a mut R,
    event: &'a StoredEvent,
}

impl<R: Rows> Apply<'_, R> {
    fn run(&mut self) -> Outcome_<R> {
        let event = self.event;
        match &event.data {
            EventData::SessionCreated(data) => self.session_created(data),
            EventData::SessionDeleted(data) => self.rows.delete_session(&data.session_id).map_err(ProjectError::Rows),
            EventData::Renamed(data) => self.session(true, |session| session.title.clone_from(&data.title)),
            EventData::Updated(data) => self.session(true, |session| {
                if data.metadata.is_some() {
                    session.metadata.clone_from(&data.metadata);
                }
                if data.permissions.is_some() {
                    session.permissions.clone_from(&data.permissions);
                }
                if let Some(archived) = data.archived {
                    session.time.archived = archived;
                }
            }),
            EventData::Viewed(data) => self.session(false, |session| {
                session.time.viewed = Some(session.time.viewed.map_or(data.idle, |old| old.max(data.idle)));
            }),
            EventData::Moved(data) => self.moved(data),
            EventData::Forked(data) => self.session(true, |session| {
                session.fork = Some(ForkInfo { session_id: data.from.clone(), boundary: data.boundary.clone() });
                if let Some(title) = &data.title {
                    session.title.clone_from(title);
                }
            }),
            EventData::HistoryImported(data) => {
                for (index, message) in data.messages.iter().enumerate() {
                    self.insert(message.clone(), u32::try_from(index).unwrap_or(u32::MAX))?;
                }
                Ok(())
            }
            EventData::AgentSwitched(data) => {
                self.session(true, |session| session.agent = Some(data.agent.clone()))?;
                self.insert(
                    Message::AgentSwitched(AgentSwitchedMessage {
                        id: data.message_id.clone(),
                        time: CreatedTime { created: data.timestamp },
                        metadata: None,
                        agent: data.agent.clone(),
                        previous: data.previous.clone(),
                    }),
                    0,
                )
            }
            EventData::ModelSwitched(data) => {
                self.session(true, |session| session.model = Some(data.model.with_explicit_variant()))?;
                self.insert(
                    Message::ModelSwitched(ModelSwitchedMessage {
                        id: data.message_id.clone(),
                        time: CreatedTime { created: data.timestamp },
                        metadata: None,
                        model: data.model.clone(),
                        previous: data.previous.clone(),
                    }),
                    0,
                )
            }
            EventData::PromptAdmitted(data) => {
                self.admit(
                    &data.message_id,
                    InboxKind::User,
                    InputPayload::Prompt { prompt: data.prompt.clone() },
                    data.delivery,
                    data.metadata.clone(),
                )?;
                self.session(true, |_| ())
            }
            EventData::Prompted(data) => self.prompted(data),
            EventData::InboxEnqueued(data) => {
                self.admit(
                    &data.inbox_id,
                    data.item.kind,
                    InputPayload::Item { payload: data.item.payload.clone() },
                    data.item.delivery,
                    data.item.payload.get("metadata").and_then(serde_json::Value::as_object).cloned(),
                )?;
                self.session(true, |_| ())
            }
            EventData::InboxDelivered(data) => self.inbox_delivered(data),
            EventData::InboxCancelled(data) => self.change_input(&data.inbox_id, |row, seq| {
                row.cancelled_seq = Some(seq);
                true
            }),
            EventData::InboxDeliveryChanged(data) => self.change_input(&data.inbox_id, |row, _| {
                let differs = row.delivery != data.delivery;
                row.delivery = data.delivery;
                differs
            }),
            EventData::ExecutionStarted(_) | EventData::Recovered(_) => Ok(()),
            EventData::ExecutionSucceeded(_) => self.became_idle(Outcome::Succeeded),
            EventData::ExecutionFailed(_) => self.became_idle(Outcome::Failed),
            EventData::ExecutionInterrupted(data) => match data.reason {
                InterruptReason::User | InterruptReason::Superseded => self.became_idle(Outcome::Interrupted),
                InterruptReason::Shutdown => {
                    self.session(false, |session| session.outcome = Some(Outcome::Interrupted))
                }
            },
            EventData::ContextBaselined(data) => {
                let row = ContextRow {
                    baseline_hash: data.baseline.clone(),
                    baseline_seq: event.seq,
                    epoch_values: data.values.clone(),
                    current_values: data.values.clone(),
                };
                self.rows.put_context(&data.session_id, Some(&row)).map_err(ProjectError::Rows)
            }
            EventData::ContextUpdated(data) => self.context_updated(data),
            EventData::ContextPruned(data) => {
                for item in &data.items {
                    self.tool(&item.assistant_message_id, &item.call_id, |tool| {
                        tool.time.pruned = Some(data.timestamp);
                        true
                    })?;
                }
                Ok(())
            }
            EventData::Synthetic(data) => self.insert(
                Message::Synthetic(SyntheticMessage {
                    id: data.message_id.clone(),
                    time: CreatedTime { created: data.timestamp },
                    metadata: data.metadata.clone(),
                    session_id: data.session_id.clone(),
                    text: data.text.clone(),
                    description: data.description.clone(),
                }),
                0,
            ),
            EventData::SkillActivated(data) => self.insert(
                Message::Skill(SkillMessage {
                    id: data.message_id.clone(),
                    time: CreatedTime { created: data.timestamp },
                    metadata: None,
                    skill: data.skill.clone(),
                    name: data.name.clone(),
                    text: data.text.clone(),
                }),
                0,
            ),
            EventData::ShellStarted(data) => self.insert(
                Message::Shell(ShellMessage {
                    id: data.message_id.clone(),
                    time: SpanTime::starting(data.timestamp),
                    metadata: None,
                    call_id: data.call_id.clone(),
                    command: data.command.clone(),
                    output: String::new(),
                    exit: None,
                    status: None,
                }),
                0,
            ),
            EventData::ShellEnded(data) => self.shell_ended(data),
            EventData::StepStarted(data) => self.step_started(data),
            EventData::StepStreamed(data) => self.assistant(&data.assistant_message_id, |assistant| {
                assistant.time.streamed = Some(data.timestamp);
            }),
            EventData::StepEnded(data) => {
                self.assistant(&data.assistant_message_id, |assistant| {
                    assistant.finish = Some(data.finish);
                    assistant.raw_finish.clone_from(&data.raw_finish);
                    assistant.cost = Some(data.cost);
                    assistant.tokens = Some(data.tokens);
                    assistant.time.completed = Some(data.timestamp);
                    assistant.retry = None;
                    end_snapshot(assistant, data.snapshot.as_ref(), data.files.as_ref());
                })?;
                self.add_usage(Some(data.cost), Some(&data.tokens))
            }
            EventData::StepFailed(data) => {
                self.assistant(&data.assistant_message_id, |assistant| {
                    assistant.finish = Some(Finish::Error);
                    assistant.error = Some(data.error.clone());
                    assistant.time.completed = Some(data.timestamp);
                    assistant.retry = None;
                    if data.cost.is_some() {
                        assistant.cost = data.cost;
                    }
                    if data.tokens.is_some() {
                        assistant.tokens = data.tokens;
                    }
                    end_snapshot(assistant, data.snapshot.as_ref(), data.files.as_ref());
                })?;
                self.add_usage(data.cost, data.tokens.as_ref())
            }
            EventData::TextStarted(data) => self.push(
                &data.assistant_message_id,
                &AssistantContent::Text(TextItem {
                    id: data.text_id.clone(),
                    text: String::new(),
                    metadata: None,
                    open: true,
                }),
            ),
            EventData::TextEnded(data) => {
                self.item(&data.assistant_message_id, ItemKind::Text, &data.text_id, |item| {
                    if let AssistantContent::Text(text) = item {
                        text.text.clone_from(&data.text);
                        text.open = false;
                        if data.metadata.is_some() {
                            text.metadata.clone_from(&data.metadata);
                        }
                    }
                    true
                })
            }
            EventData::ReasoningStarted(data) => self.push(
                &data.assistant_message_id,
                &AssistantContent::Reasoning(ReasoningItem {
                    id: data.reasoning_id.clone(),
                    text: String::new(),
                    provider_metadata: data.provider_metadata.clone(),
                    time: Some(ReasoningTime { created: data.timestamp, completed: None }),
                }),
            ),
            EventData::ReasoningEnded(data) => {
                self.item(&data.assistant_message_id, ItemKind::Reasoning, &data.reasoning_id, |item| {
                    if let AssistantContent::Reasoning(reasoning) = item {
                        reasoning.text.clone_from(&data.text);
                        if let Some(time) = &mut reasoning.time {
                            time.completed = Some(data.timestamp);
                        }
                        if data.provider_metadata.is_some() {
                            reasoning.provider_metadata.clone_from(&data.provider_metadata);
                        }
                    }
                    true
                })
            }
            EventData::ToolInputStarted(data) => self.push(
                &data.assistant_message_id,
                &AssistantContent::Tool(ToolItem {
                    id: data.call_id.clone(),
                    name: data.name.clone(),
                    provider: None,
                    state: ToolState::Pending { input: String::new() },
                    time: ToolTime { created: data.timestamp, ran: None, completed: None, pruned: None },
                }),
            ),
            EventData::ToolInputEnded(data) => self.tool(&data.assistant_message_id, &data.call_id, |tool| {
                if let ToolState::Pending { input } = &mut tool.state {
                    input.clone_from(&data.text);
                    true
                } else {
                    false
                }
            }),
            EventData::ToolCalled(data) => self.tool(&data.assistant_message_id, &data.call_id, |tool| {
                if !matches!(tool.state, ToolState::Pending { .. }) {
                    return false;
                }
                tool.state = ToolState::Running {
                    input: data.input.clone(),
                    structured: JsonObject::new(),
                    content: Vec::new(),
                };
                tool.time.ran = Some(data.timestamp);
                tool.provider = Some(ToolProvider {
                    executed: data.provider.executed,
                    metadata: data.provider.metadata.clone(),
                    result_metadata: None,
                });
                true
            }),
            EventData::ToolProgress(data) => self.tool(&data.assistant_message_id, &data.call_id, |tool| {
                if let ToolState::Running { structured, content, .. } = &mut tool.state {
                    structured.clone_from(&data.structured);
                    content.clone_from(&data.content);
                    true
                } else {
                    false
                }
            }),
            EventData::ToolSuccess(data) => self.tool(&data.assistant_message_id, &data.call_id, |tool| {
                let ToolState::Running { input, .. } = &mut tool.state else { return false };
                tool.state = ToolState::Completed {
                    input: std::mem::take(input),
                    structured: data.structured.clone(),
                    content: data.content.clone(),
                    output_paths: data.output_paths.clone(),
                    result: data.result.clone(),
                };
                tool.time.completed = Some(data.timestamp);
                settle_provider(tool, &data.provider);
                true
            }),
            EventData::ToolFailed(data) => self.tool_failed(data),
            EventData::Retried(data) => self.retried(data),
            EventData::CompactionStarted(data) => self.insert(
                Message::Compaction(CompactionMessage {
                    id: data.message_id.clone(),
                    time: CreatedTime { created: data.timestamp },
                    metadata: None,
                    reason: data.reason,
                    summary: String::new(),
                    recent: data.recent.clone().unwrap_or_default(),
                    status: CompactionStatus::Running,
                    error: None,
                    cost: None,
                    tokens: None,
                }),
                0,
            ),
            EventData::CompactionEnded(data) => {
                self.compaction(&data.message_id, data.reason, data.timestamp, |message| {
                    message.summary.clone_from(&data.text);
                    message.recent.clone_from(&data.recent);
                    message.status = CompactionStatus::Completed;
                    message.cost = data.cost;
                    message.tokens = data.tokens;
                })?;
                self.add_usage(data.cost, data.tokens.as_ref())
            }
            EventData::CompactionFailed(data) => {
                self.compaction(&data.message_id, data.reason, data.timestamp, |message| {
                    message.status = CompactionStatus::Failed;
                    message.error = Some(data.error.clone());
                    message.cost = data.cost;
                    message.tokens = data.tokens;
                })?;
                self.add_usage(data.cost, data.tokens.as_ref())
            }
            EventData::UsageRecorded(data) => self.add_usage(Some(data.cost), Some(&data.tokens)),
            EventData::RevertStaged(data) => self.session(true, |session| session.revert = Some(data.revert.clone())),
            EventData::RevertCleared(_) => self.session(true, |session| session.revert = None),
            EventData::RevertCommitted(data) => self.revert_committed(data),
        }
    }

    fn id(&self) -> &SessionId {
        self.event.session_id()
    }

    fn derived_message_id(&self) -> MessageId {
        let tail = self.event.id.as_str().strip_prefix(crate::EventId::NEW_PREFIX).unwrap_or(self.event.id.as_str());
        MessageId::from_trusted(format!("{}{tail}", MessageId::NEW_PREFIX))
    }

    fn session_created(&mut self, data: &event::SessionCreated) -> Outcome_<R> {
        if self.rows.session(&data.session_id).map_err(ProjectError::Rows)?.is_some() {
            return Err(ProjectError::SessionAlreadyProjected);
        }
        let row = SessionInfo {
            id: data.session_id.clone(),
            parent_id: data.parent_id.clone(),
            project_id: data.project_id.clone(),
            agent: data.agent.clone(),
            model: data.model.as_ref().map(crate::model::ModelRef::with_explicit_variant),
            cost: 0.0,
            tokens: Tokens::default(),
            time: SessionTime { created: data.timestamp, updated: data.timestamp, ..SessionTime::default() },
            title: data.title.clone(),
            location: data.location.clone(),
            subpath: data.subpath.clone(),
            revert: None,
            slug: data.slug.clone(),
            version: data.version.clone(),
            fork: None,
            outcome: None,
            metadata: data.metadata.clone(),
            permissions: data.permissions.clone(),
        };
        self.rows.put_session(&row).map_err(ProjectError::Rows)
    }

    /// Changes the session's row; `active` moves `time.updated`.
    fn session(&mut self, active: bool, change: impl FnOnce(&mut SessionInfo)) -> Outcome_<R> {
        let id = self.event.session_id();
        let mut row = self.rows.session(id).map_err(ProjectError::Rows)?.ok_or(ProjectError::SessionMissing)?;
        change(&mut row);
        if active {
            row.time.updated = row.time.updated.max(self.event.created);
        }
        self.rows.put_session(&row).map_err(ProjectError::Rows)
    }

    fn add_usage(&mut self, cost: Option<f64>, tokens: Option<&Tokens>) -> Outcome_<R> {
        if cost.is_none() && tokens.is_none() {
            return Ok(());
        }
        self.session(false, |session| {
            session.cost += cost.filter(|cost| cost.is_finite() && *cost > 0.0).unwrap_or(0.0);
            if let Some(tokens) = tokens {
                session.tokens.add(tokens);
            }
        })
    }

    fn insert(&mut self, message: Message, sub: u32) -> Outcome_<R> {
        if self.rows.message(message.id()).map_err(ProjectError::Rows)?.is_some() {
            return Err(ProjectError::MessageExists { id: message.id().clone() });
        }
        let row =
            MessageRow { session_id: self.id().clone(), position: Position { seq: self.event.seq, sub }, message };
        self.rows.insert_message(&row).map_err(ProjectError::Rows)
    }

    fn moved(&mut self, data: &event::Moved) -> Outcome_<R> {
        let mut previous = None;
        self.session(true, |session| {
            previous = Some(std::mem::replace(&mut session.location, data.location.clone()));
            session.subpath.clone_from(&data.subdirectory);
            if let Some(project) = &data.project_id {
                session.project_id = project.clone();
            }
        })?;
        let id = self.derived_message_id();
        self.insert(
            Message::LocationSwitched(LocationSwitchedMessage {
                id,
                time: CreatedTime { created: data.timestamp },
                metadata: None,
                location: data.location.clone(),
                project_id: data.project_id.clone(),
                subpath: data.subdirectory.clone(),
                previous,
            }),
            0,
        )?;
        self.rows.put_context(&data.session_id, None).map_err(ProjectError::Rows)
    }

    fn admit(
        &mut self,
        id: &MessageId,
        kind: InboxKind,
        payload: InputPayload,
        delivery: Delivery,
        metadata: Option<JsonObject>,
    ) -> Outcome_<R> {
        if self.rows.input(id).map_err(ProjectError::Rows)?.is_some()
            || self.rows.message(id).map_err(ProjectError::Rows)?.is_some()
        {
            return Err(ProjectError::InputLifecycleConflict { id: id.clone() });
        }
        let input_hash = self
            .event
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.get(INPUT_HASH_KEY))
            .and_then(serde_json::Value::as_str)
            .map(ToOwned::to_owned);
        let row = InputRow {
            id: id.clone(),
            session_id: self.id().clone(),
            kind,
            payload,
            delivery,
            admitted_seq: self.event.seq,
            admitted_contract_seq: self.event.contract_seq,
            promoted_seq: None,
            promoted_contract_seq: None,
            cancelled_seq: None,
            input_hash,
            metadata,
            time_created: self.event.data.timestamp(),
        };
        self.rows.insert_input(&row).map_err(ProjectError::Rows)
    }

    fn prompted(&mut self, data: &event::Prompted) -> Outcome_<R> {
        match self.rows.input(&data.message_id).map_err(ProjectError::Rows)? {
            Some(mut row) if row.is_pending() && row.session_id == data.session_id => {
                row.promoted_seq = Some(self.event.seq);
                row.promoted_contract_seq = self.event.contract_seq;
                self.rows.update_input(&row).map_err(ProjectError::Rows)?;
            }
            Some(_) => return Err(ProjectError::InputLifecycleConflict { id: data.message_id.clone() }),
            None => {
                self.admit(
                    &data.message_id,
                    InboxKind::User,
                    InputPayload::Prompt { prompt: data.prompt.clone() },
                    data.delivery,
                    data.metadata.clone(),
                )?;
                self.change_input(&data.message_id, |row, seq| {
                    row.promoted_seq = Some(seq);
                    row.promoted_contract_seq = row.admitted_contract_seq;
                    true
                })?;
            }
        }
        let Prompt { text, files, agents } = data.prompt.clone();
        self.insert(
            Message::User(UserMessage {
                id: data.message_id.clone(),
                time: CreatedTime { created: data.timestamp },
                metadata: data.metadata.clone(),
                text,
                files,
                agents,
            }),
            0,
        )
    }

    fn change_input(&mut self, id: &MessageId, change: impl FnOnce(&mut InputRow, Seq) -> bool) -> Outcome_<R> {
        let conflict = || ProjectError::InputLifecycleConflict { id: id.clone() };
        let mut row = self.rows.input(id).map_err(ProjectError::Rows)?.ok_or_else(conflict)?;
        if !row.is_pending() || row.session_id != *self.id() || !change(&mut row, self.event.seq) {
            return Err(conflict());
        }
        self.rows.update_input(&row).map_err(ProjectError::Rows)
    }

    fn inbox_delivered(&mut self, data: &event::InboxDelivered) -> Outcome_<R> {
        let row = self.rows.input(&data.inbox_id).map_err(ProjectError::Rows)?;
        self.change_input(&data.inbox_id, |row, seq| {
            row.promoted_seq = Some(seq);
            true
        })?;
        let Some(InputRow { kind: InboxKind::Synthetic, payload: InputPayload::Item { payload }, metadata, .. }) = row
        else {
            return Ok(());
        };
        let text = |key: &str| payload.get(key).and_then(serde_json::Value::as_str).map(ToOwned::to_owned);
        self.insert(
            Message::Synthetic(SyntheticMessage {
                id: data.inbox_id.clone(),
                time: CreatedTime { created: data.timestamp },
                metadata,
                session_id: data.session_id.clone(),
                text: text("text").unwrap_or_default(),
                description: text("description"),
            }),
            0,
        )
    }

    fn became_idle(&mut self, outcome: Outcome) -> Outcome_<R> {
        let at = self.event.data.timestamp();
        if let Some(mut row) = self.rows.newest_assistant(self.event.session_id()).map_err(ProjectError::Rows)?
            && let Message::Assistant(assistant) = &mut row.message
            && assistant.retry.take().is_some()
        {
            self.rows.update_message(&row).map_err(ProjectError::Rows)?;
        }
        self.session(false, |session| {
            session.outcome = Some(outcome);
            session.time.idle = Some(at);
        })?;
        let id = self.derived_message_id();
        self.insert(Message::Idle(IdleMessage { id, time: CreatedTime { created: at }, metadata: None, outcome }), 0)
    }

    fn context_updated(&mut self, data: &event::ContextUpdated) -> Outcome_<R> {
        if let Some(delta) = &data.delta
            && let Some(mut row) = self.rows.context(&data.session_id).map_err(ProjectError::Rows)?
        {
            for (key, value) in delta {
                if value == "removed" {
                    row.current_values.remove(key);
                } else {
                    row.current_values.insert(key.clone(), value.clone());
                }
            }
            self.rows.put_context(&data.session_id, Some(&row)).map_err(ProjectError::Rows)?;
        }
        self.insert(
            Message::System(SystemMessage {
                id: data.message_id.clone(),
                time: CreatedTime { created: data.timestamp },
                metadata: None,
                text: data.text.clone(),
                description: data.description.clone(),
            }),
            0,
        )
    }

    fn shell_ended(&mut self, data: &event::ShellEnded) -> Outcome_<R> {
        let row = self.rows.shell_message(&data.session_id, &data.call_id).map_err(ProjectError::Rows)?;
        let Some(mut row) = row else { return Ok(()) };
        if let Message::Shell(shell) = &mut row.message {
            shell.output.clone_from(&data.output);
            shell.exit = data.exit;
            shell.status.clone_from(&data.status);
            shell.time.completed = Some(data.timestamp);
        }
        self.rows.update_message(&row).map_err(ProjectError::Rows)
    }

    fn step_started(&mut self, data: &event::StepStarted) -> Outcome_<R> {
        let existing = self.rows.message(&data.assistant_message_id).map_err(ProjectError::Rows)?;
        if let Some(mut row) = existing {
            let exists = || ProjectError::MessageExists { id: data.assistant_message_id.clone() };
            if row.session_id != data.session_id {
                return Err(exists());
            }
            let Message::Assistant(assistant) = &mut row.message else { return Err(exists()) };
            assistant.agent = data.agent.clone();
            assistant.model = data.model.clone();
            assistant.retry = None;
            assistant.error = None;
            assistant.finish = None;
            assistant.time.completed = None;
            if let Some(snapshot) = &data.snapshot {
                assistant.snapshot.get_or_insert_default().start = Some(snapshot.clone());
            }
            return self.rows.update_message(&row).map_err(ProjectError::Rows);
        }
        if let Some(mut row) = self.rows.newest_assistant(&data.session_id).map_err(ProjectError::Rows)?
            && let Message::Assistant(assistant) = &mut row.message
            && assistant.time.completed.is_none()
        {
            assistant.time.completed = Some(data.timestamp);
            assistant.retry = None;
            self.rows.update_message(&row).map_err(ProjectError::Rows)?;
        }
        self.insert(
            Message::Assistant(AssistantMessage {
                id: data.assistant_message_id.clone(),
                time: SpanTime::starting(data.timestamp),
                metadata: None,
                agent: data.agent.clone(),
                model: data.model.clone(),
                content: Vec::new(),
                snapshot: data.snapshot.clone().map(|start| StepSnapshot {
                    start: Some(start),
                    end: None,
                    files: None,
                }),
                finish: None,
                raw_finish: None,
                cost: None,
                tokens: None,
                error: None,
                retry: None,
            }),
            0,
        )
    }

    fn assistant(&mut self, id: &MessageId, change: impl FnOnce(&mut AssistantMessage)) -> Outcome_<R> {
        let row = self.rows.message(id).map_err(ProjectError::Rows)?;
        let Some(mut row) = row.filter(|row| row.session_id == *self.event.session_id()) else { return Ok(()) };
        if let Message::Assistant(assistant) = &mut row.message {
            change(assistant);
            self.rows.update_message(&row).map_err(ProjectError::Rows)?;
        }
        Ok(())
    }

    fn push(&mut self, message: &MessageId, item: &AssistantContent) -> Outcome_<R> {
        let row = self.rows.message(message).map_err(ProjectError::Rows)?;
        if row.is_some_and(|row| row.session_id == *self.id() && matches!(row.message, Message::Assistant(_))) {
            self.rows.push_content(message, item).map_err(ProjectError::Rows)?;
        }
        Ok(())
    }

    /// Changes the latest item with this id; unknown messages and items are no errors.
    fn item(
        &mut self,
        message: &MessageId,
        kind: ItemKind,
        id: &str,
        change: impl FnOnce(&mut AssistantContent) -> bool,
    ) -> Outcome_<R> {
        if let Some((index, mut item)) =
            self.rows.content(self.event.session_id(), message, kind, id).map_err(ProjectError::Rows)?
            && change(&mut item)
        {
            self.rows.set_content(message, index, &item).map_err(ProjectError::Rows)?;
        }
        Ok(())
    }

    fn tool(&mut self, message: &MessageId, call: &CallId, change: impl FnOnce(&mut ToolItem) -> bool) -> Outcome_<R> {
        self.item(message, ItemKind::Tool, call.as_str(), |item| match item {
            AssistantContent::Tool(tool) => change(tool),
            AssistantContent::Text(_) | AssistantContent::Reasoning(_) => false,
        })
    }

    fn tool_failed(&mut self, data: &event::ToolFailed) -> Outcome_<R> {
        self.tool(&data.assistant_message_id, &data.call_id, |tool| {
            let (input, structured, content) = match &mut tool.state {
                ToolState::Pending { .. } => (JsonObject::new(), JsonObject::new(), Vec::new()),
                ToolState::Running { input, structured, content } => {
                    (std::mem::take(input), std::mem::take(structured), std::mem::take(content))
                }
                ToolState::Completed { .. } | ToolState::Error { .. } => return false,
            };
            tool.state = ToolState::Error {
                input,
                structured: data.structured.clone().unwrap_or(structured),
                content: data.content.clone().unwrap_or(content),
                error: data.error.clone(),
                result: data.result.clone(),
                verdict: data.verdict,
            };
            tool.time.completed = Some(data.timestamp);
            settle_provider(tool, &data.provider);
            true
        })
    }

    fn retried(&mut self, data: &event::Retried) -> Outcome_<R> {
        let row = match &data.assistant_message_id {
            Some(id) => self.rows.message(id),
            None => self.rows.newest_assistant(&data.session_id),
        };
        let Some(mut row) = row.map_err(ProjectError::Rows)? else { return Ok(()) };
        if row.session_id != data.session_id {
            return Ok(());
        }
        if let Message::Assistant(assistant) = &mut row.message {
            assistant.retry = Some(RetryState { attempt: data.attempt, at: data.at, error: data.error.clone() });
            self.rows.update_message(&row).map_err(ProjectError::Rows)?;
        }
        Ok(())
    }

    fn compaction(
        &mut self,
        id: &MessageId,
        reason: event::CompactionReason,
        at: Timestamp,
        change: impl FnOnce(&mut CompactionMessage),
    ) -> Outcome_<R> {
        let row = self.rows.message(id).map_err(ProjectError::Rows)?;
        if let Some(mut row) = row {
            if row.session_id != *self.id() {
                return Err(ProjectError::MessageExists { id: id.clone() });
            }
            if let Message::Compaction(message) = &mut row.message {
                change(message);
                self.rows.update_message(&row).map_err(ProjectError::Rows)?;
            }
            return Ok(());
        }
        let mut message = CompactionMessage {
            id: id.clone(),
            time: CreatedTime { created: at },
            metadata: None,
            reason,
            summary: String::new(),
            recent: String::new(),
            status: CompactionStatus::Running,
            error: None,
            cost: None,
            tokens: None,
        };
        change(&mut message);
        self.insert(Message::Compaction(message), 0)
    }

    fn revert_committed(&mut self, data: &event::RevertCommitted) -> Outcome_<R> {
        let row = self.rows.message(&data.message_id).map_err(ProjectError::Rows)?;
        let boundary = row
            .filter(|row| row.session_id == data.session_id)
            .ok_or_else(|| ProjectError::UnknownBoundary { id: data.message_id.clone() })?
            .position;
        let from = if data.inclusive.unwrap_or(true) {
            boundary
        } else {
            Position { seq: boundary.seq, sub: boundary.sub + 1 }
        };
        self.rows.delete_from(&data.session_id, from).map_err(ProjectError::Rows)?;
        self.rows.put_context(&data.session_id, None).map_err(ProjectError::Rows)?;
        self.session(true, |session| session.revert = None)
    }
}

fn end_snapshot(assistant: &mut AssistantMessage, snapshot: Option<&String>, files: Option<&Vec<String>>) {
    if snapshot.is_none() && files.is_none() {
        return;
    }
    let slot = assistant.snapshot.get_or_insert_default();
    slot.end = snapshot.cloned();
    slot.files = files.cloned();
}

fn settle_provider(tool: &mut ToolItem, provider: &CallProvider) {
    let slot = tool.provider.get_or_insert_default();
    slot.executed |= provider.executed;
    if provider.metadata.is_some() {
        slot.result_metadata.clone_from(&provider.metadata);
    }
}
