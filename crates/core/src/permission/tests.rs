//! Scenarios P1 to P29 of spec/tools.md section 16, as far as they concern this module.

mod rules;
mod service;
