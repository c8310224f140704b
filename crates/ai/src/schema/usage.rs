//! Token counters with one meaning for every provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JsonObject, ProviderMetadata, provider_metadata};

/// Tokens of one call. Nothing is invented when the provider is silent.
///
/// `input_tokens` includes cached parts and `output_tokens` includes reasoning; where all are known,
/// non-cached + read + write = input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// All input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// All output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Input tokens neither read from nor written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_cached_input_tokens: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
    /// Input tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_input_tokens: Option<u64>,
    /// Output tokens spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Total as reported, else input plus output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// The provider's own usage object under the metadata key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<ProviderMetadata>,
}

/// Counters of one provider in the inclusive meaning, before the derived ones are filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageCounts {
    /// All input tokens.
    pub input: Option<u64>,
    /// All output tokens.
    pub output: Option<u64>,
    /// Read from a cache.
    pub cache_read: Option<u64>,
    /// Written to a cache.
    pub cache_write: Option<u64>,
    /// Spent on reasoning.
    pub reasoning: Option<u64>,
    /// Total as reported.
    pub total: Option<u64>,
}

impl Usage {
    /// Makes usage from inclusive counters: cached parts are clamped to the input, reasoning to the
    /// output, the derived counters are filled, and the raw object is kept under `key`.
    pub fn from(counts: UsageCounts, key: &str, raw: JsonObject) -> Self {
        let clamp = |part: Option<u64>, whole: Option<u64>| match (part, whole) {
            (Some(part), Some(whole)) => Some(part.min(whole)),
            (part, _) => part,
        };
        let read = clamp(counts.cache_read, counts.input);
        let write = clamp(counts.cache_write, subtract_tokens(counts.input, read));
        Self {
            input_tokens: counts.input,
            output_tokens: counts.output,
            non_cached_input_tokens: subtract_tokens(counts.input, sum_tokens(&[read, write])),
            cache_read_input_tokens: read,
            cache_write_input_tokens: write,
            reasoning_tokens: clamp(counts.reasoning, counts.output),
            total_tokens: total_tokens(counts.input, counts.output, counts.total),
            provider_metadata: provider_metadata(key, raw),
        }
    }

    /// Output tokens the user can see.
    pub fn visible_output_tokens(&self) -> Option<u64> {
        subtract_tokens(self.output_tokens, self.reasoning_tokens)
    }

    /// Whether every known counter is zero.
    pub fn is_zero(&self) -> bool {
        [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_input_tokens,
            self.cache_write_input_tokens,
            self.reasoning_tokens,
            self.total_tokens,
        ]
        .into_iter()
        .flatten()
        .all(|count| count == 0)
    }

    /// The later of two reports; an all-zero report never replaces another one.
    pub fn replace(earlier: Option<Self>, later: Self) -> Self {
        match earlier {
            Some(earlier) if later.is_zero() && !earlier.is_zero() => earlier,
            Some(_) | None => later,
        }
    }
}

/// `total - part`: unknown when the total is, the total when the part is unknown, never below zero.
pub fn subtract_tokens(total: Option<u64>, part: Option<u64>) -> Option<u64> {
    total.map(|total| total.saturating_sub(part.unwrap_or(0)))
}

/// The sum of the known counters; unknown only when all are.
pub fn sum_tokens(parts: &[Option<u64>]) -> Option<u64> {
    parts.iter().flatten().copied().reduce(u64::saturating_add)
}

/// The reported total, else input plus output when at least one is known.
pub fn total_tokens(input: Option<u64>, output: Option<u64>, reported: Option<u64>) -> Option<u64> {
    reported.or_else(|| sum_tokens(&[input, output]))
}

/// Reads a counter from provider JSON: whole numbers from zero up, also as a float or as digits;
/// anything else is unknown.
pub fn token_count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    if let Some(text) = value.as_str() {
        return text.trim().parse().ok();
    }
    if let Some(count) = value.as_u64() {
        return Some(count);
    }
    let float = value.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number within the exact range of f64"
    )]
    (float >= 0.0 && float.fract() == 0.0 && float < 9e15).then_some(float as u64)
}
