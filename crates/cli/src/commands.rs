//! The commands, one file each.

pub(crate) mod ai;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod helper;
pub(crate) mod models;
pub(crate) mod operations;
pub(crate) mod permission;
pub(crate) mod protocol;
pub(crate) mod revert;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod session;
