//! The budget of prompt-cache marks while a request is lowered.

use tracing::warn;

use crate::cache_policy::MAX_CACHE_MARKS;
use crate::schema::options::CacheHint;

/// One mark; each protocol has its own form of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// How long the provider keeps the prefix; its default when absent.
    pub ttl: Option<&'static str>,
}

/// Marks left for one request, and hints that got none.
#[derive(Debug)]
pub struct Marks {
    n_left: usize,
    n_dropped: usize,
}

impl Default for Marks {
    fn default() -> Self {
        Self { n_left: MAX_CACHE_MARKS, n_dropped: 0 }
    }
}

impl Marks {
    /// The mark for a hint, while there are any.
    pub fn take<T: From<Mark>>(&mut self, hint: Option<CacheHint>) -> Option<T> {
        let hint = hint?;
        if self.n_left == 0 {
            self.n_dropped = self.n_dropped.saturating_add(1);
            return None;
        }
        self.n_left = self.n_left.saturating_sub(1);
        Some(T::from(Mark { ttl: hint.is_one_hour().then_some("1h") }))
    }

    /// Says in the log how many hints got no mark.
    pub fn warn_about_surplus(&self) {
        if self.n_dropped > 0 {
            warn!(n_dropped = self.n_dropped, max = MAX_CACHE_MARKS, "surplus prompt-cache marks dropped");
        }
    }
}
