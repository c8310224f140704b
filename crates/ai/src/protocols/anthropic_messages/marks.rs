//! The budget of prompt-cache marks.

use tracing::warn;

use super::body::CacheControl;
use crate::schema::options::CacheHint;

/// The most marks the provider takes in one request.
const MAX_MARKS: usize = 4;

/// Marks left for one request, and hints that got none.
#[derive(Debug)]
pub(super) struct Marks {
    n_left: usize,
    n_dropped: usize,
}

impl Marks {
    pub(super) const fn new() -> Self {
        Self { n_left: MAX_MARKS, n_dropped: 0 }
    }

    /// The mark for a hint, while there are any.
    pub(super) const fn take(&mut self, hint: Option<CacheHint>) -> Option<CacheControl> {
        let Some(hint) = hint else { return None };
        if self.n_left == 0 {
            self.n_dropped = self.n_dropped.saturating_add(1);
            return None;
        }
        self.n_left = self.n_left.saturating_sub(1);
        let ttl = if hint.is_one_hour() { Some("1h") } else { None };
        Some(CacheControl { kind: "ephemeral", ttl })
    }

    pub(super) fn warn_about_surplus(&self) {
        if self.n_dropped > 0 {
            warn!(n_dropped = self.n_dropped, max = MAX_MARKS, "surplus prompt-cache marks dropped");
        }
    }
}
