//! Tests through the public face of the crate: fixtures in, events and bodies out.

mod streams;
mod support;
