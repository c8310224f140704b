//! The tool `job`: looks at the background work of the session, waits for it, stops it (spec/tools.md 11.8).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_schema::tool::joined_text;
use abide_schema::{JobId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::job::{JobInfo, JobKind, JobStatus, Jobs};
use crate::shell::process;
use crate::store::JobWork;
use crate::tool::leaf::{Keep, Load, ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use crate::tool::output::OutputLimits;

#[cfg(test)]
mod tests;

/// The longest wait: a notice comes anyway.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// The wait when none is given.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// The tool.
pub struct JobTool {
    jobs: Arc<dyn Fn() -> Option<Jobs> + Send + Sync>,
    limits: OutputLimits,
}

impl std::fmt::Debug for JobTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobTool")
    }
}

impl JobTool {
    /// Makes the tool.
    pub fn new(jobs: Arc<dyn Fn() -> Option<Jobs> + Send + Sync>, limits: OutputLimits) -> Self {
        Self { jobs, limits }
    }
}

/// What the tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobAction {
    /// Lists the jobs of this session.
    List,
    /// Shows the output of a command so far.
    Output,
    /// Waits for the end of a job, for a while.
    Wait,
    /// Stops a job.
    Stop,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct JobInput {
    /// What to do.
    action: JobAction,
    /// The job: the id of a command (sh_…) or of a subagent's session (ses_…). Not needed for list.
    #[serde(default)]
    id: Option<String>,
    /// For wait: at most so many milliseconds, 10000 when absent and at most 120000.
    #[serde(default)]
    timeout: Option<u64>,
}

/// A job, as the model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobLine {
    id: String,
    kind: &'static str,
    status: &'static str,
    title: String,
    background: bool,
}

/// What it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobOutput {
    /// The jobs that it is about.
    jobs: Vec<JobLine>,
}

impl From<&JobInfo> for JobLine {
    fn from(info: &JobInfo) -> Self {
        Self {
            id: info.id.to_string(),
            kind: match info.kind {
                JobKind::Shell => "shell",
                JobKind::Subagent => "subagent",
            },
            status: match info.status {
                JobStatus::Running => "running",
                JobStatus::Completed => "completed",
                JobStatus::Error => "error",
                JobStatus::Cancelled => "cancelled",
            },
            title: info.title.clone(),
            background: info.notification.is_some(),
        }
    }
}

impl JobLine {
    fn text(&self) -> String {
        format!("{} {} {}: {}", self.id, self.kind, self.status, self.title)
    }
}

impl TypedTool for JobTool {
    type Input = JobInput;
    type Output = JobOutput;

    fn name(&self) -> &'static str {
        "job"
    }

    fn description(&self) -> String {
        "Looks after background work of this session: lists it, shows the output of a command so far, waits for the end \
         of a job, or stops it. A notice comes when a job ends, so there is no need to ask again and again."
            .to_owned()
    }

    fn keep(&self) -> Keep {
        Keep::Tail
    }

    fn load(&self) -> Load {
        Load::Waits
    }

    async fn execute(&self, ctx: ToolContext, input: JobInput) -> Result<ToolReturn<JobOutput>, ToolFailure> {
        let jobs = (self.jobs)().ok_or_else(|| ToolFailure::new("abide is stopping"))?;
        let session = &ctx.session_id;
        if input.action == JobAction::List {
            let lines: Vec<JobLine> = jobs.list(Some(session)).iter().map(JobLine::from).collect();
            let text = if lines.is_empty() {
                "No jobs.".to_owned()
            } else {
                lines.iter().map(JobLine::text).collect::<Vec<_>>().join("\n")
            };
            return Ok(ToolReturn::new(JobOutput { jobs: lines }).with_text(text));
        }
        let info = own(&jobs, session, input.id.as_deref())?;
        let text = match input.action {
            JobAction::List => String::new(),
            JobAction::Output => self.output(&jobs, &info.id).await?,
            JobAction::Wait => {
                let wait = input.timeout.map_or(DEFAULT_WAIT, Duration::from_millis).min(MAX_WAIT);
                match jobs.wait(&info.id, Some(wait)).await {
                    Some(outcome) => joined_text(&outcome.content),
                    None => "It still runs. A notice comes when it ends.".to_owned(),
                }
            }
            JobAction::Stop => {
                if jobs.cancel(&info.id) {
                    match jobs.wait(&info.id, Some(DEFAULT_WAIT)).await {
                        Some(_) => "It is stopped.".to_owned(),
                        None => "It is being stopped and has not ended yet.".to_owned(),
                    }
                } else {
                    "It had ended already.".to_owned()
                }
            }
        };
        let now = jobs.get(&info.id).unwrap_or(info);
        let line = JobLine::from(&now);
        let text = format!("{}\n{text}", line.text());
        Ok(ToolReturn::new(JobOutput { jobs: vec![line] }).with_text(text))
    }
}

impl JobTool {
    async fn output(&self, jobs: &Jobs, id: &JobId) -> Result<String, ToolFailure> {
        let Some(JobWork::Shell { process, .. }) = jobs.work(id) else {
            return Err(ToolFailure::new("Only commands have output; a subagent's words come when it ends"));
        };
        let limits = self.limits;
        let read = spawn_blocking(move || process::tail(Path::new(&process.spool_path), limits)).await;
        let tail = read.map_err(std::io::Error::other).and_then(|tail| tail);
        let tail = tail.map_err(|error| ToolFailure::new(format!("The output cannot be read: {error}")))?;
        Ok(if tail.text.is_empty() { "(no output yet)".to_owned() } else { tail.text })
    }
}

/// Finds a job of the session.
fn own(jobs: &Jobs, session: &SessionId, id: Option<&str>) -> Result<JobInfo, ToolFailure> {
    let id = id.filter(|id| !id.is_empty()).ok_or_else(|| ToolFailure::new("Give the id of the job"))?;
    let found = jobs.get(&JobId::from_trusted(id)).filter(|info| info.session == *session);
    found.ok_or_else(|| {
        let known: Vec<String> = jobs.list(Some(session)).iter().map(|info| info.id.to_string()).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        ToolFailure::new(format!("No job {id} in this session; jobs: {known}"))
    })
}
