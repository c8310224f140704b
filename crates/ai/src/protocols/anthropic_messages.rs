//! Placeholder of the `anthropic_messages` protocol.
