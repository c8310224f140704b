//! Managed files with complete tool output, and the bounding of what the model sees (spec/tools.md 7.1, 7.2).

mod files;

pub use files::{OutputFile, OutputFiles};
