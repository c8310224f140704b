//! One layer: an ordered list of transforms, replayed over a fresh draft at each change.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::draft::{Draft, Editor, RegistrationError};
use crate::tool::scope::panic_text;

/// After so many panics in a row a transform is not tried again.
const MAX_PANICS: u32 = 3;

/// Tells layers apart: identities must not be equal by chance across layers.
static NEXT_LAYER: AtomicU64 = AtomicU64::new(1);

type Transform = dyn Fn(&mut Editor<'_>) + Send + Sync;

/// A layer of registrations. Cheap to clone.
#[derive(Clone)]
pub struct Layer {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    state: Mutex<State>,
    current: ArcSwap<Draft>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    next: u64,
    transforms: Vec<Slot>,
    /// Open batches; while there are any, nothing is rebuilt.
    batches: u32,
    /// A rebuild was asked for inside a batch.
    owed: bool,
    closed: bool,
}

struct Slot {
    id: u64,
    transform: Arc<Transform>,
    panics: u32,
}

impl Default for Layer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layer").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl Layer {
    /// Makes an empty layer.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                id: NEXT_LAYER.fetch_add(1, Ordering::Relaxed),
                state: Mutex::default(),
                current: ArcSwap::default(),
                revision: watch::Sender::new(0),
            }),
        }
    }

    /// Adds a transform at the end: it runs now and at every rebuild, so it adds the tools as they are then. What it
    /// registers goes when the registration is disposed or dropped. A closed layer takes nothing.
    pub fn transform(&self, transform: impl Fn(&mut Editor<'_>) + Send + Sync + 'static) -> Registration {
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = state.next;
            if !state.closed {
                state.transforms.push(Slot { id, transform: Arc::new(transform), panics: 0 });
                self.rebuild(&mut state);
            }
            id
        };
        Registration { layer: Arc::downgrade(&self.inner), id }
    }

    /// Rebuilds from what the transforms capture now; their order stays.
    pub fn reload(&self) {
        self.rebuild(&mut self.state());
    }

    /// Runs `change`, and rebuilds once for all registrations in it.
    pub fn batch<T>(&self, change: impl FnOnce() -> T) -> T {
        self.state().batches += 1;
        let guard = Batch(self);
        let out = change();
        drop(guard);
        out
    }

    /// Forgets everything: the location goes. Nothing is rebuilt any more.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.transforms.clear();
        self.inner.current.store(Arc::default());
    }

    /// Returns the errors of the last rebuild, as they were logged.
    pub fn errors(&self) -> Vec<RegistrationError> {
        self.inner.current.load().errors.iter().map(|(_, _, error)| error.clone()).collect()
    }

    /// Watches the number of rebuilds.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    pub(super) fn current(&self) -> Arc<Draft> {
        self.inner.current.load_full()
    }

    fn dispose(&self, id: u64) {
        let mut state = self.state();
        let before = state.transforms.len();
        state.transforms.retain(|slot| slot.id != id);
        if state.transforms.len() != before {
            self.rebuild(&mut state);
        }
    }

    fn rebuild(&self, state: &mut State) {
        if state.closed {
            return;
        }
        if state.batches > 0 {
            state.owed = true;
            return;
        }
        let mut draft = Draft::default();
        for slot in &mut state.transforms {
            if slot.panics >= MAX_PANICS {
                continue;
            }
            // Tools are shared, so a copy is cheap; it is what a panicking transform falls back to.
            let before = draft.clone();
            let mut editor = Editor { draft: &mut draft, layer: self.inner.id, registration: slot.id };
            match catch_unwind(AssertUnwindSafe(|| (slot.transform)(&mut editor))) {
                Ok(()) => slot.panics = 0,
                Err(payload) => {
                    slot.panics += 1;
                    draft = before;
                    let error = RegistrationError::Panicked(panic_text(payload.as_ref()));
                    draft.errors.push((String::new(), None, error));
                }
            }
        }
        for (name, namespace, reason) in &draft.errors {
            tracing::warn!(name, namespace, %reason, "Ignored invalid tool registration");
        }
        self.inner.current.store(Arc::new(draft));
        self.inner.revision.send_modify(|revision| *revision += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Batch<'l>(&'l Layer);

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.batches -= 1;
        if state.batches == 0 && std::mem::take(&mut state.owed) {
            self.0.rebuild(&mut state);
        }
    }
}

/// A transform in a layer: disposed when dropped.
#[must_use = "dropping a registration removes what it registered"]
#[derive(Debug)]
pub struct Registration {
    layer: Weak<Inner>,
    id: u64,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Registration {
    /// Removes exactly this transform, and so reveals what it hid. Doing it again does nothing.
    pub fn dispose(&self) {
        if let Some(inner) = self.layer.upgrade() {
            Layer { inner }.dispose(self.id);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.dispose();
    }
}
