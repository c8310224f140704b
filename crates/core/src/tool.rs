//! Tools: what the model may call, and the boundary that runs calls (spec/tools.md).
//!
//! A built-in tool is a type with [`leaf::TypedTool`]; [`info::ToolInfo::typed`] makes it a registrable tool. Its
//! code sees a [`leaf::ToolContext`] and returns a [`leaf::ToolReturn`] or a [`outcome::ToolFailure`]; nothing else
//! that can happen to a call (decline, interruption, defect) is a value that it could see.

pub mod boundary;
pub mod builtin;
pub mod failure;
pub mod hooks;
pub mod image;
pub mod info;
pub mod leaf;
pub mod outcome;
pub mod output;
pub mod progress;
pub mod reference;
pub mod registry;
pub mod runtime;
#[cfg(test)]
mod scenarios;
pub mod schema;
pub mod scope;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
