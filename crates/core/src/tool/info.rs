//! A tool as the registry stores it: data, and an executor that only the boundary can call.

use std::sync::Arc;

use abide_schema::json::hash;
use abide_schema::tool::{Effects, Freeform, ToolOptions};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::leaf::{Keep, Load, ToolContext, ToolReturn, TypedTool};
use super::outcome::ToolFailure;
use super::schema::{Issue, ValueSchema};

/// What a leaf returned, before its output is checked.
pub type RawReturn = ToolReturn<Option<Value>>;

/// A call whose input is decoded: the leaf's code, ready to run once.
pub(crate) type Prepared = Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, Result<RawReturn, ToolFailure>> + Send>;

/// A registrable tool. The executor is private: a tool can only ever run its own code.
#[derive(Clone)]
pub struct ToolInfo {
    /// The name before it is normalised.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// The schema of its input.
    pub input: ValueSchema,
    /// The schema of its output; absent: it has none.
    pub output: Option<ValueSchema>,
    /// How it is offered.
    pub options: ToolOptions,
    /// Whether it may be advertised as a text-only custom tool.
    pub freeform: Option<Freeform>,
    /// What its effects are, for recovery.
    pub effects: Effects,
    /// The limits that a caller should know, for the reference.
    pub limits: Vec<String>,
    /// Which end of a too long output is kept.
    pub keep: Keep,
    /// Whether a running call holds a permit.
    pub load: Load,
    exec: Arc<dyn Exec>,
}

/// The code of a tool that came from outside (MCP, plugins, clients).
pub trait ForeignTool: Send + Sync {
    /// Runs one call with validated input.
    ///
    /// # Errors
    /// [`ToolFailure`] with text for the model.
    fn execute(self: Arc<Self>, ctx: ToolContext, input: Value) -> BoxFuture<'static, Result<RawReturn, ToolFailure>>;
}

/// The code of a tool behind its codec.
trait Exec: Send + Sync {
    /// Decodes validated input.
    fn prepare(self: Arc<Self>, input: Value) -> Result<Prepared, Vec<Issue>>;
}

impl ToolInfo {
    /// Makes a registrable tool of a typed one.
    pub fn typed<T: TypedTool>(tool: T) -> Self {
        Self {
            name: tool.name().to_owned(),
            description: tool.description(),
            input: ValueSchema::input::<T::Input>(),
            output: Some(ValueSchema::output::<T::Output>()),
            options: tool.options(),
            freeform: tool.freeform(),
            effects: tool.effects(),
            limits: tool.limits(),
            keep: tool.keep(),
            load: tool.load(),
            exec: Arc::new(Typed(tool)),
        }
    }

    /// Makes a registrable tool of foreign code and its schemas.
    pub fn foreign(
        name: impl Into<String>,
        description: impl Into<String>,
        input: ValueSchema,
        output: Option<ValueSchema>,
        options: ToolOptions,
        tool: Arc<dyn ForeignTool>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input,
            output,
            options,
            freeform: None,
            effects: Effects::External,
            limits: Vec::new(),
            keep: Keep::Head,
            load: Load::Works,
            exec: Arc::new(Foreign(tool)),
        }
    }

    /// Decodes validated input.
    pub(crate) fn prepare(&self, input: Value) -> Result<Prepared, Vec<Issue>> {
        Arc::clone(&self.exec).prepare(input)
    }

    /// Returns a hash of everything that the model can see of the tool.
    pub(crate) fn fingerprint(&self) -> String {
        hash(&json!({
            "name": self.name,
            "description": self.description,
            "input": self.input.advertised(),
            "output": self.output.as_ref().map(ValueSchema::advertised),
            "options": self.options,
            "freeform": self.freeform,
        }))
    }
}

impl std::fmt::Debug for ToolInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

struct Typed<T>(T);

impl<T: TypedTool> Exec for Typed<T> {
    fn prepare(self: Arc<Self>, input: Value) -> Result<Prepared, Vec<Issue>> {
        let input: T::Input = serde_path_to_error::deserialize(input).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            vec![Issue::new(path, error.into_inner().to_string())]
        })?;
        Ok(Box::new(move |ctx| {
            Box::pin(async move {
                let returned = self.0.execute(ctx, input).await?;
                let output = serde_json::to_value(&returned.output).map_err(|error| {
                    ToolFailure::new(format!("The tool's output does not match its schema: {error}"))
                })?;
                Ok(returned.map(|_| Some(output)))
            })
        }))
    }
}

struct Foreign(Arc<dyn ForeignTool>);

impl Exec for Foreign {
    fn prepare(self: Arc<Self>, input: Value) -> Result<Prepared, Vec<Issue>> {
        Ok(Box::new(move |ctx| Arc::clone(&self.0).execute(ctx, input)))
    }
}
