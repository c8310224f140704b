//! The built-in tools, one file each.

#[cfg(test)]
mod bench;
pub mod edit;
pub mod files;
pub mod glob;
pub mod grep;
pub mod read;
pub mod write;
