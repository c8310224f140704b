//! The built binary, as users run it.

mod crash;
mod failures;
mod run;
