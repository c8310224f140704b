//! The built binary, as users run it.

mod ai;
mod api;
mod clouds;
mod crash;
mod failures;
mod jobs;
mod operations;
mod patch;
mod processes;
mod run;
