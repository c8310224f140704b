//! What the author of a built-in tool writes against.

use std::future::Future;

use abide_schema::permission::Source;
use abide_schema::tool::{Content, Effects, Freeform, ToolOptions};
use abide_schema::{AgentId, CallId, JsonObject, MessageId, SessionId};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::outcome::ToolFailure;
use super::progress::Progress;
use super::scope::CallScope;

/// A built-in tool: a name, a description, typed input and output, and the code.
///
/// The value captures its services when it is built; the context of a call carries none.
pub trait TypedTool: Send + Sync + 'static {
    /// The decoded input. A `struct` with `#[derive(Deserialize, JsonSchema)]`; doc comments of fields are what the
    /// model reads about them. Optional fields are `Option<_>` or have `#[serde(default)]`. No `deny_unknown_fields`:
    /// surplus properties are removed before decoding.
    type Input: DeserializeOwned + JsonSchema + Send + 'static;
    /// The output, which must serialize to a JSON **object**: it is `structured` in events, with exactly the fields
    /// of the contract.
    type Output: Serialize + JsonSchema + Send + 'static;

    /// Returns the name that the model calls.
    fn name(&self) -> &str;

    /// Returns what the model reads about the tool.
    fn description(&self) -> String;

    /// Returns how the tool is offered; directly, unless it says otherwise. Set `permission` when the action of its
    /// rules is not its name.
    fn options(&self) -> ToolOptions {
        ToolOptions::direct()
    }

    /// Returns the input property that takes the text of a call, and the tool's name then, where a provider offers tools
    /// that take plain text.
    fn freeform(&self) -> Option<Freeform> {
        None
    }

    /// Returns what its effects are, for recovery.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// Returns the limits that a caller should know, one a line: for the reference.
    fn limits(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns which end of a too long output is kept.
    fn keep(&self) -> Keep {
        Keep::Head
    }

    /// Returns whether a running call holds one of the location's permits. Tools that mainly wait for other work
    /// (questions, foreground commands, subagents) do not.
    fn load(&self) -> Load {
        Load::Works
    }

    /// Runs one call.
    ///
    /// # Errors
    /// [`ToolFailure`] with text for the model, for what the tool expects to go wrong.
    ///
    /// # Cancel safety
    /// The future is dropped at any await when the call is interrupted or the user declines: whatever it holds must
    /// clean up in `Drop`. Work that must not be torn goes through [`CallScope::commit`].
    fn execute(
        &self,
        ctx: ToolContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<ToolReturn<Self::Output>, ToolFailure>> + Send;
}

/// Which end of a too long output is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// The first lines.
    #[default]
    Head,
    /// The last lines, for shell-like producers.
    Tail,
}

/// Whether a running call holds a permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Load {
    /// It works: it holds one.
    #[default]
    Works,
    /// It mainly waits: it holds none.
    Waits,
}

/// One call, as a leaf sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The session.
    pub session_id: SessionId,
    /// The agent that was sampled for the step.
    pub agent: AgentId,
    /// The assistant message.
    pub message_id: MessageId,
    /// The call.
    pub id: CallId,
    /// The session's fence: file mutations check it before they apply.
    pub fence: u64,
    /// Reports of the running call.
    pub progress: Progress,
    /// Cancellation, commit sections, tasks of the call.
    pub scope: CallScope,
}

impl ToolContext {
    /// Returns the source of the call's permission requests and questions.
    pub fn source(&self) -> Source {
        Source::Tool { message_id: self.message_id.clone(), call_id: self.id.clone() }
    }
}

/// What a leaf returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolReturn<O> {
    /// The declared output.
    pub output: O,
    /// What the model is told; empty means the output as JSON.
    pub content: Vec<Content>,
    /// Small facts for the boundary and for hooks: never sent to the provider. A producer that bounded its text
    /// itself sets `truncated`; then the boundary leaves the content alone.
    pub metadata: JsonObject,
    /// Files with the complete output.
    pub output_paths: Vec<String>,
}

impl<O> ToolReturn<O> {
    /// Makes a return without content.
    pub fn new(output: O) -> Self {
        Self { output, content: Vec::new(), metadata: JsonObject::new(), output_paths: Vec::new() }
    }

    /// Adds a text for the model.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.content.push(Content::text(text));
        self
    }

    /// Adds a piece of content for the model.
    #[must_use]
    pub fn with_content(mut self, content: Content) -> Self {
        self.content.push(content);
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Says that the producer bounded its output itself: the boundary leaves the content alone.
    #[must_use]
    pub fn bounded(self, truncated: bool) -> Self {
        self.with_metadata("truncated", truncated)
    }

    /// Adds a file with the complete output.
    #[must_use]
    pub fn with_output_path(mut self, path: impl Into<String>) -> Self {
        self.output_paths.push(path.into());
        self
    }

    /// Converts the output.
    pub fn map<P>(self, convert: impl FnOnce(O) -> P) -> ToolReturn<P> {
        ToolReturn {
            output: convert(self.output),
            content: self.content,
            metadata: self.metadata,
            output_paths: self.output_paths,
        }
    }
}
