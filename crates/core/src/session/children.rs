//! Child sessions: started by a call of their parent, watched by a job (spec/session.md 11.3, spec/tools.md 11.14).

use std::sync::{Arc, OnceLock, Weak};

use abide_schema::agent::AgentMode;
use abide_schema::message::{AssistantContent, Finish, Message, ToolState};
use abide_schema::model::ModelRef;
use abide_schema::permission::Rule;
use abide_schema::session::{Outcome, SessionInfo};
use abide_schema::tool::{Content, Verdict};
use abide_schema::{AgentId, JobId, JsonObject, SessionId};
use serde_json::json;

use crate::job::notice::subagent_content;
use crate::job::{JobControl, JobError, JobKind, JobOutcome, JobSpec, JobStatus, Jobs};
use crate::permission::inherited_rules;
use crate::session::drain::DrainEnd;
use crate::session::engine::Engine;
use crate::session::place::PlaceError;
use crate::session::sessions::{CreateSession, PromptSession, Sessions};
use crate::session::settle::Resolution;
use crate::session::{SessionState, SessionsError};
use crate::store::{CallKey, JobRecord, JobWork, Order, StoreError};
use crate::tool::outcome::NormalizedResult;

/// How deep sessions may lie below each other when nothing is configured.
pub const DEFAULT_DEPTH: u32 = 1;
/// The deepest nesting that is followed at all: a damaged chain of parents must end.
const MAX_DEPTH: u32 = 64;
/// The key of a child's metadata that names the call which started it.
const CALL_KEY: &str = "parentCall";
/// What a child says that ended without words.
const NO_TEXT: &str = "(the subagent ended without text)";

/// The way from a tool back to the sessions: set once they exist, gone when they are.
#[derive(Clone, Debug, Default)]
pub struct SessionsLink(Arc<OnceLock<WeakEngine>>);

struct WeakEngine(Weak<Engine>);

impl std::fmt::Debug for WeakEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WeakEngine")
    }
}

impl SessionsLink {
    /// Sets the sessions; the first ones count.
    pub fn set(&self, sessions: &Sessions) {
        let _first = self.0.set(WeakEngine(Arc::downgrade(sessions.engine())));
    }

    /// Returns the sessions; `None` before they were set and after they are gone.
    pub fn get(&self) -> Option<Sessions> {
        self.0.get()?.0.upgrade().map(Sessions::of)
    }
}

/// A child that a call wants.
#[derive(Clone, Debug)]
pub struct ChildRequest {
    /// The call.
    pub call: CallKey,
    /// The agent of the call's step.
    pub parent_agent: AgentId,
    /// The child's agent.
    pub agent: AgentId,
    /// What it is for, in a few words.
    pub description: String,
    /// What it is told.
    pub prompt: String,
    /// Its model; absent: the agent's, else the parent's.
    pub model: Option<ModelRef>,
    /// An earlier child to go on with.
    pub continues: Option<SessionId>,
    /// Whether the call does not wait.
    pub background: bool,
    /// Whether it inherits what its parent's agent may not do at all.
    pub inherits_denials: bool,
}

/// Why a child cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The nesting limit is reached.
    #[error("sessions may be nested {limit} deep (setting experimental.subagent_depth); do the work in this session")]
    Depth {
        /// The limit.
        limit: u32,
    },
    /// No agent has the name.
    #[error("No agent named {agent}; available: {available}")]
    UnknownAgent {
        /// The name.
        agent: AgentId,
        /// What there is.
        available: String,
    },
    /// The agent works for people only.
    #[error("{0} is a primary agent, not a subagent")]
    Primary(AgentId),
    /// The session to go on with is none of the caller's children.
    #[error("session {0} is no child of this session")]
    Foreign(SessionId),
    /// The model cannot be used.
    #[error("the model {model} cannot be used: {reason}")]
    Model {
        /// The model.
        model: String,
        /// Why, and what there is.
        reason: String,
    },
    /// The job cannot be started.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The sessions failed.
    #[error(transparent)]
    Sessions(#[from] SessionsError),
}

impl From<StoreError> for ChildError {
    fn from(error: StoreError) -> Self {
        Self::Sessions(error.into())
    }
}

impl Sessions {
    /// Returns the jobs of this process.
    pub fn jobs(&self) -> &Jobs {
        &self.engine().jobs
    }

    /// Says whether the process is about to end.
    pub fn is_closing(&self) -> bool {
        self.engine().is_closing()
    }

    /// Checks that a call may have a child with this agent, before the user is asked.
    ///
    /// # Errors
    /// [`ChildError::Depth`], [`ChildError::UnknownAgent`], [`ChildError::Primary`], [`ChildError::Foreign`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn check_child(&self, request: &ChildRequest, limit: u32) -> Result<(), ChildError> {
        let parent = self.get(&request.call.session).await?;
        if self.engine().ancestors(&parent).await?.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            return Err(ChildError::Depth { limit });
        }
        let place = self.engine().places.open(&parent.location).await.map_err(SessionsError::from)?;
        let agent = match place.agent(Some(&request.agent)) {
            Ok(agent) => agent,
            Err(PlaceError::UnknownAgent { known, .. }) => {
                return Err(ChildError::UnknownAgent { agent: request.agent.clone(), available: known });
            }
            Err(error) => return Err(SessionsError::from(error).into()),
        };
        if agent.mode == AgentMode::Primary {
            return Err(ChildError::Primary(agent.id.clone()));
        }
        match &request.continues {
            Some(child) => self.own_child(&parent.id, child).await.map(drop),
            None => Ok(()),
        }
    }

    async fn own_child(&self, parent: &SessionId, child: &SessionId) -> Result<SessionInfo, ChildError> {
        let found = self.store().session(child).await?;
        found.filter(|info| info.parent_id.as_ref() == Some(parent)).ok_or_else(|| ChildError::Foreign(child.clone()))
    }

    /// Makes the child, or prepares the earlier one, for a call that [`Sessions::check_child`] let pass.
    ///
    /// # Errors
    /// [`ChildError`]; a new child may exist then, without having been told anything.
    ///
    /// # Cancel safety
    /// As with an error.
    pub async fn open_child(&self, request: &ChildRequest) -> Result<SessionId, ChildError> {
        let parent = self.get(&request.call.session).await?;
        let place = self.engine().places.open(&parent.location).await.map_err(SessionsError::from)?;
        let agent = place.agent(Some(&request.agent)).map_err(SessionsError::from)?;
        let parent_agent = place.agent(Some(&request.parent_agent)).ok();
        let usable = async |model: &ModelRef| match place.model(Some(model), &agent).await {
            Ok(_) => Ok(()),
            Err(error) => Err(ChildError::Model { model: model.to_string(), reason: error.to_string() }),
        };
        if let Some(child) = &request.continues {
            let info = self.own_child(&parent.id, child).await?;
            let switched = info.agent.as_ref() != Some(&request.agent);
            let model = request.model.clone().or_else(|| agent.model.clone().filter(|_| switched));
            if let Some(model) = &model {
                usable(model).await?;
            }
            if switched {
                self.switch_agent(child, request.agent.clone()).await?;
            }
            if let Some(model) = model {
                self.switch_model(child, model).await?;
            }
            return Ok(child.clone());
        }
        let of_parent = parent.model.clone().or_else(|| parent_agent.as_ref().and_then(|agent| agent.model.clone()));
        let model = request.model.clone().or_else(|| agent.model.clone()).or(of_parent);
        if let Some(model) = &model {
            usable(model).await?;
        }
        let session_rules = parent.permissions.as_deref().unwrap_or_default();
        let parent_rules: &[Rule] = match &parent_agent {
            Some(agent) if request.inherits_denials => &agent.permissions,
            Some(_) | None => &[],
        };
        let rules = inherited_rules(parent_rules, session_rules, &agent.permissions);
        let call = json!({ "messageID": request.call.message, "callID": request.call.call });
        let created = self
            .create(CreateSession {
                id: None,
                agent: Some(request.agent.clone()),
                model,
                location: None,
                parent_id: Some(parent.id),
                title: Some(request.description.clone()),
                metadata: Some(JsonObject::from_iter([(CALL_KEY.to_owned(), call)])),
                permissions: Some(rules).filter(|rules| !rules.is_empty()),
            })
            .await?;
        Ok(created.id)
    }

    /// Tells the child what to do and watches it by a job that has its id; a job that runs already is joined. What
    /// goes to the background at once is recorded first.
    ///
    /// # Errors
    /// [`ChildError::Job`], or as the store fails; the child may have been told.
    ///
    /// # Cancel safety
    /// As with an error.
    pub async fn start_child(&self, request: &ChildRequest, child: &SessionId) -> Result<JobId, ChildError> {
        let id = job_of(child);
        let (world, jobs) = (&self.engine().world, self.jobs());
        let work = JobWork::Subagent {
            child: child.clone(),
            agent: request.agent.clone(),
            description: request.description.clone(),
        };
        let mut spec = JobSpec {
            id: id.clone(),
            kind: JobKind::Subagent,
            session: request.call.session.clone(),
            title: request.description.clone(),
            work,
            started: world.now(),
            notification: None,
        };
        let running = jobs.get(&id).is_some_and(|job| job.status == JobStatus::Running);
        if request.background && !running {
            spec = jobs.recorded(spec).await?;
        }
        let text = if request.continues.is_some() {
            request.prompt.clone()
        } else {
            format!("Another session ({}) started this one to: {}.\n\n{}", spec.session, spec.title, request.prompt)
        };
        self.prompt(child, PromptSession { text, ..PromptSession::default() }).await?;
        let (engine, watched) = (self.engine().clone(), child.clone());
        let started = jobs.start(spec, |control| engine.watch_child(watched, control));
        if let Err(error) = started {
            // It was told, and nobody would wait for it.
            self.engine().interrupt(child).await;
            return Err(error.into());
        }
        if request.background && running {
            jobs.background(&id).await?;
        }
        Ok(id)
    }
}

/// Returns the id of the job that watches a child: its own.
pub(crate) fn job_of(child: &SessionId) -> JobId {
    JobId::from_trusted(child.as_str())
}

/// Makes what the call of a child in the background returns.
pub(crate) fn running_text(child: &SessionId) -> String {
    format!(
        "The subagent works in session {child}. A notice comes when it is done: do not ask for its state, and do not \
         do its work yourself; go on with something else, or end your turn."
    )
}

impl Engine {
    /// Lists the ancestors of a session, the parent first.
    pub(crate) async fn ancestors(&self, session: &SessionInfo) -> Result<Vec<SessionId>, StoreError> {
        let mut found: Vec<SessionId> = Vec::new();
        let mut next = session.parent_id.clone();
        while let Some(id) = next {
            if found.contains(&id) || found.len() >= usize::try_from(MAX_DEPTH).unwrap_or(usize::MAX) {
                break;
            }
            next = self.store.session(&id).await?.and_then(|info| info.parent_id);
            found.push(id);
        }
        Ok(found)
    }

    /// The job of a child: waits until it is quiet, and has nothing under way whose notice would wake it.
    pub(crate) async fn watch_child(self: Arc<Self>, child: SessionId, control: JobControl) -> JobOutcome {
        let quiet = async {
            loop {
                let end = self.wait_settled(&child).await;
                if !self.jobs.wait_background(&child).await && !self.is_active(&child) {
                    return end;
                }
            }
        };
        tokio::select! {
            biased;
            () = control.stop.cancelled() => {
                // What it started must not wake it again.
                self.jobs.cancel_all(&child);
                self.interrupt(&child).await;
                cancelled(&child)
            }
            end = quiet => self.child_outcome(&child, end).await,
        }
    }

    /// Says how a child that is quiet ended, with its last words.
    pub(crate) async fn child_outcome(&self, child: &SessionId, end: Option<DrainEnd>) -> JobOutcome {
        match self.try_child_outcome(child, end).await {
            Ok(outcome) => outcome,
            Err(error) => JobOutcome::error(format!("Subagent session {child} cannot be read: {error}")),
        }
    }

    async fn try_child_outcome(&self, child: &SessionId, end: Option<DrainEnd>) -> Result<JobOutcome, StoreError> {
        let Some(info) = self.store.session(child).await? else { return Ok(cancelled(child)) };
        let failed = |reason: &str| JobOutcome::error(format!("Subagent session {child} failed: {reason}"));
        Ok(match (end, info.outcome) {
            (Some(DrainEnd::Failed(error)), _) => failed(&error.message),
            (None, Some(Outcome::Failed)) => {
                failed(self.last_error(child).await?.as_deref().unwrap_or("its transcript says why"))
            }
            (Some(DrainEnd::Interrupted), _) | (None, Some(Outcome::Interrupted)) => cancelled(child),
            (None, None) => JobOutcome::cancelled(format!("Subagent session {child} did not start to work")),
            (Some(DrainEnd::Complete), _) | (None, Some(Outcome::Succeeded)) => JobOutcome {
                status: JobStatus::Completed,
                state: "completed".to_owned(),
                content: vec![Content::text(self.last_words(child).await?.unwrap_or_else(|| NO_TEXT.to_owned()))],
                facts: JsonObject::new(),
            },
        })
    }

    /// Returns the text of the last answer that is complete and has no error.
    async fn last_words(&self, session: &SessionId) -> Result<Option<String>, StoreError> {
        let Some(state) = SessionState::load(&*self.store, session).await? else { return Ok(None) };
        let words = state.messages().rev().find_map(|row| match &row.message {
            Message::Assistant(assistant)
                if assistant.error.is_none()
                    && assistant.time.completed.is_some()
                    && assistant.finish != Some(Finish::Error) =>
            {
                let texts = assistant.content.iter().filter_map(|item| match item {
                    AssistantContent::Text(text) => Some(text.text.trim()),
                    AssistantContent::Reasoning(_) | AssistantContent::Tool(_) => None,
                });
                Some(texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n"))
            }
            _ => None,
        });
        Ok(words.filter(|text| !text.is_empty()))
    }

    async fn last_error(&self, session: &SessionId) -> Result<Option<String>, StoreError> {
        let query = crate::store::MessageQuery { order: Order::Desc, limit: Some(20), ..Default::default() };
        let rows = self.store.messages(session, query).await?;
        Ok(rows.into_iter().find_map(|row| match row.message {
            Message::Assistant(assistant) => assistant.error.map(|error| error.message),
            _ => None,
        }))
    }

    /// Says what became of a call that worked through a child session.
    pub(crate) async fn resolve_child(&self, call: &CallKey) -> Result<Resolution, StoreError> {
        let Some(child) = self.child_of(call).await? else { return Ok(Resolution::not_started()) };
        let recorded = self.store.jobs().await?.into_iter().any(|record| is_about(&record, &child));
        if recorded {
            return Ok(resolved(&child, "running", running_text(&child)));
        }
        let Some(info) = self.store.session(&child).await? else { return Ok(Resolution::unknown()) };
        let is_owed = !self.store.pending_inputs(&child).await?.is_empty();
        let is_owned = self.store.lease(&child).await?.is_some_and(|lease| lease.owner.is_some());
        if info.outcome == Some(Outcome::Succeeded)
            && !is_owed
            && !is_owned
            && let Some(words) = self.last_words(&child).await?
        {
            return Ok(resolved(&child, "completed", words));
        }
        Ok(Resolution {
            verdict: Verdict::ChildInterrupted,
            detail: Some(format!("Its session is {child}; give it as sessionID to go on with it.")),
            ..Resolution::unknown()
        })
    }

    /// Finds the child of a call: the one that it names, or the one that names it.
    async fn child_of(&self, call: &CallKey) -> Result<Option<SessionId>, StoreError> {
        let children = self.store.children(&call.session).await?;
        if let Some(named) = self.named_child(call).await? {
            return Ok(Some(named).filter(|named| children.contains(named)));
        }
        for child in children {
            let metadata = self.store.session(&child).await?.and_then(|info| info.metadata);
            let names = metadata.as_ref().and_then(|metadata| metadata.get(CALL_KEY));
            let is = |key: &str, value: &str| {
                names.and_then(|names| names.get(key)).and_then(serde_json::Value::as_str) == Some(value)
            };
            if is("messageID", call.message.as_str()) && is("callID", call.call.as_str()) {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    async fn named_child(&self, call: &CallKey) -> Result<Option<SessionId>, StoreError> {
        let row = self.store.message(&call.message).await?;
        let Some(Message::Assistant(assistant)) = row.map(|row| row.message) else { return Ok(None) };
        let named = assistant.content.iter().find_map(|item| match item {
            AssistantContent::Tool(tool) if tool.id == call.call => match &tool.state {
                ToolState::Running { input, .. } => input.get("sessionID").and_then(serde_json::Value::as_str),
                ToolState::Pending { .. } | ToolState::Completed { .. } | ToolState::Error { .. } => None,
            },
            AssistantContent::Tool(_) | AssistantContent::Text(_) | AssistantContent::Reasoning(_) => None,
        });
        Ok(named.map(SessionId::from_trusted))
    }
}

fn cancelled(child: &SessionId) -> JobOutcome {
    JobOutcome::cancelled(format!("Subagent session {child} was cancelled"))
}

fn is_about(record: &JobRecord, session: &SessionId) -> bool {
    matches!(&record.work, JobWork::Subagent { child, .. } if child == session)
}

/// Makes the result that a call would have had.
fn resolved(child: &SessionId, status: &str, output: String) -> Resolution {
    let content = vec![subagent_content(child.as_str(), status, &output)];
    let structured = JsonObject::from_iter([
        ("sessionID".to_owned(), child.as_str().into()),
        ("status".to_owned(), status.into()),
        ("output".to_owned(), output.into()),
    ]);
    let success = NormalizedResult { structured, content, output_paths: Vec::new() };
    Resolution { verdict: Verdict::Applied, success: Some(success), ..Resolution::unknown() }
}
