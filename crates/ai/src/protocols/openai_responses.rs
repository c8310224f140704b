//! Placeholder of the `openai_responses` protocol.
