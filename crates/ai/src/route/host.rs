//! What a call reads of the outside beside the network: environment variables, the clock, and the
//! credentials that other tools keep.

use std::io;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use tokio::time::timeout;

/// How long a program that gives credentials may take.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of a file of credentials.
const MAX_FILE: u64 = 1024 * 1024;

/// Environment and clock, injected so that tests decide them.
pub trait Host: Send + Sync {
    /// The value of an environment variable.
    fn env(&self, name: &str) -> Option<String>;
    /// The present time.
    fn now(&self) -> DateTime<Utc>;

    /// The text of a file of credentials; a host may have none.
    ///
    /// # Errors
    /// When there is no such file, or it is no text.
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn read<'a>(&'a self, _path: &'a Path) -> BoxFuture<'a, io::Result<String>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::NotFound.into())))
    }

    /// What a program prints that the user named as the source of credentials; a host may run none.
    ///
    /// # Errors
    /// When it cannot be run, fails, or prints no text.
    ///
    /// # Cancel safety
    /// Dropping the future ends the program.
    fn run<'a>(&'a self, _command: &'a str) -> BoxFuture<'a, io::Result<String>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
}

/// The environment and clock of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessHost;

impl Host for ProcessHost {
    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads it")]
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads it")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<String>> {
        Box::pin(async move {
            if tokio::fs::metadata(path).await?.len() > MAX_FILE {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            tokio::fs::read_to_string(path).await
        })
    }

    fn run<'a>(&'a self, command: &'a str) -> BoxFuture<'a, io::Result<String>> {
        Box::pin(async move {
            let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
            let mut program = tokio::process::Command::new(shell);
            program.arg(option).arg(command).stdin(std::process::Stdio::null()).kill_on_drop(true);
            let output = timeout(PROGRAM_TIMEOUT, program.output()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            if !output.status.success() {
                return Err(io::Error::other(output.status.to_string()));
            }
            String::from_utf8(output.stdout).map_err(|_| io::ErrorKind::InvalidData.into())
        })
    }
}
