//! Questions that tools ask the user (spec/tools.md section 9, questions only).
//!
//! A leaf calls [`QuestionService::ask`]; when the user dismisses the question that call never returns.

mod service;

#[cfg(test)]
mod tests;

pub use service::{Dismissed, QuestionError, QuestionOptions, QuestionReplyError, QuestionService};
