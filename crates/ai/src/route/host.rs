//! The two things of the outside a call reads: environment variables and the clock.

use chrono::{DateTime, Utc};

/// Environment and clock, injected so that tests decide them.
pub trait Host: Send + Sync {
    /// The value of an environment variable.
    fn env(&self, name: &str) -> Option<String>;
    /// The present time.
    fn now(&self) -> DateTime<Utc>;
}

/// The environment and clock of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessHost;

impl Host for ProcessHost {
    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads it")]
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads it")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}
