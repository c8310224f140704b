//! Troubles that users of models have in real life: small inputs with the outcome that is right.

mod rows;
mod stream;
