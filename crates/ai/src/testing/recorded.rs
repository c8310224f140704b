//! Tests that run against cassettes: replayed by default, recorded on request.
//!
//! `RECORD=true` records, with the keys that a suite requires in the environment; a truthy `CI` always
//! replays. `RECORDED_PREFIX`, `RECORDED_PROVIDER` (comma lists), `RECORDED_TAGS` (all of a comma list) and
//! `RECORDED_TEST` (part of the name, its kebab form or the cassette) choose cases, in both modes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;

use super::TestHost;
use super::cassette::{Cassette, CassetteError};
use super::record::RecordExecutor;
use super::redact::Redaction;
use super::replay::{Delivery, ReplayExecutor};
use crate::route::client::LlmClient;
use crate::route::executor::HttpExecutor;
use crate::route::transport::websocket::WebSocketConnector;
use crate::schema::JsonObject;

/// What happens to a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is answered from its cassette.
    Replay,
    /// It is answered by the provider, and its cassette is written.
    Record,
}

/// The environment of a run, read once.
#[derive(Clone, Debug, Default)]
pub struct RecordedEnv(BTreeMap<String, String>);

impl RecordedEnv {
    /// These variables.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// The variables of this process that are text.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no"))
    }

    fn list(&self, name: &str) -> Vec<&str> {
        self.get(name)
            .into_iter()
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect()
    }

    /// The mode: recording needs `RECORD`, and is refused where `CI` is set.
    pub fn mode(&self) -> Mode {
        if self.is_true("RECORD") && !self.is_true("CI") { Mode::Record } else { Mode::Replay }
    }

    /// Why the filters leave a case out.
    fn left_out(&self, suite: &RecordedOptions, name: &str, cassette: &str) -> Option<String> {
        let prefixes = self.list("RECORDED_PREFIX");
        if !prefixes.is_empty() && !prefixes.contains(&suite.prefix.as_str()) {
            return Some(format!("RECORDED_PREFIX does not name {}", suite.prefix));
        }
        let tags = suite.tags();
        let providers = self.list("RECORDED_PROVIDER");
        if !providers.is_empty() && !providers.iter().any(|name| tags.contains(&format!("provider:{name}"))) {
            return Some("RECORDED_PROVIDER names other providers".to_owned());
        }
        if let Some(missing) = self.list("RECORDED_TAGS").iter().find(|tag| !tags.iter().any(|own| own == *tag)) {
            return Some(format!("it has no tag {missing}"));
        }
        let part = self.get("RECORDED_TEST")?;
        let is_named = name.contains(part) || kebab(name).contains(part) || cassette.contains(part);
        (!is_named).then(|| format!("RECORDED_TEST is {part}"))
    }
}

/// A suite of recorded tests.
#[derive(Clone, Default)]
pub struct RecordedOptions {
    /// The folder of all cassettes.
    pub dir: PathBuf,
    /// The folder of those of this suite, and its tag `prefix:…`.
    pub prefix: String,
    /// The provider, tag `provider:…`.
    pub provider: Option<String>,
    /// The protocol, tag `protocol:…`.
    pub protocol: Option<String>,
    /// Variables without which nothing can be recorded.
    pub requires: Vec<String>,
    /// More tags.
    pub tags: Vec<String>,
    /// More of the metadata of each cassette.
    pub metadata: JsonObject,
    /// What is redacted, and which headers count.
    pub redaction: Redaction,
}

impl RecordedOptions {
    fn tags(&self) -> Vec<String> {
        let named = |kind: &str, value: &str| format!("{kind}:{value}");
        let mut tags = vec![named("prefix", &self.prefix)];
        tags.extend(self.provider.as_deref().map(|value| named("provider", value)));
        tags.extend(self.protocol.as_deref().map(|value| named("protocol", value)));
        tags.extend(self.tags.iter().cloned());
        tags
    }
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran against its cassette.
    Replayed,
    /// It ran against the provider, and its cassette was written here.
    Recorded(PathBuf),
    /// It did not run, and why.
    Skipped(String),
}

/// What a case runs with.
#[derive(Clone)]
pub struct Recorded {
    /// A client that replays or records.
    pub client: LlmClient,
    /// The same for sockets.
    pub connector: Arc<dyn WebSocketConnector>,
    /// What is happening.
    pub mode: Mode,
}

/// The network, used only to record.
#[derive(Clone)]
pub struct Live {
    /// HTTP.
    pub http: Arc<dyn HttpExecutor>,
    /// Sockets.
    pub connector: Arc<dyn WebSocketConnector>,
}

/// Runs the cases of a suite.
pub struct RecordedTests {
    options: RecordedOptions,
    env: RecordedEnv,
    live: Live,
    names: Mutex<BTreeSet<String>>,
}

impl RecordedTests {
    /// A suite in an environment.
    pub fn new(options: RecordedOptions, env: RecordedEnv, live: Live) -> Self {
        Self { options, env, live, names: Mutex::default() }
    }

    /// The cassette of a case: the prefix and the name in kebab form.
    pub fn cassette(&self, name: &str) -> String {
        format!("{}/{}", self.options.prefix, kebab(name))
    }

    /// Runs one case. Its body panics or returns as any test does; a cassette is written only after it
    /// returned.
    ///
    /// # Errors
    /// `Duplicate` for a name that was run before; `Unused` when a case used some of its cassette but not
    /// all; whatever reading and writing a cassette can fail with. A missing cassette is no error: the case
    /// is skipped.
    pub async fn test<R: Future<Output = ()>>(
        &self,
        name: &str,
        body: impl FnOnce(Recorded) -> R,
    ) -> Result<Outcome, CassetteError> {
        let cassette = self.cassette(name);
        if !self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(cassette.clone()) {
            return Err(CassetteError::Duplicate { name: cassette });
        }
        if let Some(reason) = self.env.left_out(&self.options, name, &cassette) {
            return Ok(Outcome::Skipped(reason));
        }
        match self.env.mode() {
            Mode::Replay => self.replay(&cassette, body).await,
            Mode::Record => self.record(name, &cassette, body).await,
        }
    }

    async fn replay<R: Future<Output = ()>>(
        &self,
        cassette: &str,
        body: impl FnOnce(Recorded) -> R,
    ) -> Result<Outcome, CassetteError> {
        let recorded = match Cassette::load(&self.options.dir, cassette) {
            Ok(recorded) => recorded,
            Err(error @ CassetteError::Missing { .. }) => return Ok(Outcome::Skipped(error.to_string())),
            Err(error) => return Err(error),
        };
        let replay = ReplayExecutor::new(cassette, recorded, self.options.redaction.clone(), Delivery::Whole);
        // Recorded requests hold no credentials, so any will do.
        let keys = self.options.requires.iter().map(|name| (name.as_str(), "replayed"));
        body(Recorded {
            client: LlmClient::new(Arc::new(replay.clone())).with_host(Arc::new(TestHost::new(keys))),
            connector: Arc::new(replay.clone()),
            mode: Mode::Replay,
        })
        .await;
        if replay.is_used() {
            replay.verify()?;
        }
        Ok(Outcome::Replayed)
    }

    async fn record<R: Future<Output = ()>>(
        &self,
        name: &str,
        cassette: &str,
        body: impl FnOnce(Recorded) -> R,
    ) -> Result<Outcome, CassetteError> {
        if let Some(missing) = self.options.requires.iter().find(|name| self.env.get(name).is_none()) {
            return Ok(Outcome::Skipped(format!("recording needs {missing} in the environment")));
        }
        let recorder = RecordExecutor::new(Arc::clone(&self.live.http), self.options.redaction.clone())
            .with_connector(Arc::clone(&self.live.connector));
        let host = TestHost::new(self.env.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))).at_present();
        let recorded_at = chrono::SecondsFormat::Secs;
        let recorded_at = crate::route::host::Host::now(&host).to_rfc3339_opts(recorded_at, true);
        body(Recorded {
            client: LlmClient::new(Arc::new(recorder.clone())).with_host(Arc::new(host)),
            connector: Arc::new(recorder.clone()),
            mode: Mode::Record,
        })
        .await;
        let mut metadata = self.options.metadata.clone();
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("recordedAt".to_owned(), json!(recorded_at));
        metadata.insert("tags".to_owned(), json!(self.options.tags()));
        for (key, value) in [("provider", &self.options.provider), ("protocol", &self.options.protocol)] {
            if let Some(value) = value {
                metadata.insert(key.to_owned(), json!(value));
            }
        }
        let env: Vec<(String, String)> = self.env.0.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        recorder.save(&self.options.dir, cassette, metadata, &env).map(Outcome::Recorded)
    }
}

/// A name as part of a path: quotes dropped, everything else but letters and digits a dash, lower-case.
pub fn kebab(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() {
            kebab.push(letter.to_ascii_lowercase());
        } else if !matches!(letter, '\'' | '"' | '`' | '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}')
            && !kebab.is_empty()
            && !kebab.ends_with('-')
        {
            kebab.push('-');
        }
    }
    kebab.trim_end_matches('-').to_owned()
}
