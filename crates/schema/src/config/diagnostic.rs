//! What is wrong with a document, for people and for tools.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something is not as it was meant.
    Warning,
    /// A document or an entry of it is not used.
    Error,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticKind {
    /// The text is not JSON with comments.
    Syntax,
    /// A `{file:…}` or `{env:…}` cannot be filled in.
    Substitution,
    /// An old and a new key say different things.
    Conflict,
    /// A value does not fit.
    Invalid,
    /// A key that abide knows and does not use.
    Unsupported,
    /// A key that nobody knows.
    Unknown,
    /// The same key twice.
    Duplicate,
    /// A file cannot be read.
    Io,
}

/// One finding in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What kind of trouble it is.
    pub kind: DiagnosticKind,
    /// The file; absent for inline content and for findings about the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Where in the document, as a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong, with the value.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Makes a finding without a place.
    pub fn new(severity: Severity, kind: DiagnosticKind, message: impl Into<String>) -> Self {
        Self {
            severity,
            kind,
            path: None,
            pointer: None,
            line: None,
            column: None,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds where in the document.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into());
        self
    }

    /// Adds the file.
    #[must_use]
    pub fn in_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// `file:line:column: message at /pointer (hint)`, without the parts that are not known.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}", path.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
                if let Some(column) = self.column {
                    write!(f, ":{column}")?;
                }
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)?;
        if let Some(pointer) = self.pointer.as_deref().filter(|pointer| !pointer.is_empty()) {
            write!(f, " (at {pointer})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}
