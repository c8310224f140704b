//! Tools as values: a description, schemas and a handler.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::ids::ToolCallId;
use crate::schema::messages::{ToolContent, ToolDefinition};

pub use abide_schema::tool::ToolError as ToolFailure;

/// Tools by name, in wire order. Built once and reused for every call.
pub type Tools = IndexMap<String, Tool>;

/// The call a handler runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolContext {
    /// The call.
    pub id: ToolCallId,
    /// The tool.
    pub name: String,
}

/// How a call of a tool ended, before projection.
pub(crate) enum Handled {
    /// The handler gave a value.
    Value(Value),
    /// The input does not fit.
    InvalidInput(String),
    /// The value does not fit.
    InvalidOutput(String),
    /// The handler failed.
    Failed(ToolFailure),
}

type Handler = Arc<dyn Fn(Value, ToolContext) -> BoxFuture<'static, Handled> + Send + Sync>;
type ModelOutput = Arc<dyn Fn(&Value) -> Vec<ToolContent> + Send + Sync>;
type StructuredOutput = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// A tool. Cheap to clone.
#[derive(Clone)]
pub struct Tool {
    description: String,
    input_schema: JsonObject,
    output_schema: Option<JsonObject>,
    is_dynamic: bool,
    handler: Option<Handler>,
    model_output: Option<ModelOutput>,
    structured_output: Option<StructuredOutput>,
}

impl Tool {
    /// Makes a tool of Rust types: the input is decoded before the handler sees it.
    pub fn make<I, O, F, R>(description: impl Into<String>, execute: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
        F: Fn(I, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolFailure>> + Send + 'static,
    {
        let execute = Arc::new(execute);
        let handler: Handler = Arc::new(move |input, context| {
            let execute = Arc::clone(&execute);
            Box::pin(async move {
                let input = match serde_json::from_value::<I>(input) {
                    Ok(input) => input,
                    Err(error) => return Handled::InvalidInput(error.to_string()),
                };
                match execute(input, context).await {
                    Ok(output) => match serde_json::to_value(output) {
                        Ok(value) => Handled::Value(value),
                        Err(error) => Handled::InvalidOutput(error.to_string()),
                    },
                    Err(failure) => Handled::Failed(failure),
                }
            })
        });
        Self {
            description: description.into(),
            input_schema: schema_of::<I>(),
            output_schema: Some(schema_of::<O>()),
            is_dynamic: false,
            handler: Some(handler),
            model_output: None,
            structured_output: None,
        }
    }

    /// Makes a tool of a JSON Schema: the handler decides about the input. Its value may be a tagged
    /// result (`{"type": "text", "value": …}`), which is taken as it is.
    pub fn dynamic<F, R>(description: impl Into<String>, input_schema: JsonObject, execute: F) -> Self
    where
        F: Fn(Value, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
    {
        let execute = Arc::new(execute);
        let handler: Handler = Arc::new(move |input, context| {
            let execute = Arc::clone(&execute);
            Box::pin(async move {
                match execute(input, context).await {
                    Ok(value) => Handled::Value(value),
                    Err(failure) => Handled::Failed(failure),
                }
            })
        });
        Self { handler: Some(handler), ..Self::described(description, input_schema) }
    }

    /// Makes a tool that is offered but has no handler here.
    pub fn described(description: impl Into<String>, input_schema: JsonObject) -> Self {
        Self {
            description: description.into(),
            input_schema,
            output_schema: None,
            is_dynamic: true,
            handler: None,
            model_output: None,
            structured_output: None,
        }
    }

    /// Sets the JSON Schema of the output.
    pub fn with_output_schema(self, schema: JsonObject) -> Self {
        Self { output_schema: Some(schema), ..self }
    }

    /// Sets what the model sees of a value.
    pub fn with_model_output(self, project: impl Fn(&Value) -> Vec<ToolContent> + Send + Sync + 'static) -> Self {
        Self { model_output: Some(Arc::new(project)), ..self }
    }

    /// Sets what programs see of a value.
    pub fn with_structured_output(self, project: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self { structured_output: Some(Arc::new(project)), ..self }
    }

    /// Whether the handler decides about its input and may give a tagged result.
    pub(crate) fn is_plain_dynamic(&self) -> bool {
        self.is_dynamic && self.model_output.is_none() && self.structured_output.is_none()
    }

    /// Runs the handler; `None` when there is none.
    pub(crate) async fn handle(&self, input: Value, context: ToolContext) -> Option<Handled> {
        let handler = self.handler.as_ref()?;
        Some(handler(input, context).await)
    }

    /// The items the model sees of a value: a string is one text.
    pub(crate) fn content(&self, value: &Value) -> Vec<ToolContent> {
        match (&self.model_output, value.as_str()) {
            (Some(project), _) => project(value),
            (None, Some(text)) => vec![ToolContent::text(text)],
            (None, None) => Vec::new(),
        }
    }

    /// What programs see of a value.
    pub(crate) fn structured(&self, value: Value) -> Value {
        match &self.structured_output {
            Some(project) => project(&value),
            None => value,
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("description", &self.description).finish_non_exhaustive()
    }
}

/// The definitions to offer, in the order of the record.
pub fn to_definitions(tools: &Tools) -> Vec<Arc<ToolDefinition>> {
    tools
        .iter()
        .map(|(name, tool)| {
            Arc::new(ToolDefinition {
                output_schema: tool.output_schema.clone(),
                ..ToolDefinition::make(name.clone(), tool.description.clone(), Value::Object(tool.input_schema.clone()))
            })
        })
        .collect()
}

/// The JSON Schema of a type; a type without an object schema gives an empty one.
pub(crate) fn schema_of<T: JsonSchema>() -> JsonObject {
    match schemars::schema_for!(T).to_value() {
        Value::Object(schema) => schema,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => JsonObject::new(),
    }
}
