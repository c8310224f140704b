//! Definitions, results, content: what happens to a call's values on both sides of its leaf (spec/tools.md section 3).

use abide_ai::ToolDefinition;
use abide_schema::JsonObject;
use abide_schema::tool::{Content, ToolResult};
use serde_json::Value;

use super::info::{RawReturn, ToolInfo};
use super::outcome::ToolFailure;
use super::schema::{Issue, SchemaCache};

/// Returns what the provider is told about a tool.
pub fn definition(effective_name: &str, tool: &ToolInfo) -> ToolDefinition {
    let mut definition =
        ToolDefinition::make(effective_name, tool.description.clone(), Value::Object(tool.input.advertised().clone()));
    definition.output_schema = tool.output.as_ref().map(|schema| schema.advertised().clone());
    definition
}

/// What a leaf's return became.
pub(crate) enum Encoded {
    /// A result, normalised.
    Result(ToolResult, Vec<String>),
    /// The tool did not keep its promise.
    Failed(ToolFailure),
    /// A bug of the tool's author.
    Defect(String),
}

/// Checks the output of a leaf and normalises its content.
pub(crate) async fn encode(tool: &ToolInfo, returned: RawReturn, cache: &SchemaCache) -> Encoded {
    let RawReturn { output, content, metadata, output_paths } = returned;
    let output = match (&tool.output, output) {
        (None, None) => None,
        (None, Some(_)) => return Encoded::Defect(format!("{} returned output without an output schema", tool.name)),
        (Some(_), None) => {
            return Encoded::Failed(ToolFailure::new("The tool gave no value for its declared output"));
        }
        (Some(schema), Some(output)) => match schema.validate_output(output, cache).await {
            Ok(output) => Some(output),
            Err(issues) => {
                let text = issues.iter().map(Issue::to_string).collect::<Vec<_>>().join("; ");
                let text = format!("The tool's output does not match its schema: {text}");
                return Encoded::Failed(ToolFailure::new(text));
            }
        },
    };
    let metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
    Encoded::Result(normalise(ToolResult { output, content, metadata }), output_paths)
}

/// Gives a result content: without any, the output as text.
pub(crate) fn normalise(mut result: ToolResult) -> ToolResult {
    if result.content.is_empty() {
        let text = match &result.output {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(output) => output.to_string(),
        };
        result.content.push(Content::text(text));
    }
    result
}

/// Returns what events call `structured`: the output when it is an object; without an output the metadata.
pub(crate) fn structured(result: ToolResult) -> JsonObject {
    match result.output {
        Some(Value::Object(output)) => output,
        None => result.metadata.unwrap_or_default(),
        Some(other) => JsonObject::from_iter([("output".to_owned(), other)]),
    }
}
