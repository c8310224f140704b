//! Placeholder of the `openai_chat` protocol.
