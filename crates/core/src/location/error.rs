//! Why a directory cannot be opened.

use abide_schema::config::Diagnostic;

use crate::session::place::PlaceError;

/// Why a directory cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The text names no directory.
    #[error("{directory:?} is not a directory's path")]
    Invalid {
        /// The text.
        directory: String,
    },
    /// There is no such directory.
    #[error("the directory {directory} cannot be opened: {reason}")]
    NotFound {
        /// The directory.
        directory: String,
        /// Why.
        reason: String,
    },
    /// It cannot be read.
    #[error("the directory {directory} cannot be opened: permission denied")]
    PermissionDenied {
        /// The directory.
        directory: String,
    },
    /// The configuration has an error, and errors are not to be passed over.
    #[error("{0}")]
    Config(Box<Diagnostic>),
    /// Reading was cut off: the process is going down.
    #[error("the settings of {directory} were not read: {reason}")]
    Interrupted {
        /// The directory.
        directory: String,
        /// Why.
        reason: String,
    },
}

impl From<LocationError> for PlaceError {
    fn from(error: LocationError) -> Self {
        match error {
            LocationError::Config(diagnostic) => Self::Config(diagnostic.to_string()),
            LocationError::NotFound { directory, reason } | LocationError::Interrupted { directory, reason } => {
                Self::Directory { directory, reason }
            }
            LocationError::Invalid { directory } => {
                Self::Directory { directory, reason: "it is not a directory's path".to_owned() }
            }
            LocationError::PermissionDenied { directory } => {
                Self::Directory { directory, reason: "permission denied".to_owned() }
            }
        }
    }
}
