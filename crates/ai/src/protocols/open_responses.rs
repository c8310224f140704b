//! Placeholder of the `open_responses` protocol.
