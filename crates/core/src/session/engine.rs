//! The execution registry: one execution per session, coalesced wakes, interruption (spec/session.md 7.1).

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::{
    EventData, ExecutionFailed, ExecutionInterrupted, ExecutionStarted, ExecutionSucceeded, InterruptReason, Renamed,
    StartReason, StoredEvent,
};
use abide_schema::live::{BecameIdle, LiveData, LiveEvent, SessionStatus, StatusChanged};
use abide_schema::location::LocationRef;
use abide_schema::{Seq, SessionId};
use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fault;
use crate::job::Jobs;
use crate::session::drain::{Drain, DrainEnd, DrainError, Scope, place_error};
use crate::session::place::{ModelClient, Places};
use crate::session::recovery::EffectRecovery;
use crate::session::relocate::Underway;
use crate::session::revert;
use crate::session::state::SessionState;
use crate::store::{AppendError, Batch, Durability, Guard, Hook, Item, Signal, Store, StoreError};
use crate::world::World;

/// How long an interrupt waits for the execution to settle.
const INTERRUPT_WAIT: Duration = Duration::from_secs(15);

/// The text that a resumed session gives to the model.
const RESTART_NOTICE: &str = "The program was restarted while you were working. What was finished is recorded above, \
and interrupted calls say what they did. Carry on from there; do not repeat finished work.";

/// Settings of the engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Whether sessions that a crash interrupted go on by themselves.
    pub auto_resume: bool,
    /// Resumes of one execution without a completed step in between, before it is given up.
    pub max_attempts: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { auto_resume: true, max_attempts: 10 }
    }
}

pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) world: World,
    pub(crate) places: Arc<dyn Places>,
    pub(crate) models: Arc<dyn ModelClient>,
    pub(crate) effects: Arc<dyn EffectRecovery>,
    pub(crate) options: EngineOptions,
    pub(crate) jobs: Jobs,
    slots: Mutex<HashMap<SessionId, Slot>>,
    /// Sessions whose owners elsewhere were told of work.
    told: Mutex<HashSet<SessionId>>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

/// How an execution was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) force: bool,
    pub(crate) scope: Scope,
    pub(crate) reason: StartReason,
}

impl Ask {
    pub(crate) const WAKE: Self = Self { force: false, scope: Scope::Input, reason: StartReason::Wake };
    pub(crate) const RUN: Self = Self { force: true, scope: Scope::Input, reason: StartReason::Resume };
    pub(crate) const RECOVERY: Self = Self { force: true, scope: Scope::Input, reason: StartReason::Recovery };

    fn merge(self, other: Self) -> Self {
        Self { force: self.force || other.force, scope: self.scope.max(other.scope), reason: other.reason }
    }
}

struct Slot {
    cancel: CancellationToken,
    stopping: bool,
    /// Not an execution: an operation that none may run beside.
    exclusive: bool,
    bell: Option<Ask>,
    ended: watch::Sender<Ended>,
}

impl Slot {
    fn new(cancel: CancellationToken, exclusive: bool) -> Self {
        Self { cancel, stopping: false, exclusive, bell: None, ended: watch::Sender::default() }
    }
}

/// Keeps executions of a session away.
pub(crate) struct Exclusive {
    engine: Arc<Engine>,
    id: SessionId,
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        let bell = self.engine.slots().remove(&self.id).and_then(|slot| slot.bell);
        if let Some(bell) = bell {
            self.engine.ask(&self.id, bell);
        }
    }
}

/// How many executions of the slot have ended, and how the last one did.
#[derive(Clone, Debug, Default)]
struct Ended {
    count: u64,
    last: Option<DrainEnd>,
}

impl Engine {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        world: World,
        places: Arc<dyn Places>,
        models: Arc<dyn ModelClient>,
        effects: Arc<dyn EffectRecovery>,
        options: EngineOptions,
    ) -> Self {
        Self {
            jobs: Jobs::new(store.clone(), world.clone()),
            store,
            world,
            places,
            models,
            effects,
            options,
            slots: Mutex::default(),
            told: Mutex::default(),
            tracker: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SessionId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an execution, or rings the bell of the running one.
    pub(crate) fn ask(self: &Arc<Self>, id: &SessionId, ask: Ask) {
        let mut slots = self.slots();
        if self.shutdown.is_cancelled() {
            return;
        }
        if let Some(slot) = slots.get_mut(id) {
            // Joining a running execution with `run` does not force another step; after a stop it does.
            let ask = if slot.stopping || slot.exclusive { ask } else { Ask { force: false, ..ask } };
            slot.bell = Some(slot.bell.map_or(ask, |bell| bell.merge(ask)));
            return;
        }
        let cancel = CancellationToken::new();
        let slot = Slot::new(cancel.clone(), false);
        slots.insert(id.clone(), slot);
        let engine = self.clone();
        let id = id.clone();
        drop(slots);
        // The tracker owns the task; shutdown waits for it.
        drop(self.world.spawn(self.tracker.track_future(engine.execute(id, ask, cancel))));
    }

    /// Lists the sessions that this process executes.
    pub(crate) fn active(&self) -> Vec<SessionId> {
        let slots = self.slots();
        let mut ids: Vec<SessionId> =
            slots.iter().filter(|(_, slot)| !slot.exclusive).map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// Says whether the process is about to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    pub(crate) fn is_active(&self, id: &SessionId) -> bool {
        self.slots().get(id).is_some_and(|slot| !slot.exclusive)
    }

    /// Keeps executions of a session away until the guard is dropped; `None` while one runs. Another exclusive operation
    /// is waited for. Wakes meanwhile start an execution afterwards.
    pub(crate) async fn exclusive(self: &Arc<Self>, id: &SessionId) -> Option<Exclusive> {
        loop {
            self.after_exclusive(id).await;
            let mut slots = self.slots();
            match slots.get(id) {
                None => {
                    slots.insert(id.clone(), Slot::new(CancellationToken::new(), true));
                    return Some(Exclusive { engine: self.clone(), id: id.clone() });
                }
                Some(slot) if slot.exclusive => {}
                Some(_) => return None,
            }
        }
    }

    /// Waits until no exclusive operation is under way.
    pub(crate) async fn after_exclusive(&self, id: &SessionId) {
        loop {
            let waited = self.slots().get(id).filter(|slot| slot.exclusive).map(|slot| slot.ended.subscribe());
            let Some(mut ended) = waited else { return };
            // The sender goes away with the slot.
            while ended.changed().await.is_ok() {}
        }
    }

    /// Runs an operation to its end whatever becomes of the caller.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.world.spawn(self.tracker.track_future(work)).await;
        done.map_err(|error| StoreError::Other(format!("the operation ended early: {error}")))
    }

    /// Waits until no execution is active. Never starts one.
    pub(crate) async fn wait_idle(&self, id: &SessionId) -> Option<DrainEnd> {
        let mut last = None;
        loop {
            let Some(mut ended) = self.slots().get(id).map(|slot| slot.ended.subscribe()) else { return last };
            // The sender goes away with the slot.
            while ended.changed().await.is_ok() {
                last.clone_from(&ended.borrow_and_update().last);
            }
            last.clone_from(&ended.borrow().last);
        }
    }

    /// Stops the running execution; true when there was one. Returns when it is settled.
    pub(crate) async fn interrupt(&self, id: &SessionId) -> bool {
        let (mut stopped, before) = {
            let mut slots = self.slots();
            let Some(slot) = slots.get_mut(id) else { return false };
            if slot.stopping || slot.exclusive {
                return false;
            }
            slot.stopping = true;
            slot.bell = None;
            // Under the lock: it stops this execution and no later one, whatever becomes of this future.
            slot.cancel.cancel();
            let ended = slot.ended.subscribe();
            let count = ended.borrow().count;
            (ended, count)
        };
        // Durable before it is acknowledged: a restart must not resurrect what the user stopped.
        if let Err(error) = self.store.signal(id, Signal::Interrupt).await {
            tracing::error!(session.id = %id, %error, "the interrupt could not be made durable");
        }
        let settled = async {
            while stopped.borrow().count <= before {
                if stopped.changed().await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout(INTERRUPT_WAIT, settled).await.is_err() {
            tracing::warn!(session.id = %id, "the interrupted execution has not settled yet");
        }
        true
    }

    /// Stops all executions for a restart: their leases stay, so that the next start resumes them.
    pub(crate) async fn shutdown(&self, deadline: Duration) {
        self.shutdown.cancel();
        self.jobs.begin_close();
        self.slots().values().for_each(|slot| slot.cancel.cancel());
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait()).await.is_err() {
            tracing::warn!("some executions did not settle before the shutdown; recovery will");
        }
        self.jobs.close().await;
    }

    /// The task of a slot: executions one after another until nobody rings any more.
    async fn execute(self: Arc<Self>, id: SessionId, mut ask: Ask, mut cancel: CancellationToken) {
        loop {
            let period = AssertUnwindSafe(self.busy_period(&id, ask, &cancel)).catch_unwind().await;
            let end = period.unwrap_or_else(|panic| {
                let report = panic_text(&*panic);
                tracing::error!(session.id = %id, report, "defect in an execution");
                DrainEnd::Failed(SessionError::new(
                    ErrorCode::Unknown,
                    "An internal error ended the execution, see the log",
                ))
            });
            let mut slots = self.slots();
            let Some(slot) = slots.get_mut(&id) else { return };
            let again = slot.bell.take().filter(|_| !self.shutdown.is_cancelled());
            let Some(next) = again else {
                if let Some(slot) = slots.remove(&id) {
                    // Waiters see the end and then the sender's drop.
                    slot.ended.send_modify(|ended| {
                        ended.count += 1;
                        ended.last = Some(end);
                    });
                }
                return;
            };
            slot.cancel = CancellationToken::new();
            slot.stopping = false;
            cancel = slot.cancel.clone();
            slot.ended.send_modify(|ended| {
                ended.count += 1;
                ended.last = Some(end);
            });
            ask = next;
        }
    }

    fn take_bell(&self, id: &SessionId) -> Option<Ask> {
        let mut slots = self.slots();
        let slot = slots.get_mut(id)?;
        if slot.stopping { None } else { slot.bell.take() }
    }

    /// One busy period: lease, drains, terminal.
    async fn busy_period(self: &Arc<Self>, id: &SessionId, ask: Ask, cancel: &CancellationToken) -> DrainEnd {
        // While a revert is staged the session rests: prompts make it final themselves, so does whoever asks to resume.
        if ask.reason != StartReason::Resume
            && matches!(self.store.session(id).await, Ok(Some(session)) if session.revert.is_some())
        {
            return DrainEnd::Complete;
        }
        match self.try_busy_period(id, ask, cancel).await {
            Ok(end) => {
                if let Err(error) = self.look_again(id).await {
                    tracing::error!(session.id = %id, %error, "what was admitted meanwhile cannot be looked up");
                }
                end
            }
            Err(DrainError::Fenced) => {
                tracing::warn!(session.id = %id, "another owner took the session over");
                DrainEnd::Interrupted
            }
            Err(DrainError::Append(AppendError::Busy { owner, .. })) => {
                match self.wake_elsewhere(id).await {
                    Ok(true) => self.ask(id, ask),
                    Ok(false) => {
                        tracing::info!(session.id = %id, %owner, "the session is executed elsewhere; its owner was told");
                    }
                    Err(error) => {
                        tracing::error!(session.id = %id, %error, "the owner elsewhere could not be told");
                    }
                }
                DrainEnd::Complete
            }
            Err(DrainError::Append(error)) => {
                tracing::error!(session.id = %id, %error, "the execution cannot go on: its events cannot be stored");
                DrainEnd::Failed(SessionError::new(ErrorCode::Unknown, error.to_string()))
            }
        }
    }

    async fn try_busy_period(
        self: &Arc<Self>,
        id: &SessionId,
        ask: Ask,
        cancel: &CancellationToken,
    ) -> Result<DrainEnd, DrainError> {
        let Some(session) = self.store.session(id).await? else { return Ok(DrainEnd::Complete) };
        if !ask.force && self.store.pending_inputs(id).await?.is_empty() {
            return Ok(DrainEnd::Complete);
        }
        if let Some(revert) = &session.revert {
            self.store.append(revert::commit_batch(self, &session, revert)).await?;
        }
        let (fence, attempt) = self.acquire(id, &session.location, ask.reason).await?;
        self.status(id, &session.location, SessionStatus::Busy);
        let drains = AssertUnwindSafe(self.drains(id, &session.location, ask, cancel, fence, attempt));
        let failed = match drains.catch_unwind().await {
            Ok(Ok((end, done))) => {
                self.terminal(id, &session.location, fence, &end, done).await?;
                return Ok(end);
            }
            // Nothing can be stored, or nothing may be: recovery or the other owner goes on.
            Ok(Err(error @ (DrainError::Fenced | DrainError::Append(AppendError::Storage(_))))) => return Err(error),
            Ok(Err(DrainError::Append(error))) => error.to_string(),
            Err(_) => "The execution failed inside; this is a bug in abide".to_owned(),
        };
        tracing::error!(session.id = %id, error = %failed, "the execution ends");
        // What was open is settled, so that no call stays running in the transcript.
        self.settle_stale(id, Some(fence), attempt).await?;
        let end = DrainEnd::Failed(SessionError::new(ErrorCode::Unknown, failed));
        self.terminal(id, &session.location, fence, &end, None).await?;
        Ok(end)
    }

    /// The drains of a busy period whose lease is held, until no bell rings.
    async fn drains(
        self: &Arc<Self>,
        id: &SessionId,
        location: &LocationRef,
        ask: Ask,
        cancel: &CancellationToken,
        fence: u64,
        attempt: u32,
    ) -> Result<(DrainEnd, Option<Seq>), DrainError> {
        let mut place = self.places.open(location).await;
        let mut done = None;
        let end = match place {
            Err(error) => DrainEnd::Failed(place_error(&error)),
            Ok(ref mut place) => {
                let mut ask = ask;
                let mut underway = Underway::new(ask.force);
                let mut noticed = ask.reason != StartReason::Recovery;
                loop {
                    let Some(state) = SessionState::load(&*self.store, id).await? else {
                        break DrainEnd::Complete;
                    };
                    let (engine, here, cancel) = (self.clone(), place.clone(), cancel.clone());
                    let mut drain = Drain::new(engine, fence, here, state, cancel, id.clone(), attempt > 0);
                    self.settle_stale(id, Some(fence), attempt).await?;
                    if !noticed {
                        noticed = true;
                        drain.synthetic(RESTART_NOTICE, "The program was restarted").await?;
                    }
                    let end = drain.run(underway, ask.scope).await?;
                    done = drain.state().cursor();
                    if let (DrainEnd::Complete, Some(goes_on)) = (&end, drain.moved()) {
                        let to = drain.session().map_or_else(|| location.clone(), |session| session.location.clone());
                        match self.places.open(&to).await {
                            Ok(opened) if opened.info().to_ref() == to => *place = opened,
                            Ok(opened) => {
                                let (to, now) = (&to.directory, &opened.info().directory);
                                let words =
                                    format!("The session's directory {to} is {now} now; move the session there");
                                break DrainEnd::Failed(SessionError::new(ErrorCode::Unknown, words));
                            }
                            Err(error) => break DrainEnd::Failed(place_error(&error)),
                        }
                        underway = goes_on;
                        continue;
                    }
                    match (end, self.take_bell(id)) {
                        (DrainEnd::Complete, Some(bell)) => {
                            ask = bell;
                            underway = Underway::new(ask.force);
                        }
                        (end, Some(bell)) => {
                            // A follow-up gets its own busy period.
                            self.ring(id, bell);
                            break end;
                        }
                        (end, None) => break end,
                    }
                }
            }
        };
        Ok((end, done))
    }

    /// Puts a bell back that was taken too early.
    fn ring(&self, id: &SessionId, bell: Ask) {
        if let Some(slot) = self.slots().get_mut(id).filter(|slot| !slot.stopping) {
            slot.bell = Some(slot.bell.map_or(bell, |newer| bell.merge(newer)));
        }
    }

    /// Takes the lease and announces the execution.
    async fn acquire(
        &self,
        id: &SessionId,
        location: &LocationRef,
        reason: StartReason,
    ) -> Result<(u64, u32), DrainError> {
        let lease = self.store.lease(id).await?;
        let me = self.store.owner();
        let mut dead_owner = None;
        if let Some(owner) = lease.as_ref().and_then(|lease| lease.owner.clone())
            && owner != me
        {
            if self.store.is_alive(&owner).await? {
                return Err(DrainError::Append(AppendError::Busy { session: id.clone(), owner }));
            }
            dead_owner = Some(owner);
        }
        let fence = lease.as_ref().map_or(0, |lease| lease.fence) + 1;
        let attempt = lease.as_ref().map_or(0, |lease| lease.attempts);
        let started = ExecutionStarted {
            timestamp: self.world.now(),
            session_id: id.clone(),
            owner: me.clone(),
            fence,
            reason,
            attempt,
        };
        let mut batch = Self::batch(id, location, vec![started.into()]);
        batch.hooks = vec![Hook::AcquireLease { owner: me, fence, dead_owner }];
        batch.durability = Durability::Committed;
        self.store.append(batch).await?;
        fault::point("drain.after_claim").await?;
        Ok((fence, attempt))
    }

    /// Ends the busy period; a shutdown keeps the lease.
    async fn terminal(
        &self,
        id: &SessionId,
        location: &LocationRef,
        fence: u64,
        end: &DrainEnd,
        done: Option<Seq>,
    ) -> Result<(), DrainError> {
        let timestamp = self.world.now();
        let session_id = id.clone();
        let shutdown = self.shutdown.is_cancelled() && *end == DrainEnd::Interrupted;
        let event: EventData = match end {
            DrainEnd::Complete => ExecutionSucceeded { timestamp, session_id }.into(),
            DrainEnd::Failed(error) => ExecutionFailed { timestamp, session_id, error: error.clone() }.into(),
            DrainEnd::Interrupted if shutdown => {
                ExecutionInterrupted { timestamp, session_id, reason: InterruptReason::Shutdown }.into()
            }
            DrainEnd::Interrupted => {
                ExecutionInterrupted { timestamp, session_id, reason: InterruptReason::User }.into()
            }
        };
        let mut batch = Self::batch(id, location, vec![event]);
        batch.fence = Some(fence);
        batch.durability = Durability::Committed;
        if !shutdown {
            let done = if *end == DrainEnd::Interrupted { None } else { done };
            batch.hooks = vec![Hook::ReleaseLease { done }, Hook::DropOperational];
        }
        fault::point("exec.before_terminal").await?;
        self.store.append(batch).await?;
        self.status(id, location, SessionStatus::Idle);
        self.publish(location, BecameIdle { session_id: id.clone() });
        Ok(())
    }

    pub(crate) fn batch(id: &SessionId, location: &LocationRef, events: Vec<EventData>) -> Batch {
        let items =
            events.into_iter().map(|data| Item { location: Some(location.clone()), ..Item::from(data) }).collect();
        Batch::new(id.clone(), items)
    }

    fn status(&self, id: &SessionId, location: &LocationRef, status: SessionStatus) {
        self.publish(location, StatusChanged { session_id: id.clone(), status });
    }

    pub(crate) fn publish(&self, location: &LocationRef, data: impl Into<LiveData>) {
        self.store.publish_live(LiveEvent {
            id: self.world.event_id(),
            location: Some(location.clone()),
            data: data.into(),
        });
    }

    /// Renames a session if its title is still `old`.
    pub(crate) async fn rename_if(
        &self,
        id: &SessionId,
        location: &LocationRef,
        title: String,
        old: String,
    ) -> Result<Vec<Arc<StoredEvent>>, AppendError> {
        let renamed = Renamed { timestamp: self.world.now(), session_id: id.clone(), title };
        let mut batch = Self::batch(id, location, vec![renamed.into()]);
        batch.guard = Some(Guard::TitleIs(old));
        batch.durability = Durability::Committed;
        self.store.append(batch).await
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without text".to_owned())
}
