//! One provider-neutral layer over language models.
//!
//! The crate turns one canonical [`LLMRequest`] into one exchange with a provider, and the provider's
//! stream into canonical [`LLMEvent`]s. It makes exactly one model call; it does not loop over tools,
//! keep history, store anything, or know about sessions, permissions and catalogues.
//!
//! - [`schema`]: requests, messages, events, usage, errors.
//! - [`route`]: protocol + endpoint + auth + framing, and the client that runs them.
//! - [`protocols`]: the wire formats. [`providers`]: one file for each named provider.
//! - [`llm`]: the verbs, for callers without an own client.

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
