//! The four verbs: make a request, stream it, collect it, or ask for an object.

mod object;

pub use object::GenerateObjectResponse;

use std::sync::OnceLock;

use futures_util::StreamExt as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::route::client::{LlmClient, LlmStream, StreamOptions};
use crate::schema::errors::AIError;
use crate::schema::model::LanguageModel;
use crate::schema::request::{LLMRequest, RequestInput};
use crate::schema::response::LLMResponse;

/// Makes a request.
pub fn request(model: LanguageModel, input: RequestInput) -> LLMRequest {
    LLMRequest::make(model, input)
}

/// Runs one model call on the shared client of the process.
pub fn stream(request: &LLMRequest) -> LlmStream {
    match shared() {
        Ok(client) => client.stream(request, StreamOptions::default()),
        Err(error) => Box::pin(futures_util::stream::iter([Err(error)]).boxed()),
    }
}

/// Runs one model call on the shared client of the process and collects it.
///
/// # Errors
/// See [`LlmClient::generate`].
///
/// # Cancel safety
/// Dropping the future closes the connection; the events so far are lost.
pub async fn generate(request: &LLMRequest) -> Result<LLMResponse, AIError> {
    shared()?.generate(request, StreamOptions::default()).await
}

/// Asks for a value of a Rust type on the shared client of the process.
///
/// # Errors
/// See [`LlmClient::generate_object`].
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn generate_object<T: DeserializeOwned + JsonSchema>(
    request: &LLMRequest,
) -> Result<GenerateObjectResponse<T>, AIError> {
    shared()?.generate_object(request, StreamOptions::default()).await
}

fn shared() -> Result<LlmClient, AIError> {
    static CLIENT: OnceLock<Result<LlmClient, AIError>> = OnceLock::new();
    CLIENT.get_or_init(LlmClient::live).clone()
}
