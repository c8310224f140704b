//! Configuration: which documents count for a directory, what they say, what is wrong with them, and what
//! their sum is (spec/config.md sections 2 to 7).
//!
//! [`load`] reads the documents in order of precedence; a [`Config`] folds them, key by key. Nothing here ever
//! fails as a whole: what cannot be used is left out and named in [`Config::diagnostics`].

pub mod directories;
pub mod effective;
pub mod files;
pub mod flags;

mod decode;
mod fields;
pub(crate) mod markdown;
mod merge;
mod parse;
mod report;
mod source;
mod substitute;
mod v1;

use std::path::PathBuf;

use abide_schema::JsonObject;
use abide_schema::config::{ConfigDocument, Diagnostic, Severity};

pub use directories::Directories;
pub use source::{LoadOptions, load};

pub(crate) use abide_ai::schema::options::merge_json;
pub(crate) use merge::{merge_headers, patch_provider};
pub(crate) use report::nearest;
pub(crate) use source::real;

use files::FileSet;
use report::Report;

/// Where a document comes from, lowest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OriginKind {
    /// What abide says by itself.
    Default,
    /// The user's configuration directory.
    Global,
    /// The file that `ABIDE_CONFIG` names.
    Named,
    /// The project.
    Project,
    /// `ABIDE_CONFIG_CONTENT`.
    Inline,
    /// `ABIDE_PERMISSION`.
    Permission,
    /// The administrator of the machine.
    Managed,
}

/// Where a document comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind of source.
    pub kind: OriginKind,
    /// The file, when it is one.
    pub path: Option<PathBuf>,
    /// The directory that its relative paths start from.
    pub base: PathBuf,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.path, self.kind) {
            (Some(path), _) => write!(f, "{}", path.display()),
            (None, OriginKind::Inline) => f.write_str("ABIDE_CONFIG_CONTENT"),
            (None, OriginKind::Permission) => f.write_str("ABIDE_PERMISSION"),
            (None, OriginKind::Default) => f.write_str("default"),
            (None, OriginKind::Global | OriginKind::Named | OriginKind::Project | OriginKind::Managed) => {
                f.write_str("unknown")
            }
        }
    }
}

/// One document with its origin.
#[derive(Debug)]
pub struct Document {
    /// Where it comes from.
    pub origin: Origin,
    /// What it says.
    pub info: ConfigDocument,
    /// The same as JSON, in the present form, without what does not count.
    value: JsonObject,
    /// Knows the places of its values.
    report: Report,
}

impl Document {
    fn new(origin: Origin, info: ConfigDocument, value: JsonObject, report: Report) -> Self {
        Self { origin, info, value, report }
    }
}

/// All documents that count for a directory, lowest precedence first.
#[derive(Debug, Default)]
pub struct Config {
    /// The documents; markdown agents and commands are documents of one entry each.
    pub documents: Vec<Document>,
    /// Configuration directories, for skills.
    pub directories: Vec<PathBuf>,
    /// `.claude` and `.agents` directories, for skills; lower than all of the above.
    pub external: Vec<PathBuf>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that are not used at all because of their form.
    pub rejected: Vec<PathBuf>,
    /// Every path that was looked at.
    files: FileSet,
}

impl Config {
    /// Returns the paths that were looked at.
    pub fn files(&self) -> &FileSet {
        &self.files
    }

    /// Says whether something is wrong that leaves a document or an entry out.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
