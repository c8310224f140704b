//! How failures of model requests and of the engine become stored errors.

use abide_ai::{AIError, AIErrorKind};
use abide_schema::error::{ErrorCode, RetryError, SessionError};

use crate::store::{AppendError, StoreError};

/// Returns the stored form of a failed model request.
pub(crate) fn session_error(error: &AIError) -> SessionError {
    SessionError::new(code(error), message(error)).with_status(error.http().map(|http| http.status))
}

/// Longest part of a response body in an error message.
const BODY_CHARACTERS: usize = 2000;

/// The message with the provider's own words, when they say more.
fn message(error: &AIError) -> String {
    if let AIErrorKind::Transport(details) = error.kind()
        && let Some(url) = &details.url
    {
        return format!("{} ({})", error.message(), abide_ai::schema::errors::redact_url(url));
    }
    match error.body() {
        Some(body) if !body.is_empty() && !error.message().contains(body) && !body.contains(error.message()) => {
            let body: String = body.chars().take(BODY_CHARACTERS).collect();
            format!("{}: {body}", error.message())
        }
        Some(_) | None => error.message().to_owned(),
    }
}

/// Returns what a program branches on.
pub(crate) fn code(error: &AIError) -> ErrorCode {
    if error.is_context_overflow() {
        return ErrorCode::ProviderContextOverflow;
    }
    match error.kind() {
        AIErrorKind::RateLimit { .. } => ErrorCode::ProviderRateLimit,
        AIErrorKind::Authentication { .. } => ErrorCode::ProviderAuth,
        AIErrorKind::QuotaExceeded => ErrorCode::ProviderQuota,
        AIErrorKind::ContentPolicy => ErrorCode::ProviderContentFilter,
        AIErrorKind::Transport(_) => ErrorCode::ProviderTransport,
        AIErrorKind::ProviderInternal { .. } => ErrorCode::ProviderInternal,
        AIErrorKind::InvalidProviderOutput { .. } => ErrorCode::ProviderInvalidOutput,
        AIErrorKind::InvalidRequest { .. } | AIErrorKind::UnsupportedOperation { .. } => {
            ErrorCode::ProviderInvalidRequest
        }
        AIErrorKind::NoRoute { .. } => ErrorCode::ProviderNoRoute,
        AIErrorKind::UnknownProvider => ErrorCode::ProviderUnknown,
        _ => ErrorCode::Unknown,
    }
}

/// Returns the stored form of a failure that is followed by another attempt.
pub(crate) fn retry_error(error: &AIError) -> RetryError {
    RetryError {
        message: error.message().to_owned(),
        status_code: error.http().map(|http| http.status),
        is_retryable: true,
        response_headers: None,
        response_body: error.body().map(|body| body.chars().take(BODY_CHARACTERS).collect()),
        metadata: None,
        code: Some(code(error)),
    }
}

/// Why an operation on sessions failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionsError {
    /// No such session.
    #[error("there is no session {0}")]
    NotFound(abide_schema::SessionId),
    /// No such message in the session.
    #[error("there is no message {message} in session {session}")]
    MessageNotFound {
        /// The session.
        session: abide_schema::SessionId,
        /// The message.
        message: abide_schema::MessageId,
    },
    /// The id is taken by something else.
    #[error("{resource} was used before for something else")]
    Conflict {
        /// The id.
        resource: String,
    },
    /// No agent has this name.
    #[error("there is no agent {agent:?}; known: {known}")]
    UnknownAgent {
        /// The name.
        agent: String,
        /// What there is.
        known: String,
    },
    /// The session runs.
    #[error("session {0} is running; interrupt it or wait until it is idle")]
    Busy(abide_schema::SessionId),
    /// The input cannot be used.
    #[error("{message}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
    /// The session's directory cannot be opened.
    #[error(transparent)]
    Place(#[from] crate::session::place::PlaceError),
    /// Files cannot be brought back.
    #[error(transparent)]
    Restore(#[from] crate::session::revert::RestoreError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The append failed.
    #[error(transparent)]
    Append(AppendError),
}

impl From<AppendError> for SessionsError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::SessionMissing(id) => Self::NotFound(id),
            AppendError::Storage(error) => Self::Store(error),
            AppendError::InputLifecycleConflict { id } => Self::Conflict { resource: id.to_string() },
            other => Self::Append(other),
        }
    }
}
