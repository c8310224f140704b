//! The built-in tools, one file each.

mod edit;
