//! Bulky projections that protocols share.

pub mod borrowed;
pub mod lifecycle;
pub mod media;
pub mod tool_schema;
pub mod tool_stream;
