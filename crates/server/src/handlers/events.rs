//! History and streams.

use abide_core::store::{SeqRange, TailItem, View, tail};
use abide_protocol::query::{EventsQuery, HistoryQuery, LogQuery};
use abide_protocol::routes::{EventSubscribe, SessionFollow, SessionHistory, SessionLog};
use abide_protocol::view::{self, EventView, LOG_SYNCED, ViewKind};
use abide_protocol::wire::History;
use abide_schema::Seq;
use axum::response::Response;
use futures_util::StreamExt as _;
use serde_json::json;

use crate::backend::Failure;
use crate::context::{Context, Refusal};
use crate::reply;
use crate::sse::{self, Frames, StreamEnd};

/// The length of a page when none is asked for.
const DEFAULT_LIMIT: u32 = 50;
const LAST_EVENT_ID: &str = "last-event-id";

const fn store_view(view: ViewKind) -> View {
    match view {
        ViewKind::Contract => View::Contract,
        ViewKind::Full => View::Public,
    }
}

pub(super) async fn history(context: &Context) -> Result<Response, Refusal> {
    let query: HistoryQuery = context.query::<SessionHistory>()?;
    let range = SeqRange { after: query.after, through: None };
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let store = context.backend().store();
    let page = store.read(context.session_id()?, range, store_view(query.view), limit).await?;
    let mut data = Vec::with_capacity(page.events.len());
    for event in &page.events {
        data.extend(view::stored(event, query.view).map_err(Failure::internal)?);
    }
    Ok(reply::ok::<SessionHistory>(&History { data, has_more: page.has_more })?)
}

/// Where a stream goes on: after the query's position or after the last event that a reconnecting client saw,
/// whichever is later.
fn resume_after(context: &Context, after: Option<Seq>) -> Option<Seq> {
    let seen = context.headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()?.trim().parse().ok()).map(Seq);
    after.max(seen)
}

pub(super) fn session(context: &Context) -> Result<Response, Refusal> {
    let query: EventsQuery = context.query::<SessionFollow>()?;
    let after = resume_after(context, query.after);
    let events = tail(context.backend().store().clone(), context.session_id()?.clone(), after, store_view(query.view));
    Ok(stream(context, sse::session_frames(events, query.view)))
}

pub(super) fn instance(context: &Context) -> Result<Response, Refusal> {
    let view = context.query::<EventSubscribe>()?.view;
    // Subscribed before the first frame goes out: what happens after it is seen.
    let bus = context.backend().store().subscribe();
    let first = view::server_connected(&context.backend().world().event_id());
    Ok(stream(context, sse::instance_frames(&first, bus, view)))
}

pub(super) fn log(context: &Context) -> Result<Response, Refusal> {
    let LogQuery { after, follow } = context.query::<SessionLog>()?;
    let after = resume_after(context, after);
    let session = context.session_id()?.clone();
    let events = tail(context.backend().store().clone(), session.clone(), after, View::Public);
    let frames = events.map(move |item| match item {
        Ok(TailItem::Event(event)) => {
            let frame = view::stored(&event, ViewKind::Full).map(|event| event.map(|event| sse::frame(&event)));
            (frame.map_err(StreamEnd::from), false)
        }
        Ok(TailItem::Synced { seq }) => {
            let mut mark = json!({ "type": LOG_SYNCED, "aggregateID": session });
            if let (Some(seq), Some(mark)) = (seq, mark.as_object_mut()) {
                mark.insert("seq".to_owned(), json!(seq));
            }
            (Ok(Some(sse::frame(&EventView { seq: None, json: mark }))), !follow)
        }
        Err(error) => (Err(error.into()), true),
    });
    // The mark is the last frame of a log that is not followed: nothing more is waited for.
    let frames = futures_util::stream::unfold(Some(Box::pin(frames)), |frames| async move {
        let mut frames = frames?;
        let (frame, is_last) = frames.next().await?;
        Some((frame, (!is_last).then_some(frames)))
    });
    let frames: Frames = Box::pin(frames.filter_map(|frame| std::future::ready(frame.transpose())));
    Ok(stream(context, frames))
}

fn stream(context: &Context, frames: Frames) -> Response {
    sse::response(frames, context.app.options.heartbeat, context.app.shutdown.clone())
}
