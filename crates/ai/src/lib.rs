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
//! The code on this page is compiled and run as `examples/guide.rs`.
//!
//! # A first call
//!
//! ```ignore
//! let model = providers::ollama::configure(Default::default()).model("llama3.2")?;
//! let request = llm::request(model, RequestInput { prompt: Some("Hello".into()), ..Default::default() });
//! let mut events = client.stream(&request, StreamOptions::default());
//! let mut text = String::new();
//! while let Some(event) = events.next().await {
//!     if let Some(delta) = event?.as_text_delta() {
//!         text += &delta.text;
//!     }
//! }
//! ```
//!
//! The stream is lazy, ends after its first error, and closes the connection when it is dropped. One
//! client is one connection pool: make it once ([`LlmClient::live`]) and clone it.
//!
//! `step-start` comes first and once; a block starts before its deltas and ends after them; the pair
//! `step-finish`, `finish` is last. A call whose arguments are not JSON is a `tool-input-error`, and a
//! call that the output limit cut is announced but never a `tool-call`. A stream without its end is an
//! error, not an answer.
//!
//! # A loop with tools
//!
//! The loop is yours: send, run the calls, append what came of them, send again. [`LlmClient::generate`]
//! folds the events of a call into the message to send back. An unknown tool, arguments that do not fit
//! and a failure of the tool become results that the model can mend. A hosted call, which the provider
//! runs itself, is kept and never dispatched.
//!
//! ```ignore
//! let weather = async |city: City, _: ToolContext| match city.city.as_str() {
//!     "Paris" => Ok("sunny, 22 degrees".to_owned()),
//!     other => Err(ToolFailure::new(format!("nothing is known about {other}"))),
//! };
//! let tools = Tools::from_iter([("weather".to_owned(), Tool::make("Tells the weather.", weather))]);
//! let prompt = Some("How is the weather in Paris?".to_owned());
//! let input = RequestInput { prompt, tools: to_definitions(&tools), ..Default::default() };
//! let mut request = llm::request(model, input);
//! loop {
//!     let answer = client.generate(&request, StreamOptions::default()).await?;
//!     let mut messages = request.messages.clone();
//!     messages.push(Arc::new(answer.message.clone()));
//!     let mut has_calls = false;
//!     for call in answer.events.iter().filter_map(|event| event.as_tool_call()) {
//!         if call.provider_executed != Some(true) {
//!             let result = ToolRuntime::dispatch(&tools, call).await.result;
//!             let part = ToolResultPart::make(call.id.clone(), call.name.clone(), result);
//!             messages.push(Arc::new(Message::tool(part)));
//!             has_calls = true;
//!         }
//!     }
//!     if !has_calls {
//!         return Ok(answer.text());
//!     }
//!     request = request.update(RequestPatch { messages: Some(messages), ..Default::default() });
//! }
//! ```
//!
//! [`LlmClient::generate_object`] asks for a value of a Rust type by one forced tool, alike on every
//! protocol.
//!
//! # Another provider
//!
//! Nothing but the model changes. In code:
//!
//! ```ignore
//! let options = providers::ProviderOptions::key(key);
//! providers::openrouter::configure(options).model("anthropic/claude-opus-4.8")
//! ```
//!
//! By name, as a catalogue or a configuration file says it; [`provider_package::packages`] lists the names:
//!
//! ```ignore
//! let entry: ModelEntry = serde_json::from_str(text)?;
//! Ok(entry.resolve()?)
//! ```
//!
//! A key is either given or comes from the provider's environment variables; one that is missing is an
//! `Authentication` error of the call, which names the variables. A server that speaks a known protocol
//! needs only an address ([`providers::openai_compatible`], [`providers::anthropic_compatible`]), and
//! [`schema::model::Compatibility`] says where it differs. History of one provider can be sent to another:
//! signatures and ids stay behind, texts and results go along.
//!
//! A new named provider is a file in [`providers`] and a line in the table of [`provider_package`]; a new
//! wire format implements [`route::protocol::Protocol`]: a body from a request, events from frames, no I/O.
//!
//! # Failures
//!
//! Every failure is an [`AIError`]. [`AIError::retry_class`] says whether to try again (never, safely, or
//! only if nothing of the attempt was used), [`AIError::retry_after`] when, and
//! [`AIError::is_context_overflow`] that the prompt must become shorter first. The client itself makes one
//! attempt.
//!
//! ```ignore
//! match client.generate(request, StreamOptions::default()).await {
//!     Err(error) if error.is_context_overflow() => Err(error), // make the prompt shorter first
//!     Err(error) if error.retry_class() != RetryClass::Never => {
//!         tokio::time::sleep(error.retry_after().unwrap_or_default()).await;
//!         client.generate(request, StreamOptions::default()).await
//!     }
//!     done => done,
//! }
//! ```
//!
//! [`AIError::body`] is the provider's text as it was received, [`AIError::http`] the observed response.
//! They are kept for diagnosis: `Display` prints neither, `Debug` masks what looks secret; redact them
//! before they are stored or shown.
//!
//! # Tests
//!
//! With the feature `testing`, `testing::scripted` answers with bodies written in the test, and
//! `testing::replay` with recorded exchanges: a request must equal a recorded one, so that a replay also
//! proves the body. `testing::record` writes them, and refuses what looks like a secret.
//!
//! ```ignore
//! let replay = ReplayExecutor::new("guide", cassette, Redaction::default(), Delivery::Pieces(7));
//! let client = test_client(replay.clone());
//! println!("{}", client.generate(&request, abide_ai::StreamOptions::default()).await?.text());
//! replay.verify()?;
//! ```

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
