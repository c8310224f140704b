//! The service of one location: requests that wait, replies, saved rules.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_schema::live::{LiveData, PermissionAsked, PermissionReplied};
use abide_schema::permission::{Effect, PermissionRequest, Reply, Rule, SavedPermission, Source};
use abide_schema::{AgentId, JsonObject, PermissionId, ProjectId, SessionId};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::error::{CreateError, PermissionError, ReplyError, RulesError};
use super::evaluate::{Judge, Request};
use crate::store::ValueStore;
use crate::tool::leaf::ToolContext;
use crate::tool::scope::CallScope;
use crate::world::World;

/// The most requests that may wait in one location: a person answers them one by one.
const MAX_PENDING: usize = 1000;

/// The longest a hook may take: a call waits for it.
const MAX_HOOK_TIME: Duration = Duration::from_secs(5);

/// Publishes an ephemeral event of the location.
pub type Publish = Arc<dyn Fn(LiveData) + Send + Sync>;

/// Proof that a request was refused. Only this module can make one.
#[derive(Debug)]
pub struct Refused(());

/// Where the configured rules of a call come from.
pub trait PermissionRules: Send + Sync {
    /// Returns the agent's rules, then the session's ([`super::configured_rules`]). Without `agent` the session's
    /// agent counts, else the default one; an unknown or missing agent denies everything.
    ///
    /// # Errors
    /// [`RulesError`] when the session is unknown or cannot be read.
    fn configured<'a>(
        &'a self,
        session: &'a SessionId,
        agent: Option<&'a AgentId>,
    ) -> BoxFuture<'a, Result<Vec<Rule>, RulesError>>;
}

/// An evaluation that hooks may change.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The session.
    pub session_id: SessionId,
    /// The agent, when one was given.
    pub agent: Option<AgentId>,
    /// The action.
    pub action: String,
    /// The resources.
    pub resources: Vec<String>,
    /// Facts for the user interface.
    pub metadata: Option<JsonObject>,
    /// The call that asks.
    pub source: Option<Source>,
    /// The effect, which may be changed.
    pub effect: Effect,
    /// A reason, shown to the user or to the model.
    pub message: Option<String>,
}

/// Changes evaluations. Not called when a configured rule denies: that is final.
pub trait EvaluateHook: Send + Sync {
    /// Looks at an evaluation, and changes its effect or sets its message.
    fn evaluate<'a>(&'a self, evaluation: &'a mut Evaluation) -> BoxFuture<'a, ()>;
}

/// What the service is made of.
pub struct PermissionOptions {
    /// Ids.
    pub world: World,
    /// The project whose saved rules count.
    pub project: ProjectId,
    /// The location's directory, absolute.
    pub directory: PathBuf,
    /// Configured rules.
    pub rules: Arc<dyn PermissionRules>,
    /// Saved rules.
    pub values: Arc<dyn ValueStore>,
    /// Takes the events.
    pub publish: Publish,
    /// Hooks, in order.
    pub hooks: Vec<Arc<dyn EvaluateHook>>,
}

/// What a leaf asks for.
#[derive(Clone, Debug, Default)]
pub struct AssertInput {
    /// The action, for example `edit`.
    pub action: String,
    /// What the action is on; at least one.
    pub resources: Vec<String>,
    /// The patterns that "always" saves; empty: "always" means "once".
    pub save: Vec<String>,
    /// Facts for the user interface, for example `files` with a preview of the change.
    pub metadata: JsonObject,
    /// Decides instead of a comparison of the resources with patterns, for resources that are not plain text.
    pub judge: Option<Arc<dyn Judge>>,
}

impl AssertInput {
    /// Makes an input about one resource that saves nothing.
    pub fn new(action: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { action: action.into(), resources: vec![resource.into()], ..Self::default() }
    }

    /// Sets what "always" saves.
    #[must_use]
    pub fn saving(mut self, pattern: impl Into<String>) -> Self {
        self.save.push(pattern.into());
        self
    }

    /// Sets who decides.
    #[must_use]
    pub fn judged_by(mut self, judge: Arc<dyn Judge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Adds a fact for the user interface.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }
}

/// A request made through the API.
#[derive(Clone, Debug)]
pub struct Create {
    /// Its id, when the caller chose one.
    pub id: Option<PermissionId>,
    /// The session.
    pub session_id: SessionId,
    /// The action.
    pub action: String,
    /// The resources; at least one.
    pub resources: Vec<String>,
    /// What "always" saves.
    pub save: Option<Vec<String>>,
    /// Facts for the user interface.
    pub metadata: Option<JsonObject>,
    /// The call that asks.
    pub source: Option<Source>,
    /// The agent whose rules count instead of the session's.
    pub agent: Option<AgentId>,
}

/// The answer to [`Create`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The request's id, also when it does not wait.
    pub id: PermissionId,
    /// Allow and deny are final; with ask the request waits.
    pub effect: Effect,
}

/// The permissions of one location. Cheap to clone.
#[derive(Clone)]
pub struct PermissionService {
    inner: Arc<Inner>,
}

struct Inner {
    options: PermissionOptions,
    state: Mutex<State>,
    /// Held from the last look at saved rules to queueing, and for a whole reply, so that no request slips past a rule
    /// being saved.
    gate: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// In creation order.
    pending: Vec<Pending>,
    closed: bool,
}

struct Pending {
    request: PermissionRequest,
    agent: Option<AgentId>,
    judge: Option<Arc<dyn Judge>>,
    waiter: Option<oneshot::Sender<Verdict>>,
}

enum Verdict {
    Allowed,
    Corrected { feedback: String, together: bool },
    Refused(Refused),
    Withdrawn,
}

impl std::fmt::Debug for PermissionService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PermissionService")
    }
}

impl PermissionService {
    /// Makes the service of a location.
    pub fn new(options: PermissionOptions) -> Self {
        Self { inner: Arc::new(Inner { options, state: Mutex::default(), gate: tokio::sync::Mutex::default() }) }
    }

    /// Asks for permission on behalf of a call, and waits for the user when the rules say so. On a refusal without
    /// words it never returns: the call ends.
    ///
    /// # Errors
    /// [`PermissionError::Blocked`] when a rule denies, [`PermissionError::Corrected`] when the user refused with
    /// words. Both convert into a tool failure with `?`.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request.
    pub async fn assert(&self, ctx: &ToolContext, input: AssertInput) -> Result<(), PermissionError> {
        debug_assert!(!CallScope::is_in_commit(), "nobody can be asked inside a commit section");
        let blocked = |reason: Option<String>, rules: Vec<Rule>| PermissionError::Blocked {
            rules,
            action: input.action.clone(),
            resources: input.resources.clone(),
            reason,
        };
        if CallScope::is_in_commit() {
            return Err(blocked(Some(format!("{} was asked for too late", input.action)), Vec::new()));
        }
        let create = Create {
            id: None,
            session_id: ctx.session_id.clone(),
            action: input.action.clone(),
            resources: input.resources.clone(),
            save: Some(input.save).filter(|save| !save.is_empty()),
            metadata: Some(input.metadata).filter(|metadata| !metadata.is_empty()),
            source: Some(ctx.source()),
            agent: Some(ctx.agent.clone()),
        };
        let decided = self.submit(create, input.judge.clone(), true).await;
        let waiting = match decided {
            Ok(Submitted::Allowed(_)) => return Ok(()),
            Ok(Submitted::Denied { rules, reason, .. }) => return Err(blocked(reason, rules)),
            Ok(Submitted::Closed(_)) => match ctx.scope.decline(Refused(()).into()).await {},
            Ok(Submitted::Waits { id, verdict }) => Waiting { service: self, id, verdict },
            Err(error) => return Err(blocked(Some(error.to_string()), Vec::new())),
        };
        match waiting.verdict().await {
            Verdict::Allowed => Ok(()),
            Verdict::Corrected { feedback, together } => Err(PermissionError::Corrected { feedback, together }),
            Verdict::Refused(refused) => match ctx.scope.decline(refused.into()).await {},
            Verdict::Withdrawn => match ctx.scope.interrupted().await {},
        }
    }

    /// Says what the rules decide for a call, without asking: for leaves that must not disclose something to an agent
    /// that may not read it. An unknown session is denied.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn effect(&self, ctx: &ToolContext, action: &str, resources: &[String]) -> Effect {
        self.judged_effect(ctx, action, resources, None).await
    }

    /// As [`PermissionService::effect`], for resources that are not plain text.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn judged_effect(
        &self,
        ctx: &ToolContext,
        action: &str,
        resources: &[String],
        judge: Option<&dyn Judge>,
    ) -> Effect {
        let options = &self.inner.options;
        let (configured, saved) =
            tokio::join!(options.rules.configured(&ctx.session_id, Some(&ctx.agent)), self.saved_rules());
        let Ok(configured) = configured else { return Effect::Deny };
        let saved = saved.unwrap_or_default();
        Request { action, resources, directory: &options.directory, judge }.decide(&configured, &saved)
    }

    /// Evaluates a request at once, and makes it wait when the rules say ask. The same id again, while it waits in the
    /// same session, gives the waiting request.
    ///
    /// # Errors
    /// [`CreateError`] when it has no resource, the session is unknown, or the id waits in another session.
    ///
    /// # Cancel safety
    /// Either nothing happened or the request waits.
    pub async fn create(&self, input: Create) -> Result<Created, CreateError> {
        Ok(match self.submit(input, None, false).await? {
            Submitted::Allowed(id) => Created { id, effect: Effect::Allow },
            Submitted::Denied { id, .. } | Submitted::Closed(id) => Created { id, effect: Effect::Deny },
            Submitted::Waits { id, .. } => Created { id, effect: Effect::Ask },
        })
    }

    /// Returns a waiting request of a session.
    pub fn get(&self, session: &SessionId, id: &PermissionId) -> Option<PermissionRequest> {
        self.state().pending.iter().map(|pending| &pending.request).find(|request| is(request, session, id)).cloned()
    }

    /// Lists the waiting requests in creation order: of one session, or of all.
    pub fn list(&self, session: Option<&SessionId>) -> Vec<PermissionRequest> {
        let state = self.state();
        let requests = state.pending.iter().map(|pending| &pending.request);
        requests.filter(|request| session.is_none_or(|session| request.session_id == *session)).cloned().collect()
    }

    /// Answers a waiting request of a session.
    ///
    /// A refusal refuses the session's other waiting requests too: with words all of them get the words, without the
    /// calls end. "Always" saves the request's patterns for the project and releases other requests that the rules now
    /// allow.
    ///
    /// # Errors
    /// [`ReplyError::NotFound`] when no such request waits in the session; [`ReplyError::Storage`] when the rule could
    /// not be saved, and then the request still waits.
    ///
    /// # Cancel safety
    /// Once polled, the reply is carried out whole also when the future is dropped.
    pub async fn reply(
        &self,
        session: &SessionId,
        id: &PermissionId,
        reply: Reply,
        message: Option<String>,
    ) -> Result<(), ReplyError> {
        let service = self.clone();
        let (session, id) = (session.clone(), id.clone());
        let unknown = id.clone();
        let task =
            self.inner.options.world.spawn(async move { service.reply_whole(session, id, reply, message).await });
        // The task is never aborted and holds no code that panics; when the runtime is gone, so is the request.
        task.await.unwrap_or(Err(ReplyError::NotFound(unknown)))
    }

    /// Withdraws the waiting requests of a session that is interrupted: their calls end as interrupted.
    pub fn withdraw(&self, session: &SessionId) {
        let withdrawn = self.take(|request| request.session_id == *session);
        for pending in withdrawn {
            self.resolve(pending, Reply::Reject, Verdict::Withdrawn);
        }
    }

    /// Refuses everything that waits and all later asks: the location closes.
    pub fn close(&self) {
        self.state().closed = true;
        for pending in self.take(|_| true) {
            self.resolve(pending, Reply::Reject, Verdict::Refused(Refused(())));
        }
    }

    async fn submit(
        &self,
        input: Create,
        judge: Option<Arc<dyn Judge>>,
        waits: bool,
    ) -> Result<Submitted, CreateError> {
        let Inner { options, gate, .. } = self.inner.as_ref();
        if input.resources.is_empty() {
            return Err(CreateError::NoResource);
        }
        let id = input.id.clone().unwrap_or_else(|| options.world.permission_id());
        if let Some(known) = self.known(&id, &input, waits)? {
            return Ok(known);
        }
        let (configured, saved) =
            tokio::try_join!(options.rules.configured(&input.session_id, input.agent.as_ref()), self.saved_rules())?;
        let (ruled, evaluated) = self.evaluate(&input, judge.as_deref(), &configured, &saved).await;
        match evaluated.effect {
            Effect::Allow => return Ok(Submitted::Allowed(id)),
            Effect::Deny => {
                let request = self.request(&input, judge.as_deref());
                return Ok(Submitted::Denied { id, rules: request.denying(&configured), reason: evaluated.message });
            }
            Effect::Ask => {}
        }
        let _gate = gate.lock().await;
        // A reply may have saved a rule meanwhile, or the same request may have come.
        let saved = self.saved_rules().await?;
        if ruled == Effect::Ask && self.request(&input, judge.as_deref()).decide(&configured, &saved) == Effect::Allow {
            return Ok(Submitted::Allowed(id));
        }
        if let Some(known) = self.known(&id, &input, waits)? {
            return Ok(known);
        }
        let request = PermissionRequest {
            id,
            session_id: input.session_id,
            action: input.action,
            resources: input.resources,
            save: input.save,
            metadata: input.metadata,
            message: evaluated.message,
            source: input.source,
        };
        self.queue(request, input.agent, judge, waits)
    }

    /// Returns what is known of a request without evaluating it: the service is closed, or it waits already.
    fn known(&self, id: &PermissionId, input: &Create, waits: bool) -> Result<Option<Submitted>, CreateError> {
        let state = self.state();
        if state.closed {
            return Ok(Some(Submitted::Closed(id.clone())));
        }
        match state.pending.iter().find(|pending| pending.request.id == *id) {
            None => Ok(None),
            Some(pending) if pending.request.session_id != input.session_id || waits => {
                Err(CreateError::IdTaken(id.clone()))
            }
            Some(_) => Ok(Some(Submitted::Waits { id: id.clone(), verdict: None })),
        }
    }

    fn request<'r>(&'r self, input: &'r Create, judge: Option<&'r dyn Judge>) -> Request<'r> {
        let directory = &self.inner.options.directory;
        Request { action: &input.action, resources: &input.resources, directory, judge }
    }

    fn queue(
        &self,
        request: PermissionRequest,
        agent: Option<AgentId>,
        judge: Option<Arc<dyn Judge>>,
        waits: bool,
    ) -> Result<Submitted, CreateError> {
        let id = request.id.clone();
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            if state.closed {
                return Ok(Submitted::Closed(id));
            }
            if state.pending.len() >= MAX_PENDING {
                return Err(CreateError::TooMany(MAX_PENDING));
            }
            state.pending.push(Pending { request: request.clone(), agent, judge, waiter: waits.then_some(sender) });
        }
        (self.inner.options.publish)(PermissionAsked { request }.into());
        Ok(Submitted::Waits { id, verdict: waits.then_some(receiver) })
    }

    /// Evaluates a request: what the rules say, and what the hooks made of it.
    async fn evaluate(
        &self,
        input: &Create,
        judge: Option<&dyn Judge>,
        configured: &[Rule],
        saved: &[Rule],
    ) -> (Effect, Evaluation) {
        let effect = self.request(input, judge).decide(configured, saved);
        let mut evaluation = Evaluation {
            session_id: input.session_id.clone(),
            agent: input.agent.clone(),
            action: input.action.clone(),
            resources: input.resources.clone(),
            metadata: input.metadata.clone(),
            source: input.source.clone(),
            effect,
            message: None,
        };
        // A configured deny is final, and saved rules never deny.
        if effect != Effect::Deny {
            for hook in &self.inner.options.hooks {
                let mut changed = evaluation.clone();
                match tokio::time::timeout(MAX_HOOK_TIME, hook.evaluate(&mut changed)).await {
                    Ok(()) => evaluation = changed,
                    Err(_elapsed) => tracing::warn!("a permission hook takes too long: its changes are dropped"),
                }
            }
        }
        (effect, evaluation)
    }

    async fn saved_rules(&self) -> Result<Vec<Rule>, RulesError> {
        let options = &self.inner.options;
        let saved = options.values.saved_permissions(Some(&options.project)).await?;
        Ok(saved.into_iter().map(|saved| Rule::new(saved.action, saved.resource, Effect::Allow)).collect())
    }

    async fn reply_whole(
        &self,
        session: SessionId,
        id: PermissionId,
        reply: Reply,
        message: Option<String>,
    ) -> Result<(), ReplyError> {
        let _gate = self.inner.gate.lock().await;
        let request = self.get(&session, &id).ok_or_else(|| ReplyError::NotFound(id.clone()))?;
        let mut saved_any = false;
        if reply == Reply::Always {
            saved_any = self.save(&request).await?;
        }
        let pending = self.take(|candidate| is(candidate, &session, &id)).pop();
        let pending = pending.ok_or(ReplyError::NotFound(id))?;
        match reply {
            Reply::Once => self.resolve(pending, reply, Verdict::Allowed),
            Reply::Always => {
                self.resolve(pending, reply, Verdict::Allowed);
                if saved_any {
                    self.release_covered().await;
                }
            }
            Reply::Reject => {
                let feedback = message.as_deref().filter(|message| !message.trim().is_empty());
                self.reject(pending, &session, feedback);
            }
        }
        Ok(())
    }

    async fn save(&self, request: &PermissionRequest) -> Result<bool, ReplyError> {
        let options = &self.inner.options;
        let patterns = request.save.as_deref().unwrap_or_default();
        let saved: Vec<SavedPermission> = patterns
            .iter()
            .map(|pattern| SavedPermission {
                id: options.world.saved_permission_id(),
                project_id: options.project.clone(),
                action: request.action.clone(),
                resource: pattern.clone(),
            })
            .collect();
        if saved.is_empty() {
            return Ok(false);
        }
        options.values.save_permissions(saved).await?;
        Ok(true)
    }

    fn reject(&self, pending: Pending, session: &SessionId, feedback: Option<&str>) {
        let verdict = |together: bool| match feedback {
            Some(feedback) => Verdict::Corrected { feedback: feedback.to_owned(), together },
            None => Verdict::Refused(Refused(())),
        };
        self.resolve(pending, Reply::Reject, verdict(false));
        for other in self.take(|request| request.session_id == *session) {
            self.resolve(other, Reply::Reject, verdict(true));
        }
    }

    /// Releases the waiting requests that the rules allow by now; those whose session is gone stay.
    async fn release_covered(&self) {
        let waiting: Vec<(Create, Option<Arc<dyn Judge>>)> =
            self.state().pending.iter().map(|pending| (pending.as_create(), pending.judge.clone())).collect();
        for (create, judge) in waiting {
            let Some(id) = create.id.clone() else { continue };
            let rules = self.inner.options.rules.configured(&create.session_id, create.agent.as_ref());
            let Ok((configured, saved)) = tokio::try_join!(rules, self.saved_rules()) else { continue };
            let (_, evaluation) = self.evaluate(&create, judge.as_deref(), &configured, &saved).await;
            if evaluation.effect == Effect::Allow {
                for pending in self.take(|request| request.id == id) {
                    self.resolve(pending, Reply::Always, Verdict::Allowed);
                }
            }
        }
    }

    /// Takes requests out of the queue; whoever takes one resolves it.
    fn take(&self, wanted: impl Fn(&PermissionRequest) -> bool) -> Vec<Pending> {
        let mut state = self.state();
        let (taken, kept) = std::mem::take(&mut state.pending).into_iter().partition(|one| wanted(&one.request));
        state.pending = kept;
        taken
    }

    /// Publishes the reply, then lets the waiter go on.
    fn resolve(&self, pending: Pending, reply: Reply, verdict: Verdict) {
        let Pending { request, waiter, agent: _, judge: _ } = pending;
        let event = PermissionReplied { session_id: request.session_id, request_id: request.id, reply };
        (self.inner.options.publish)(event.into());
        if let Some(waiter) = waiter {
            // A waiter that is gone needs no verdict.
            drop(waiter.send(verdict));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn as_create(&self) -> Create {
        let request = self.request.clone();
        Create {
            id: Some(request.id),
            session_id: request.session_id,
            action: request.action,
            resources: request.resources,
            save: request.save,
            metadata: request.metadata,
            source: request.source,
            agent: self.agent.clone(),
        }
    }
}

fn is(request: &PermissionRequest, session: &SessionId, id: &PermissionId) -> bool {
    request.id == *id && request.session_id == *session
}

enum Submitted {
    Allowed(PermissionId),
    Denied { id: PermissionId, rules: Vec<Rule>, reason: Option<String> },
    Closed(PermissionId),
    Waits { id: PermissionId, verdict: Option<oneshot::Receiver<Verdict>> },
}

/// A call that waits; leaving the wait for any reason takes the request out of the queue.
struct Waiting<'s> {
    service: &'s PermissionService,
    id: PermissionId,
    verdict: Option<oneshot::Receiver<Verdict>>,
}

impl Waiting<'_> {
    async fn verdict(mut self) -> Verdict {
        match self.verdict.as_mut() {
            Some(receiver) => receiver.await.unwrap_or(Verdict::Withdrawn),
            None => Verdict::Withdrawn,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for pending in self.service.take(|request| request.id == self.id) {
            self.service.resolve(pending, Reply::Reject, Verdict::Withdrawn);
        }
    }
}
