//! Several processes on one store: a wake or an interrupt for a session that another process executes reaches its
//! owner, and whoever waits for such a session sees its end (spec/session.md 12.2).

use std::sync::Arc;
use std::time::Duration;

use abide_schema::SessionId;
use abide_schema::event::EventData;
use tokio_util::sync::CancellationToken;

use crate::session::drain::DrainEnd;
use crate::session::engine::{Ask, Engine};
use crate::store::{SeqRange, Signal, StoreError, View};

/// How often a wait for a session elsewhere looks whether its owner lives: a dead one says nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long an interrupt waits for the owner elsewhere to settle.
const INTERRUPT_WAIT: Duration = Duration::from_secs(15);

impl Engine {
    /// Says whether another living process executes a session.
    pub(crate) async fn is_elsewhere(&self, id: &SessionId) -> Result<bool, StoreError> {
        let owner = self.store.lease(id).await?.and_then(|lease| lease.owner);
        match owner {
            Some(owner) if owner != self.store.owner() => self.store.is_alive(&owner).await,
            Some(_) | None => Ok(false),
        }
    }

    /// Waits until no process executes a session. Never starts an execution. Returns how the last one ended, when one
    /// was waited for.
    pub(crate) async fn wait_settled(&self, id: &SessionId) -> Option<DrainEnd> {
        let mut last = None;
        loop {
            last = self.wait_idle(id).await.or(last);
            let mut watch = self.store.watch(id);
            match self.is_elsewhere(id).await {
                Ok(true) => {}
                Ok(false) if self.is_active(id) => continue,
                Ok(false) => return last,
                Err(error) => {
                    tracing::error!(session.id = %id, %error, "the owner of the session cannot be looked up");
                    return last;
                }
            }
            // A dead owner writes nothing any more.
            let _moved = tokio::time::timeout(LOOK_INTERVAL, watch.changed()).await;
            last = self.recorded_end(id).await.or(last);
        }
    }

    /// Returns how the last recorded execution ended.
    async fn recorded_end(&self, id: &SessionId) -> Option<DrainEnd> {
        let head = self.store.head(id).await.ok()??;
        let range = SeqRange { after: head.seq.0.checked_sub(8).map(abide_schema::Seq), through: None };
        let page = self.store.read(id, range, View::Log, 16).await.ok()?;
        page.events.iter().rev().find_map(|event| match &event.data {
            EventData::ExecutionSucceeded(_) => Some(DrainEnd::Complete),
            EventData::ExecutionFailed(failed) => Some(DrainEnd::Failed(failed.error.clone())),
            EventData::ExecutionInterrupted(_) => Some(DrainEnd::Interrupted),
            _ => None,
        })
    }

    /// Interrupts a session that another process executes; returns when it is settled, or after a bound. False when
    /// nobody executes it.
    pub(crate) async fn interrupt_elsewhere(&self, id: &SessionId) -> Result<bool, StoreError> {
        if !self.is_elsewhere(id).await? {
            return Ok(false);
        }
        self.store.signal(id, Signal::Interrupt).await?;
        if tokio::time::timeout(INTERRUPT_WAIT, self.wait_settled(id)).await.is_err() {
            tracing::warn!(session.id = %id, "the session has not settled yet where it is executed");
        }
        Ok(true)
    }

    /// Tells the owner elsewhere that there is work. True when there is no owner any more and this process should try
    /// again. An owner that lets go in the same moment looks once more after it did ([`Engine::look_again`]); one that
    /// dies is noticed by [`Engine::attend`].
    pub(crate) async fn wake_elsewhere(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.store.signal(id, Signal::Wake).await?;
        if !self.is_elsewhere(id).await? {
            return Ok(true);
        }
        self.told().insert(id.clone());
        Ok(false)
    }

    /// After an execution: rings again when another process left work after the last look at the inputs.
    pub(crate) async fn look_again(self: &Arc<Self>, id: &SessionId) -> Result<(), StoreError> {
        let lease = self.store.lease(id).await?;
        let is_owed = lease.is_some_and(|lease| lease.owner.is_none() && lease.wake_seq > lease.done_seq);
        if is_owed && !self.store.pending_inputs(id).await?.is_empty() {
            self.ask(id, Ask::WAKE);
        }
        Ok(())
    }

    /// Listens for other processes until `token` is cancelled: their interrupts and wakes of sessions that this
    /// process executes, and the death of one that this process left work to.
    pub(crate) async fn attend(self: &Arc<Self>, token: CancellationToken) {
        let mut bell = self.store.doorbell();
        loop {
            tokio::select! {
                biased;
                () = token.cancelled() => return,
                rung = bell.rung() => if !rung { return },
                // A death rings no bell, and what this process leaves to another rings none here.
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
            for id in self.active() {
                if let Err(error) = self.answer(&id).await {
                    tracing::error!(session.id = %id, %error, "a signal of another process cannot be read");
                }
            }
            let told: Vec<SessionId> = self.told().iter().cloned().collect();
            for id in told {
                match self.is_elsewhere(&id).await {
                    Ok(true) => {}
                    Ok(false) => {
                        self.told().remove(&id);
                        if let Err(error) = self.recover(Some(&id)).await {
                            tracing::error!(session.id = %id, %error, "what another process left cannot be taken over");
                        }
                    }
                    Err(error) => {
                        tracing::error!(session.id = %id, %error, "the owner of the session cannot be looked up");
                    }
                }
            }
        }
    }

    async fn answer(self: &Arc<Self>, id: &SessionId) -> Result<(), StoreError> {
        let Some(lease) = self.store.lease(id).await? else { return Ok(()) };
        if lease.owner.as_ref() != Some(&self.store.owner()) {
            return Ok(());
        }
        if lease.interrupt_seq.is_some() {
            // The cleanup goes on beside other signals.
            let (engine, id) = (self.clone(), id.clone());
            drop(self.world.spawn(async move { engine.interrupt(&id).await }));
        } else if lease.wake_seq > lease.done_seq && !self.store.pending_inputs(id).await?.is_empty() {
            self.ask(id, Ask::WAKE);
        }
        Ok(())
    }
}
