//! Hooks: what a plugin may see and change while the engine works.
//!
//! Fields that a hook may change are public; the others have getters. Hooks of one kind run one after another and
//! see what those before them changed. Nothing of a hook is stored: after a crash the operation, and with it the
//! hook, runs again.

use abide_ai::{Message, SystemPart};
use abide_schema::model::ModelRef;
use abide_schema::tool::{ToolError, ToolResult};
use abide_schema::{AgentId, JsonObject, SessionId};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::tool::ToolContext;

/// A call before its tool is looked up and its input is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct BeforeCall {
    context: ToolContext,
    /// The name that the model used, perhaps of no tool; may be replaced.
    pub tool: String,
    /// The arguments; may be replaced.
    pub input: Value,
}

impl BeforeCall {
    /// Makes the event of a call.
    pub fn new(context: ToolContext, tool: impl Into<String>, input: Value) -> Self {
        Self { context, tool: tool.into(), input }
    }

    /// Returns which call it is.
    pub fn context(&self) -> &ToolContext {
        &self.context
    }
}

/// A call that was settled.
#[derive(Clone, Debug, PartialEq)]
pub struct AfterCall {
    context: ToolContext,
    tool: String,
    input: Value,
    /// What became of it; a result may be replaced by a result, an error by an error.
    pub outcome: Result<ToolResult, ToolError>,
}

impl AfterCall {
    /// Makes the event of a settled call.
    pub fn new(before: BeforeCall, outcome: Result<ToolResult, ToolError>) -> Self {
        Self { context: before.context, tool: before.tool, input: before.input, outcome }
    }

    /// Returns which call it is.
    pub fn context(&self) -> &ToolContext {
        &self.context
    }

    /// Returns the name of the tool that ran.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the input that it got.
    pub fn input(&self) -> &Value {
        &self.input
    }
}

/// Hooks around tool calls: `tool.execute.before` and `tool.execute.after`.
pub trait ToolHook: Send + Sync {
    /// Looks at a call before it runs.
    ///
    /// # Errors
    /// [`ToolError`]: the call is refused, and the model is told why.
    ///
    /// # Cancel safety
    /// The future is dropped when the call is interrupted.
    fn before<'a>(&'a self, _call: &'a mut BeforeCall) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Looks at what became of a call.
    ///
    /// # Cancel safety
    /// The future is dropped when the call is interrupted.
    fn after<'a>(&'a self, _call: &'a mut AfterCall) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What a model request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A step of a session.
    Primary,
    /// A summary of its history.
    Compaction,
    /// Its title.
    Title,
    /// Text outside any session's history.
    Generate,
}

/// A tool as a request offers it.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// What it does.
    pub description: String,
    /// The JSON Schema of its input.
    pub input: Value,
}

/// A model request before it is sent (`session.context`, `session.compaction`). Data only: the engine does not call
/// this hook yet.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    session_id: SessionId,
    agent: AgentId,
    model: ModelRef,
    kind: RequestKind,
    /// The system prompt.
    pub system: Vec<SystemPart>,
    /// The messages.
    pub messages: Vec<Message>,
    /// Generation settings (`maxTokens`, `temperature`, …); any other key is an option of the provider.
    pub options: JsonObject,
    /// The tools by name.
    pub tools: BTreeMap<String, OfferedTool>,
}

impl ChatRequest {
    /// Makes an empty request.
    pub fn new(session_id: SessionId, agent: AgentId, model: ModelRef, kind: RequestKind) -> Self {
        Self {
            session_id,
            agent,
            model,
            kind,
            system: Vec::new(),
            messages: Vec::new(),
            options: JsonObject::new(),
            tools: BTreeMap::new(),
        }
    }

    /// Returns the session.
    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Returns the agent.
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// Returns the model.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// Returns what it is for.
    pub fn kind(&self) -> RequestKind {
        self.kind
    }
}
