//! When a failed model request is made again (spec/session.md 7.7). Pure.

use std::time::Duration;

use abide_ai::{AIError, RetryClass};

/// The longest wait that a provider may ask for.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);
/// Continuations of an answer that broke off after it had begun.
pub const MAX_CONTINUATIONS: u32 = 2;

/// Attempts after the first when the connection fails: fewer than for a provider that says it is overloaded, so that a
/// user without network learns of it within half a minute.
pub const MAX_TRANSPORT_RETRIES: u32 = 3;

/// Returns how many attempts may follow the first.
pub fn max_retries(error: &AIError, configured: u32) -> u32 {
    if matches!(error.kind(), abide_ai::AIErrorKind::Transport(_)) {
        configured.min(MAX_TRANSPORT_RETRIES)
    } else {
        configured
    }
}

/// Says whether a failure may be followed by another attempt, before any output. A response header `x-should-retry`
/// decides when it is there.
pub fn is_retryable(error: &AIError) -> bool {
    let wish = error.http().and_then(|http| http.headers.get("x-should-retry")).map(String::as_str);
    match wish {
        Some("true") => return true,
        Some("false") => return false,
        Some(_) | None => {}
    }
    match error.retry_class() {
        RetryClass::Safe | RetryClass::IfNoOutput => true,
        RetryClass::Never => false,
    }
}

/// Returns how long to wait before attempt `next` (2 or more): doubling from `base`, 20 % jitter, at least what the
/// provider asks for. `random` is uniform over all of `u64`.
pub fn delay(base: Duration, next: u32, retry_after: Option<Duration>, random: u64) -> Duration {
    let doublings = next.saturating_sub(2).min(10);
    let plain = base.saturating_mul(1 << doublings);
    // 0.8 to 1.2 in steps of a thousandth.
    let permille = 800 + u32::try_from(random % 401).unwrap_or(0);
    let jittered = plain.saturating_mul(permille) / 1000;
    let millis = jittered.as_micros().div_ceil(1000);
    let own = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
    retry_after.map_or(own, |asked| own.max(asked.min(MAX_RETRY_AFTER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(next: u32, retry_after_ms: Option<u64>, random: u64, expected_ms: u64) {
        let actual = delay(Duration::from_secs(2), next, retry_after_ms.map(Duration::from_millis), random);
        assert_eq!(actual, Duration::from_millis(expected_ms));
    }

    #[test]
    fn delays_double_with_jitter_and_respect_the_provider() {
        check(2, None, 0, 1600);
        check(2, None, 200, 2000);
        check(2, None, 400, 2400);
        check(3, None, 200, 4000);
        check(5, None, 200, 16_000);
        check(2, Some(5000), 200, 5000);
        check(2, Some(10), 200, 2000);
        check(2, Some(3_600_000), 200, 900_000);
    }
}
