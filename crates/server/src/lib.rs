//! The HTTP contract of abide, served: authentication, origins, location selection, handlers, event streams.
//!
//! The router is built from the route table of `abide-protocol`; what an operation does is asked of a [`Backend`].
//! This crate must not know rules of behaviour: they are core's.
//!
//! Main items: [`serve`], [`ServeOptions`], [`Backend`] and [`Directory`] (what the server needs of the engine).

mod app;
mod backend;
mod body;
mod context;
mod core;
mod guard;
mod handlers;
mod limit;
mod options;
mod reply;
mod serve;
mod sse;

pub use app::router;
pub use backend::{Answer, Backend, Directory, Failure, FileContent};
pub use core::core_backend;
pub use options::{Credentials, ServeOptions};
pub use serve::{ServeError, serve};

#[cfg(test)]
mod tests;
