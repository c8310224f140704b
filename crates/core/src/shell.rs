//! The shell: what a command line holds, what rules say about it, and how it runs (spec/tools.md 11.7).
//!
//! Before a line runs, [`scan`] finds its commands, [`judge`] decides about them by rules, and [`places`] finds what
//! lies outside the project. [`process`] runs it under a wrapper that ends everything when the server dies,
//! [`recover`] says what became of a command whose server did, and [`adopt`] watches one that outlived it.

pub mod adopt;
pub mod choose;
pub mod explain;
pub mod judge;
pub mod places;
pub mod process;
pub mod recover;
pub mod result;
pub mod scan;
pub mod sensitive;
