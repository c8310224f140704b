//! Wire protocols: how a canonical request becomes a body, and how a stream becomes events.

pub mod anthropic_messages;
pub mod bedrock_converse;
pub mod gemini;
pub mod minimax_chat;
pub mod mistral_chat;
pub mod moonshot_chat;
pub mod open_responses;
pub mod open_responses_channel;
mod open_responses_continuation;
pub mod openai_chat;
pub mod openai_compatible_chat;
pub mod openai_responses;
pub mod openrouter_chat;
pub mod shared;
pub mod utils;
pub mod zai_chat;
