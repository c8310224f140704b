//! Suites that cross crates.

pub mod provider;
pub mod recordings;
pub mod sandbox;
#[cfg(test)]
mod scripted_provider;
pub mod shared;
