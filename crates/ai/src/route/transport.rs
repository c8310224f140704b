//! Executing one prepared request.

pub mod http;
