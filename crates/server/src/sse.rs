//! Event streams: one event a frame, a comment at once and whenever nothing came for a while.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use abide_core::store::{BusEvent, BusReceiver, StoreError, TailItem};
use abide_protocol::view::{self, EventView, ViewKind};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// A comment, which readers skip.
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");

/// A stream of encoded frames.
pub(crate) type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, StreamEnd>> + Send>>;

/// Why a stream breaks off. The connection is cut, so that the client knows that this is no end and comes back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamEnd {
    /// The server stops.
    #[error("the server stops")]
    Shutdown,
    /// The reader was too slow.
    #[error("the reader fell too far behind")]
    Lagged,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event cannot be encoded.
    #[error("an event cannot be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

impl From<Infallible> for StreamEnd {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Encodes one event.
pub(crate) fn frame(event: &EventView) -> Bytes {
    let id = event.seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    Bytes::from(format!("{id}data: {}\n\n", event.json))
}

/// Answers with a stream; adds the comments.
pub(crate) fn response(frames: Frames, every: Duration, shutdown: CancellationToken) -> Response {
    let every = every.max(Duration::from_millis(10));
    let mut interval = tokio::time::interval_at(Instant::now() + every, every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The client gets the head and a first byte without waiting for an event.
    let frames = stream::once(std::future::ready(Ok(HEARTBEAT))).chain(frames).boxed();
    let pump = Pump { frames, interval, shutdown, ended: false };
    let body = stream::unfold(pump, |mut pump| async move {
        let item = pump.next().await?;
        Some((
            item.map_err(|end| {
                tracing::debug!(%end, "an event stream breaks off");
                io::Error::other(end)
            }),
            pump,
        ))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

struct Pump {
    frames: Frames,
    interval: Interval,
    shutdown: CancellationToken,
    ended: bool,
}

impl Pump {
    async fn next(&mut self) -> Option<Result<Bytes, StreamEnd>> {
        if self.ended {
            return None;
        }
        let item = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Some(Err(StreamEnd::Shutdown)),
            _ = self.interval.tick() => Some(Ok(HEARTBEAT)),
            frame = self.frames.next() => frame,
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The frames of one session's stream, in a view.
pub(crate) fn session_frames(
    tail: impl Stream<Item = Result<TailItem, StoreError>> + Send + 'static,
    view: ViewKind,
) -> Frames {
    Box::pin(tail.filter_map(move |item| std::future::ready(session_frame(item, view).transpose())))
}

fn session_frame(item: Result<TailItem, StoreError>, view: ViewKind) -> Result<Option<Bytes>, StreamEnd> {
    match item? {
        TailItem::Event(event) => Ok(view::stored(&event, view)?.map(|event| frame(&event))),
        TailItem::Synced { .. } => Ok(None),
    }
}

/// The frames of the instance-wide stream, in a view; `first` comes first.
pub(crate) fn instance_frames(first: &EventView, bus: BusReceiver, view: ViewKind) -> Frames {
    let first = stream::once(std::future::ready(Ok(frame(first))));
    let rest = stream::unfold(bus, move |mut bus| async move {
        loop {
            let event = match bus.next().await? {
                Ok(event) => event,
                Err(lagged) => {
                    tracing::warn!(%lagged, "a reader of the event stream is too slow");
                    return Some((Err(StreamEnd::Lagged), bus));
                }
            };
            let shown = match &event {
                BusEvent::Stored(event) => view::stored_on_instance(event, view),
                BusEvent::Live(event) => view::live(event, view),
            };
            match shown {
                Ok(Some(event)) => return Some((Ok(frame(&event)), bus)),
                Ok(None) => {}
                Err(error) => return Some((Err(error.into()), bus)),
            }
        }
    });
    Box::pin(first.chain(rest))
}
