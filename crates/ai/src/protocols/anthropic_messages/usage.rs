//! Token counters: merged over the events that carry them.

use serde_json::Value;

use crate::schema::JsonObject;
use crate::schema::usage::{Usage, UsageCounts, sum_tokens, token_count};

const COUNTERS: [&str; 4] = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

/// Lays a later usage object over an earlier one: objects merge, `null` says nothing, and a report
/// of zeros only never replaces counters.
pub(super) fn merge_usage(merged: &mut JsonObject, later: JsonObject) {
    if counters(&later).all(|count| count == 0)
        && counters(&later).next().is_some()
        && counters(merged).any(|count| count > 0)
    {
        return;
    }
    merge(merged, later);
}

fn merge(merged: &mut JsonObject, later: JsonObject) {
    for (key, value) in later {
        match (merged.get_mut(&key), value) {
            (Some(_), Value::Null) => {}
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => {
                merged.insert(key, value);
            }
        }
    }
}

fn counters(usage: &JsonObject) -> impl Iterator<Item = u64> {
    COUNTERS.iter().filter_map(|name| token_count(usage.get(*name)))
}

/// The counters of a merged usage object; none when the provider said nothing.
pub(super) fn usage_from(metadata_key: &str, raw: JsonObject) -> Option<Usage> {
    if raw.is_empty() {
        return None;
    }
    let fresh = token_count(raw.get("input_tokens"));
    let cache_read = token_count(raw.get("cache_read_input_tokens"));
    let cache_write = token_count(raw.get("cache_creation_input_tokens"));
    let counts = UsageCounts {
        input: sum_tokens(&[fresh, cache_read, cache_write]),
        output: token_count(raw.get("output_tokens")),
        cache_read,
        cache_write,
        reasoning: token_count(raw.get("output_tokens_details").and_then(|details| details.get("thinking_tokens"))),
        total: None,
    };
    let mut usage = Usage::from(counts, metadata_key, raw);
    usage.non_cached_input_tokens = fresh;
    Some(usage)
}
