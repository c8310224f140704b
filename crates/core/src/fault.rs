//! Named fault points, for crash tests: `fault::point("mutation.after_plan").await?`.
//!
//! They do something only in debug builds and with the feature `testing`, and only when asked to: by the environment
//! variable `ABIDE_FAILPOINTS="name=action[@n],…"` (read once) or, in tests, by [`with`]. Actions: `kill` (the process
//! dies at once, as by `kill -9`), `error` (the point fails), `delay:<ms>`. `@n` means only the n-th time.

/// Every fault point there is (spec/session.md section 13).
pub const POINTS: &[&str] = &[
    "store.before_commit",
    "store.after_commit",
    "store.before_notify",
    "admit.after_append",
    "drain.after_claim",
    "promote.between",
    "context.after_update",
    "attempt.before_dispatch",
    "attempt.after_dispatch",
    "stream.after_event",
    "draft.after_write",
    "tool.after_called",
    "tool.before_effect",
    "mutation.after_plan",
    "mutation.after_stage",
    "mutation.between_renames",
    "mutation.after_apply",
    "process.after_gate",
    "tool.before_settle",
    "step.before_terminal",
    "step.after_terminal",
    "retry.after_scheduled",
    "compaction.after_started",
    "compaction.before_ended",
    "revert.mid_restore",
    "recover.before_batch",
    "recover.after_batch",
    "exec.before_terminal",
];

/// The name of the environment variable.
pub const VARIABLE: &str = "ABIDE_FAILPOINTS";

/// An injected failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("injected failure at {0}")]
pub struct Fault(pub &'static str);

impl From<Fault> for std::io::Error {
    fn from(fault: Fault) -> Self {
        Self::other(fault)
    }
}

/// Why a list of faults cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is no fault: expected name=kill, name=error or name=delay:<ms>, each with an optional @n, and a name of {}", POINTS.join(", "))]
pub struct FaultSyntax {
    /// The item.
    pub value: String,
}

#[cfg(any(debug_assertions, feature = "testing"))]
pub use armed::{Faults, current, hit, point, with};
#[cfg(not(any(debug_assertions, feature = "testing")))]
pub use inert::{Faults, current, hit, point};

#[cfg(any(debug_assertions, feature = "testing"))]
mod armed {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use super::{Fault, FaultSyntax, POINTS, VARIABLE};

    /// What to do at which point. Clones share their counters.
    #[derive(Clone, Debug, Default)]
    pub struct Faults(Arc<[Entry]>);

    #[derive(Debug)]
    struct Entry {
        point: &'static str,
        action: Action,
        nth: Option<u32>,
        hits: AtomicU32,
    }

    #[derive(Clone, Copy, Debug)]
    enum Action {
        Kill,
        Error,
        Delay(Duration),
    }

    tokio::task_local! {
        static LOCAL: Faults;
    }

    static FROM_ENVIRONMENT: OnceLock<Faults> = OnceLock::new();

    impl Faults {
        /// Parses a list.
        ///
        /// # Errors
        /// [`FaultSyntax`] for an unknown point or action.
        pub fn parse(list: &str) -> Result<Self, FaultSyntax> {
            list.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(parse_entry)
                .collect::<Result<_, _>>()
                .map(Self)
        }

        /// Fails, delays or dies when a fault of this point is due. Blocks while it delays.
        ///
        /// # Errors
        /// [`Fault`] when it is to fail.
        pub fn hit(&self, point: &'static str) -> Result<(), Fault> {
            match self.due(point) {
                None => Ok(()),
                Some(Action::Delay(time)) => {
                    std::thread::sleep(time);
                    Ok(())
                }
                Some(Action::Kill) => die(),
                Some(Action::Error) => Err(Fault(point)),
            }
        }

        fn due(&self, point: &str) -> Option<Action> {
            let mut due = None;
            for entry in self.0.iter().filter(|entry| entry.point == point) {
                let hit = entry.hits.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                if entry.nth.is_none_or(|nth| nth == hit) {
                    due = due.or(Some(entry.action));
                }
            }
            due
        }
    }

    fn parse_entry(item: &str) -> Result<Entry, FaultSyntax> {
        let wrong = || FaultSyntax { value: item.to_owned() };
        let (name, rest) = item.split_once('=').ok_or_else(wrong)?;
        let (action, nth) = match rest.split_once('@') {
            Some((action, nth)) => (action, Some(nth.parse().map_err(|_| wrong())?)),
            None => (rest, None),
        };
        let action = match action.split_once(':') {
            Some(("delay", ms)) => Action::Delay(Duration::from_millis(ms.parse().map_err(|_| wrong())?)),
            None if action == "kill" => Action::Kill,
            None if action == "error" => Action::Error,
            _ => return Err(wrong()),
        };
        let point = POINTS.iter().find(|point| **point == name).ok_or_else(wrong)?;
        Ok(Entry { point, action, nth, hits: AtomicU32::new(0) })
    }

    fn die() -> ! {
        let _error = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort()
    }

    /// Returns the faults that hold for the running task: those of [`with`], else those of the environment. For code
    /// that goes on in another task or thread.
    pub fn current() -> Faults {
        LOCAL.try_with(Faults::clone).unwrap_or_else(|_| FROM_ENVIRONMENT.get_or_init(from_environment).clone())
    }

    fn from_environment() -> Faults {
        let list = std::env::var_os(VARIABLE).unwrap_or_default();
        Faults::parse(&list.to_string_lossy()).unwrap_or_else(|error| {
            tracing::error!(%error, "{VARIABLE} is ignored");
            Faults::default()
        })
    }

    /// A fault point in blocking code.
    ///
    /// # Errors
    /// [`Fault`] when it is to fail.
    pub fn hit(point: &'static str) -> Result<(), Fault> {
        current().hit(point)
    }

    /// A fault point in async code.
    ///
    /// # Errors
    /// [`Fault`] when it is to fail.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn point(point: &'static str) -> Result<(), Fault> {
        match current().due(point) {
            None => Ok(()),
            Some(Action::Delay(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(Action::Kill) => die(),
            Some(Action::Error) => Err(Fault(point)),
        }
    }

    /// Runs `future` with faults of its own; tasks that it starts do not inherit them.
    ///
    /// # Cancel safety
    /// As `future`.
    pub async fn with<F: Future>(faults: Faults, future: F) -> F::Output {
        LOCAL.scope(faults, future).await
    }
}

#[cfg(not(any(debug_assertions, feature = "testing")))]
mod inert {
    use super::Fault;

    /// No faults: this build has none.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Faults;

    impl Faults {
        /// Does nothing.
        #[expect(clippy::unused_self, reason = "the armed build uses it")]
        pub const fn hit(self, _point: &'static str) -> Result<(), Fault> {
            Ok(())
        }
    }

    /// Returns no faults.
    pub const fn current() -> Faults {
        Faults
    }

    /// Does nothing.
    pub const fn hit(_point: &'static str) -> Result<(), Fault> {
        Ok(())
    }

    /// Does nothing.
    #[expect(clippy::unused_async, reason = "the armed build waits")]
    pub async fn point(_point: &'static str) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_hit_fails() {
        let faults = Faults::parse("mutation.between_renames=error@2, tool.before_effect=delay:0").unwrap();
        let hits = with(faults, async {
            let mut hits = Vec::new();
            for _ in 0..3 {
                hits.push(point("mutation.between_renames").await.is_err());
            }
            hits.push(hit("tool.before_effect").is_err());
            hits
        })
        .await;
        assert_eq!(hits, [false, true, false, false]);
    }

    #[test]
    fn nonsense_is_refused() {
        for item in ["nowhere=kill", "mutation.after_plan=burn", "mutation.after_plan", "mutation.after_plan=delay:x"] {
            assert_eq!(Faults::parse(item).unwrap_err(), FaultSyntax { value: item.into() });
        }
    }
}
