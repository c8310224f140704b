//! Running the `git` program: without the caller's `GIT_*` variables, without prompts, bounded in time and output.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::world::World;

/// The most bytes of standard output that are read.
const MAX_OUTPUT: u64 = 256 << 20;
/// The most bytes of standard error that are kept.
const MAX_ERROR: u64 = 16 << 10;

/// Options of every run: the user's settings must not change bytes, start helpers or translate messages.
const OPTIONS: [&str; 12] = [
    "--no-optional-locks",
    "--no-pager",
    "-c",
    "core.autocrlf=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.longpaths=true",
    "-c",
    "core.symlinks=true",
    "-c",
    "core.quotepath=false",
];

/// Why a run of git gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// There is no such program.
    #[error("git cannot be started: {0}; install git, or put it on PATH")]
    NotFound(String),
    /// It ended with an error.
    #[error("git {command} failed with status {status}: {stderr}")]
    Failed {
        /// The sub-command.
        command: String,
        /// The exit status, -1 when it was killed.
        status: i32,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// It took too long.
    #[error("git {command} did not end within {limit:?}")]
    TimedOut {
        /// The sub-command.
        command: String,
        /// The limit.
        limit: Duration,
    },
}

/// The `git` program with its environment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Git {
    environment: Arc<BTreeMap<String, String>>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Where it runs.
    pub directory: &'a Path,
    /// The sub-command and its arguments, after the options of every run.
    pub arguments: &'a [&'a str],
    /// Its git directory and working tree, when they are not to be found from `directory`.
    pub repository: Option<(&'a Path, &'a Path)>,
    /// More variables.
    pub variables: &'a [(&'a str, &'a str)],
    /// What it reads.
    pub input: Option<Vec<u8>>,
    /// How long it may take.
    pub limit: Duration,
}

impl<'a> Run<'a> {
    /// Makes a run without input, within 30 seconds.
    pub fn new(directory: &'a Path, arguments: &'a [&'a str]) -> Self {
        Self { directory, arguments, repository: None, variables: &[], input: None, limit: Duration::from_secs(30) }
    }
}

impl Git {
    /// Takes the environment of a world, without the variables that would lead git elsewhere.
    pub fn new(world: &World) -> Self {
        let environment = world
            .environment()
            .iter()
            .filter(|(name, _)| !name.starts_with("GIT_"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .chain([
                ("LC_ALL".to_owned(), "C".to_owned()),
                ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
                ("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()),
            ])
            .collect();
        Self { environment: Arc::new(environment) }
    }

    /// Runs git and returns what it wrote.
    ///
    /// # Errors
    /// [`GitError`].
    ///
    /// # Cancel safety
    /// Dropping the future kills the process.
    pub async fn run(&self, run: Run<'_>) -> Result<Vec<u8>, GitError> {
        let (status, stdout, stderr) = self.run_any(run.clone()).await?;
        if status == 0 {
            return Ok(stdout);
        }
        Err(GitError::Failed { command: command_name(&run), status, stderr })
    }

    /// Runs git and returns its status, output and error text.
    ///
    /// # Errors
    /// [`GitError`], except `Failed`.
    ///
    /// # Cancel safety
    /// Dropping the future kills the process.
    pub async fn run_any(&self, run: Run<'_>) -> Result<(i32, Vec<u8>, String), GitError> {
        let name = command_name(&run);
        let mut child = self.spawn(&run)?;
        match tokio::time::timeout(run.limit, communicate(&mut child, run.input)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(GitError::NotFound(error.to_string())),
            Err(_elapsed) => Err(GitError::TimedOut { command: name, limit: run.limit }),
        }
    }

    fn spawn(&self, run: &Run<'_>) -> Result<Child, GitError> {
        let mut command = Command::new("git");
        command.env_clear().envs(self.environment.iter()).envs(run.variables.iter().copied());
        command.args(OPTIONS);
        if let Some((directory, tree)) = run.repository {
            command.arg("--git-dir").arg(directory).arg("--work-tree").arg(tree);
        }
        command
            .args(run.arguments)
            .current_dir(run.directory)
            .stdin(if run.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| GitError::NotFound(error.to_string()))
    }
}

async fn communicate(child: &mut Child, input: Option<Vec<u8>>) -> std::io::Result<(i32, Vec<u8>, String)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async move {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // Git may end without reading everything: its status tells.
            drop(stdin.write_all(&input).await);
            drop(stdin.shutdown().await);
        }
    };
    let read = async move {
        let mut out = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT).read_to_end(&mut out).await?;
        }
        std::io::Result::Ok(out)
    };
    let read_errors = async move {
        let mut out = Vec::new();
        if let Some(mut stderr) = stderr {
            (&mut stderr).take(MAX_ERROR).read_to_end(&mut out).await?;
            tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
        }
        std::io::Result::Ok(out)
    };
    let ((), out, errors) = tokio::join!(write, read, read_errors);
    let (out, errors) = (out?, errors?);
    let status = child.wait().await?;
    Ok((status.code().unwrap_or(-1), out, String::from_utf8_lossy(&errors).trim().to_owned()))
}

fn command_name(run: &Run<'_>) -> String {
    run.arguments.first().copied().unwrap_or_default().to_owned()
}
