//! The scope of one call: how it ends early, what must not be torn, and the tasks that end with it.
//!
//! A decline or an interruption is written into the scope once; whoever wrote it never returns. The boundary races
//! the leaf's future against the scope and drops the future, so that no code of the leaf can observe it.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outcome::Declined;
use crate::permission::Refused;
use crate::question::Dismissed;

/// How long code of a call that is over may take to reach its next await before the call settles without it.
pub(crate) const MAX_UNWIND: Duration = Duration::from_secs(10);

/// The user's refusal. Only the permission and question services can make one, and leaves never see one.
#[derive(Debug)]
pub struct Decline(Declined);

impl Decline {
    /// Returns what was declined.
    pub const fn what(&self) -> Declined {
        self.0
    }
}

impl From<Refused> for Decline {
    fn from(_: Refused) -> Self {
        Self(Declined::Permission)
    }
}

impl From<Dismissed> for Decline {
    fn from(_: Dismissed) -> Self {
        Self(Declined::Question)
    }
}

/// How a call ended before its leaf did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The user declined.
    Declined(Declined),
    /// It was interrupted.
    Interrupted,
}

/// The scope of one call. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallScope {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ended: OnceLock<Ended>,
    /// Cancelled as soon as the call ends for any reason.
    over: CancellationToken,
    /// Cancelled when `ended` is set.
    early: CancellationToken,
    commits: TaskTracker,
    tasks: TaskTracker,
    /// The text of a panic inside a commit.
    defect: OnceLock<String>,
}

tokio::task_local! {
    static IN_COMMIT: ();
}

impl Default for CallScope {
    fn default() -> Self {
        Self::new()
    }
}

impl CallScope {
    /// Makes the scope of a call.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                ended: OnceLock::new(),
                over: CancellationToken::new(),
                early: CancellationToken::new(),
                commits: TaskTracker::new(),
                tasks: TaskTracker::new(),
                defect: OnceLock::new(),
            }),
        }
    }

    /// Runs a future to its end, also when the leaf is dropped meanwhile; the boundary waits for it before the call
    /// settles. For file commits and journal writes: short, bounded, and without questions to the user.
    ///
    /// # Panics
    /// When `future` panics: the call becomes a defect.
    ///
    /// # Cancel safety
    /// Dropping the returned future does not stop `future`, once it was polled.
    pub async fn commit<F>(&self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let scope = self.clone();
        let handle = self.inner.commits.spawn(async move {
            let result = AssertUnwindSafe(IN_COMMIT.scope((), future)).catch_unwind().await;
            if let Err(payload) = &result {
                let _first = scope.inner.defect.set(panic_text(payload.as_ref()));
            }
            result
        });
        match handle.await {
            Ok(Ok(output)) => output,
            Ok(Err(payload)) => std::panic::resume_unwind(payload),
            // The task is never aborted: the runtime is going down and nobody will see a value.
            Err(_gone) => std::future::pending().await,
        }
    }

    /// Starts a task that ends with the call: it is dropped as soon as the call is over. The handle gives `None` when
    /// that came first.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let over = self.inner.over.clone();
        self.inner.tasks.spawn(async move { over.run_until_cancelled_owned(future).await })
    }

    /// Returns a token that is cancelled when the call is over, for tasks and threads that the leaf started.
    pub fn token(&self) -> CancellationToken {
        self.inner.over.clone()
    }

    /// Says whether the caller runs inside a commit section, where the user cannot be asked.
    pub fn is_in_commit() -> bool {
        IN_COMMIT.try_with(|()| ()).is_ok()
    }

    /// Ends the call with a decline. Never returns.
    pub(crate) async fn decline(&self, decline: Decline) -> Infallible {
        self.end(Ended::Declined(decline.what()));
        std::future::pending().await
    }

    /// Ends the call as interrupted. Never returns.
    pub(crate) async fn interrupted(&self) -> Infallible {
        self.end(Ended::Interrupted);
        std::future::pending().await
    }

    /// Notes how the call ends early; the first one counts.
    pub(crate) fn end(&self, ended: Ended) {
        let _first = self.inner.ended.set(ended);
        self.inner.early.cancel();
    }

    /// Waits until the call ends early.
    pub(crate) async fn ended(&self) -> Ended {
        self.inner.early.cancelled().await;
        self.early_end().unwrap_or(Ended::Interrupted)
    }

    /// Returns how the call ended early, if it did.
    pub(crate) fn early_end(&self) -> Option<Ended> {
        self.inner.ended.get().copied()
    }

    /// Ends the tasks of the call and waits for them and for open commits; returns the text of a panic in a commit.
    pub(crate) async fn close(&self) -> Option<String> {
        self.inner.over.cancel();
        self.inner.commits.close();
        self.inner.tasks.close();
        self.inner.commits.wait().await;
        if tokio::time::timeout(MAX_UNWIND, self.inner.tasks.wait()).await.is_err() {
            tracing::error!("a task of a tool call does not let go: its code blocks");
        }
        self.inner.defect.get().cloned()
    }
}

/// Returns the text of a panic's payload.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without text".to_owned()
    }
}
