//! Suites that cross crates.

pub mod recordings;
#[cfg(test)]
mod scripted_provider;
pub mod shared;
