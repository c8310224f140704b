//! The tool `shell`: runs a command line, in the foreground or in the background (spec/tools.md 11.7).

pub(crate) mod environment;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide_schema::config::CommandLimits;
use abide_schema::live::{LiveData, OutputStream, ToolOutputDelta};
use abide_schema::tool::{Effects, ToolOptions, joined_text};
use abide_schema::{JobId, JsonObject};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task::spawn_blocking;

use super::files::READ_ACTION;
use crate::fault;
use crate::fs::access::{Access, AccessError, EXTERNAL_ACTION, Kind, Target, Wanted};
use crate::job::{Blocked, JobError, JobKind, JobOutcome, JobSpec, JobStatus, Jobs};
use crate::permission::{AssertInput, PermissionService, Publish};
use crate::secret::{SecretFiles, SensitiveJudge};
use crate::shell::choose::Shell;
use crate::shell::judge::{ACTION, LineJudge};
use crate::shell::places::{Outside, OutsideJudge, outside};
use crate::shell::process::{self, CommandSpec, Helper, RunError, Steering};
use crate::shell::recover::sweep;
use crate::shell::result::{ShellOutput, outcome, running_text};
use crate::shell::scan::{Scan, scan};
use crate::shell::sensitive::sensitive;
use crate::store::{CallKey, JobWork, JournalStore, StoreError, ToolProcess};
use crate::tool::failure::{caused, model_text};
use crate::tool::leaf::{Keep, Load, ToolContext, ToolReturn, TypedTool};
use crate::tool::outcome::ToolFailure;
use crate::tool::output::OutputLimits;
use crate::world::World;

pub use environment::{SECRET_VARIABLES, command_environment};

/// The time limit of a command when the model gives none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// How long output files are kept.
const KEEP_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most bytes that a command may write before it is ended.
pub const MAX_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// What the tool is made of.
pub struct ShellServices {
    /// Ids.
    pub world: World,
    /// The paths of the location.
    pub access: Arc<Access>,
    /// The permissions of the location.
    pub permissions: PermissionService,
    /// Where commands are announced.
    pub journal: Arc<dyn JournalStore>,
    /// The shell.
    pub shell: Shell,
    /// The environment that commands start from; abide's secrets and what asks on a terminal are changed by the tool.
    pub environment: std::collections::BTreeMap<String, String>,
    /// Files that are asked for before a command may show them.
    pub secret_files: SecretFiles,
    /// Names of variables with secrets that abide loaded, beside [`SECRET_VARIABLES`].
    pub secrets: Vec<String>,
    /// Where output files go, for example `<data>/shell/<project>`.
    pub spool_directory: PathBuf,
    /// The wrapper; absent: a script for the system's shell.
    pub helper: Option<Helper>,
    /// How much the model sees.
    pub limits: OutputLimits,
    /// The most bytes that a command may write before it is ended.
    pub max_output_bytes: u64,
    /// Whether places outside the project that a line names are asked for (`shell.external_args`).
    pub asks_for_places: bool,
    /// What processes of a command may take; asked at each call.
    pub resources: Arc<dyn Fn() -> CommandLimits + Send + Sync>,
    /// The jobs of the process; `None` when it is about to end.
    pub jobs: Arc<dyn Fn() -> Option<Jobs> + Send + Sync>,
    /// Takes live output of commands in the background.
    pub publish: Publish,
}

impl std::fmt::Debug for ShellServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShellServices")
    }
}

/// The tool.
#[derive(Debug)]
pub struct ShellTool {
    services: ShellServices,
    has_swept: AtomicBool,
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShellInput {
    /// The command line.
    #[schemars(length(min = 1))]
    command: String,
    /// Where it runs; relative to the working directory, which is where it runs when absent.
    #[serde(default)]
    workdir: Option<String>,
    /// Its time limit in milliseconds, 120000 when absent; 0 is none.
    #[serde(default)]
    timeout: Option<u64>,
    /// Whether to go on at once; a notice comes when the command ends. It has no time limit then, unless one is given.
    #[serde(default)]
    background: Option<bool>,
}

/// A line that may run.
struct Approved {
    line: String,
    directory: PathBuf,
}

impl ShellTool {
    /// Makes the tool.
    pub const fn new(services: ShellServices) -> Self {
        Self { services, has_swept: AtomicBool::new(false) }
    }

    /// Asks for everything that the line needs.
    async fn authorize(&self, ctx: &ToolContext, line: String, workdir: &str) -> Result<Approved, ToolFailure> {
        let services = &self.services;
        let target =
            services.access.resolve(workdir, Wanted::Directory).await.map_err(|error| not_there(workdir, &error))?;
        check_directory(&target, "does not exist", "is not a directory")?;
        let (access, dialect) = (Arc::clone(&services.access), services.shell.dialect());
        let (text, directory) = (line.clone(), target.real.clone());
        let looked = spawn_blocking(move || {
            let found = scan(&text, dialect);
            let outside = outside(&found, &access, &directory);
            (found, outside)
        });
        let (found, borders) = looked.await.map_err(|error| unable(&line, &io::Error::other(error)))?;
        let mut borders = borders.map_err(|error| unable(&line, &error))?;
        if !services.asks_for_places {
            borders = Outside { borders: target.external.iter().cloned().collect(), has_unknown: false };
        }
        self.ask_places(ctx, &line, borders).await?;
        self.ask_files(ctx, &line, &found, &target).await?;
        self.ask_commands(ctx, &line, &target, found).await?;
        // The user may have taken a while.
        let now =
            services.access.resolve(workdir, Wanted::Directory).await.map_err(|error| not_there(workdir, &error))?;
        check_directory(&now, "no longer exists", "is no longer a directory")?;
        if now.real != target.real {
            return Err(unable(&line, &AccessError::Changed { path: workdir.to_owned() }));
        }
        Ok(Approved { line, directory: target.real })
    }

    async fn ask_places(&self, ctx: &ToolContext, line: &str, borders: Outside) -> Result<(), ToolFailure> {
        let judge = OutsideJudge::new(borders);
        let resources = judge.resources();
        if resources.is_empty() {
            return Ok(());
        }
        let input = AssertInput {
            action: EXTERNAL_ACTION.to_owned(),
            resources,
            save: judge.saves(),
            metadata: JsonObject::from_iter([("command".to_owned(), line.into())]),
            judge: Some(Arc::new(judge)),
        };
        Ok(self.services.permissions.assert(ctx, input).await?)
    }

    /// Asks for files that usually hold secrets, as reading them does.
    async fn ask_files(
        &self,
        ctx: &ToolContext,
        line: &str,
        found: &Scan,
        workdir: &Target,
    ) -> Result<(), ToolFailure> {
        let services = &self.services;
        let mut resources: Vec<String> = Vec::new();
        for path in sensitive(found, &services.secret_files) {
            let path = if path.starts_with(['/', '~']) { path } else { workdir.real.join(path).display().to_string() };
            match services.access.resolve(&path, Wanted::File).await {
                Ok(target) => resources.extend(target.resources()),
                Err(_unresolved) => resources.push(path),
            }
        }
        let Some(judge) =
            SensitiveJudge::of(&services.secret_files, READ_ACTION, &resources, services.access.directory())
        else {
            return Ok(());
        };
        let input = AssertInput {
            action: READ_ACTION.to_owned(),
            save: resources.clone(),
            resources,
            metadata: JsonObject::from_iter([
                ("command".to_owned(), line.into()),
                ("sensitive".to_owned(), true.into()),
            ]),
            judge: Some(Arc::new(judge)),
        };
        Ok(services.permissions.assert(ctx, input).await?)
    }

    async fn ask_commands(
        &self,
        ctx: &ToolContext,
        line: &str,
        target: &Target,
        found: Scan,
    ) -> Result<(), ToolFailure> {
        let mut metadata = JsonObject::from_iter([
            ("command".to_owned(), line.into()),
            ("workdir".to_owned(), target.real.to_string_lossy().into()),
        ]);
        if let Some(reason) = &found.opaque {
            metadata.insert("opaque".to_owned(), json!(reason));
        }
        let input = AssertInput {
            action: ACTION.to_owned(),
            resources: found.resources(),
            save: found.saves(),
            metadata,
            judge: Some(Arc::new(LineJudge::new(found))),
        };
        Ok(self.services.permissions.assert(ctx, input).await?)
    }

    /// Announces the command and starts it as a job.
    async fn start(&self, ctx: &ToolContext, approved: Approved, wanted: Manner) -> Result<Started, Stopped> {
        let services = &self.services;
        let jobs = (services.jobs)().ok_or(Stopped::Closing)?;
        let id = shell_id(&services.world);
        let spool = services.spool_directory.join(format!("{id}.out"));
        let spec = CommandSpec {
            mark: id.clone(),
            program: services.shell.program.display().to_string(),
            arguments: services.shell.arguments(&approved.line),
            directory: approved.directory.clone(),
            environment: command_environment(&services.environment, &services.secrets),
            spool: spool.clone(),
            helper: services.helper.clone(),
            max_output_bytes: services.max_output_bytes,
            resources: (services.resources)(),
        };
        fault::point("tool.before_effect").await?;
        let waiting = process::prepare(spec).await?;
        let identity = waiting.identity();
        let key = CallKey { session: ctx.session_id.clone(), message: ctx.message_id.clone(), call: ctx.id.clone() };
        let record = ToolProcess {
            key: key.clone(),
            pid: identity.pid,
            pgid: identity.pid,
            start_time: identity.start_time,
            boot_id: identity.boot_id.clone(),
            command: approved.line.clone(),
            cwd: approved.directory.display().to_string(),
            spool_path: spool.display().to_string(),
            background: wanted.background,
        };
        let now = services.world.now();
        let limit_ms = wanted.limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        // The limit of a command in the foreground ends when it goes to the background.
        let kept = limit_ms.filter(|_| wanted.background);
        let mut job = JobSpec {
            id: JobId::from_trusted(id.as_str()),
            kind: JobKind::Shell,
            session: ctx.session_id.clone(),
            title: approved.line.clone(),
            work: JobWork::Shell {
                shell_id: id.clone(),
                process: record.clone(),
                deadline: kept.map(|limit| now.plus_millis(i64::try_from(limit).unwrap_or(i64::MAX))),
                limit_ms: kept,
            },
            started: now,
            notification: None,
        };
        if wanted.background {
            job = jobs.recorded(job).await?;
        } else {
            services.journal.put_process(record).await?;
        }
        let running = match waiting.open(wanted.background).await {
            Ok(running) => running,
            Err(error) => {
                if let Some(notification) = &job.notification {
                    services.journal.drop_job(notification).await?;
                }
                return Err(error.into());
            }
        };
        fault::point("process.after_gate").await?;
        ctx.progress.report(JsonObject::from_iter([("shellID".to_owned(), json!(id))]));
        let job_id = job.id.clone();
        let (limits, max_output_bytes) = (services.limits, services.max_output_bytes);
        let (live, line, path) = (self.live(ctx), approved.line, spool.clone());
        jobs.start(job, |control| async move {
            let steering = Steering { stop: control.stop, background: control.background.clone() };
            let ended = running.steered(wanted.limit, &steering, live).await;
            let limit_ms = limit_ms.filter(|_| wanted.background || !control.background.is_cancelled());
            let read = path.clone();
            let told = async {
                let ended = ended?;
                let tail = spawn_blocking(move || process::tail(&read, limits)).await;
                let tail = tail.map_err(io::Error::other).and_then(|tail| tail)?;
                Ok::<JobOutcome, Stopped>(outcome(&ended, &tail, &path, limit_ms, max_output_bytes))
            };
            told.await.unwrap_or_else(|error| JobOutcome::error(model_text(&unable(&line, &error))))
        })?;
        Ok(Started { jobs, job: job_id, id, spool })
    }

    /// Publishes live output: as progress of the call while it runs, and on its behalf in the background.
    fn live(&self, ctx: &ToolContext) -> impl FnMut(&str) + Send + 'static {
        let (progress, publish, world) =
            (ctx.progress.clone(), Arc::clone(&self.services.publish), self.services.world.clone());
        let (session_id, message_id, call_id) = (ctx.session_id.clone(), ctx.message_id.clone(), ctx.id.clone());
        move |text| {
            if !progress.is_closed() {
                return progress.output(OutputStream::Stdout, text);
            }
            publish(LiveData::ToolOutputDelta(ToolOutputDelta {
                timestamp: world.now(),
                session_id: session_id.clone(),
                assistant_message_id: message_id.clone(),
                call_id: call_id.clone(),
                stream: OutputStream::Stdout,
                delta: text.to_owned(),
            }));
        }
    }

    fn sweep_once(&self) {
        if !self.has_swept.swap(true, Ordering::Relaxed) {
            let directory = self.services.spool_directory.clone();
            // Nobody waits for it: it removes what is old, or not yet.
            drop(spawn_blocking(move || sweep(&directory, KEEP_TIME)));
        }
    }
}

/// How a command is to run.
#[derive(Clone, Copy)]
struct Manner {
    limit: Option<Duration>,
    background: bool,
}

/// A command that was started.
struct Started {
    jobs: Jobs,
    job: JobId,
    id: String,
    spool: PathBuf,
}

/// A command whose call waits: when the call ends early, so does the command.
struct Foreground<'a> {
    started: &'a Started,
    waits: bool,
}

impl Drop for Foreground<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.started.jobs.cancel(&self.started.job);
        }
    }
}

/// Why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the command could not be announced")]
    Journal(#[from] StoreError),
    #[error("the output cannot be read")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Fault(#[from] fault::Fault),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("abide is stopping: no more work is started")]
    Closing,
}

impl TypedTool for ShellTool {
    type Input = ShellInput;
    type Output = ShellOutput;

    fn name(&self) -> &'static str {
        "shell"
    }

    fn description(&self) -> String {
        let services = &self.services;
        format!(
            "Runs a command line with {} on {} and returns what it wrote and how it ended.\n\
             - It runs in the working directory, or in `workdir`; prefer `workdir` to `cd`.\n\
             - Its input is empty and it has no terminal: a program that asks something fails or sees the end of its \
             input. Give answers as options.\n\
             - It is ended after `timeout` milliseconds, {} when absent.\n\
             - The last {} lines or {} bytes of its output are returned; the whole output is kept in a file that is \
             named then.\n\
             - An exit code other than 0 is a result, not an error of this tool.\n\
             - With `background` it goes on while you do: for servers, watchers and long builds. Do not end a line with \
             `&` for that.\n\
             - Use the tools for reading, searching and changing files instead of cat, grep, find, sed or echo.",
            services.shell.name,
            std::env::consts::OS,
            DEFAULT_TIMEOUT.as_millis(),
            services.limits.lines,
            services.limits.bytes,
        )
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { permission: Some(ACTION.to_owned()), ..ToolOptions::direct() }
    }

    fn effects(&self) -> Effects {
        Effects::Process
    }

    fn keep(&self) -> Keep {
        Keep::Tail
    }

    fn load(&self) -> Load {
        Load::Waits
    }

    fn limits(&self) -> Vec<String> {
        vec![
            format!("{} ms unless `timeout` says otherwise", DEFAULT_TIMEOUT.as_millis()),
            format!("{} bytes of output on disk: a command that writes more is killed", self.services.max_output_bytes),
            "the variables of provider keys and of the server's password are not in its environment".to_owned(),
        ]
    }

    async fn execute(&self, ctx: ToolContext, input: ShellInput) -> Result<ToolReturn<ShellOutput>, ToolFailure> {
        let ShellInput { command, workdir, timeout, background } = input;
        if command.trim().is_empty() || command.contains('\0') {
            return Err(ToolFailure::new("The command is empty or holds a NUL character"));
        }
        self.sweep_once();
        let background = background.unwrap_or(false);
        let limit = match timeout {
            None => Some(DEFAULT_TIMEOUT).filter(|_| !background),
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
        };
        let approved = self.authorize(&ctx, command, workdir.as_deref().unwrap_or(".")).await?;
        let line = approved.line.clone();
        let started = self.start(&ctx, approved, Manner { limit, background }).await;
        let started = started.map_err(|error| unable(&line, &error))?;
        let mut foreground = Foreground { started: &started, waits: !background };
        let blocked = started.jobs.block(&started.job, &ctx.session_id).await;
        foreground.waits = false;
        let (id, spool) = (started.id.clone(), &started.spool);
        match blocked {
            Blocked::Finished(outcome) if !background => match outcome.status {
                JobStatus::Error => Err(ToolFailure::new(joined_text(&outcome.content))),
                JobStatus::Completed | JobStatus::Cancelled | JobStatus::Running => Ok(ended(id, spool, outcome)),
            },
            Blocked::Finished(_) | Blocked::Backgrounded | Blocked::Unknown => Ok(running(&id, spool)),
        }
    }
}

/// Makes the result of a command that ended.
fn ended(id: String, spool: &Path, outcome: JobOutcome) -> ToolReturn<ShellOutput> {
    let output: ShellOutput = ShellOutput::from_object(outcome.facts);
    let is_truncated = output.truncated;
    let mut returned = ToolReturn::new(output).with_metadata("shellID", id);
    returned.content = outcome.content;
    if is_truncated {
        returned = returned.with_output_path(spool.display().to_string());
    }
    returned.bounded(is_truncated)
}

/// Makes the result of a command that goes on in the background.
fn running(id: &str, spool: &Path) -> ToolReturn<ShellOutput> {
    let text = running_text(id, spool);
    ToolReturn::new(ShellOutput::running(id)).with_metadata("shellID", id).with_text(text).bounded(false)
}

/// Makes the id of a command.
fn shell_id(world: &World) -> String {
    let job = world.job_id();
    let tail = job.as_str().split_once('_').map_or(job.as_str(), |(_, tail)| tail);
    format!("sh_{tail}")
}

fn check_directory(target: &Target, gone: &str, other: &str) -> Result<(), ToolFailure> {
    match target.kind {
        Kind::Directory => Ok(()),
        Kind::Missing => Err(directory_failure(&target.real, gone)),
        Kind::File | Kind::Other => Err(directory_failure(&target.real, other)),
    }
}

fn directory_failure(directory: &Path, what: &str) -> ToolFailure {
    ToolFailure::new(format!("The working directory {} {what}", directory.display()))
}

fn not_there(workdir: &str, error: &AccessError) -> ToolFailure {
    caused(format!("The working directory {workdir} cannot be used"), error)
}

fn unable(line: &str, error: &(dyn std::error::Error + 'static)) -> ToolFailure {
    caused(format!("Unable to execute command: {line}"), error)
}
