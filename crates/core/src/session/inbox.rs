//! What waits in a session's inbox: looking, taking back, changing when it joins, and admitting what is no prompt
//! (spec/session.md 6.2).

#[cfg(test)]
mod tests;

use abide_schema::event::{EventData, InboxCancelled, InboxDeliveryChanged, InboxEnqueued, InboxItem};
use abide_schema::project::InputRow;
use abide_schema::prompt::Delivery;
use abide_schema::{MessageId, SessionId};

use crate::session::engine::{Ask, Engine};
use crate::session::errors::SessionsError;
use crate::session::revert;
use crate::session::sessions::{MAX_TRIES, Sessions};
use crate::store::{AppendError, Hook};

impl Sessions {
    /// Lists what is admitted and has not taken effect, in order of admission.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn inbox(&self, session: &SessionId) -> Result<Vec<InputRow>, SessionsError> {
        self.get(session).await?;
        Ok(self.engine.store.pending_inputs(session).await?)
    }

    /// Takes a pending input back; false when it is unknown, or has taken effect already. Wakes nothing.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`].
    ///
    /// # Cancel safety
    /// The input may be taken back.
    pub async fn cancel_input(&self, session: &SessionId, input: &MessageId) -> Result<bool, SessionsError> {
        let info = self.get(session).await?;
        if self.pending_input(session, input).await?.is_none() {
            return Ok(false);
        }
        let cancelled =
            InboxCancelled { timestamp: self.engine.world.now(), session_id: session.clone(), inbox_id: input.clone() };
        self.changed(Engine::batch(session, &info.location, vec![cancelled.into()])).await
    }

    /// Changes when a pending input joins; false when nothing changes: it joins so already, or has taken effect.
    /// Changing to steer wakes the session.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`]; [`SessionsError::MessageNotFound`] for an input that the session never had.
    ///
    /// # Cancel safety
    /// The delivery may have changed.
    pub async fn change_delivery(
        &self,
        session: &SessionId,
        input: &MessageId,
        delivery: Delivery,
    ) -> Result<bool, SessionsError> {
        let info = self.get(session).await?;
        let known = self.engine.store.input(input).await?.filter(|row| row.session_id == *session);
        let row =
            known.ok_or_else(|| SessionsError::MessageNotFound { session: session.clone(), message: input.clone() })?;
        if !row.is_pending() || row.delivery == delivery {
            return Ok(false);
        }
        let changed = InboxDeliveryChanged {
            timestamp: self.engine.world.now(),
            session_id: session.clone(),
            inbox_id: input.clone(),
            delivery,
        };
        let mut batch = Engine::batch(session, &info.location, vec![changed.into()]);
        if delivery == Delivery::Steer {
            batch.hooks.push(Hook::SetWake);
        }
        let is_changed = self.changed(batch).await?;
        if is_changed && delivery == Delivery::Steer {
            self.engine.ask(session, Ask::WAKE);
        }
        Ok(is_changed)
    }

    async fn pending_input(&self, session: &SessionId, input: &MessageId) -> Result<Option<InputRow>, SessionsError> {
        let row = self.engine.store.input(input).await?;
        Ok(row.filter(|row| row.session_id == *session && row.is_pending()))
    }

    /// Appends a change of an input; false when the input took effect first.
    async fn changed(&self, batch: crate::store::Batch) -> Result<bool, SessionsError> {
        match self.engine.store.append(batch).await {
            Ok(_) => Ok(true),
            Err(AppendError::InputLifecycleConflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Admits an input that is no prompt, and wakes the session. A staged revert becomes final with it.
    pub(super) async fn enqueue(&self, session: &SessionId, item: InboxItem) -> Result<MessageId, SessionsError> {
        self.engine.after_exclusive(session).await;
        revert::settle(&self.engine, Some(session)).await?;
        let id = self.engine.world.message_id();
        let mut tries = 0;
        loop {
            let enqueued: EventData = InboxEnqueued {
                timestamp: self.engine.world.now(),
                session_id: session.clone(),
                inbox_id: id.clone(),
                item: item.clone(),
            }
            .into();
            let mut batch = self.admission(session, enqueued).await?;
            batch.hooks.push(Hook::SetWake);
            tries += 1;
            match self.engine.store.append(batch).await {
                Ok(_) => break,
                Err(AppendError::GuardFailed) if tries < MAX_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.engine.ask(session, Ask::WAKE);
        Ok(id)
    }
}
