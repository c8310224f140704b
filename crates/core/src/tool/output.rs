//! Managed files with complete tool output, and the bounding of what the model sees (spec/tools.md 7.1, 7.2).

mod bound;
mod files;
#[cfg(test)]
mod tests;

pub use bound::OutputLimits;
pub(crate) use bound::bound;
pub use files::{OutputFile, OutputFiles};
