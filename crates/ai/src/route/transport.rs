//! Executing one prepared request.

pub mod http;
pub mod websocket;
pub mod websocket_channel;
pub mod websocket_pool;
