//! A server process of this very binary.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::error::CliError;

const START_LIMIT: Duration = Duration::from_secs(30);

/// The process; it is killed when the value goes away.
pub(super) struct ServerProcess {
    child: Child,
    url: String,
    pid: u32,
}

impl ServerProcess {
    pub(super) async fn start(directory: &Path, data: &Path) -> Result<Self, CliError> {
        let program = std::env::current_exe()
            .map_err(|error| CliError::failed(format!("the path of this program is unknown: {error}")))?;
        let mut child = Command::new(program)
            .args(["serve", "--port", "0"])
            .current_dir(directory)
            .env("ABIDE_DATA_DIR", data)
            .env_remove("ABIDE_SERVER_PASSWORD")
            .env_remove("OPENCODE_SERVER_PASSWORD")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| CliError::failed(format!("the server cannot be started: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| CliError::failed("the server has no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(START_LIMIT, lines.next_line())
            .await
            .map_err(|_| CliError::failed("the server did not start in time"))??
            .ok_or_else(|| CliError::failed("the server ended at once"))?;
        let url = first
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .ok_or_else(|| CliError::failed(format!("the server said {first:?}")))?
            .to_owned();
        let pid = child.id().ok_or_else(|| CliError::failed("the server ended at once"))?;
        Ok(Self { child, url, pid })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends SIGKILL and waits for the end.
    pub(super) async fn kill(&mut self) -> Result<(), CliError> {
        Ok(self.child.kill().await?)
    }

    /// Ends it at the end of the demo.
    pub(super) async fn stop(&mut self) -> Result<(), CliError> {
        self.kill().await
    }
}
