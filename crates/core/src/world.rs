//! The outside world as the engine sees it: clock, randomness, ids, environment, tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use abide_schema::id::IdGenerator;
use abide_schema::{
    CredentialId, EventId, JobId, MessageId, MutationId, OwnerId, PermissionId, PtyId, QuestionId, SavedPermissionId,
    SessionId, Timestamp, ToolFileId,
};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns the wall clock.
    fn now(&self) -> Timestamp;
}

/// Gives random bits.
pub trait Entropy: Send + Sync {
    /// Returns 64 random bits.
    fn next(&self) -> u64;
}

/// Clock, randomness, ids and environment of one process, or of one simulation.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    ids: Mutex<IdGenerator>,
    environment: BTreeMap<String, String>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

macro_rules! make_ids {
    ($( $(#[$doc:meta])* $method:ident -> $id:ident, $descending:literal; )*) => { $(
        $(#[$doc])*
        pub fn $method(&self) -> $id {
            $id::from_trusted(format!("{}{}", $id::NEW_PREFIX, self.tail($descending)))
        }
    )* };
}

impl World {
    /// Makes a world of its parts.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, environment: BTreeMap<String, String>) -> Self {
        Self { inner: Arc::new(Inner { clock, entropy, ids: Mutex::default(), environment }) }
    }

    /// Makes the world of this process: system clock, operating system randomness, the environment as it is now.
    pub fn real() -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self::new(Arc::new(SystemClock), Arc::new(SystemEntropy), environment)
    }

    /// Returns the wall clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Returns 64 random bits.
    pub fn random(&self) -> u64 {
        self.inner.entropy.next()
    }

    /// Returns an environment variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.inner.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the whole environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.inner.environment
    }

    /// Returns a world that differs in its environment only.
    #[must_use]
    pub fn with_environment(&self, environment: BTreeMap<String, String>) -> Self {
        Self::new(self.inner.clock.clone(), self.inner.entropy.clone(), environment)
    }

    /// Starts a task whose owner keeps the handle: the one place where tasks are spawned outside a `JoinSet`.
    #[expect(clippy::disallowed_methods, reason = "the wrapper that the rule names")]
    pub fn spawn<F>(&self, future: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(future)
    }

    fn tail(&self, descending: bool) -> String {
        let now = self.now();
        let random = self.random();
        self.inner.ids.lock().unwrap_or_else(PoisonError::into_inner).tail(now, random, descending)
    }

    make_ids! {
        /// Makes a session id.
        session_id -> SessionId, true;
        /// Makes an event id. Stored events get theirs from the store, in commit order.
        event_id -> EventId, false;
        /// Makes a message id.
        message_id -> MessageId, false;
        /// Makes a permission request id.
        permission_id -> PermissionId, false;
        /// Makes a saved permission id.
        saved_permission_id -> SavedPermissionId, false;
        /// Makes a question request id.
        question_id -> QuestionId, false;
        /// Makes a terminal id.
        pty_id -> PtyId, false;
        /// Makes a background job id.
        job_id -> JobId, false;
        /// Makes a tool output file id.
        tool_file_id -> ToolFileId, false;
        /// Makes a mutation batch id.
        mutation_id -> MutationId, false;
        /// Makes a credential id.
        credential_id -> CredentialId, false;
        /// Makes an owner id.
        owner_id -> OwnerId, false;
    }
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(chrono::Utc::now().timestamp_millis())
    }
}

struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks for randomness")]
    fn next(&self) -> u64 {
        rand::random()
    }
}
