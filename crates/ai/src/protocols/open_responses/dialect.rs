//! What a protocol that builds on this one adds to it.

use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::errors::AIError;
use crate::schema::messages::{ToolDefinition, ToolResultValue};

/// The additions of a protocol to the baseline. The defaults are the baseline.
pub trait Dialect: Send + Sync + std::fmt::Debug {
    /// The id of the protocol.
    fn id(&self) -> &'static str;

    /// The name in messages for people.
    fn name(&self) -> &'static str;

    /// The native object of a hosted tool, as it is sent.
    ///
    /// # Errors
    /// `InvalidRequest` when the object is not one the protocol knows.
    fn native_tool<'r>(&self, tool: &'r ToolDefinition, _native: &'r Value) -> Result<&'r JsonObject, AIError> {
        Err(AIError::invalid_request(format!("{} does not support provider-native tool {}", self.name(), tool.name)))
    }

    /// The type of a hosted tool that a named tool choice means, where the wire wants no name.
    fn hosted_choice<'r>(&self, _native: &'r Value) -> Option<&'r str> {
        None
    }

    /// Whether an item type is a hosted call.
    fn is_hosted(&self, _item_type: &str) -> bool {
        false
    }

    /// What a finished hosted item means.
    ///
    /// # Errors
    /// `InvalidProviderOutput` when the item is malformed.
    fn hosted(&self, _item_type: &str, _item: &JsonObject) -> Result<Option<Hosted>, AIError> {
        Ok(None)
    }

    /// Whether `response.reasoning_text.*` events are read.
    fn reads_reasoning_text(&self) -> bool {
        false
    }

    /// Whether `context_management` is sent.
    fn manages_context(&self) -> bool {
        false
    }
}

/// A hosted call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Hosted {
    /// The tool.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// What came of it.
    pub result: ToolResultValue,
}

/// The provider-neutral protocol itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Baseline;

impl Dialect for Baseline {
    fn id(&self) -> &'static str {
        "open-responses"
    }

    fn name(&self) -> &'static str {
        "Open Responses"
    }
}
