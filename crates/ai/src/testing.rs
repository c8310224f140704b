//! Recorder, scripted responses and other helpers for tests (feature `testing`).
//!
//! - [`scripted::ScriptedExecutor`] answers with bodies written in the test.
//! - [`replay::ReplayExecutor`] answers from a cassette: a request must equal a recorded one.
//! - [`sockets::ScriptedConnector`] is a WebSocket server written in the test.
//! - [`recorded::RecordedTests`] replays cassettes by the name of the test, or records them.
//! - [`record::RecordExecutor`] writes a cassette; secrets are redacted, and a body that still looks
//!   as if it held one refuses the write.

pub mod cassette;
pub mod fuzz;
pub mod matching;
pub mod record;
pub mod recorded;
pub mod redact;
pub mod replay;
pub mod scripted;
pub mod sockets;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::route::client::LlmClient;
use crate::route::executor::HttpExecutor;
use crate::route::host::Host;

/// Environment and clock of a test.
#[derive(Clone, Debug, Default)]
pub struct TestHost {
    env: BTreeMap<String, String>,
    now: DateTime<Utc>,
}

impl TestHost {
    /// An environment of these variables, at the Unix epoch.
    pub fn new<'a>(env: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self {
            env: env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            now: DateTime::UNIX_EPOCH,
        }
    }

    /// The same at the present time.
    pub fn at_present(self) -> Self {
        self.at(crate::route::host::ProcessHost.now())
    }

    /// The same at another time.
    pub fn at(self, now: DateTime<Utc>) -> Self {
        Self { now, ..self }
    }
}

impl Host for TestHost {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn now(&self) -> DateTime<Utc> {
        self.now
    }
}

/// A client over an executor of this module, without environment, at the Unix epoch.
pub fn test_client(http: impl HttpExecutor + 'static) -> LlmClient {
    LlmClient::new(Arc::new(http)).with_host(Arc::new(TestHost::default()))
}
