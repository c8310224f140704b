//! Placeholder of the `openai_compatible_chat` protocol.
