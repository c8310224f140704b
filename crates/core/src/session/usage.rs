//! Tokens and cost of a model request (spec/session.md 7.8).

use abide_schema::model::{CacheTokens, Tokens};

use crate::session::place::PriceTier;

/// Turns a provider's usage into counts: `input` without cached tokens, `output` without reasoning.
pub fn tokens(usage: &abide_ai::Usage) -> Tokens {
    let read = usage.cache_read_input_tokens.unwrap_or(0);
    let write = usage.cache_write_input_tokens.unwrap_or(0);
    let input = usage
        .non_cached_input_tokens
        .unwrap_or_else(|| usage.input_tokens.unwrap_or(0).saturating_sub(read.saturating_add(write)));
    let reasoning = usage.reasoning_tokens.unwrap_or(0);
    let output = usage.output_tokens.unwrap_or(0).saturating_sub(reasoning);
    Tokens { input, output, reasoning, cache: CacheTokens { read, write } }
}

/// Returns what the provider itself says the request cost, when it is a usable number of US dollars.
pub fn reported_cost(usage: &abide_ai::Usage) -> Option<f64> {
    let metadata = usage.provider_metadata.as_ref()?;
    metadata
        .values()
        .filter_map(|facts| facts.get("cost").and_then(serde_json::Value::as_f64))
        .find(|cost| cost.is_finite() && *cost >= 0.0)
}

/// Returns the cost of `tokens` in US dollars: the tier with the largest threshold below the prompt size, else the
/// untiered price.
#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
pub fn cost(prices: &[PriceTier], tokens: &Tokens) -> f64 {
    let context = tokens.context();
    let tier = prices
        .iter()
        .filter(|tier| tier.over.is_none_or(|over| over < context))
        .max_by_key(|tier| tier.over.map_or(0, |over| over.saturating_add(1)));
    let Some(tier) = tier else { return 0.0 };
    let price = |count: u64, price: f64| if price.is_finite() && price > 0.0 { count as f64 * price } else { 0.0 };
    (price(tokens.input, tier.input)
        + price(tokens.output.saturating_add(tokens.reasoning), tier.output)
        + price(tokens.cache.read, tier.cache_read)
        + price(tokens.cache.write, tier.cache_write))
        / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(over: Option<u64>, input: f64) -> PriceTier {
        PriceTier { over, input, output: 2.0, cache_read: 0.5, cache_write: 4.0 }
    }

    #[track_caller]
    fn check(prices: &[PriceTier], tokens: Tokens, expected: f64) {
        let actual = cost(prices, &tokens);
        assert!((actual - expected).abs() < 1e-12, "expected {expected}, got {actual}");
    }

    #[test]
    fn cost_follows_the_tier_of_the_prompt() {
        let prices = [tier(None, 1.0), tier(Some(200), 10.0), tier(Some(100), 5.0)];
        let of = |input| Tokens { input, ..Tokens::default() };
        check(&prices, of(100), 100.0 / 1e6);
        check(&prices, of(101), 505.0 / 1e6);
        check(&prices, of(201), 2010.0 / 1e6);
        check(&[], of(201), 0.0);
        check(&[tier(None, f64::NAN)], of(5), 0.0);
        check(
            &prices[..1],
            Tokens { input: 1, output: 2, reasoning: 3, cache: CacheTokens { read: 4, write: 5 } },
            (1.0 + 10.0 + 2.0 + 20.0) / 1e6,
        );
    }

    #[test]
    fn usage_is_split_into_disjoint_counts() {
        let usage = abide_ai::Usage {
            input_tokens: Some(100),
            cache_read_input_tokens: Some(30),
            cache_write_input_tokens: Some(20),
            output_tokens: Some(10),
            reasoning_tokens: Some(4),
            ..abide_ai::Usage::default()
        };
        let expected = Tokens { input: 50, output: 6, reasoning: 4, cache: CacheTokens { read: 30, write: 20 } };
        assert_eq!(tokens(&usage), expected);
    }
}
