//! The table that is printed, row by row, and the small statistics in it.

use std::io::Write as _;
use std::time::Duration;

/// The table; rows appear as they are measured.
pub(crate) struct Table {
    n_failed: usize,
}

impl Table {
    /// Prints the head.
    pub(crate) fn new() -> Self {
        println!("| what | budget | measured |\n| --- | --- | --- |");
        Self { n_failed: 0 }
    }

    /// Prints a row.
    pub(crate) fn row(&mut self, what: &str, budget: &str, measured: &str) {
        println!("| {what} | {budget} | {measured} |");
        drop(std::io::stdout().flush());
    }

    /// Prints that a group of rows could not be measured.
    pub(crate) fn failed(&mut self, what: &str, reason: &str) {
        self.n_failed += 1;
        println!("| {what} | | failed |");
        drop(std::io::stdout().flush());
        eprintln!("bench: {what}: {reason}");
    }

    /// Says whether every group was measured.
    pub(crate) fn is_whole(&self) -> bool {
        self.n_failed == 0
    }
}

/// Returns the middle value; the default of none.
pub(crate) fn median<T: Copy + Default + PartialOrd>(values: &[T]) -> T {
    percentile(values, 50)
}

/// Returns the value that `percent` of all values do not exceed; the default of none.
pub(crate) fn percentile<T: Copy + Default + PartialOrd>(values: &[T], percent: usize) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

/// Shows a time in milliseconds.
pub(crate) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// Shows bytes in MiB.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}
