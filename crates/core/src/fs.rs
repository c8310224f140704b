//! Files: resolution of paths, reading and listing for clients, text and its encodings, diffs, and the mutation
//! journal through which everything that changes a file goes (spec/tools.md section 10, spec/session.md 9.2).

pub mod access;
pub mod blobs;
pub mod browse;
pub mod diff;
pub(crate) mod disk;
pub mod journal;
pub mod media;
pub mod reads;
pub(crate) mod search;
pub mod text;
