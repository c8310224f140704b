//! The HTTP contract of abide: every operation as a typed value, the JSON that it speaks, and the OpenAPI
//! document made from both. With the feature `client`, a client that speaks it.
//!
//! Two views of the same data exist. The *contract view* ([`view`], [`Shown`]) is the JSON of the 1.18 API,
//! property for property: what the schema crate marks as extension is left out by the shapes of [`shape`]. The
//! *full view* keeps everything and counts events by log position; abide's own routes and `?view=full` use it.
//!
//! This crate must not know axum, the engine or a database.
//!
//! Main types: [`routes::Op`] and [`route::Route`] (the route table), [`route::Endpoint`] (an operation as a type),
//! [`error::ApiError`] (every error body with its status), [`openapi::document`].

pub mod body;
#[cfg(feature = "client")]
pub mod client;
pub mod cursor;
pub mod error;
pub mod openapi;
pub mod query;
pub mod route;
pub mod routes;
pub mod shape;
pub mod view;
pub mod wire;

pub use error::{ApiError, ErrorTag, InvalidKind};
pub use route::{Endpoint, Method, Route};
pub use routes::{Op, ROUTES};
pub use view::{Shown, ViewKind};
