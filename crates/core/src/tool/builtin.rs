//! The built-in tools, one file each.

#[cfg(test)]
mod bench;
pub mod edit;
pub mod files;
pub mod glob;
pub mod grep;
pub mod job;
pub mod patch;
pub mod question;
pub mod read;
pub mod shell;
pub mod skill;
pub mod subagent;
pub mod todo;
pub mod webfetch;
pub mod websearch;
pub mod write;
