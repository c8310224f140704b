//! The public face of the engine: create, prompt, wait, interrupt, switch, compact, recover.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use abide_schema::event::{
    AgentSwitched, CompactionReason, EventData, InboxItem, InboxKind, ModelSwitched, PromptAdmitted, Renamed,
    SessionCreated, SessionDeleted,
};
use abide_schema::location::LocationRef;
use abide_schema::message::Message;
use abide_schema::model::ModelRef;
use abide_schema::permission::Rule;
use abide_schema::project::{InputPayload, InputRow, MessageRow};
use abide_schema::prompt::{AgentAttachment, Delivery};
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{AgentId, JsonObject, MessageId, Seq, SessionId, json};

use crate::session::drain::DrainEnd;
use crate::session::engine::{Ask, Engine, EngineOptions};
use crate::session::errors::SessionsError;
use crate::session::jobs::EngineNotices;
use crate::session::place::{ModelClient, PlaceError, Places};
use crate::session::prompt::{FileInput, prepared_prompt};
use crate::session::recovery::{EffectRecovery, Recovered};
use crate::session::revert;
use crate::session::state::SessionState;
use crate::store::{AppendError, Batch, Expect, Guard, Hook, Store, StoreError};
use crate::world::World;
use tokio_util::sync::CancellationToken;

/// How often an admission looks again when somebody else changed the session meanwhile.
pub(super) const MAX_TRIES: u32 = 8;

/// What the engine is made of.
pub struct SessionsParts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Clock, ids, randomness.
    pub world: World,
    /// Directories.
    pub places: Arc<dyn Places>,
    /// Models.
    pub models: Arc<dyn ModelClient>,
    /// What interrupted calls did.
    pub effects: Arc<dyn EffectRecovery>,
    /// Settings.
    pub options: EngineOptions,
}

/// A session to create.
#[derive(Clone, Debug, Default)]
pub struct CreateSession {
    /// Its id; a known one returns the recorded session.
    pub id: Option<SessionId>,
    /// Its agent.
    pub agent: Option<AgentId>,
    /// Its model.
    pub model: Option<ModelRef>,
    /// Where its tools act.
    pub location: Option<LocationRef>,
    /// Its parent.
    pub parent_id: Option<SessionId>,
    /// Its title.
    pub title: Option<String>,
    /// Free-form facts.
    pub metadata: Option<JsonObject>,
    /// Own rules.
    pub permissions: Option<Vec<Rule>>,
}

/// A prompt to admit.
#[derive(Clone, Debug, Default)]
pub struct PromptSession {
    /// Its id; the same id with the same content returns the first receipt.
    pub id: Option<MessageId>,
    /// The text.
    pub text: String,
    /// Attached files.
    pub files: Option<Vec<FileInput>>,
    /// Mentioned agents.
    pub agents: Option<Vec<AgentAttachment>>,
    /// When it joins.
    pub delivery: Delivery,
    /// Whether the session runs; absent means yes.
    pub resume: Option<bool>,
    /// Free-form facts.
    pub metadata: Option<JsonObject>,
}

/// All sessions of a process. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    pub(super) engine: Arc<Engine>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

impl Sessions {
    /// Makes the engine. Nothing runs until a prompt, a wake or [`Sessions::recover`].
    pub fn new(parts: SessionsParts) -> Self {
        let SessionsParts { store, world, places, models, effects, options } = parts;
        let engine = Arc::new(Engine::new(store, world, places, models, effects, options));
        engine.jobs.notify(Arc::new(EngineNotices(Arc::downgrade(&engine))));
        Self { engine }
    }

    pub(crate) const fn of(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub(crate) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.engine.store
    }

    /// Creates a session, or returns the recorded one with that id.
    ///
    /// # Errors
    /// [`SessionsError::Place`] when the directory cannot be opened, [`SessionsError::NotFound`] for an unknown
    /// parent, [`SessionsError::Invalid`] without a location.
    ///
    /// # Cancel safety
    /// The session may exist afterwards; creating it again with the same id is harmless.
    pub async fn create(&self, input: CreateSession) -> Result<SessionInfo, SessionsError> {
        let id = input.id.unwrap_or_else(|| self.engine.world.session_id());
        if let Some(known) = self.engine.store.session(&id).await? {
            return Ok(known);
        }
        let mut location = input.location;
        if let Some(parent) = &input.parent_id {
            location = Some(self.get(parent).await?.location);
        }
        let location = location.ok_or_else(|| SessionsError::Invalid {
            field: "location",
            message: "a session needs a location; give a directory".to_owned(),
        })?;
        let place = self.engine.places.open(&location).await?;
        let info = place.info();
        let location = info.to_ref();
        let now = self.engine.world.now();
        let created = SessionCreated {
            timestamp: now,
            session_id: id.clone(),
            project_id: info.project.id.clone(),
            subpath: subpath(&info.project.directory, &info.directory),
            location: location.clone(),
            slug: slug(&id),
            title: input.title.unwrap_or_else(|| SessionInfo::default_title(now)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parent_id: input.parent_id,
            agent: input.agent,
            model: input.model,
            metadata: input.metadata,
            permissions: input.permissions,
        };
        let mut batch = Engine::batch(&id, &location, vec![created.into()]);
        batch.expect = Expect::Empty;
        match self.engine.store.append(batch).await {
            // The clock that times the commit is the store's: the recorded row is the answer.
            Ok(_) => self.get(&id).await,
            Err(AppendError::SessionAlreadyProjected(_) | AppendError::SequenceConflict { .. }) => self
                .engine
                .store
                .session(&id)
                .await?
                .ok_or_else(|| SessionsError::Conflict { resource: id.to_string() }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a session.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn get(&self, id: &SessionId) -> Result<SessionInfo, SessionsError> {
        self.engine.store.session(id).await?.ok_or_else(|| SessionsError::NotFound(id.clone()))
    }

    /// Admits a prompt durably and, unless told otherwise, wakes the session.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`]; [`SessionsError::Conflict`] when the id was used for something else.
    ///
    /// # Cancel safety
    /// The prompt may be admitted afterwards; admitting it again with the same id returns its receipt.
    pub async fn prompt(&self, session: &SessionId, input: PromptSession) -> Result<Admitted, SessionsError> {
        self.get(session).await?;
        self.engine.after_exclusive(session).await;
        revert::settle(&self.engine, Some(session)).await?;
        let id = input.id.clone().unwrap_or_else(|| self.engine.world.message_id());
        let hash = input_hash(&input);
        let PromptSession { id: _, text, files, agents, delivery, resume, metadata } = input;
        let prompt = prepared_prompt(text, files, agents);
        let mut tries = 0;
        loop {
            if let Some(receipt) = self.known_receipt(session, &id, &hash, delivery).await? {
                self.resume(session, resume);
                return Ok(receipt);
            }
            let admitted = PromptAdmitted {
                timestamp: self.engine.world.now(),
                session_id: session.clone(),
                message_id: id.clone(),
                prompt: prompt.clone(),
                delivery,
                metadata: metadata.clone(),
            };
            let mut batch = self.admission(session, admitted.into()).await?;
            if let Some(item) = batch.items.last_mut() {
                item.metadata = Some(JsonObject::from_iter([("inputHash".to_owned(), hash.clone().into())]));
            }
            if resume != Some(false) {
                batch.hooks.push(Hook::SetWake);
            }
            tries += 1;
            match self.engine.store.append(batch).await {
                Ok(_) => break,
                // Somebody admitted the same id, or staged or took back a revert meanwhile: look again.
                Err(AppendError::InputLifecycleConflict { .. } | AppendError::GuardFailed) if tries < MAX_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        crate::fault::point("admit.after_append").await.map_err(|fault| StoreError::Other(fault.to_string()))?;
        self.resume(session, resume);
        let row = self.engine.store.input(&id).await?;
        row.and_then(receipt).ok_or_else(|| SessionsError::Conflict { resource: id.to_string() })
    }

    /// Returns the batch that admits an input; a staged revert becomes final with it.
    pub(super) async fn admission(&self, session: &SessionId, event: EventData) -> Result<Batch, SessionsError> {
        let info = self.get(session).await?;
        let Some(staged) = &info.revert else {
            let mut batch = Engine::batch(session, &info.location, vec![event]);
            batch.guard = Some(Guard::RevertIs(None));
            return Ok(batch);
        };
        let mut batch =
            Engine::batch(session, &info.location, vec![revert::committed(&self.engine, session, staged), event]);
        batch.guard = Some(Guard::RevertIs(Some(staged.message_id.clone())));
        batch.hooks = vec![Hook::DropReverts];
        Ok(batch)
    }

    fn resume(&self, session: &SessionId, resume: Option<bool>) {
        if resume != Some(false) {
            self.engine.ask(session, Ask::WAKE);
        }
    }

    /// Returns the receipt of an exact retry; a conflict for any other use of the id.
    async fn known_receipt(
        &self,
        session: &SessionId,
        id: &MessageId,
        hash: &str,
        delivery: Delivery,
    ) -> Result<Option<Admitted>, SessionsError> {
        let conflict = || SessionsError::Conflict { resource: id.to_string() };
        if let Some(row) = self.engine.store.input(id).await? {
            let same = row.session_id == *session
                && row.kind == InboxKind::User
                && row.delivery == delivery
                && row.input_hash.as_deref() == Some(hash);
            return if same { Ok(receipt(row)) } else { Err(conflict()) };
        }
        if self.engine.store.message(id).await?.is_some() {
            return Err(conflict());
        }
        Ok(None)
    }

    /// Wakes a session: it runs what is pending.
    pub fn wake(&self, session: &SessionId) {
        self.engine.ask(session, Ask::WAKE);
    }

    /// Starts or joins an execution: at least one model step; returns how it ended.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the execution.
    pub async fn run(&self, session: &SessionId) -> Result<Option<DrainEnd>, SessionsError> {
        self.get(session).await?;
        self.engine.ask(session, Ask::RUN);
        Ok(self.engine.wait_settled(session).await)
    }

    /// Waits until the session is idle; never starts work. Returns how the last execution ended, if one was waited for.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self, session: &SessionId) -> Result<Option<DrainEnd>, SessionsError> {
        self.get(session).await?;
        Ok(self.engine.wait_settled(session).await)
    }

    /// Stops the running execution and returns when it is settled; false when there was none here.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// The execution is stopped even if the future is dropped after its first poll.
    pub async fn interrupt(&self, session: &SessionId) -> Result<bool, SessionsError> {
        self.get(session).await?;
        Ok(self.engine.interrupt(session).await || self.engine.interrupt_elsewhere(session).await?)
    }

    /// Lists the sessions that this process executes.
    pub fn active(&self) -> Vec<SessionId> {
        self.engine.active()
    }

    /// Switches the agent from the next step on.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`], [`SessionsError::UnknownAgent`], [`SessionsError::Invalid`] for an empty name.
    ///
    /// # Cancel safety
    /// The switch may have happened.
    pub async fn switch_agent(&self, session: &SessionId, agent: AgentId) -> Result<(), SessionsError> {
        let info = self.get(session).await?;
        if agent.as_str().is_empty() {
            return Err(SessionsError::Invalid { field: "agent", message: "the name of an agent is empty".to_owned() });
        }
        let place = self.engine.places.open(&info.location).await?;
        if let Err(error) = place.agent(Some(&agent)) {
            return Err(match error {
                PlaceError::UnknownAgent { agent, known } => SessionsError::UnknownAgent { agent, known },
                other => other.into(),
            });
        }
        let switched = AgentSwitched {
            timestamp: self.engine.world.now(),
            session_id: session.clone(),
            message_id: self.engine.world.message_id(),
            agent,
            previous: info.agent,
        };
        self.engine.store.append(Engine::batch(session, &info.location, vec![switched.into()])).await?;
        Ok(())
    }

    /// Switches the model from the next step on; silent when nothing changes.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// The switch may have happened.
    pub async fn switch_model(&self, session: &SessionId, model: ModelRef) -> Result<(), SessionsError> {
        let info = self.get(session).await?;
        if info.model.as_ref().is_some_and(|known| known.same(&model)) {
            return Ok(());
        }
        let switched = ModelSwitched {
            timestamp: self.engine.world.now(),
            session_id: session.clone(),
            message_id: self.engine.world.message_id(),
            model,
            previous: info.model,
        };
        self.engine.store.append(Engine::batch(session, &info.location, vec![switched.into()])).await?;
        Ok(())
    }

    /// Asks for a compaction at the next boundary; a second request joins the pending one.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// The request may be admitted.
    pub async fn compact(&self, session: &SessionId) -> Result<(), SessionsError> {
        self.get(session).await?;
        let pending = self.engine.store.pending_inputs(session).await?;
        if pending.iter().any(|row| row.kind == InboxKind::Compaction) {
            self.engine.ask(session, Ask::WAKE);
            return Ok(());
        }
        let reason = serde_json::to_value(CompactionReason::Manual).unwrap_or_default();
        let item = InboxItem {
            kind: InboxKind::Compaction,
            payload: JsonObject::from_iter([("reason".to_owned(), reason)]),
            delivery: Delivery::Steer,
        };
        match self.enqueue(session, item).await {
            // Somebody asked meanwhile.
            Ok(_) | Err(SessionsError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes the title.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// The title may have changed.
    pub async fn rename(&self, session: &SessionId, title: String) -> Result<(), SessionsError> {
        let info = self.get(session).await?;
        let renamed = Renamed { timestamp: self.engine.world.now(), session_id: session.clone(), title };
        self.engine.store.append(Engine::batch(session, &info.location, vec![renamed.into()])).await?;
        Ok(())
    }

    /// Deletes a session and its children. A running one is interrupted first.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Some of the sessions may be deleted.
    pub async fn delete(&self, session: &SessionId) -> Result<(), SessionsError> {
        let info = self.get(session).await?;
        let mut order = vec![(session.clone(), info.location)];
        let mut index = 0;
        while let Some((id, _)) = order.get(index).cloned() {
            for child in self.engine.store.children(&id).await? {
                let location = self.get(&child).await?.location;
                order.push((child, location));
            }
            index += 1;
        }
        for (id, location) in order.into_iter().rev() {
            self.engine.jobs.cancel_all(&id);
            if !self.engine.interrupt(&id).await {
                self.engine.interrupt_elsewhere(&id).await?;
            }
            let deleted = SessionDeleted { timestamp: self.engine.world.now(), session_id: id.clone() };
            self.engine.store.append(Engine::batch(&id, &location, vec![deleted.into()])).await?;
        }
        Ok(())
    }

    /// Returns the active history: what the next request is made of.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn context(&self, session: &SessionId) -> Result<Vec<MessageRow>, SessionsError> {
        let state = SessionState::load(&*self.engine.store, session)
            .await?
            .ok_or_else(|| SessionsError::NotFound(session.clone()))?;
        Ok(state.history().into_iter().cloned().collect())
    }

    /// Returns one message of a session.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`], [`SessionsError::MessageNotFound`] also for a message of another session.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn message(&self, session: &SessionId, message: &MessageId) -> Result<Message, SessionsError> {
        self.get(session).await?;
        self.engine
            .store
            .message(message)
            .await?
            .filter(|row| row.session_id == *session)
            .map(|row| row.message)
            .ok_or_else(|| SessionsError::MessageNotFound { session: session.clone(), message: message.clone() })
    }

    /// Settles and resumes what dead processes left, and wakes sessions that are owed work. With `only`, that session
    /// alone.
    ///
    /// # Errors
    /// As the store fails.
    ///
    /// # Cancel safety
    /// Cancel safe: recovery is idempotent.
    pub async fn recover(&self, only: Option<&SessionId>) -> Result<Vec<Recovered>, SessionsError> {
        Ok(self.engine.recover(only).await?)
    }

    /// Says what [`Sessions::recover`] would do.
    ///
    /// # Errors
    /// As the store fails.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn explain_recovery(&self) -> Result<Vec<Recovered>, SessionsError> {
        Ok(self.engine.explain_recovery().await?)
    }

    /// Listens for other processes on the same store until `token` is cancelled: their interrupts and wakes reach the
    /// sessions that this process executes, and work that was left to a process that died is taken over.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn attend(&self, token: CancellationToken) {
        self.engine.attend(token).await;
    }

    /// Sends to the background what calls of the session wait for; returns how many jobs that are.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`]; as the store fails.
    ///
    /// # Cancel safety
    /// Some may be in the background.
    pub async fn background(&self, session: &SessionId) -> Result<usize, SessionsError> {
        self.get(session).await?;
        Ok(self.engine.jobs.background_all(session).await?)
    }

    /// Says whether this process executes the session.
    pub fn is_active(&self, session: &SessionId) -> bool {
        self.engine.is_active(session)
    }

    /// Stops everything for a restart: executions are settled, their leases stay, the next start resumes them.
    ///
    /// # Cancel safety
    /// What is not settled in time is settled by recovery.
    pub async fn shutdown(&self, deadline: Duration) {
        self.engine.shutdown(deadline).await;
    }
}

fn receipt(row: InputRow) -> Option<Admitted> {
    let InputPayload::Prompt { prompt } = row.payload else { return None };
    Some(Admitted {
        admitted_seq: row.admitted_contract_seq.unwrap_or(Seq(0)),
        id: row.id,
        session_id: row.session_id,
        prompt,
        delivery: row.delivery,
        time_created: row.time_created,
        promoted_seq: row.promoted_contract_seq,
    })
}

/// Hashes the raw request, so that a retry is recognised without preparing it again.
fn input_hash(input: &PromptSession) -> String {
    json::hash(&serde_json::json!({
        "text": input.text,
        "files": input.files,
        "agents": input.agents,
        "delivery": input.delivery,
        "metadata": input.metadata,
    }))
}

pub(super) fn subpath(project: &str, directory: &str) -> Option<String> {
    if project == "/" {
        return None;
    }
    let rest = directory.strip_prefix(project)?.strip_prefix('/')?;
    (!rest.is_empty()).then(|| rest.to_owned())
}

pub(super) fn slug(id: &SessionId) -> String {
    let text = id.as_str();
    let tail: String = text.chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect();
    format!("session-{}", tail.to_ascii_lowercase())
}
