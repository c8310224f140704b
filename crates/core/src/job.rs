//! Jobs: work that a call started and that may go on without it (spec/tools.md 11.8).
//!
//! A job runs in the foreground, where a call waits for it ([`Jobs::block`]), or in the background, where a notice tells
//! its session how it ended. What goes to the background is recorded first ([`JobRecord`]), so that the notice comes
//! exactly once, also after a crash. The registry knows neither processes nor sessions: what a job does is a future,
//! and who admits notices is a [`Notices`].

pub mod notice;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use abide_schema::tool::Content;
use abide_schema::{JobId, JsonObject, MessageId, SessionId, Timestamp};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::{JobRecord, JobWork, Store, StoreError};
use crate::world::World;

/// Finished jobs that are remembered.
const MAX_FINISHED: usize = 200;
/// Jobs of one session that may run at the same time: a model that starts one after another is told to wait.
pub const MAX_RUNNING: usize = 32;
/// How long jobs that were told to stop may take when the process ends.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// What a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// A command.
    Shell,
    /// A child session.
    Subagent,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// It runs.
    Running,
    /// It reported an outcome, whatever that says.
    Completed,
    /// It failed.
    Error,
    /// It was stopped.
    Cancelled,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// Its status.
    pub status: JobStatus,
    /// The word for it in the notice, for example `completed` or `timeout`.
    pub state: String,
    /// What the model is told.
    pub content: Vec<Content>,
    /// Facts for the result and for the notice.
    pub facts: JsonObject,
}

impl JobOutcome {
    /// Makes the outcome of a job that failed.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            status: JobStatus::Error,
            state: "error".to_owned(),
            content: vec![Content::text(message)],
            facts: JsonObject::new(),
        }
    }

    /// Makes the outcome of a job that was stopped.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self { status: JobStatus::Cancelled, state: "cancelled".to_owned(), ..Self::error(message) }
    }
}

/// A job, as others see it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// What it runs.
    pub kind: JobKind,
    /// The session that started it.
    pub session: SessionId,
    /// For people: a command, a description.
    pub title: String,
    /// Where it stands.
    pub status: JobStatus,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<JobOutcome>,
    /// The id of its notice, once it is in the background.
    pub notification: Option<MessageId>,
}

/// A job to start.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Its id; a running job that has it is joined.
    pub id: JobId,
    /// What it runs.
    pub kind: JobKind,
    /// The session that starts it.
    pub session: SessionId,
    /// For people.
    pub title: String,
    /// What finds it again after a crash.
    pub work: JobWork,
    /// When it began.
    pub started: Timestamp,
    /// Its notice, when it is in the background and recorded already.
    pub notification: Option<MessageId>,
}

/// What the code of a job listens to.
#[derive(Clone, Debug)]
pub struct JobControl {
    /// Cancelled when the job is to stop: it ends what it started and returns.
    pub stop: CancellationToken,
    /// Cancelled when it is in the background from now on: limits of the foreground end, and it survives the process.
    pub background: CancellationToken,
}

/// Why a job cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The session has too many running jobs.
    #[error("{MAX_RUNNING} jobs of this session run already; wait for one of them to end, or stop one")]
    TooMany,
    /// The process is about to end.
    #[error("abide is stopping: no more work is started")]
    Closed,
}

/// How a wait of the foreground ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Blocked {
    /// The job ended.
    Finished(JobOutcome),
    /// The user sent it to the background.
    Backgrounded,
    /// No job has the id.
    Unknown,
}

/// Tells a session that a job of its ended.
pub trait Notices: Send + Sync {
    /// Admits the notice and deletes the record, in one transaction; later calls for the same record change nothing.
    /// What cannot be admitted now stays recorded for the next start.
    fn deliver(&self, record: JobRecord, outcome: JobOutcome) -> BoxFuture<'static, ()>;
}

/// The jobs of a process. Cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    store: Arc<dyn Store>,
    notices: OnceLock<Arc<dyn Notices>>,
    state: Mutex<State>,
    /// One move to the background at a time.
    gate: tokio::sync::Mutex<()>,
    tracker: TaskTracker,
    closed: CancellationToken,
}

#[derive(Default)]
struct State {
    jobs: HashMap<JobId, Entry>,
    finished: VecDeque<JobId>,
}

struct Entry {
    info: JobInfo,
    work: JobWork,
    control: JobControl,
    /// Rises with every change of `info`.
    changed: watch::Sender<u64>,
    /// The sessions whose calls wait for it.
    blocked: Vec<SessionId>,
    /// Whether its notice is admitted.
    is_told: bool,
    /// Whether nobody is told: its session was stopped as a whole.
    is_silent: bool,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Jobs")
    }
}

impl Jobs {
    /// Makes the registry of a process.
    pub fn new(store: Arc<dyn Store>, world: World) -> Self {
        Self {
            inner: Arc::new(Inner {
                world,
                store,
                notices: OnceLock::new(),
                state: Mutex::default(),
                gate: tokio::sync::Mutex::default(),
                tracker: TaskTracker::new(),
                closed: CancellationToken::new(),
            }),
        }
    }

    /// Says who admits notices; the first one counts.
    pub fn notify(&self, notices: Arc<dyn Notices>) {
        let _first = self.inner.notices.set(notices);
    }

    /// Records a job that is in the background from its beginning; it is started next.
    ///
    /// # Errors
    /// As the store fails.
    ///
    /// # Cancel safety
    /// The record may be written; a job that never starts is then told of at the next start of the program.
    pub async fn recorded(&self, mut spec: JobSpec) -> Result<JobSpec, StoreError> {
        let notification = self.inner.world.message_id();
        spec.notification = Some(notification.clone());
        let record = JobRecord {
            notification,
            id: spec.id.clone(),
            session: spec.session.clone(),
            owner: self.inner.store.owner(),
            work: spec.work.clone(),
            started: spec.started,
        };
        self.inner.store.put_job(record).await?;
        Ok(spec)
    }

    /// Starts a job, or joins the running one with the same id: then `run` is dropped. True when it was started.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn start<F>(&self, spec: JobSpec, run: impl FnOnce(JobControl) -> F) -> Result<bool, JobError>
    where
        F: Future<Output = JobOutcome> + Send + 'static,
    {
        let mut state = self.state();
        if self.inner.closed.is_cancelled() {
            return Err(JobError::Closed);
        }
        if state.jobs.get(&spec.id).is_some_and(|entry| entry.info.status == JobStatus::Running) {
            return Ok(false);
        }
        let running = state.jobs.values().filter(|entry| entry.info.status == JobStatus::Running);
        if running.filter(|entry| entry.info.session == spec.session).count() >= MAX_RUNNING {
            return Err(JobError::TooMany);
        }
        let control = JobControl { stop: CancellationToken::new(), background: CancellationToken::new() };
        if spec.notification.is_some() {
            control.background.cancel();
        }
        let JobSpec { id, kind, session, title, work, started, notification } = spec;
        let info = JobInfo {
            id: id.clone(),
            kind,
            session,
            title,
            status: JobStatus::Running,
            started,
            completed: None,
            outcome: None,
            notification,
        };
        state.finished.retain(|finished| *finished != id);
        let entry = Entry {
            info,
            work,
            control: control.clone(),
            changed: watch::Sender::new(0),
            blocked: Vec::new(),
            is_told: false,
            is_silent: false,
        };
        state.jobs.insert(id.clone(), entry);
        drop(state);
        let (jobs, run) = (self.clone(), run(control));
        // The tracker owns the task; closing waits for it.
        drop(self.inner.world.spawn(self.inner.tracker.track_future(async move { jobs.drive(id, run).await })));
        Ok(true)
    }

    /// Runs a job to its end and tells whoever waits.
    async fn drive(self, id: JobId, run: impl Future<Output = JobOutcome> + Send + 'static) {
        let ended = tokio::select! {
            biased;
            ended = AssertUnwindSafe(run).catch_unwind() => ended,
            // Nothing is settled when the process ends: the record says what to find again.
            () = self.inner.closed.cancelled() => return,
        };
        let outcome = ended.unwrap_or_else(|panic| {
            let report = crate::tool::scope::panic_text(&*panic);
            tracing::error!(job.id = %id, report, "defect in a job");
            JobOutcome::error("The job failed by an internal error, see the log")
        });
        if self.inner.closed.is_cancelled() {
            return;
        }
        // A move to the background that is under way ends first, so that the notice is not missed.
        let gate = self.inner.gate.lock().await;
        let record = self.finish(&id, outcome.clone());
        drop(gate);
        match record {
            Some((record, false)) => self.deliver(record, outcome).await,
            Some((record, true)) => {
                if let Err(error) = self.inner.store.drop_job(&record.notification).await {
                    tracing::warn!(job.id = %id, %error, "the record of a stopped job stays");
                }
            }
            None => {}
        }
        if let Some(entry) = self.state().jobs.get_mut(&id) {
            entry.is_told = true;
            entry.changed.send_modify(|count| *count += 1);
        }
    }

    /// Notes the end; returns the record of a job in the background, and whether nobody is to be told.
    fn finish(&self, id: &JobId, outcome: JobOutcome) -> Option<(JobRecord, bool)> {
        let now = self.inner.world.now();
        let mut state = self.state();
        let entry = state.jobs.get_mut(id)?;
        entry.info.status = outcome.status;
        entry.info.completed = Some(now);
        entry.info.outcome = Some(outcome);
        let record = self.record(entry).map(|record| (record, entry.is_silent));
        entry.changed.send_modify(|count| *count += 1);
        state.finished.push_back(id.clone());
        while state.finished.len() > MAX_FINISHED {
            if let Some(oldest) = state.finished.pop_front() {
                // Who waits for it holds what it waits for.
                state.jobs.remove(&oldest);
            }
        }
        record
    }

    /// Makes the record of a job that is in the background.
    fn record(&self, entry: &Entry) -> Option<JobRecord> {
        Some(JobRecord {
            notification: entry.info.notification.clone()?,
            id: entry.info.id.clone(),
            session: entry.info.session.clone(),
            owner: self.inner.store.owner(),
            work: entry.work.clone(),
            started: entry.info.started,
        })
    }

    async fn deliver(&self, record: JobRecord, outcome: JobOutcome) {
        match self.inner.notices.get() {
            Some(notices) => notices.deliver(record, outcome).await,
            None => tracing::error!(job.id = %record.id, "nobody admits the notice of a job; it stays recorded"),
        }
    }

    /// Tells a session about a job of which only the record is left.
    ///
    /// # Cancel safety
    /// The notice may be admitted; delivering it again changes nothing.
    pub async fn deliver_recorded(&self, record: JobRecord, outcome: JobOutcome) {
        self.deliver(record, outcome).await;
    }

    /// Returns a job.
    pub fn get(&self, id: &JobId) -> Option<JobInfo> {
        self.state().jobs.get(id).map(|entry| entry.info.clone())
    }

    /// Returns what a job does.
    pub fn work(&self, id: &JobId) -> Option<JobWork> {
        self.state().jobs.get(id).map(|entry| entry.work.clone())
    }

    /// Lists the jobs, oldest first: of one session, or all.
    pub fn list(&self, session: Option<&SessionId>) -> Vec<JobInfo> {
        let state = self.state();
        let mut list: Vec<JobInfo> = state
            .jobs
            .values()
            .map(|entry| &entry.info)
            .filter(|info| session.is_none_or(|session| info.session == *session))
            .cloned()
            .collect();
        list.sort_by(|a, b| (a.started, &a.id).cmp(&(b.started, &b.id)));
        list
    }

    /// Waits for the end of a job, at most `limit`; `None` when it is unknown or still runs then.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self, id: &JobId, limit: Option<Duration>) -> Option<JobOutcome> {
        let ended = async {
            let mut changed = self.state().jobs.get(id).map(|entry| entry.changed.subscribe())?;
            loop {
                if let Some(outcome) = self.get(id)?.outcome {
                    return Some(outcome);
                }
                if changed.changed().await.is_err() {
                    return self.get(id)?.outcome;
                }
            }
        };
        match limit {
            None => ended.await,
            Some(limit) => tokio::time::timeout(limit, ended).await.ok().flatten(),
        }
    }

    /// Waits until a job ended or went to the background, on behalf of a call of `session`.
    ///
    /// # Cancel safety
    /// Cancel safe: the session no longer counts as waiting.
    pub async fn block(&self, id: &JobId, session: &SessionId) -> Blocked {
        let mut changed = {
            let mut state = self.state();
            let Some(entry) = state.jobs.get_mut(id) else { return Blocked::Unknown };
            entry.blocked.push(session.clone());
            entry.changed.subscribe()
        };
        let _waits = Waits { jobs: self, id, session };
        loop {
            {
                let state = self.state();
                let Some(entry) = state.jobs.get(id) else { return Blocked::Unknown };
                if let Some(outcome) = &entry.info.outcome {
                    return Blocked::Finished(outcome.clone());
                }
                if entry.info.notification.is_some() {
                    return Blocked::Backgrounded;
                }
            }
            if changed.changed().await.is_err() {
                return Blocked::Unknown;
            }
        }
    }

    /// Sends a running job to the background: recorded first, then told. Returns the id of its notice; `None` when the
    /// job is unknown or has ended.
    ///
    /// # Errors
    /// As the store fails; the job then stays in the foreground.
    ///
    /// # Cancel safety
    /// The record may be written for a job that stays in the foreground; it is then told once more at the next start.
    pub async fn background(&self, id: &JobId) -> Result<Option<MessageId>, StoreError> {
        let _one = self.inner.gate.lock().await;
        let record = {
            let state = self.state();
            let Some(entry) = state.jobs.get(id) else { return Ok(None) };
            if entry.info.notification.is_some() {
                return Ok(entry.info.notification.clone());
            }
            if entry.info.status != JobStatus::Running {
                return Ok(None);
            }
            JobRecord {
                notification: self.inner.world.message_id(),
                id: id.clone(),
                session: entry.info.session.clone(),
                owner: self.inner.store.owner(),
                work: entry.work.clone(),
                started: entry.info.started,
            }
        };
        let notification = record.notification.clone();
        self.inner.store.put_job(record).await?;
        let mut state = self.state();
        if let Some(entry) = state.jobs.get_mut(id) {
            entry.info.notification = Some(notification.clone());
            entry.control.background.cancel();
            entry.changed.send_modify(|count| *count += 1);
        }
        Ok(Some(notification))
    }

    /// Sends everything to the background that calls of a session wait for; returns how many.
    ///
    /// # Errors
    /// As the store fails; the others stay in the foreground.
    ///
    /// # Cancel safety
    /// As [`Jobs::background`], for each of them.
    pub async fn background_all(&self, session: &SessionId) -> Result<usize, StoreError> {
        let ids: Vec<JobId> = {
            let state = self.state();
            let waiting = state.jobs.iter().filter(|(_, entry)| entry.blocked.contains(session));
            waiting.map(|(id, _)| id.clone()).collect()
        };
        let mut moved = 0;
        for id in ids {
            moved += usize::from(self.background(&id).await?.is_some());
        }
        Ok(moved)
    }

    /// Tells a job to stop; false when it does not run. [`Jobs::wait`] sees its end.
    pub fn cancel(&self, id: &JobId) -> bool {
        let state = self.state();
        let running = state.jobs.get(id).filter(|entry| entry.info.status == JobStatus::Running);
        running.inspect(|entry| entry.control.stop.cancel()).is_some()
    }

    /// Stops the jobs of a session that is stopped as a whole: it is not told.
    pub fn cancel_all(&self, session: &SessionId) {
        let mut state = self.state();
        for entry in state.jobs.values_mut().filter(|entry| entry.info.session == *session) {
            entry.is_silent = true;
            entry.control.stop.cancel();
        }
    }

    /// Waits for the end of one background job of a session, and until the session is told; `false` at once when there
    /// is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_background(&self, session: &SessionId) -> bool {
        let mut changed = {
            let state = self.state();
            let mut own = state.jobs.values().filter(|entry| entry.info.session == *session);
            match own.find(|entry| entry.info.notification.is_some() && !entry.is_told) {
                Some(entry) => entry.changed.subscribe(),
                None => return false,
            }
        };
        // The sender goes away with a job that is forgotten.
        let _told = changed.changed().await;
        true
    }

    /// Says that the process ends: nothing is settled any more, and nothing told. What is in the background goes on
    /// and is found again by its record.
    pub fn begin_close(&self) {
        self.inner.closed.cancel();
        self.inner.tracker.close();
    }

    /// Waits for the tasks of the jobs to end, after [`Jobs::begin_close`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn close(&self) {
        self.begin_close();
        if tokio::time::timeout(CLOSE_TIME, self.inner.tracker.wait()).await.is_err() {
            tracing::warn!("some jobs did not let go before the end");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits for a job.
struct Waits<'a> {
    jobs: &'a Jobs,
    id: &'a JobId,
    session: &'a SessionId,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut state = self.jobs.state();
        if let Some(entry) = state.jobs.get_mut(self.id)
            && let Some(at) = entry.blocked.iter().position(|session| session == self.session)
        {
            entry.blocked.swap_remove(at);
        }
    }
}
