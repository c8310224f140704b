//! Suites that cross crates.

pub mod crash;
pub mod http;
pub mod provider;
pub mod recordings;
pub mod sandbox;
#[cfg(test)]
mod scripted_provider;
pub mod shared;
