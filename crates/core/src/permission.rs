//! Permissions: rules, their evaluation, and the requests that wait for the user (spec/tools.md section 8).
//!
//! [`PermissionService`] is per location. A leaf calls [`PermissionService::assert`]; on a decline that call never
//! returns. The API calls `create`, `reply` and the reads.

mod defaults;
mod error;
mod evaluate;
mod service;
mod wildcard;

#[cfg(test)]
mod tests;

pub use defaults::{BuiltinAgent, DefaultPaths, agent_rules, base_rules, inherited_rules};
pub(crate) use error::is_blocked;
pub use error::{CreateError, PermissionError, ReplyError, RulesError};
pub(crate) use evaluate::deciding;
pub use evaluate::{Judge, Request, canonical_action, configured_rules, evaluate, wholly_disabled};
pub use service::{
    AssertInput, Create, Created, EvaluateHook, Evaluation, PermissionOptions, PermissionRules, PermissionService,
    Publish, Refused,
};
pub use wildcard::matches;
