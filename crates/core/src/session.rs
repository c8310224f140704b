//! Sessions: admission, execution, recovery (spec/session.md sections 6 to 8).

pub mod place;
