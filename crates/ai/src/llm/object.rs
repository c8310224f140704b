//! Structured output by one forced tool, so that it behaves alike on every protocol.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::route::client::{LlmClient, StreamOptions};
use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::events::LLMEvent;
use crate::schema::messages::{ToolChoice, ToolDefinition};
use crate::schema::request::{LLMRequest, RequestPatch};
use crate::schema::response::LLMResponse;
use crate::schema::usage::Usage;
use crate::tool::schema_of;

const NAME: &str = "generate_object";
const DESCRIPTION: &str = "Return the structured result by calling this tool.";

/// An object and the response it came in.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateObjectResponse<T> {
    /// The object.
    pub object: T,
    /// The whole response.
    pub response: LLMResponse,
}

impl<T> GenerateObjectResponse<T> {
    /// Tokens.
    pub const fn usage(&self) -> Option<&Usage> {
        self.response.usage.as_ref()
    }

    /// Every event in order.
    pub fn events(&self) -> &[LLMEvent] {
        &self.response.events
    }
}

impl LlmClient {
    /// Asks for a value of a Rust type.
    ///
    /// # Errors
    /// As [`LlmClient::generate_json`], and `InvalidProviderOutput` when the object does not decode.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn generate_object<T: DeserializeOwned + JsonSchema>(
        &self,
        request: &LLMRequest,
        options: StreamOptions,
    ) -> Result<GenerateObjectResponse<T>, AIError> {
        let found = self.generate_json(request, schema_of::<T>(), options).await?;
        let object = serde_json::from_value(found.object.clone()).map_err(|error| {
            AIError::invalid_output(format!("generateObject: tool input failed schema decode: {error}"))
                .with_body(found.object.to_string())
                .with_cause(error)
        })?;
        Ok(GenerateObjectResponse { object, response: found.response })
    }

    /// Asks for an object of a JSON Schema; the object is not checked against it.
    ///
    /// # Errors
    /// `InvalidRequest` when the request has tools or a tool choice; `InvalidProviderOutput` when the
    /// model did not call the forced tool; and what [`LlmClient::generate`] gives.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn generate_json(
        &self,
        request: &LLMRequest,
        schema: JsonObject,
        options: StreamOptions,
    ) -> Result<GenerateObjectResponse<Value>, AIError> {
        if !request.tools.is_empty() || request.tool_choice.is_some() {
            return Err(AIError::invalid_request("generateObject: the request must not have tools or a tool choice"));
        }
        let tool = ToolDefinition::make(NAME, DESCRIPTION, Value::Object(schema));
        let request = request.update(RequestPatch {
            tools: Some(vec![Arc::new(tool)]),
            tool_choice: Some(Some(ToolChoice::named(NAME))),
            ..RequestPatch::default()
        });
        let response = self.generate(&request, options).await?;
        let object = response.tool_calls().into_iter().find(|call| call.name == NAME).map(|call| call.input.clone());
        match object {
            Some(object) => Ok(GenerateObjectResponse { object, response }),
            None => {
                Err(AIError::invalid_output("generateObject: model did not call the forced `generate_object` tool"))
            }
        }
    }
}
