//! Tools: what the model may call, and the boundary that runs calls (spec/tools.md).

pub mod outcome;
