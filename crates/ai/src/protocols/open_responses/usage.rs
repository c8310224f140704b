//! Token counters.

use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::usage::{Usage, UsageCounts, token_count};

/// The counters of a usage object.
pub(super) fn usage_from(metadata_key: &str, raw: JsonObject) -> Usage {
    let detail = |object: &str, name: &str| {
        token_count(raw.get(object).and_then(Value::as_object).and_then(|details| details.get(name)))
    };
    let counts = UsageCounts {
        input: token_count(raw.get("input_tokens")),
        output: token_count(raw.get("output_tokens")),
        cache_read: detail("input_tokens_details", "cached_tokens"),
        cache_write: detail("input_tokens_details", "cache_write_tokens"),
        reasoning: detail("output_tokens_details", "reasoning_tokens"),
        total: token_count(raw.get("total_tokens")),
    };
    Usage::from(counts, metadata_key, raw)
}
