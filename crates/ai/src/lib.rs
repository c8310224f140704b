//! One provider-neutral layer over language models.
//!
//! The crate turns one canonical [`LLMRequest`] into one exchange with a provider, and the provider's
//! stream into canonical [`LLMEvent`]s. It makes exactly one model call; it does not loop over tools,
//! keep history, store anything, or know about sessions, permissions and catalogues.
//!
//! - [`schema`]: requests, messages, events, usage, errors.
//! - [`route`]: protocol + endpoint + auth + framing, and the client that runs them.
//! - [`protocols`]: the wire formats. [`providers`]: one file for each named provider.
//! - [`provider_package`]: providers by name, as a configuration file names them.
//! - [`tool`], [`tool_runtime`]: typed tools, and dispatch of one call.
//! - [`llm`]: the verbs, for callers without a client of their own.
//!
//! # A call
//!
//! ```no_run
//! # async fn call() -> Result<(), Box<dyn std::error::Error>> {
//! use abide_ai::{LlmClient, RequestInput, StreamOptions, llm, providers};
//! use futures_util::StreamExt as _;
//!
//! let model = providers::ollama::configure(Default::default()).model("llama3.2")?;
//! let request = llm::request(model, RequestInput { prompt: Some("Hello".into()), ..Default::default() });
//! let mut events = LlmClient::live()?.stream(&request, StreamOptions::default());
//! while let Some(event) = events.next().await {
//!     if let Some(delta) = event?.as_text_delta() {
//!         // show delta.text
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The stream is lazy, ends after its first error, and closes the connection when it is dropped. One
//! client is one connection pool: make it once and clone it.
//!
//! # Events
//!
//! `step-start` comes first and once; a block starts before its deltas and ends after them; the pair
//! `step-finish`, `finish` is last. A call whose arguments are not JSON is a `tool-input-error`, and a
//! call that the output limit cut is announced but never a `tool-call`. A stream without its end is an
//! error, not an answer. [`LLMResponse::reduce`] folds events into the message to send back.
//!
//! # Failures
//!
//! Every failure is an [`AIError`]. [`AIError::retry_class`] says whether to try again (never, safely, or
//! only if nothing of the attempt was used), [`AIError::retry_after`] when, and
//! [`AIError::is_context_overflow`] that the prompt must become shorter first. The client itself makes one
//! attempt. Errors keep the provider's text for diagnosis, so redact them before they are stored or shown.
//!
//! # Another provider
//!
//! A server that speaks the Chat protocol needs only an address ([`providers::openai_compatible`]). A named
//! one is a file in `providers` that puts endpoint, auth and [`schema::model::Compatibility`] onto a route,
//! and a line in [`provider_package`]. A new wire format implements [`route::protocol::Protocol`]: a body
//! from a request, events from frames, no I/O.
//!
//! # Tests
//!
//! With the feature `testing`, `testing::scripted` answers with bodies written in the test and
//! `testing::replay` with recorded exchanges.

pub mod cache_policy;
pub mod llm;
pub mod protocols;
pub mod provider_error;
pub mod provider_package;
pub mod providers;
pub mod route;
pub mod schema;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;
pub mod tool_runtime;

pub use provider_package::ModelEntry;
pub use route::Route;
pub use route::client::{LlmClient, LlmStream, PreparedRequest, StreamOptions};
pub use schema::errors::{AIError, AIErrorKind, ConfigurationError, RetryClass, is_context_overflow};
pub use schema::events::LLMEvent;
pub use schema::messages::{Message, Part, SystemPart, ToolChoice, ToolDefinition};
pub use schema::model::LanguageModel;
pub use schema::request::{LLMRequest, RequestInput, RequestPatch};
pub use schema::response::LLMResponse;
pub use schema::usage::Usage;
