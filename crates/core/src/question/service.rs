//! The service of one location.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide_schema::live::{QuestionAsked, QuestionRejected, QuestionReplied};
use abide_schema::question::{Answer, QuestionInfo, QuestionRequest, QuestionTool};
use abide_schema::{QuestionId, SessionId};
use tokio::sync::oneshot;

use crate::permission::Publish;
use crate::tool::leaf::ToolContext;
use crate::tool::outcome::ToolFailure;
use crate::tool::scope::CallScope;
use crate::world::World;

/// The most requests that may wait in one location: a person answers them one by one.
const MAX_PENDING: usize = 1000;

/// Proof that a question was dismissed. Only this module can make one.
#[derive(Debug)]
pub struct Dismissed(());

/// What a leaf can learn from asking besides the answers. A dismissal is not among it: that call never returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The questions cannot be shown.
    #[error("{0}")]
    Invalid(String),
    /// Too many requests wait.
    #[error("{0} questions wait already")]
    TooMany(usize),
}

impl From<QuestionError> for ToolFailure {
    fn from(error: QuestionError) -> Self {
        Self::new(error.to_string())
    }
}

/// Why a reply was not taken; the request still waits, if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionReplyError {
    /// No such request is pending in this session.
    #[error("no question {0} is pending in this session")]
    NotFound(QuestionId),
    /// The answers do not fit the questions.
    #[error("{0}")]
    Invalid(String),
}

/// What the service is made of.
pub struct QuestionOptions {
    /// Ids.
    pub world: World,
    /// Takes the events.
    pub publish: Publish,
}

/// The questions of one location. Cheap to clone.
#[derive(Clone)]
pub struct QuestionService {
    inner: Arc<Inner>,
}

struct Inner {
    options: QuestionOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In creation order.
    pending: Vec<Pending>,
    closed: bool,
}

struct Pending {
    request: QuestionRequest,
    waiter: oneshot::Sender<Verdict>,
}

enum Verdict {
    Answered(Vec<Answer>),
    Dismissed(Dismissed),
    Withdrawn,
}

impl std::fmt::Debug for QuestionService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QuestionService")
    }
}

impl QuestionService {
    /// Makes the service of a location.
    pub fn new(options: QuestionOptions) -> Self {
        Self { inner: Arc::new(Inner { options, state: Mutex::default() }) }
    }

    /// Asks the user on behalf of a call and returns one answer per question, in their order. When the user dismisses
    /// the questions it never returns: the call ends.
    ///
    /// # Errors
    /// [`QuestionError`] when the questions cannot be shown.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the questions.
    pub async fn ask(&self, ctx: &ToolContext, questions: Vec<QuestionInfo>) -> Result<Vec<Answer>, QuestionError> {
        debug_assert!(!CallScope::is_in_commit(), "nobody can be asked inside a commit section");
        if CallScope::is_in_commit() {
            return Err(QuestionError::Invalid("the question was asked too late".to_owned()));
        }
        check_questions(&questions)?;
        let request = QuestionRequest {
            id: self.inner.options.world.question_id(),
            session_id: ctx.session_id.clone(),
            questions,
            tool: Some(QuestionTool { message_id: ctx.message_id.clone(), call_id: ctx.id.clone() }),
        };
        let id = request.id.clone();
        let Some(verdict) = self.queue(request)? else { match ctx.scope.decline(Dismissed(()).into()).await {} };
        let waiting = Waiting { service: self, id, verdict };
        match waiting.verdict().await {
            Verdict::Answered(answers) => Ok(answers),
            Verdict::Dismissed(dismissed) => match ctx.scope.decline(dismissed.into()).await {},
            Verdict::Withdrawn => match ctx.scope.interrupted().await {},
        }
    }

    /// Returns waiting questions of a session.
    pub fn get(&self, session: &SessionId, id: &QuestionId) -> Option<QuestionRequest> {
        self.state().pending.iter().map(|pending| &pending.request).find(|request| is(request, session, id)).cloned()
    }

    /// Lists the waiting requests in creation order: of one session, or of all.
    pub fn list(&self, session: Option<&SessionId>) -> Vec<QuestionRequest> {
        let state = self.state();
        let requests = state.pending.iter().map(|pending| &pending.request);
        requests.filter(|request| session.is_none_or(|session| request.session_id == *session)).cloned().collect()
    }

    /// Answers waiting questions with one list of labels per question; missing lists at the end mean no answer.
    ///
    /// # Errors
    /// [`QuestionReplyError::NotFound`] when no such request waits in the session; [`QuestionReplyError::Invalid`]
    /// when an answer is none of the choices and own answers are off, or when there are several and one is wanted. An
    /// invalid reply leaves the request waiting.
    pub fn reply(
        &self,
        session: &SessionId,
        id: &QuestionId,
        mut answers: Vec<Answer>,
    ) -> Result<(), QuestionReplyError> {
        let pending = {
            let mut state = self.state();
            let at = state.pending.iter().position(|pending| is(&pending.request, session, id));
            let at = at.ok_or_else(|| QuestionReplyError::NotFound(id.clone()))?;
            if let Some(pending) = state.pending.get(at) {
                check_answers(&pending.request.questions, &answers)?;
            }
            state.pending.remove(at)
        };
        answers.resize(pending.request.questions.len(), Answer::new());
        let event = QuestionReplied {
            session_id: pending.request.session_id,
            request_id: pending.request.id,
            answers: answers.clone(),
        };
        (self.inner.options.publish)(event.into());
        drop(pending.waiter.send(Verdict::Answered(answers)));
        Ok(())
    }

    /// Dismisses waiting questions: the call ends, and with it the run.
    ///
    /// # Errors
    /// [`QuestionReplyError::NotFound`] when no such request waits in the session.
    pub fn reject(&self, session: &SessionId, id: &QuestionId) -> Result<(), QuestionReplyError> {
        let taken = self.take(|request| is(request, session, id));
        if taken.is_empty() {
            return Err(QuestionReplyError::NotFound(id.clone()));
        }
        for pending in taken {
            self.dismiss(pending, Verdict::Dismissed(Dismissed(())));
        }
        Ok(())
    }

    /// Withdraws the waiting questions of a session that is interrupted: their calls end as interrupted.
    pub fn withdraw(&self, session: &SessionId) {
        for pending in self.take(|request| request.session_id == *session) {
            self.dismiss(pending, Verdict::Withdrawn);
        }
    }

    /// Dismisses everything that waits and all later questions: the location closes.
    pub fn close(&self) {
        self.state().closed = true;
        for pending in self.take(|_| true) {
            self.dismiss(pending, Verdict::Dismissed(Dismissed(())));
        }
    }

    /// Queues a request; `None` when the service is closed.
    fn queue(&self, request: QuestionRequest) -> Result<Option<oneshot::Receiver<Verdict>>, QuestionError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state();
            if state.closed {
                return Ok(None);
            }
            if state.pending.len() >= MAX_PENDING {
                return Err(QuestionError::TooMany(MAX_PENDING));
            }
            state.pending.push(Pending { request: request.clone(), waiter: sender });
        }
        (self.inner.options.publish)(QuestionAsked { request }.into());
        Ok(Some(receiver))
    }

    fn dismiss(&self, pending: Pending, verdict: Verdict) {
        let event = QuestionRejected { session_id: pending.request.session_id, request_id: pending.request.id };
        (self.inner.options.publish)(event.into());
        // A waiter that is gone needs no verdict.
        drop(pending.waiter.send(verdict));
    }

    fn take(&self, wanted: impl Fn(&QuestionRequest) -> bool) -> Vec<Pending> {
        let mut state = self.state();
        let (taken, kept) = std::mem::take(&mut state.pending).into_iter().partition(|one| wanted(&one.request));
        state.pending = kept;
        taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is(request: &QuestionRequest, session: &SessionId, id: &QuestionId) -> bool {
    request.id == *id && request.session_id == *session
}

fn check_questions(questions: &[QuestionInfo]) -> Result<(), QuestionError> {
    if questions.is_empty() {
        return Err(QuestionError::Invalid("there is no question".to_owned()));
    }
    let mute = questions.iter().find(|info| info.options.is_empty() && info.custom == Some(false));
    match mute {
        Some(info) => Err(QuestionError::Invalid(format!("the question {:?} has no possible answer", info.header))),
        None => Ok(()),
    }
}

fn check_answers(questions: &[QuestionInfo], answers: &[Answer]) -> Result<(), QuestionReplyError> {
    if answers.len() > questions.len() {
        return Err(QuestionReplyError::Invalid(format!(
            "expected at most {} answers, one per question, got {}",
            questions.len(),
            answers.len()
        )));
    }
    for (info, answer) in questions.iter().zip(answers) {
        if answer.len() > 1 && info.multiple != Some(true) {
            return Err(QuestionReplyError::Invalid(format!(
                "the question {:?} takes one answer, got {}",
                info.header,
                answer.len()
            )));
        }
        let known = |label: &String| info.options.iter().any(|option| option.label == *label);
        if info.custom == Some(false)
            && let Some(label) = answer.iter().find(|label| !known(label))
        {
            let choices: Vec<&str> = info.options.iter().map(|option| option.label.as_str()).collect();
            return Err(QuestionReplyError::Invalid(format!(
                "{label:?} is no choice of the question {:?}; choices: {}",
                info.header,
                choices.join(", ")
            )));
        }
    }
    Ok(())
}

/// A call that waits; leaving the wait for any reason takes the request out of the queue.
struct Waiting<'s> {
    service: &'s QuestionService,
    id: QuestionId,
    verdict: oneshot::Receiver<Verdict>,
}

impl Waiting<'_> {
    async fn verdict(mut self) -> Verdict {
        (&mut self.verdict).await.unwrap_or(Verdict::Withdrawn)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for pending in self.service.take(|request| request.id == self.id) {
            self.service.dismiss(pending, Verdict::Withdrawn);
        }
    }
}
