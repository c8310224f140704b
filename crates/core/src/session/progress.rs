//! Reports of running tools: live output at once, durable progress through the step.

use std::sync::Arc;

use abide_schema::live::{LiveData, LiveEvent, OutputStream, ToolOutputDelta};
use abide_schema::location::LocationRef;
use abide_schema::tool::Content;
use abide_schema::{CallId, JsonObject, MessageId, SessionId};
use tokio::sync::mpsc;

use crate::store::Store;
use crate::tool::outcome::ProgressSink;
use crate::world::World;

/// A report that the step makes durable.
pub(super) struct Progress {
    pub(super) call: CallId,
    pub(super) structured: JsonObject,
    pub(super) content: Vec<Content>,
}

/// The sink of one call.
pub(super) struct Sink {
    store: Arc<dyn Store>,
    world: World,
    location: LocationRef,
    session: SessionId,
    message: MessageId,
    call: CallId,
    reports: mpsc::Sender<Progress>,
}

impl Sink {
    pub(super) fn new(
        store: Arc<dyn Store>,
        world: World,
        location: LocationRef,
        session: SessionId,
        message: MessageId,
        call: CallId,
        reports: mpsc::Sender<Progress>,
    ) -> Self {
        Self { store, world, location, session, message, call, reports }
    }
}

impl ProgressSink for Sink {
    fn report(&self, structured: JsonObject, content: Option<Vec<Content>>) {
        let report = Progress { call: self.call.clone(), structured, content: content.unwrap_or_default() };
        // A full queue drops the report: progress is a live aid.
        if self.reports.try_send(report).is_err() {
            tracing::trace!(call.id = %self.call, "progress dropped");
        }
    }

    fn output(&self, stream: OutputStream, text: &str) {
        self.store.publish_live(LiveEvent {
            id: self.world.event_id(),
            location: Some(self.location.clone()),
            data: LiveData::ToolOutputDelta(ToolOutputDelta {
                timestamp: self.world.now(),
                session_id: self.session.clone(),
                assistant_message_id: self.message.clone(),
                call_id: self.call.clone(),
                stream,
                delta: text.to_owned(),
            }),
        });
    }
}
