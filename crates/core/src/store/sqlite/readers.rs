//! A few threads that read, each with its own connection.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::codec::Result;
use super::migrate::open_reader;
use crate::store::StoreError;

/// Reads that may wait; more wait for a place.
const MAX_QUEUED: usize = 1024;

type ReadJob = Box<dyn FnOnce(std::result::Result<&Connection, StoreError>) + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<ReadJob>,
    n_threads: usize,
    n_idle: usize,
    closed: bool,
    handles: Vec<JoinHandle<()>>,
}

struct Queue {
    path: PathBuf,
    max_threads: usize,
    state: Mutex<State>,
    ready: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pool of readers. Threads start when reads wait, and stay.
pub(super) struct Readers {
    queue: Arc<Queue>,
    places: Semaphore,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").field("path", &self.queue.path).finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::Closed("it was closed".to_owned())
}

impl Readers {
    pub(super) fn new(path: PathBuf, max_threads: usize) -> Self {
        let queue = Queue { path, max_threads: max_threads.max(1), state: Mutex::default(), ready: Condvar::new() };
        Self { queue: Arc::new(queue), places: Semaphore::new(MAX_QUEUED) }
    }

    /// Runs `read` on a reader's connection.
    pub(super) async fn submit<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let _place = self.places.acquire().await.map_err(|_closed| closed())?;
        let (reply, answer) = oneshot::channel();
        self.push(Box::new(move |conn| {
            // Nobody may be waiting any more.
            let _unread = reply.send(conn.and_then(read));
        }))?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn push(&self, job: ReadJob) -> Result<()> {
        let mut state = self.queue.lock();
        if state.closed {
            return Err(closed());
        }
        state.jobs.push_back(job);
        if state.n_idle < state.jobs.len() && state.n_threads < self.queue.max_threads {
            let queue = Arc::clone(&self.queue);
            let builder = std::thread::Builder::new().name("abide-store-read".to_owned());
            match builder.spawn(move || read_loop(&queue)) {
                Ok(handle) => {
                    state.n_threads += 1;
                    state.handles.push(handle);
                }
                Err(error) if state.n_threads == 0 => {
                    state.jobs.clear();
                    return Err(StoreError::Other(format!("a reader cannot start: {error}")));
                }
                // The others do it.
                Err(_error) => (),
            }
        }
        drop(state);
        self.queue.ready.notify_one();
        Ok(())
    }

    /// Ends the threads after what they do now.
    pub(super) fn close(&self) {
        self.places.close();
        let handles = {
            let mut state = self.queue.lock();
            state.closed = true;
            state.jobs.clear();
            std::mem::take(&mut state.handles)
        };
        self.queue.ready.notify_all();
        for handle in handles {
            if handle.join().is_err() {
                tracing::error!("a reader of the store panicked");
            }
        }
    }
}

/// Takes a thread off the count however it ends.
struct Leaving<'a>(&'a Queue);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.lock().n_threads -= 1;
    }
}

fn read_loop(queue: &Queue) {
    let _leaving = Leaving(queue);
    let mut conn = None;
    loop {
        let job = {
            let mut state = queue.lock();
            loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                if state.closed {
                    return;
                }
                state.n_idle += 1;
                state = queue.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.n_idle -= 1;
            }
        };
        let opened = match conn.take() {
            Some(conn) => Ok(conn),
            None => open_reader(&queue.path),
        };
        match opened {
            Ok(opened) => job(Ok(conn.insert(opened))),
            Err(error) => job(Err(error)),
        }
    }
}
