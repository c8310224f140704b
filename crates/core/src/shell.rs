//! The shell: what a command line holds, what rules say about it, and how it runs.

pub mod explain;
pub mod judge;
pub mod places;
pub mod scan;
