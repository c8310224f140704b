//! The engine of abide: event log and projections, sessions, recovery, tools, permissions, locations.
//!
//! This crate must not know HTTP servers or terminals. Decisions are pure and made before effects; every
//! effect is announced in the log before it happens; clock, ids, randomness and the environment come from
//! [`world::World`], models, tools and directories through the traits of [`session::place`].

pub mod agent;
pub mod app;
pub mod catalog;
pub mod command;
pub mod config;
pub mod context;
pub mod credential;
pub mod fault;
pub mod fs;
pub mod git;
pub mod job;
pub mod location;
pub mod permission;
pub mod project;
pub mod question;
pub mod secret;
pub mod session;
pub mod shell;
pub mod skill;
pub mod snapshot;
pub mod store;
pub mod tool;
pub mod world;
