//! What the engine needs of a directory: agents, models, tools, context sources, snapshots. The real one is
//! `location`; the simulator has its own.

use std::sync::Arc;
use std::time::Duration;

use abide_ai::{LLMRequest, LanguageModel, LlmStream};
use abide_schema::agent::AgentInfo;
use abide_schema::location::{LocationInfo, LocationRef};
use abide_schema::model::ModelRef;
use abide_schema::permission::Rule;
use abide_schema::{AgentId, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::fs::journal::Journal;
use crate::session::compaction;
use crate::snapshot::{Operation, Past, SnapshotError};
use crate::tool::outcome::ToolSnapshot;

/// Why a directory cannot serve a session.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The directory does not exist or cannot be read.
    #[error("the directory {directory} cannot be opened: {reason}")]
    Directory {
        /// The directory.
        directory: String,
        /// Why.
        reason: String,
    },
    /// A configuration file cannot be used.
    #[error("{0}")]
    Config(String),
    /// No agent has this name.
    #[error("there is no agent {agent:?}; known: {known}")]
    UnknownAgent {
        /// The name.
        agent: String,
        /// What there is.
        known: String,
    },
    /// The model cannot be used: none selected, unknown, provider off, no key.
    #[error("{0}")]
    Model(String),
}

/// A price per million tokens, for prompts of more than `over` tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceTier {
    /// The tier holds for prompts larger than this many tokens; absent: for all.
    pub over: Option<u64>,
    /// Uncached input.
    pub input: f64,
    /// Output and reasoning.
    pub output: f64,
    /// Cache reads.
    pub cache_read: f64,
    /// Cache writes.
    pub cache_write: f64,
}

/// A model that is ready to be called.
#[derive(Clone)]
pub struct ResolvedModel {
    /// What it is, with the variant that was asked for.
    pub model: ModelRef,
    /// How it is called; carries route, credentials and request defaults of provider, model, variant and agent.
    pub language: LanguageModel,
    /// Context window in tokens; absent: unknown.
    pub context_limit: Option<u64>,
    /// Largest prompt in tokens.
    pub input_limit: Option<u64>,
    /// Largest answer in tokens.
    pub output_limit: Option<u64>,
    /// Prices.
    pub prices: Vec<PriceTier>,
    /// Whether it takes images.
    pub takes_images: bool,
    /// Whether it takes PDF files.
    pub takes_pdf: bool,
    /// Whether it can call tools.
    pub takes_tools: bool,
}

impl ResolvedModel {
    /// Returns the prompt size, in tokens, from which a session with this model is compacted; `None`: never.
    pub fn compaction_threshold(&self, buffer: u64) -> Option<u64> {
        compaction::threshold(self.context_limit, self.input_limit, self.output_limit, buffer)
    }
}

/// Settings of the engine for one directory.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Whether history is compacted by itself.
    pub compaction_auto: bool,
    /// Tokens that stay free.
    pub compaction_buffer: u64,
    /// Tokens of the recent tail.
    pub compaction_keep: u64,
    /// Whether old tool outputs are pruned.
    pub prune: bool,
    /// Attempts after the first.
    pub max_retries: u32,
    /// First delay; doubles.
    pub retry_base: Duration,
    /// Whether sessions get a title from a model.
    pub title: bool,
    /// Whether steps record snapshots.
    pub snapshot: bool,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            compaction_auto: true,
            compaction_buffer: 20_000,
            compaction_keep: 15_000,
            prune: true,
            max_retries: 4,
            retry_base: Duration::from_secs(2),
            title: true,
            snapshot: true,
        }
    }
}

/// An observed context source (spec/session.md 10.1).
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedSource {
    /// Its key, for example `core/environment`.
    pub key: String,
    /// What was observed.
    pub state: SourceState,
}

/// What a source said.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceState {
    /// It has a value.
    Available {
        /// The value, stored by hash.
        value: Value,
        /// Its text in a baseline.
        baseline: String,
        /// Its text in a system update after another value.
        update: String,
    },
    /// It cannot be read now: the previous value stays.
    Unavailable,
    /// It is gone.
    Removed {
        /// The text that tells the model so; absent: the baseline is rendered anew.
        text: Option<String>,
    },
}

/// Calls models. The real one is the `ai` crate's client.
pub trait ModelClient: Send + Sync {
    /// Makes one request; dropping the stream closes the connection.
    fn stream(&self, request: LLMRequest) -> LlmStream;
}

/// A directory with its services.
pub trait Place: Send + Sync {
    /// Returns the location with its project.
    fn info(&self) -> &LocationInfo;
    /// Finds an agent; absent: the default one.
    fn agent(&self, id: Option<&AgentId>) -> Result<Arc<AgentInfo>, PlaceError>;
    /// Resolves the model for a step: the session's, else the agent's, else the configured or first usable one.
    fn model<'a>(
        &'a self,
        session: Option<&'a ModelRef>,
        agent: &'a AgentInfo,
    ) -> BoxFuture<'a, Result<ResolvedModel, PlaceError>>;
    /// Takes the tools that `rules` leave visible.
    fn tools(&self, agent: &AgentInfo, model: &ResolvedModel, rules: &[Rule]) -> Arc<dyn ToolSnapshot>;
    /// Observes the context sources once.
    fn context<'a>(&'a self, agent: &'a AgentInfo) -> BoxFuture<'a, Vec<ObservedSource>>;
    /// Returns the built-in base prompt for a model.
    fn base_prompt(&self, model: &ResolvedModel) -> String;
    /// Captures a snapshot of the files; best effort.
    fn capture(&self) -> BoxFuture<'_, Option<String>>;
    /// Reads what files, relative to the location, were in a snapshot.
    fn past<'a>(
        &'a self,
        tree: &'a str,
        paths: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<(String, Past)>, SnapshotError>> {
        Box::pin(async move {
            tracing::debug!(tree, n_paths = paths.len(), "no snapshots are taken here");
            Err(SnapshotError::Answer { operation: Operation::Plan })
        })
    }
    /// Returns the journal through which files are changed; absent: files are never changed.
    fn journal(&self) -> Option<&Journal> {
        None
    }
    /// Lists files that differ between two snapshots, relative to the location.
    fn changed<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Vec<String>>;
    /// Returns the settings.
    fn settings(&self) -> EngineSettings;
    /// Withdraws the pending permission requests and questions of a session.
    fn withdraw(&self, session: &SessionId);
    /// Reads the content of an attached file or directory as text for the model; `None` when it cannot be read.
    fn attachment<'a>(&'a self, uri: &'a str, mime: &'a str) -> BoxFuture<'a, Option<Attachment>>;
}

/// The content of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// Text of a file or the entries of a directory.
    Text(String),
    /// Bytes of an image or document, base64.
    Media {
        /// Media type.
        mime: String,
        /// Base64.
        data: String,
    },
}

/// Opens directories.
pub trait Places: Send + Sync {
    /// Opens a directory, or returns the open one.
    fn open<'a>(&'a self, location: &'a LocationRef) -> BoxFuture<'a, Result<Arc<dyn Place>, PlaceError>>;
}
