//! Heads that are watched, and the instance-wide stream of events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide_schema::SessionId;
use abide_schema::event::StoredEvent;
use abide_schema::live::LiveEvent;
use tokio::sync::{broadcast, watch};

use super::Head;

/// How many events a subscriber of the instance-wide stream may fall behind.
pub const BUS_CAPACITY: usize = 4096;

/// An event of the instance-wide stream.
#[derive(Clone, Debug)]
pub enum BusEvent {
    /// A committed event.
    Stored(Arc<StoredEvent>),
    /// An ephemeral event.
    Live(Arc<LiveEvent>),
}

/// The subscriber fell too far behind; its stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subscriber fell more than {BUS_CAPACITY} events behind")]
pub struct BusLagged;

/// A subscription to the instance-wide stream.
#[derive(Debug)]
pub struct BusReceiver(broadcast::Receiver<BusEvent>);

impl BusReceiver {
    /// Waits for the next event; `None` when the store is gone.
    ///
    /// # Errors
    /// [`BusLagged`] when events were lost.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Result<BusEvent, BusLagged>> {
        match self.0.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Err(BusLagged)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Takes the next event if there is one already; `None` when there is none, or the store is gone.
    ///
    /// # Errors
    /// [`BusLagged`] when events were lost.
    pub fn try_next(&mut self) -> Option<Result<BusEvent, BusLagged>> {
        match self.0.try_recv() {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::TryRecvError::Lagged(_)) => Some(Err(BusLagged)),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => None,
        }
    }
}

/// The sending side of the instance-wide stream.
#[derive(Debug)]
pub(crate) struct Bus(broadcast::Sender<BusEvent>);

impl Bus {
    pub(crate) fn new() -> Self {
        Self(broadcast::channel(BUS_CAPACITY).0)
    }

    pub(crate) fn subscribe(&self) -> BusReceiver {
        BusReceiver(self.0.subscribe())
    }

    pub(crate) fn send(&self, event: BusEvent) {
        // Without subscribers there is nobody to tell.
        let _nobody = self.0.send(event);
    }
}

/// Watches the head of one session's log: level-triggered, a slow watcher loses wakes but no events.
#[derive(Clone, Debug)]
pub struct HeadWatch {
    // Declared before the guard: the guard's drop counts the receivers that are left.
    receiver: watch::Receiver<Option<Head>>,
    _guard: Guard,
}

impl HeadWatch {
    /// Waits until the head moves; `false` when the store is closed and no wake will follow.
    ///
    /// # Cancel safety
    /// Cancel safe: a wake that came meanwhile is kept.
    pub async fn changed(&mut self) -> bool {
        self.receiver.changed().await.is_ok()
    }

    /// Returns the head as of the last wake and marks it seen; `None` before the first wake.
    pub fn latest(&mut self) -> Option<Head> {
        *self.receiver.borrow_and_update()
    }
}

#[derive(Clone, Debug)]
struct Guard {
    watches: Arc<Watches>,
    session: SessionId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.watches.lock();
        if state.senders.get(&self.session).is_some_and(|sender| sender.receiver_count() == 0) {
            state.senders.remove(&self.session);
        }
    }
}

#[derive(Debug, Default)]
struct WatchState {
    senders: HashMap<SessionId, watch::Sender<Option<Head>>>,
    closed: bool,
}

/// All watched heads of a store. An entry lives as long as its watchers.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<WatchState>);

impl Watches {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(self: &Arc<Self>, session: &SessionId) -> HeadWatch {
        let mut state = self.lock();
        let receiver = if state.closed {
            watch::channel(None).1
        } else {
            state.senders.entry(session.clone()).or_insert_with(|| watch::channel(None).0).subscribe()
        };
        drop(state);
        HeadWatch { receiver, _guard: Guard { watches: Arc::clone(self), session: session.clone() } }
    }

    /// Wakes the watchers of `session` when its head moved.
    pub(crate) fn set(&self, session: &SessionId, head: Head) {
        if let Some(sender) = self.lock().senders.get(session) {
            sender.send_if_modified(|slot| {
                let moved = *slot != Some(head);
                *slot = Some(head);
                moved
            });
        }
    }

    /// Lists the watched sessions.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.lock().senders.keys().cloned().collect()
    }

    /// Counts the watched sessions.
    pub(crate) fn count(&self) -> usize {
        self.lock().senders.len()
    }

    /// Tells every watcher that no wake will follow.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.senders.clear();
    }
}

/// Rises whenever another process may have changed leases, signals or inputs.
#[derive(Clone, Debug)]
pub struct Doorbell(pub(crate) watch::Receiver<u64>);

impl Doorbell {
    /// Waits for the next ring; `false` when the store is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: a ring that came meanwhile is kept.
    pub async fn rung(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
