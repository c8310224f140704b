//! The tool `edit`: replaces text in a file (spec/tools.md 11.3).

mod ladder;
