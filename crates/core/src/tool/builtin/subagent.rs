//! The tool `subagent`: hands a task to a child session (spec/tools.md 11.14).

use std::sync::Arc;

use abide_schema::agent::{AgentInfo, AgentMode};
use abide_schema::model::ModelRef;
use abide_schema::permission::{Effect, Rule};
use abide_schema::tool::{Effects, joined_text};
use abide_schema::{AgentId, JobId, JsonObject, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::job::notice::subagent_content;
use crate::job::{Blocked, JobOutcome, JobStatus};
use crate::permission::{self, AssertInput, PermissionService, evaluate};
use crate::session::Sessions;
use crate::session::children::{ChildError, ChildRequest, SessionsLink, job_of, running_text};
use crate::store::CallKey;
use crate::tool::leaf::{Load, ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;

#[cfg(test)]
mod tests;

/// The name of the tool, and the action of its permission.
pub const ACTION: &str = "subagent";
/// The longest description that becomes a title, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// What settings say about children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubagentSettings {
    /// How deep sessions may be nested.
    pub depth: u32,
    /// Whether children inherit what their parent's agent may not do at all.
    pub inherits_denials: bool,
}

/// The tool.
pub struct SubagentTool {
    permissions: PermissionService,
    sessions: SessionsLink,
    settings: Arc<dyn Fn() -> SubagentSettings + Send + Sync>,
}

impl std::fmt::Debug for SubagentTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SubagentTool")
    }
}

impl SubagentTool {
    /// Makes the tool; `settings` are asked at each call.
    pub fn new(
        permissions: PermissionService,
        sessions: SessionsLink,
        settings: Arc<dyn Fn() -> SubagentSettings + Send + Sync>,
    ) -> Self {
        Self { permissions, sessions, settings }
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SubagentInput {
    /// The agent that works.
    #[schemars(length(min = 1))]
    agent: String,
    /// What it is for, in three to five words.
    #[schemars(length(min = 1))]
    description: String,
    /// The whole task: the subagent sees nothing else of this conversation.
    #[schemars(length(min = 1))]
    prompt: String,
    /// Another model than the agent's: provider/model, optionally with #variant.
    #[serde(default)]
    model: Option<String>,
    /// The session of an earlier subagent of this conversation, to go on with it.
    #[serde(default, rename = "sessionID")]
    session_id: Option<String>,
    /// Whether to go on at once; a notice comes when the subagent is done.
    #[serde(default)]
    background: Option<bool>,
}

/// What it gets.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentOutput {
    /// The child session.
    #[serde(rename = "sessionID")]
    session_id: String,
    /// `completed` or `running`.
    status: &'static str,
    /// Its last words, or what to expect.
    output: String,
}

/// Returns what the description of the tool says about the agents that `rules` leave to call.
pub fn available(agents: &[Arc<AgentInfo>], rules: &[Rule]) -> String {
    let may = |agent: &AgentInfo| {
        let effect = evaluate(ACTION, agent.id.as_str(), std::path::Path::new("/"), rules);
        agent.mode != AgentMode::Primary && !agent.hidden && effect != Effect::Deny
    };
    let mut offered: Vec<&Arc<AgentInfo>> = agents.iter().filter(|agent| may(agent)).collect();
    offered.sort_by(|a, b| a.id.cmp(&b.id));
    let line = |agent: &&Arc<AgentInfo>| match &agent.description {
        Some(description) => format!("- {}: {description}", agent.id),
        None => format!("- {}", agent.id),
    };
    let lines: Vec<String> = offered.iter().map(line).collect();
    if lines.is_empty() {
        "No subagents are available now.".to_owned()
    } else {
        format!("Subagents:\n{}", lines.join("\n"))
    }
}

/// A child whose parent's call waits: when the call ends early, so does the child.
struct Foreground {
    sessions: Sessions,
    job: JobId,
    waits: bool,
}

impl Drop for Foreground {
    fn drop(&mut self) {
        // When the process ends, the child is resumed with its parent's next start.
        if self.waits && !self.sessions.is_closing() {
            self.sessions.jobs().cancel(&self.job);
        }
    }
}

impl TypedTool for SubagentTool {
    type Input = SubagentInput;
    type Output = SubagentOutput;

    fn name(&self) -> &'static str {
        ACTION
    }

    fn description(&self) -> String {
        "Hands a task to a subagent, which works in a session of its own and returns its last words.\n\
         - Say everything it needs in `prompt`, and what it shall return: it sees nothing of this conversation.\n\
         - Several calls in one step work at the same time.\n\
         - With `background` the call returns at once; do not ask for the state, a notice comes.\n\
         - `sessionID` of an earlier result goes on with that subagent, which remembers what it did.\n\
         - Its words are not shown to the user: tell the user what matters. Do small things yourself."
            .to_owned()
    }

    fn effects(&self) -> Effects {
        Effects::Session
    }

    fn load(&self) -> Load {
        Load::Waits
    }

    async fn execute(&self, ctx: ToolContext, input: SubagentInput) -> Result<ToolReturn<SubagentOutput>, ToolFailure> {
        let sessions = self.sessions.get().ok_or_else(|| ToolFailure::new("Subagents are not available here"))?;
        let settings = (self.settings)();
        let request = request(&ctx, input, settings)?;
        sessions.check_child(&request, settings.depth).await.map_err(failure)?;
        let assert = AssertInput::new(ACTION, request.agent.as_str())
            .saving(request.agent.as_str())
            .with_metadata("description", request.description.as_str())
            .with_metadata("prompt", request.prompt.as_str());
        self.permissions.assert(&ctx, assert).await.map_err(|error| {
            let mut failure = ToolFailure::from(error);
            if permission::is_blocked(&failure) {
                failure.message = format!("Not allowed to start subagent {}: {}", request.agent, failure.message);
            }
            failure
        })?;
        let child = sessions.open_child(&request).await.map_err(failure)?;
        ctx.progress.report(JsonObject::from_iter([
            ("sessionID".to_owned(), json!(child)),
            ("status".to_owned(), json!("running")),
        ]));
        let job = job_of(&child);
        let mut foreground = Foreground { sessions: sessions.clone(), job: job.clone(), waits: !request.background };
        // Told and watched in one piece: a child that works is never without its job.
        let (told, wanted, named, scope) = (sessions.clone(), request.clone(), child.clone(), ctx.scope.clone());
        let starting = async move {
            let job = told.start_child(&wanted, &named).await?;
            if !wanted.background && scope.early_end().is_some() {
                told.jobs().cancel(&job);
            }
            Ok::<(), ChildError>(())
        };
        ctx.scope.commit(starting).await.map_err(failure)?;
        if request.background {
            return Ok(running(&child));
        }
        let blocked = sessions.jobs().block(&job, &ctx.session_id).await;
        foreground.waits = false;
        match blocked {
            Blocked::Finished(outcome) => finished(&child, outcome),
            Blocked::Backgrounded => Ok(running(&child)),
            Blocked::Unknown => Err(ToolFailure::new(format!("Subagent session {child} is not watched any more"))),
        }
    }
}

fn request(ctx: &ToolContext, input: SubagentInput, settings: SubagentSettings) -> Result<ChildRequest, ToolFailure> {
    let SubagentInput { agent, description, prompt, model, session_id, background } = input;
    let model = match model.filter(|text| !text.trim().is_empty()) {
        Some(text) => Some(ModelRef::parse(&text).ok_or_else(|| {
            ToolFailure::new(format!("{text:?} names no model; write provider/model, optionally with #variant"))
        })?),
        None => None,
    };
    if prompt.trim().is_empty() {
        return Err(ToolFailure::new("The prompt is empty: say what the subagent shall do"));
    }
    Ok(ChildRequest {
        call: CallKey { session: ctx.session_id.clone(), message: ctx.message_id.clone(), call: ctx.id.clone() },
        parent_agent: ctx.agent.clone(),
        agent: AgentId::new(agent),
        description: description.trim().chars().take(MAX_TITLE_CHARS).collect(),
        prompt,
        model,
        continues: session_id.filter(|id| !id.trim().is_empty()).map(SessionId::from_trusted),
        background: background.unwrap_or(false),
        inherits_denials: settings.inherits_denials,
    })
}

fn failure(error: ChildError) -> ToolFailure {
    ToolFailure::new(error.to_string())
}

fn running(child: &SessionId) -> ToolReturn<SubagentOutput> {
    let output = running_text(child);
    let content = subagent_content(child.as_str(), "running", &output);
    let output = SubagentOutput { session_id: child.to_string(), status: "running", output };
    ToolReturn::new(output).with_content(content)
}

fn finished(child: &SessionId, outcome: JobOutcome) -> Result<ToolReturn<SubagentOutput>, ToolFailure> {
    let text = joined_text(&outcome.content);
    match outcome.status {
        JobStatus::Completed | JobStatus::Running => {
            let content = subagent_content(child.as_str(), "completed", &text);
            let output = SubagentOutput { session_id: child.to_string(), status: "completed", output: text };
            Ok(ToolReturn::new(output).with_content(content))
        }
        JobStatus::Error | JobStatus::Cancelled => {
            let mut failure = ToolFailure::new(text);
            failure.metadata = Some(JsonObject::from_iter([("sessionID".to_owned(), json!(child))]));
            Err(failure)
        }
    }
}
