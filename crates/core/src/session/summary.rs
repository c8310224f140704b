//! Making a summary: the driver of a compaction (spec/session.md 7.7).

use std::sync::Arc;

use abide_ai::schema::options::GenerationOptions;
use abide_ai::{AIError, LLMEvent, LLMRequest, Message as ModelMessage, RequestInput, SystemPart};
use abide_schema::agent::AgentInfo;
use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::{CompactionEnded, CompactionFailed, CompactionReason, CompactionStarted};
use abide_schema::live::CompactionDelta;
use abide_schema::message::Message;
use abide_schema::model::Tokens;
use abide_schema::project::MessageRow;
use abide_schema::{AgentId, MessageId};
use futures_util::StreamExt as _;

use crate::fault;
use crate::session::compaction::{self, Split};
use crate::session::drain::{Drain, DrainError, cache_key};
use crate::session::place::ResolvedModel;
use crate::session::{errors, retry, usage};
use crate::store::{Durability, Hook, MessageQuery, Order};

/// How a compaction ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Compacted {
    /// The checkpoint is in force.
    Done,
    /// Cancelled.
    Interrupted,
    /// The old boundary stays.
    Failed(SessionError),
}

/// How often the part to summarise is halved when the model's context is too small for it.
const MAX_HALVINGS: usize = 4;

enum Answer {
    Text(String),
    /// The request does not fit into the model's context.
    TooLong(SessionError),
    Interrupted,
    Failed(SessionError),
}

/// Usage over all requests of a compaction.
#[derive(Default)]
struct Spent {
    tokens: Option<Tokens>,
    cost: f64,
}

impl Drain {
    /// Summarises the head of the active history into a checkpoint.
    pub(super) async fn compact(
        &mut self,
        reason: CompactionReason,
        agent: &Arc<AgentInfo>,
        model: &ResolvedModel,
    ) -> Result<Compacted, DrainError> {
        let message = self.world().message_id();
        let asked = self.newest_user().await?;
        let settings = self.place().settings();
        let threshold = model.compaction_threshold(settings.compaction_buffer);
        let keep = compaction::kept(threshold, settings.compaction_keep);
        let split = compaction::split(&self.state().history(), asked.as_ref(), keep);
        let Some(split) = split else {
            let error = SessionError::new(ErrorCode::CompactionUnavailable, "There is nothing to summarise");
            self.compaction_failed(&message, reason, error.clone(), &Spent::default()).await?;
            return Ok(Compacted::Failed(error));
        };
        let started = CompactionStarted {
            timestamp: self.world().now(),
            session_id: self.id().clone(),
            message_id: message.clone(),
            reason,
            recent: Some(split.recent.clone()),
        };
        self.append(vec![started.into()], Vec::new(), Durability::Committed).await?;
        fault::point("compaction.after_started").await?;
        let mut spent = Spent::default();
        match self.summary(&split, &message, agent, model, &mut spent).await {
            Answer::Text(text) => {
                let ended = CompactionEnded {
                    timestamp: self.world().now(),
                    session_id: self.id().clone(),
                    message_id: message.clone(),
                    reason,
                    text,
                    recent: split.recent,
                    model: Some(model.model.clone()),
                    cost: spent.tokens.map(|_| spent.cost),
                    tokens: spent.tokens,
                };
                fault::point("compaction.before_ended").await?;
                self.append(vec![ended.into()], vec![Hook::DropStep { message }], Durability::Synced).await?;
                self.forget_lowered();
                Ok(Compacted::Done)
            }
            Answer::Interrupted => {
                let error = SessionError::new(ErrorCode::CompactionInterrupted, "Compaction interrupted");
                self.compaction_failed(&message, reason, error, &spent).await?;
                Ok(Compacted::Interrupted)
            }
            Answer::TooLong(error) | Answer::Failed(error) => {
                self.compaction_failed(&message, reason, error.clone(), &spent).await?;
                Ok(Compacted::Failed(error))
            }
        }
    }

    async fn compaction_failed(
        &mut self,
        message: &MessageId,
        reason: CompactionReason,
        error: SessionError,
        spent: &Spent,
    ) -> Result<(), DrainError> {
        let failed = CompactionFailed {
            timestamp: self.world().now(),
            session_id: self.id().clone(),
            message_id: message.clone(),
            reason,
            error,
            cost: spent.tokens.map(|_| spent.cost),
            tokens: spent.tokens,
        };
        self.append(vec![failed.into()], vec![Hook::DropStep { message: message.clone() }], Durability::Synced).await
    }

    /// Finds the newest message of the user, which may be older than the latest checkpoint.
    async fn newest_user(&self) -> Result<Option<MessageRow>, DrainError> {
        let is_user = |row: &&MessageRow| matches!(row.message, Message::User(_));
        if let Some(row) = self.state().messages().rev().find(is_user) {
            return Ok(Some(row.clone()));
        }
        let query = MessageQuery { order: Order::Desc, ..MessageQuery::default() };
        let rows = self.store().messages(self.id(), query).await?;
        Ok(rows.into_iter().find(|row| is_user(&row)))
    }

    /// Asks for the summary; what does not fit into the model's context is shortened, in the middle.
    async fn summary(
        &self,
        split: &Split,
        message: &MessageId,
        agent: &Arc<AgentInfo>,
        model: &ResolvedModel,
        spent: &mut Spent,
    ) -> Answer {
        let mut limit = compaction::room(model.context_limit, model.output_limit, split);
        let mut answer = self.summary_of(&split.within(limit), message, agent, model, spent).await;
        for _ in 0..MAX_HALVINGS {
            if !matches!(answer, Answer::TooLong(_)) {
                break;
            }
            limit = limit.min(split.head.len()) / 2;
            answer = self.summary_of(&split.within(limit), message, agent, model, spent).await;
        }
        answer
    }

    /// Asks for the summary, once more when the answer has none of the headings.
    async fn summary_of(
        &self,
        split: &Split,
        message: &MessageId,
        agent: &Arc<AgentInfo>,
        model: &ResolvedModel,
        spent: &mut Spent,
    ) -> Answer {
        let own = self.place().agent(Some(&AgentId::new("compaction"))).ok();
        let system = own
            .and_then(|own| own.system.clone())
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| compaction::SYSTEM.to_owned());
        let mut messages = vec![Arc::new(ModelMessage::user(compaction::prompt(split)))];
        let mut first = None;
        for _ in 0..2 {
            let answer = self.ask(&system, messages.clone(), message, agent, model, spent).await;
            let Answer::Text(text) = answer else { return answer };
            if compaction::has_heading(&text) {
                return Answer::Text(text);
            }
            if !text.trim().is_empty() {
                messages.push(Arc::new(ModelMessage::assistant(text.clone())));
                first.get_or_insert(text);
            }
            messages.push(Arc::new(ModelMessage::user(compaction::REMINDER)));
        }
        // A summary without headings is better than none: the history must shrink.
        first.map_or_else(
            || Answer::Failed(SessionError::new(ErrorCode::CompactionFailed, "The model gave no summary")),
            Answer::Text,
        )
    }

    async fn ask(
        &self,
        system: &str,
        messages: Vec<Arc<ModelMessage>>,
        message: &MessageId,
        _agent: &Arc<AgentInfo>,
        model: &ResolvedModel,
        spent: &mut Spent,
    ) -> Answer {
        let input = RequestInput {
            id: Some(self.id().to_string()),
            system: vec![SystemPart::make(system)],
            messages,
            generation: model
                .output_limit
                .filter(|limit| *limit > 0)
                .map(|limit| GenerationOptions { max_tokens: Some(limit), ..GenerationOptions::default() }),
            http: Some(self.http_options()),
            prompt_cache_key: Some(cache_key(self.id())),
            ..RequestInput::default()
        };
        let request = LLMRequest::make(model.language.clone(), input);
        let settings = self.place().settings();
        let cancel = self.cancel_token();
        let mut attempt = 1u32;
        loop {
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => return Answer::Interrupted,
                result = self.collect(request.clone(), message, model, spent) => result,
            };
            match result {
                Ok(text) => return Answer::Text(text),
                Err(error) if attempt <= settings.max_retries && retry::is_retryable(&error) => {
                    attempt += 1;
                    let wait = retry::delay(settings.retry_base, attempt, error.retry_after(), self.world().random());
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Answer::Interrupted,
                        () = tokio::time::sleep(wait) => {}
                    }
                }
                Err(error) => {
                    let mut failure = errors::session_error(&error);
                    failure.code = Some(ErrorCode::CompactionFailed);
                    return if error.is_context_overflow() {
                        Answer::TooLong(failure)
                    } else {
                        Answer::Failed(failure)
                    };
                }
            }
        }
    }

    async fn collect(
        &self,
        request: LLMRequest,
        message: &MessageId,
        model: &ResolvedModel,
        spent: &mut Spent,
    ) -> Result<String, AIError> {
        let mut stream = self.models().stream(request);
        let mut text = String::new();
        let mut last: Option<abide_ai::Usage> = None;
        while let Some(event) = stream.next().await {
            let event = event?;
            if let Some(usage) = event.usage() {
                last = Some(abide_ai::Usage::replace(last.take(), usage.clone()));
            }
            if let LLMEvent::TextDelta(delta) = event {
                text.push_str(&delta.text);
                self.publish(CompactionDelta {
                    timestamp: self.world().now(),
                    session_id: self.id().clone(),
                    message_id: message.clone(),
                    text: delta.text,
                });
            }
        }
        if let Some(last) = last {
            let tokens = usage::tokens(&last);
            spent.cost += usage::reported_cost(&last).unwrap_or_else(|| usage::cost(&model.prices, &tokens));
            spent.tokens.get_or_insert_default().add(&tokens);
        }
        Ok(text)
    }
}
