//! SQLite's errors as ours.

use abide_schema::SessionId;
use rusqlite::ErrorCode;

use crate::store::StoreError;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        #[expect(clippy::wildcard_enum_match_arm, reason = "foreign enums; what is not named needs no own treatment")]
        match error {
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                    Self::Locked(text)
                }
                ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure => Self::Disk(text),
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt(text),
                ErrorCode::ConstraintViolation => Self::Conflict(text),
                _ => Self::Other(text),
            },
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..) => Self::Corrupt(text),
            _ => Self::Other(text),
        }
    }
}

/// A stored value that cannot be read.
pub(super) fn unreadable(what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{what} cannot be read: {error}"))
}

/// A stored row of a session that cannot be read.
pub(super) fn unreadable_row(session: &SessionId, what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("session {session}: {what} cannot be read: {error}"))
}
