//! Suites that cross crates.

pub mod recordings;
pub mod shared;
