//! Moving a session to another directory: a control item of the inbox, applied at a safe boundary
//! (spec/session.md 11.6).

#[cfg(test)]
mod tests;

use abide_schema::error::{ErrorCode, SessionError};
use abide_schema::event::{EventData, InboxCancelled, InboxDelivered, InboxItem, InboxKind, Moved};
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::project::{InputPayload, InputRow};
use abide_schema::prompt::Delivery;
use abide_schema::session::SessionInfo;
use abide_schema::{JsonObject, ProjectId, SessionId};
use serde::{Deserialize, Serialize};

use crate::session::drain::{Drain, DrainEnd, DrainError, place_error};
use crate::session::errors::SessionsError;
use crate::session::place::PlaceError;
use crate::session::sessions::{Sessions, subpath};
use crate::store::{AppendError, Durability};

/// Where a session moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveSession {
    /// The new place.
    pub location: LocationRef,
    /// The project of the new place, when it is not the session's own.
    #[serde(rename = "projectID", default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
}

impl Sessions {
    /// Asks for a move at the next boundary: the session's tools act in another directory from then on. Files are not
    /// carried along. Moving to where the session is does nothing.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`]; [`SessionsError::Place`] for a directory that cannot be opened;
    /// [`SessionsError::Invalid`] for one of another project that is not named.
    ///
    /// # Cancel safety
    /// The request may be admitted.
    pub async fn move_to(&self, session: &SessionId, input: MoveSession) -> Result<(), SessionsError> {
        let info = self.get(session).await?;
        let place = self.engine.places.open(&input.location).await?;
        let location = check(&info, place.info(), input.project_id.as_ref())
            .map_err(|message| SessionsError::Invalid { field: "projectID", message })?;
        if location == info.location {
            return Ok(());
        }
        let payload = match serde_json::to_value(MoveSession { location, ..input }) {
            Ok(serde_json::Value::Object(payload)) => payload,
            Ok(_) | Err(_) => JsonObject::new(),
        };
        let item = InboxItem { kind: InboxKind::Move, payload, delivery: Delivery::Steer };
        self.enqueue(session, item).await?;
        Ok(())
    }
}

/// Where the work of a drain stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Underway {
    /// The number of the next step.
    pub(super) number: u32,
    /// Whether the model must see results.
    pub(super) continuing: bool,
    /// Whether a step is made in any case.
    pub(super) force: bool,
}

impl Underway {
    /// The beginning.
    pub(super) const fn new(force: bool) -> Self {
        Self { number: 1, continuing: false, force }
    }
}

/// Says whether a session may move to a place; returns the place's reference.
fn check(session: &SessionInfo, to: &LocationInfo, named: Option<&ProjectId>) -> Result<LocationRef, String> {
    let (own, other) = (&session.project_id, &to.project.id);
    match named {
        Some(named) if named != other => {
            Err(format!("the directory {} belongs to project {other}, not to {named}", to.directory))
        }
        None if own != other => Err(format!(
            "the directory {} belongs to project {other}, the session to {own}; name the project to move there",
            to.directory
        )),
        Some(_) | None => Ok(to.to_ref()),
    }
}

impl Drain {
    /// Says where the work stands when the session has moved away from this drain's place.
    pub(super) fn moved(&self) -> Option<Underway> {
        let is_elsewhere = self.session().is_some_and(|session| session.location != *self.location());
        is_elsewhere.then_some(self.underway)
    }

    /// Applies a move that is next in line. `None`: it was withdrawn meanwhile, or the session is there already.
    pub(super) async fn apply_move(&mut self, item: &InputRow) -> Result<Option<DrainEnd>, DrainError> {
        let (timestamp, session_id) = (self.world().now(), self.id().clone());
        let inbox_id = item.id.clone();
        let moved = match self.destination(item).await {
            Ok(moved) => moved,
            Err(error) => {
                // Withdrawn, so that it does not stand in the way for ever.
                let cancelled = InboxCancelled { timestamp, session_id, inbox_id };
                self.settle_item(vec![cancelled.into()]).await?;
                return Ok(Some(DrainEnd::Failed(error)));
            }
        };
        let delivered = InboxDelivered { timestamp, session_id, inbox_id };
        let mut events: Vec<EventData> = vec![delivered.into()];
        events.extend(moved.map(EventData::from));
        self.settle_item(events).await?;
        Ok(None)
    }

    async fn destination(&self, item: &InputRow) -> Result<Option<Moved>, SessionError> {
        let failed = |message: String| SessionError::new(ErrorCode::Unknown, message);
        let InputPayload::Item { payload } = &item.payload else {
            return Err(failed("The request to move is damaged".to_owned()));
        };
        let input: MoveSession = serde_json::from_value(payload.clone().into())
            .map_err(|error| failed(format!("The request to move is damaged: {error}")))?;
        let session = self.session().cloned().ok_or_else(|| failed("The session was deleted".to_owned()))?;
        let place = self.open(&input.location).await.map_err(|error| place_error(&error))?;
        let info = place.info();
        let location = check(&session, info, input.project_id.as_ref()).map_err(failed)?;
        if location == session.location {
            return Ok(None);
        }
        Ok(Some(Moved {
            timestamp: self.world().now(),
            session_id: session.id,
            location,
            subdirectory: subpath(&info.project.directory, &info.directory),
            project_id: (info.project.id != session.project_id).then(|| info.project.id.clone()),
        }))
    }

    async fn open(
        &self,
        location: &LocationRef,
    ) -> Result<std::sync::Arc<dyn crate::session::place::Place>, PlaceError> {
        self.engine().places.open(location).await
    }

    /// Appends what becomes of a control item; somebody who withdrew it first wins.
    async fn settle_item(&mut self, events: Vec<EventData>) -> Result<(), DrainError> {
        match self.append(events, Vec::new(), Durability::Synced).await {
            Err(DrainError::Append(AppendError::InputLifecycleConflict { .. })) => Ok(()),
            other => other,
        }
    }
}
