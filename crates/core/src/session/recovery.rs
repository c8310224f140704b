//! Recovery: what a crash left is settled before anything runs (spec/session.md section 8).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use abide_schema::SessionId;
use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::{EventData, ExecutionFailed, ExecutionInterrupted, ExecutionSucceeded, InterruptReason};
use abide_schema::message::{AssistantContent, Finish, Message};
use abide_schema::tool::Effects;
use futures_util::future::BoxFuture;

use crate::fs::journal;
use crate::job::{JobControl, JobOutcome};
use crate::session::drain::DrainError;
use crate::session::engine::{Ask, Engine};
use crate::session::revert;
use crate::session::settle::{Plan, Resolution, Settle, unresolved_calls};
use crate::session::state::SessionState;
use crate::store::{CallKey, Durability, Hook, JobRecord, Lease, Mutation, Store, StoreError};

/// Finds out from the journals what an interrupted call did, and finishes or undoes it.
pub trait EffectRecovery: Send + Sync {
    /// Resolves one call; idempotent.
    fn resolve<'a>(
        &'a self,
        store: &'a dyn Store,
        call: &'a CallKey,
        tool: &'a str,
        effects: Effects,
    ) -> BoxFuture<'a, Resolution>;

    /// Watches a background command of a dead process to its end, or says how it ended. Commands that nobody can find
    /// again count as gone.
    fn adopt(&self, record: &JobRecord, _control: JobControl) -> BoxFuture<'static, JobOutcome> {
        let id = record.id.clone();
        Box::pin(async move { JobOutcome::cancelled(format!("The job {id} was lost when the program was restarted.")) })
    }

    /// Brings a batch of file changes that belongs to no call to its end; `None` when there is no journal. Idempotent.
    ///
    /// # Errors
    /// When the outcome cannot be recorded; then it can be asked again.
    fn finish(&self, batch: Mutation) -> BoxFuture<'_, Result<Option<journal::Recovered>, StoreError>> {
        drop(batch);
        Box::pin(async { Ok(None) })
    }
}

/// Recovery for tools without journals: nothing is known of calls with effects.
pub struct NoJournals;

impl EffectRecovery for NoJournals {
    fn resolve<'a>(
        &'a self,
        _store: &'a dyn Store,
        _call: &'a CallKey,
        _tool: &'a str,
        _effects: Effects,
    ) -> BoxFuture<'a, Resolution> {
        Box::pin(async { Resolution::unknown() })
    }
}

/// What recovery did, or would do, about one session.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The session.
    pub session: SessionId,
    /// The events that settle it.
    pub settled: Vec<EventData>,
    /// What happens next.
    pub next: NextAction,
}

/// What becomes of a recovered session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// It goes on by itself.
    Resumes,
    /// It had nothing left to do.
    Completed,
    /// The user had stopped it.
    Stays,
    /// It was resumed too often.
    GivenUp,
    /// It is a child: its parent decides.
    Child,
}

impl Engine {
    /// Plans the settlement of a session. With `resolves`, the journals finish or undo half-done effects; without, this
    /// only reads, and calls with such effects are shown as not decided yet.
    async fn plan(&self, id: &SessionId, attempt: u32, resolves: bool) -> Result<Option<Plan>, StoreError> {
        let open = self.store.open_messages(id).await?;
        let attempts = self.store.attempts(id).await?;
        if open.is_empty() && attempts.is_empty() {
            return Ok(None);
        }
        let drafts = self.store.drafts(id).await?;
        let mut resolutions = HashMap::new();
        for (call, tool) in unresolved_calls(id, &open) {
            let class = self.effects_of(id, &call).await?;
            let resolution = match class {
                Effects::None | Effects::Network => Resolution::not_started(),
                Effects::Session => self.resolve_child(&call).await?,
                Effects::External => Resolution::unknown(),
                Effects::Files | Effects::Process if resolves => {
                    self.effects.resolve(&*self.store, &call, &tool, class).await
                }
                Effects::Files | Effects::Process => Resolution {
                    detail: Some("The journal decides at recovery what it did.".to_owned()),
                    ..Resolution::unknown()
                },
            };
            resolutions.insert(call, resolution);
        }
        let settle = Settle {
            session: id,
            open: &open,
            drafts: &drafts,
            attempts: &attempts,
            resolutions: &resolutions,
            attempt,
            now: self.world.now(),
        };
        let plan = settle.plan();
        Ok((!plan.events.is_empty()).then_some(plan))
    }

    /// Reads the effect class that was announced with a call.
    async fn effects_of(&self, id: &SessionId, call: &CallKey) -> Result<Effects, StoreError> {
        let mut range = crate::store::SeqRange::default();
        if let Some(row) = self.store.message(&call.message).await? {
            range.after = row.position.seq.0.checked_sub(1).map(abide_schema::Seq);
        }
        loop {
            let page = self.store.read(id, range, crate::store::View::Log, 512).await?;
            for event in &page.events {
                if let EventData::ToolCalled(called) = &event.data
                    && called.call_id == call.call
                    && called.assistant_message_id == call.message
                {
                    return Ok(called.effects.unwrap_or_default());
                }
            }
            match page.cursor {
                Some(cursor) if page.has_more => range.after = Some(cursor),
                Some(_) | None => return Ok(Effects::External),
            }
        }
    }

    /// Settles what earlier executions left open; returns the events, if there were any.
    pub(crate) async fn settle_stale(
        &self,
        id: &SessionId,
        fence: Option<u64>,
        attempt: u32,
    ) -> Result<Vec<EventData>, DrainError> {
        let Some(plan) = self.plan(id, attempt, true).await? else { return Ok(Vec::new()) };
        let location = self.store.session(id).await?.map(|session| session.location);
        let Some(location) = location else { return Ok(Vec::new()) };
        crate::fault::point("recover.before_batch").await?;
        let mut batch = Self::batch(id, &location, plan.events.clone());
        batch.fence = fence;
        for call in plan.calls {
            batch.hooks.push(Hook::SettleMutation(call.clone()));
            batch.hooks.push(Hook::DropProcess(call));
        }
        batch.hooks.push(Hook::DropOperational);
        batch.durability = Durability::Synced;
        self.store.append(batch).await?;
        crate::fault::point("recover.after_batch").await?;
        Ok(plan.events)
    }

    /// Says what recovery would do about orphaned sessions, without doing it.
    pub(crate) async fn explain_recovery(&self) -> Result<Vec<Recovered>, StoreError> {
        let mut report = Vec::new();
        let background = self.background_children().await?;
        for (_, mut lease) in self.by_depth(None).await? {
            // As the takeover would count.
            lease.attempts += 1;
            let settled = self.plan(&lease.session, lease.attempts, false).await?.unwrap_or_default().events;
            let next = self.next_action(&lease, settled.is_empty(), &background).await?;
            report.push(Recovered { session: lease.session, settled, next });
        }
        Ok(report)
    }

    /// Takes over what dead owners left: settles it, then resumes or releases it. With `only`, that session alone.
    pub(crate) async fn recover(self: &Arc<Self>, only: Option<&SessionId>) -> Result<Vec<Recovered>, StoreError> {
        let mut report = Vec::new();
        revert::settle(self, only).await?;
        let background = self.background_children().await?;
        for (_, orphan) in self.by_depth(only).await? {
            match self.recover_one(&orphan, &background).await {
                Ok(Some(recovered)) => report.push(recovered),
                Ok(None) => {}
                Err(DrainError::Fenced) => {}
                Err(DrainError::Append(error)) => {
                    tracing::error!(session.id = %orphan.session, %error, "the session could not be recovered");
                }
            }
        }
        for id in self.store.owed().await? {
            let Some(session) = self.store.session(&id).await? else { continue };
            let is_child = session.parent_id.is_some() && only != Some(&id);
            let is_below = match only {
                Some(only) => *only == id || self.ancestors(&session).await?.contains(only),
                None => true,
            };
            // Nobody waits for a child whose parent's call is settled.
            if is_below && (!is_child || background.contains(&id)) {
                self.ask(&id, Ask::WAKE);
            }
        }
        self.recover_jobs(only).await?;
        Ok(report)
    }

    /// Lists orphaned leases, the deepest children first: their parents' calls name them. With `only`, those of that
    /// session and of the sessions below it.
    async fn by_depth(&self, only: Option<&SessionId>) -> Result<Vec<(usize, Lease)>, StoreError> {
        let mut found = Vec::new();
        for lease in self.store.orphans().await? {
            let ancestors = match self.store.session(&lease.session).await? {
                Some(session) => self.ancestors(&session).await?,
                None => Vec::new(),
            };
            if only.is_none_or(|only| *only == lease.session || ancestors.contains(only)) {
                found.push((ancestors.len(), lease));
            }
        }
        found.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        Ok(found)
    }

    async fn recover_one(
        self: &Arc<Self>,
        orphan: &Lease,
        background: &HashSet<SessionId>,
    ) -> Result<Option<Recovered>, DrainError> {
        let Some(lease) = self.store.take_over(orphan).await? else { return Ok(None) };
        let id = &lease.session;
        let settled = self.settle_stale(id, Some(lease.fence), lease.attempts).await?;
        let next = self.next_action(&lease, settled.is_empty(), background).await?;
        let Some(session) = self.store.session(id).await? else { return Ok(None) };
        let timestamp = self.world.now();
        let session_id = id.clone();
        let terminal: Option<EventData> = match next {
            NextAction::Resumes if self.options.auto_resume => None,
            NextAction::Resumes | NextAction::Child => {
                Some(ExecutionInterrupted { timestamp, session_id, reason: InterruptReason::Superseded }.into())
            }
            NextAction::Stays => {
                Some(ExecutionInterrupted { timestamp, session_id, reason: InterruptReason::User }.into())
            }
            NextAction::Completed => Some(ExecutionSucceeded { timestamp, session_id }.into()),
            NextAction::GivenUp => {
                let words = format!(
                    "The session was resumed {} times without completing a step and is given up",
                    self.options.max_attempts
                );
                let error = SessionError::new(ErrorCode::RecoveryExhausted, words);
                Some(ExecutionFailed { timestamp, session_id, error }.into())
            }
        };
        match terminal {
            None => self.ask(id, Ask::RECOVERY),
            Some(event) => {
                let mut batch = Self::batch(id, &session.location, vec![event]);
                batch.fence = Some(lease.fence);
                let done = if next == NextAction::Completed { lease.done_seq } else { None };
                batch.hooks = vec![Hook::ReleaseLease { done }, Hook::DropOperational];
                self.store.append(batch).await?;
            }
        }
        Ok(Some(Recovered { session: id.clone(), settled, next }))
    }

    /// Decides what becomes of an orphaned session.
    async fn next_action(
        &self,
        lease: &Lease,
        nothing_open: bool,
        background: &HashSet<SessionId>,
    ) -> Result<NextAction, StoreError> {
        let Some(session) = self.store.session(&lease.session).await? else { return Ok(NextAction::Completed) };
        // Nobody waits for a child whose parent's call is settled, unless it works in the background.
        if session.parent_id.is_some() && !background.contains(&session.id) {
            return Ok(NextAction::Child);
        }
        if lease.interrupt_seq.is_some() {
            return Ok(NextAction::Stays);
        }
        if lease.attempts > self.options.max_attempts {
            return Ok(NextAction::GivenUp);
        }
        let pending = !self.store.pending_inputs(&lease.session).await?.is_empty();
        if nothing_open && !pending && self.had_finished(&lease.session).await? {
            return Ok(NextAction::Completed);
        }
        Ok(NextAction::Resumes)
    }

    /// Says whether the newest answer is complete and asks for nothing more: then the crash only ate the terminal.
    async fn had_finished(&self, id: &SessionId) -> Result<bool, StoreError> {
        let Some(state) = SessionState::load(&*self.store, id).await? else { return Ok(true) };
        let last = state.messages().rev().find(|row| {
            !matches!(row.message, Message::AgentSwitched(_) | Message::ModelSwitched(_) | Message::Idle(_))
        });
        Ok(match last.map(|row| &row.message) {
            Some(Message::Assistant(assistant)) => {
                let calls = assistant.content.iter().any(|item| {
                    matches!(item, AssistantContent::Tool(tool)
                        if !tool.provider.as_ref().is_some_and(|provider| provider.executed))
                });
                assistant.error.is_none() && assistant.finish != Some(Finish::Error) && !calls
            }
            Some(_) => false,
            None => true,
        })
    }
}
