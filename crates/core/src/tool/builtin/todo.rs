//! The tool `todowrite`: replaces the session's list of things to do (spec/tools.md 11.11).

use std::sync::Arc;

use abide_schema::live::TodoUpdated;
use abide_schema::todo::Todo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::permission::{AssertInput, PermissionService, Publish};
use crate::store::ValueStore;
use crate::tool::failure::caused;
use crate::tool::leaf::{ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

#[cfg(test)]
mod tests;

/// The action of the list.
const ACTION: &str = "todowrite";

/// The tool.
pub struct TodoTool {
    permissions: PermissionService,
    values: Arc<dyn ValueStore>,
    publish: Publish,
}

impl std::fmt::Debug for TodoTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TodoTool")
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TodoInput {
    /// The whole list; it replaces the one before.
    todos: Vec<Item>,
}

/// One thing to do.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Item {
    /// What.
    content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    status: String,
    /// `high`, `medium` or `low`.
    priority: String,
}

/// What it gets.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TodoOutput {
    /// The list as it is now.
    todos: Vec<Todo>,
}

impl TodoTool {
    /// Makes the tool; `publish` takes the event that the list changed.
    pub const fn new(permissions: PermissionService, values: Arc<dyn ValueStore>, publish: Publish) -> Self {
        Self { permissions, values, publish }
    }
}

impl TypedTool for TodoTool {
    type Input = TodoInput;
    type Output = TodoOutput;

    fn name(&self) -> &'static str {
        "todowrite"
    }

    fn description(&self) -> String {
        "Keeps the list of things to do for this session, which the user sees. Give the whole list each time. Use it \
         for work of three steps or more: have one item in_progress, and mark an item completed as soon as it is done."
            .to_owned()
    }

    async fn execute(&self, ctx: ToolContext, input: TodoInput) -> Result<ToolReturn<TodoOutput>, ToolFailure> {
        self.permissions.assert(&ctx, AssertInput::new(ACTION, "*").saving("*")).await?;
        let todos: Vec<Todo> = input.todos.into_iter().map(Item::into_todo).collect();
        let (values, publish) = (Arc::clone(&self.values), Arc::clone(&self.publish));
        let (session_id, list) = (ctx.session_id.clone(), todos.clone());
        // The list and the news of it belong together, also when the call ends meanwhile.
        let stored = ctx.scope.commit(async move {
            values.set_todos(&session_id, list.clone()).await?;
            publish(TodoUpdated { session_id, todos: list }.into());
            Ok(())
        });
        let failed = |error: &(dyn std::error::Error + 'static)| caused("Could not update the todo list", error);
        stored.await.map_err(|error: crate::store::StoreError| failed(&error))?;
        let text = serde_json::to_string_pretty(&todos).map_err(|error| failed(&error))?;
        let n_running = todos.iter().filter(|todo| todo.status == "in_progress").count();
        let mut returned = ToolReturn::new(TodoOutput { todos }).with_text(text);
        if n_running > 1 {
            returned = returned.with_text(format!("{n_running} items are in_progress; one at a time is clearer."));
        }
        Ok(returned)
    }
}

impl Item {
    fn into_todo(self) -> Todo {
        Todo { content: self.content, status: self.status, priority: self.priority }
    }
}
