//! How commands end.

use std::process::ExitCode;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: failed.
    Failed,
    /// 2: the command line cannot be used.
    Usage,
    /// 3: a permission or an answer is needed and nobody is there to give it.
    NeedsAnswer,
    /// 4: the provider refused: credentials, quota, model, request.
    ProviderRefused,
    /// 130: interrupted.
    Interrupted,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NeedsAnswer => 3,
            Self::ProviderRefused => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A failure with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<abide_core::session::SessionsError> for CliError {
    fn from(error: abide_core::session::SessionsError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<abide_core::store::StoreError> for CliError {
    fn from(error: abide_core::store::StoreError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<abide_protocol::client::ClientError> for CliError {
    fn from(error: abide_protocol::client::ClientError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error.to_string())
    }
}
