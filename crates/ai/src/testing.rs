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
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;

use crate::route::client::LlmClient;
use crate::route::executor::HttpExecutor;
use crate::route::host::Host;

/// Environment and clock of a test.
#[derive(Clone, Debug, Default)]
pub struct TestHost {
    env: BTreeMap<String, String>,
    files: BTreeMap<PathBuf, String>,
    programs: BTreeMap<String, String>,
    now: DateTime<Utc>,
}

impl TestHost {
    /// An environment of these variables, at the Unix epoch.
    pub fn new<'a>(env: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self {
            env: env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            files: BTreeMap::new(),
            programs: BTreeMap::new(),
            now: DateTime::UNIX_EPOCH,
        }
    }

    /// The same with a file.
    pub fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.to_owned());
        self
    }

    /// The same with a program that prints something.
    pub fn with_program(mut self, command: &str, output: &str) -> Self {
        self.programs.insert(command.to_owned(), output.to_owned());
        self
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

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<String>> {
        Box::pin(std::future::ready(self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())))
    }

    fn run<'a>(&'a self, command: &'a str) -> BoxFuture<'a, io::Result<String>> {
        let output = self.programs.get(command).cloned();
        Box::pin(std::future::ready(output.ok_or_else(|| io::ErrorKind::NotFound.into())))
    }
}

/// A client over an executor of this module, without environment, at the Unix epoch.
pub fn test_client(http: impl HttpExecutor + 'static) -> LlmClient {
    LlmClient::new(Arc::new(http)).with_host(Arc::new(TestHost::default()))
}
