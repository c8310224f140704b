//! Tools that plugins bring.

use abide_schema::tool::{ToolError, ToolOptions, ToolResult};
use abide_schema::{AgentId, CallId, MessageId, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// Letters that an effective name may have: what providers take.
pub const MAX_NAME_CHARS: usize = 64;

/// What a tool is, for the registry and the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInfo {
    /// The name inside its namespace.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its input.
    pub input: Value,
    /// The JSON Schema of its output, when it declares one.
    pub output: Option<Value>,
    /// How it is offered.
    pub options: ToolOptions,
}

impl ToolInfo {
    /// Returns the name that the model uses: namespace and name joined by `_`, foreign letters replaced by `_`;
    /// `None` when it does not start with a letter or is longer than [`MAX_NAME_CHARS`].
    pub fn effective_name(&self) -> Option<String> {
        let whole = match &self.options.namespace {
            Some(namespace) => format!("{namespace}_{}", self.name),
            None => self.name.clone(),
        };
        let is_kept = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let name: String = whole.chars().map(|letter| if is_kept(letter) { letter } else { '_' }).collect();
        (name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.len() <= MAX_NAME_CHARS).then_some(name)
    }
}

/// Which call a tool serves. It has no permissions and no directory: the host decides about both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolContext {
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// The assistant message.
    pub message_id: MessageId,
    /// The call.
    pub id: CallId,
}

/// A tool of a plugin. Its effects are unknown to the engine: a call that a crash interrupts is never repeated by
/// itself, and the model is told that it may have taken effect.
pub trait Tool: Send + Sync {
    /// Describes it; the same each time.
    fn info(&self) -> ToolInfo;

    /// Runs a call whose input fits the schema.
    ///
    /// # Errors
    /// [`ToolError`], which the model is told.
    ///
    /// # Cancel safety
    /// The future is dropped when the call is interrupted.
    fn execute(&self, input: Value, context: ToolContext) -> BoxFuture<'_, Result<ToolResult, ToolError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_names() {
        let check = |namespace: Option<&str>, name: &str, expected: Option<&str>| {
            let options = ToolOptions { namespace: namespace.map(str::to_owned), ..ToolOptions::direct() };
            let info = ToolInfo {
                name: name.to_owned(),
                description: String::new(),
                input: Value::Null,
                output: None,
                options,
            };
            assert_eq!(info.effective_name().as_deref(), expected);
        };
        check(None, "read", Some("read"));
        check(Some("a.b"), "c d-e", Some("a_b_c_d-e"));
        check(None, "9lives", None);
        check(None, "", None);
        check(None, &"a".repeat(64), Some("a".repeat(64).as_str()));
        check(None, &"a".repeat(65), None);
    }
}
