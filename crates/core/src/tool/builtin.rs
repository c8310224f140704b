//! The built-in tools, one file each.

#[cfg(test)]
mod bench;
pub mod edit;
pub mod files;
pub mod glob;
pub mod grep;
pub mod question;
pub mod read;
pub mod shell;
pub mod todo;
pub mod write;
