//! A session's log as a stream: what is stored, then what follows, without gap or duplicate (spec/session.md 3.6).

use std::collections::VecDeque;
use std::sync::Arc;

use abide_schema::event::StoredEvent;
use abide_schema::{Seq, SessionId};
use futures_util::stream::{self, Stream};

use super::{EventStore, Head, HeadWatch, SeqRange, StoreError, View};

/// Events that one page of a tail holds.
const PAGE: u32 = 512;

/// An element of a tail.
#[derive(Clone, Debug)]
pub enum TailItem {
    /// An event.
    Event(Arc<StoredEvent>),
    /// Everything that was stored when the tail began has been given; comes once. What follows is live.
    Synced {
        /// The head at that time, in the view's counting.
        seq: Option<Seq>,
    },
}

/// Streams the events of `session` after `after` (in the counting of `view`; absent: from the start), and goes on
/// with what is committed later, here or by another process. Ends when the store closes; an error is the last item.
///
/// # Cancel safety
/// Dropping a `next()` loses nothing: the stream keeps its place.
pub fn tail<S>(
    store: Arc<S>,
    session: SessionId,
    after: Option<Seq>,
    view: View,
) -> impl Stream<Item = Result<TailItem, StoreError>> + Send + 'static
where
    S: EventStore + ?Sized + 'static,
{
    // Before anything is read, so that no commit falls between.
    let watch = store.watch(&session);
    let tail =
        Tail { store, session, view, watch, cursor: after, through: None, queue: VecDeque::new(), phase: Phase::Begin };
    stream::unfold(tail, Tail::step)
}

enum Phase {
    /// The head is not read yet.
    Begin,
    /// Up to the head that was read first.
    History,
    /// Up to wherever the head is.
    Live,
    /// Everything is read: wait.
    Waiting,
    /// The stream has ended.
    Done,
}

struct Tail<S: ?Sized> {
    store: Arc<S>,
    session: SessionId,
    view: View,
    watch: HeadWatch,
    cursor: Option<Seq>,
    through: Option<Seq>,
    queue: VecDeque<Arc<StoredEvent>>,
    phase: Phase,
}

impl<S: EventStore + ?Sized> Tail<S> {
    async fn step(mut self) -> Option<(Result<TailItem, StoreError>, Self)> {
        match self.next().await {
            Ok(Some(item)) => Some((Ok(item), self)),
            Ok(None) => None,
            Err(error) => {
                self.phase = Phase::Done;
                Some((Err(error), self))
            }
        }
    }

    async fn next(&mut self) -> Result<Option<TailItem>, StoreError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(Some(TailItem::Event(event)));
            }
            match self.phase {
                Phase::Begin => {
                    self.through = self.store.head(&self.session).await?.and_then(|head| self.position(head));
                    self.phase = Phase::History;
                }
                Phase::History => {
                    if self.through > self.cursor {
                        self.page(self.through).await?;
                    } else {
                        self.phase = Phase::Live;
                        return Ok(Some(TailItem::Synced { seq: self.through }));
                    }
                }
                Phase::Live => {
                    if !self.page(None).await? {
                        self.phase = Phase::Waiting;
                    }
                }
                Phase::Waiting => {
                    if !self.watch.changed().await {
                        self.phase = Phase::Done;
                        continue;
                    }
                    let head = self.watch.latest().and_then(|head| self.position(head));
                    if head > self.cursor {
                        self.phase = Phase::Live;
                    }
                }
                Phase::Done => return Ok(None),
            }
        }
    }

    fn position(&self, head: Head) -> Option<Seq> {
        match self.view {
            View::Log | View::Public => Some(head.seq),
            View::Contract => head.contract_seq,
        }
    }

    /// Reads one page into the queue; says whether more follows.
    async fn page(&mut self, through: Option<Seq>) -> Result<bool, StoreError> {
        let range = SeqRange { after: self.cursor, through };
        let page = self.store.read(&self.session, range, self.view, PAGE).await?;
        self.cursor = self.cursor.max(page.cursor);
        if !page.has_more {
            // Whatever lies before the end is not of this view.
            self.cursor = self.cursor.max(through);
        }
        self.queue.extend(page.events);
        Ok(page.has_more)
    }
}
