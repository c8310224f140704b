//! Reports of a running call: merged, without repetitions, at most ten a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_schema::JsonObject;
use abide_schema::live::OutputStream;
use abide_schema::tool::Content;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::outcome::ProgressSink;

/// The time between two reports: progress is for people, who do not read faster.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Takes the reports of one call. Cheap to clone; reports after the call settled are ignored.
#[derive(Clone)]
pub struct Progress {
    inner: Arc<Inner>,
}

struct Inner {
    sink: Arc<dyn ProgressSink>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    current: Report,
    sent: Option<Report>,
    sent_at: Option<Instant>,
    closed: bool,
}

#[derive(Clone, Default, PartialEq)]
struct Report {
    structured: JsonObject,
    content: Option<Vec<Content>>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

impl Progress {
    /// Makes the progress of a call that reports to `sink`.
    pub fn new(sink: Arc<dyn ProgressSink>) -> Self {
        Self { inner: Arc::new(Inner { sink, state: Mutex::default(), changed: Notify::new() }) }
    }

    /// Merges `structured` into the running state (shallowly).
    pub fn report(&self, structured: JsonObject) {
        self.update(|current| current.structured.extend(structured));
    }

    /// Replaces the content of the running state.
    pub fn content(&self, content: Vec<Content>) {
        self.update(|current| current.content = Some(content));
    }

    /// Publishes live output of a process, as it comes.
    pub fn output(&self, stream: OutputStream, text: &str) {
        if !self.state().closed {
            self.inner.sink.output(stream, text);
        }
    }

    /// Says whether the call is settled: reports are ignored.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    fn update(&self, change: impl FnOnce(&mut Report)) {
        let due = {
            let mut state = self.state();
            if state.closed {
                return;
            }
            change(&mut state.current);
            if state.sent_at.is_none_or(|at| at.elapsed() >= MIN_INTERVAL) { state.take() } else { None }
        };
        match due {
            Some(report) => self.inner.sink.report(report.structured, report.content),
            None => self.inner.changed.notify_one(),
        }
    }

    /// Sends what the rate limit held back, for as long as the call runs. Never returns.
    pub(crate) async fn drive(&self) -> std::convert::Infallible {
        loop {
            self.inner.changed.notified().await;
            let at = self.state().sent_at.map(|at| at + MIN_INTERVAL);
            if let Some(at) = at {
                tokio::time::sleep_until(at).await;
            }
            self.flush();
        }
    }

    /// Sends the last report, and ignores those that follow.
    pub(crate) fn close(&self) {
        self.flush();
        self.state().closed = true;
    }

    fn flush(&self) {
        let due = self.state().take();
        if let Some(report) = due {
            self.inner.sink.report(report.structured, report.content);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the current report when it differs from the one that was sent last.
    fn take(&mut self) -> Option<Report> {
        if self.closed
            || self.sent.as_ref() == Some(&self.current)
            || (self.sent.is_none() && self.current == Report::default())
        {
            return None;
        }
        self.sent = Some(self.current.clone());
        self.sent_at = Some(Instant::now());
        Some(self.current.clone())
    }
}
