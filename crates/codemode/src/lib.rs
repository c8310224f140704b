//! Code Mode, the part that needs no script engine: the catalogue of tools as a typed script interface.
//!
//! A program sees every offered tool as `tools.<namespace>.<name>(input)`. This crate keeps the [`tree::Tree`] of
//! tools, writes their TypeScript signatures from JSON Schemas ([`signature`]), the catalogue text of a bounded
//! size that the model is told ([`catalogue`]), and answers a program's `search` ([`search`]). All of it is pure.
//!
//! The engine that runs programs (syntax checks, promises, limits) comes with a later issue; until then nothing
//! here offers an `execute` tool.
//!
//! This crate must not know sessions, permissions or how a tool runs.

pub mod catalogue;
pub mod search;
pub mod signature;
pub mod tree;

pub use catalogue::{Change, Entry, Summary};
pub use tree::{Found, Tool, Tree, TreeError};
