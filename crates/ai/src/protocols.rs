//! Wire protocols: how a canonical request becomes a body, and how a stream becomes events.

pub mod anthropic_messages;
pub mod gemini;
pub mod mistral_chat;
pub mod open_responses;
pub mod open_responses_channel;
mod open_responses_continuation;
pub mod openai_chat;
pub mod openai_compatible_chat;
pub mod openai_responses;
pub mod shared;
pub mod utils;
