//! Runs a command in the foreground.
//!
//! A command runs under a wrapper ([`helper`], or a script for the system's shell), which waits at a gate until the
//! process is in the journal ([`Waiting`], then [`Running`]). Standard output and errors go into one file, the spool,
//! so that they are complete, in order, and survive a crash. The wrapper's standard input is a lifeline: when its
//! other end closes, because the call ended early or the server died, everything that belongs to the command is ended,
//! also what left its process group.

mod family;
pub mod helper;
mod marker;
mod plain;
mod spool;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use abide_schema::config::CommandLimits;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

pub(crate) use family::{Family, KILL_GRACE, boot_id, signal, stat};
pub(crate) use marker::{ExitMarker, read_exit, started_path};
pub use spool::Tail;
pub(crate) use spool::{Follower, tail};

/// The pause between two looks at the growing output.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
/// How long the wrapper may take to come up: a busy machine, not a hanging one.
const READY_TIME: Duration = Duration::from_secs(20);
/// How long the wrapper may take to end the command beyond the time that the command is given.
const END_SLACK: Duration = Duration::from_secs(3);

/// How a wrapper is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    /// The program, for example abide itself.
    pub program: PathBuf,
    /// Its arguments, for example [`helper::HELPER_ARGUMENT`].
    pub arguments: Vec<String>,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// What marks its processes; unique.
    pub mark: String,
    /// The program, for example a shell.
    pub program: String,
    /// Its arguments, for example `-c` and a line.
    pub arguments: Vec<String>,
    /// Where it runs, absolute.
    pub directory: PathBuf,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// The file that takes its output; must not exist.
    pub spool: PathBuf,
    /// The wrapper; absent: a script for the system's shell.
    pub helper: Option<Helper>,
    /// The most bytes of output before it is ended.
    pub max_output_bytes: u64,
    /// What each of its processes may take; the script for the system's shell sets none.
    pub resources: CommandLimits,
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The spool file or its directory cannot be made.
    #[error("the output file {path} cannot be made")]
    Spool {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The wrapper cannot be started.
    #[error("the wrapper {program} cannot be started")]
    Wrapper {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The wrapper does not answer.
    #[error("the wrapper did not come up within {0:?}")]
    NotReady(Duration),
    /// The program could not be started, for example because it does not exist.
    #[error("{program} cannot be started: {reason}")]
    Program {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
    /// The wrapper ended without a word.
    #[error("the wrapper ended before the command did")]
    Lost,
}

/// The wrapper's process, as the journal names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id; also the id of its session and process group.
    pub pid: i32,
    /// Clock ticks between boot and its start; 0 when the system does not tell.
    pub start_time: u64,
    /// The boot; empty when the system does not tell.
    pub boot_id: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub how: How,
    /// Processes that it left running.
    pub left: Vec<String>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// After its time limit.
    TimedOut,
    /// After its output became too large.
    TooMuchOutput,
    /// Because the user wanted it.
    Stopped,
}

/// What may change while a command runs.
#[derive(Clone, Debug, Default)]
pub struct Steering {
    /// Ends it.
    pub stop: CancellationToken,
    /// Lets it go on without a limit of time, and without this process.
    pub background: CancellationToken,
}

/// A command at the gate. Dropping it runs nothing.
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    lifeline: ChildStdin,
    identity: ProcessIdentity,
    spec: CommandSpec,
}

/// A command that runs. Dropping it ends everything that belongs to it, unless it is detached.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lifeline: Option<ChildStdin>,
    identity: ProcessIdentity,
    spec: CommandSpec,
    detached: bool,
}

/// Starts the wrapper of a command; the command itself waits for [`Waiting::open`].
///
/// # Errors
/// [`RunError`] when the spool or the wrapper cannot be made.
///
/// # Cancel safety
/// Dropping the future ends the wrapper; nothing ran.
pub async fn prepare(spec: CommandSpec) -> Result<Waiting, RunError> {
    let spool_error = |source| RunError::Spool { path: spec.spool.clone(), source };
    let spool = spec.spool.clone();
    match tokio::task::spawn_blocking(move || make_spool(&spool)).await {
        Ok(made) => made.map_err(spool_error)?,
        Err(error) => return Err(spool_error(io::Error::other(error))),
    }
    let mut child = spawn(&spec)?;
    let lost = || RunError::Lost;
    let mut lifeline = child.stdin.take().ok_or_else(lost)?;
    let output = child.stdout.take().ok_or_else(lost)?;
    let come_up = async {
        if spec.helper.is_some() {
            let line = helper::Spec {
                program: spec.program.clone(),
                arguments: spec.arguments.clone(),
                directory: spec.directory.clone(),
                spool: spec.spool.clone(),
                mark: spec.mark.clone(),
                resources: spec.resources,
            };
            let mut line = serde_json::to_vec(&line).map_err(io::Error::other)?;
            line.push(b'\n');
            lifeline.write_all(&line).await?;
        }
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await? {
            if line == helper::READY {
                return Ok(true);
            }
        }
        Ok::<bool, io::Error>(false)
    };
    match tokio::time::timeout(READY_TIME, come_up).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Err(RunError::Lost),
        Ok(Err(source)) => return Err(RunError::Wrapper { program: wrapper_name(&spec), source }),
        Err(_elapsed) => return Err(RunError::NotReady(READY_TIME)),
    }
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(lost)?;
    let start_time = stat(pid).map_or(0, |stat| stat.start_time);
    let identity = ProcessIdentity { pid, start_time, boot_id: boot_id() };
    Ok(Waiting { child, lifeline, identity, spec })
}

fn make_spool(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(())
}

fn wrapper_name(spec: &CommandSpec) -> String {
    spec.helper.as_ref().map_or_else(|| "sh".to_owned(), |helper| helper.program.display().to_string())
}

fn spawn(spec: &CommandSpec) -> Result<Child, RunError> {
    let mut command;
    match &spec.helper {
        Some(helper) => {
            command = Command::new(&helper.program);
            command.args(&helper.arguments);
        }
        None => {
            match find_program("setsid", &spec.environment) {
                // Takes the terminal away; without a new group it becomes the shell itself.
                Some(setsid) => {
                    command = Command::new(setsid);
                    command.arg("/bin/sh");
                }
                None => {
                    command = Command::new("/bin/sh");
                    command.process_group(0);
                }
            }
            command.args(["-c", plain::SCRIPT, "abide-shell"]).arg(&spec.spool).arg(&spec.directory);
            command.arg(&spec.program).args(&spec.arguments);
        }
    }
    command
        .env_clear()
        .envs(&spec.environment)
        .env(family::MARK_VARIABLE, &spec.mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| RunError::Wrapper { program: wrapper_name(spec), source })
}

/// Finds a program on the search path of an environment.
pub(crate) fn find_program(name: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let path = environment.get("PATH")?;
    path.split(':')
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| Path::new(directory).join(name))
        .find(|file| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

impl Waiting {
    /// Returns the wrapper's process, for the journal.
    pub const fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Opens the gate: from now on the command may have effects. With `detached` it outlives this process.
    ///
    /// # Errors
    /// [`RunError::Lost`] when the wrapper is gone; nothing ran.
    ///
    /// # Cancel safety
    /// Dropping the future ends the command, if it started.
    pub async fn open(self, detached: bool) -> Result<Running, RunError> {
        let Self { child, mut lifeline, identity, spec } = self;
        let words = if detached { [helper::GO, helper::DETACH].concat() } else { helper::GO.to_owned() };
        lifeline.write_all(words.as_bytes()).await.map_err(|_| RunError::Lost)?;
        Ok(Running { child, lifeline: Some(lifeline), identity, spec, detached })
    }
}

impl Running {
    /// Waits for the end of the command, at most `limit`. `output` gets what it writes, as it comes.
    ///
    /// # Errors
    /// [`RunError::Program`] when it could not be started, [`RunError::Lost`] when the wrapper was killed from outside.
    ///
    /// # Cancel safety
    /// Dropping the future ends everything that belongs to the command: asked first, forced after three seconds. The
    /// wrapper does this on its own.
    pub async fn wait(self, limit: Option<Duration>, output: impl FnMut(&str) + Send) -> Result<Ended, RunError> {
        self.steered(limit, &Steering::default(), output).await
    }

    /// As [`Running::wait`], with a hand on it. The limit ends when the command goes to the background.
    ///
    /// # Errors
    /// As [`Running::wait`].
    ///
    /// # Cancel safety
    /// Dropping the future ends everything that belongs to the command, unless it is detached: then it goes on.
    pub async fn steered(
        mut self,
        limit: Option<Duration>,
        steering: &Steering,
        mut output: impl FnMut(&str) + Send,
    ) -> Result<Ended, RunError> {
        let mut is_limited = true;
        let mut follower = Some(Follower::new(self.spec.spool.clone()));
        let deadline = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        let mut interval = tokio::time::interval(FOLLOW_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stopped = loop {
            tokio::select! {
                // An error means that somebody else has waited for it: it is gone.
                _ended = self.child.wait() => break None,
                () = &mut deadline, if is_limited => break Some(How::TimedOut),
                () = steering.stop.cancelled() => break Some(How::Stopped),
                () = steering.background.cancelled(), if !self.detached => {
                    self.detach().await;
                    is_limited = false;
                }
                _tick = interval.tick() => {
                    let size = follow(&mut follower, &mut output).await;
                    if size > self.spec.max_output_bytes {
                        break Some(How::TooMuchOutput);
                    }
                }
            }
        };
        if stopped.is_some() {
            self.stop().await;
        }
        follow(&mut follower, &mut output).await;
        let family = Family { leader: Some(self.identity.pid), mark: self.spec.mark.clone() };
        let spool = self.spec.spool.clone();
        let was_helped = self.spec.helper.is_some();
        let look = move || {
            let marker = read_exit(&spool);
            if marker.is_none() || stopped.is_some() {
                // The wrapper is gone without a word, or may have missed one: nothing may go on in the dark.
                family.kill(KILL_GRACE);
            }
            let left = match &marker {
                Some(marker) if was_helped => marker.left.clone(),
                Some(_) => left_of(&family),
                None => Vec::new(),
            };
            (marker, left)
        };
        let (marker, left) = tokio::task::spawn_blocking(look).await.map_err(|_| RunError::Lost)?;
        self.lifeline = None;
        if let Some(how) = stopped {
            return Ok(Ended { how, left: Vec::new() });
        }
        let marker = marker.ok_or(RunError::Lost)?;
        let how = match marker {
            ExitMarker { error: Some(reason), .. } => {
                return Err(RunError::Program { program: self.spec.program.clone(), reason });
            }
            ExitMarker { code: Some(code), .. } => How::Exited(code),
            ExitMarker { signal: Some(signal), .. } => How::Signaled(signal),
            _ => return Err(RunError::Lost),
        };
        Ok(Ended { how, left })
    }

    /// Tells the wrapper that the command may outlive this process.
    async fn detach(&mut self) {
        self.detached = true;
        if let Some(lifeline) = &mut self.lifeline
            && let Err(error) = lifeline.write_all(helper::DETACH.as_bytes()).await
        {
            // It is about to end; the loop sees that.
            tracing::debug!(%error, "a command that goes to the background does not listen");
        }
    }

    /// Ends the command and waits until the wrapper has done so.
    async fn stop(&mut self) {
        self.lifeline = None;
        if self.detached {
            let family = Family { leader: Some(self.identity.pid), mark: self.spec.mark.clone() };
            let killed = tokio::task::spawn_blocking(move || family.kill(KILL_GRACE)).await;
            if !matches!(killed, Ok(true)) {
                tracing::error!(process.id = self.identity.pid, "a command cannot be ended");
            }
        }
        let wait = self.child.wait();
        if tokio::time::timeout(KILL_GRACE + END_SLACK, wait).await.is_err() {
            // It hangs itself: the look that follows ends the rest.
            let _gone = self.child.start_kill();
        }
    }
}

fn left_of(family: &Family) -> Vec<String> {
    const MAX_CHARS: usize = 120;
    let describe = |pid: i32| Some(format!("{pid} {}", family::command_line(pid, MAX_CHARS)?));
    family.members().into_iter().filter_map(describe).take(10).collect()
}

/// Reports what was written since the last look; returns the size of the output.
async fn follow(follower: &mut Option<Follower>, output: &mut (impl FnMut(&str) + Send)) -> u64 {
    let Some(mut reader) = follower.take() else { return 0 };
    let looked = tokio::task::spawn_blocking(move || {
        let growth = reader.read();
        (reader, growth)
    });
    match looked.await {
        Ok((reader, growth)) => {
            *follower = Some(reader);
            let Ok(growth) = growth else { return 0 };
            if !growth.text.is_empty() {
                output(&growth.text);
            }
            growth.size
        }
        Err(_panicked) => 0,
    }
}
