//! A tool as the registry stores it: data, and an executor that only the boundary can call.

use std::sync::Arc;

use abide_schema::tool::{Effects, Freeform, ToolOptions};
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::leaf::{Keep, Load, ToolContext, ToolReturn, TypedTool};
use super::outcome::ToolFailure;

/// A registrable tool. The executor is private: a tool can only ever run its own code.
#[derive(Clone)]
pub struct ToolInfo {
    /// The name before it is normalised.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// How it is offered.
    pub options: ToolOptions,
    /// Whether it may be advertised as a text-only custom tool.
    pub freeform: Option<Freeform>,
    /// What its effects are, for recovery.
    pub effects: Effects,
    /// Which end of a too long output is kept.
    pub keep: Keep,
    /// Whether a running call holds a permit.
    pub load: Load,
    exec: Arc<dyn ToolExec>,
}

/// The code of a tool behind its codec. Implemented here and by hosts of foreign tools (MCP, plugins).
pub trait ToolExec: Send + Sync {
    /// Runs one call with validated input.
    ///
    /// # Errors
    /// [`ToolFailure`] with text for the model.
    fn execute(
        self: Arc<Self>,
        ctx: ToolContext,
        input: Value,
    ) -> BoxFuture<'static, Result<ToolReturn<Option<Value>>, ToolFailure>>;
}

impl ToolInfo {
    /// Makes a registrable tool of a typed one.
    pub fn typed<T: TypedTool>(tool: T) -> Self {
        Self {
            name: tool.name().to_owned(),
            description: tool.description(),
            options: tool.options(),
            freeform: None,
            effects: tool.effects(),
            keep: tool.keep(),
            load: tool.load(),
            exec: Arc::new(Typed(tool)),
        }
    }
}

impl std::fmt::Debug for ToolInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

struct Typed<T>(T);

impl<T: TypedTool> ToolExec for Typed<T> {
    fn execute(
        self: Arc<Self>,
        ctx: ToolContext,
        input: Value,
    ) -> BoxFuture<'static, Result<ToolReturn<Option<Value>>, ToolFailure>> {
        Box::pin(async move {
            let input = serde_json::from_value(input).map_err(|error| ToolFailure::new(error.to_string()))?;
            let returned = self.0.execute(ctx, input).await?;
            let output = serde_json::to_value(&returned.output).map_err(|error| ToolFailure::new(error.to_string()))?;
            Ok(returned.map(|_| Some(output)))
        })
    }
}
