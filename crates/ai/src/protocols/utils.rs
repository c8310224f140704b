//! Bulky projections that protocols share.

pub mod borrowed;
pub mod image_size;
pub mod lifecycle;
pub mod marks;
pub mod media;
pub mod tool_schema;
pub mod tool_stream;
