//! Recorded exchanges with real providers, read in place.
//!
//! Every interaction gives these checks: `request`, the canonical request lowers to the recorded one
//! (see [`raise`]); `events`, the recorded body gives what `expected.json` says, fed whole, byte by
//! byte and in random pieces; `cuts`, a body cut anywhere gives a prefix of the same events and, if
//! its end is missing, a failure. The two cassettes of `record-replay` try the recorder itself.

mod call;
mod exchange;
pub mod raise;
mod recorder;
mod summary;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use abide_ai::testing::cassette::{Cassette, Interaction};
use serde_json::Value;

use self::call::{Outcome, Runner};
use self::exchange::Exchange;

/// The seed of the random pieces, so that a failure can be repeated.
const SEED: u64 = 0x5eed_0001;
/// How many places a body is cut at, beside its ends.
const N_CUTS: usize = 150;

/// What came of the recordings.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Names of checks that passed.
    pub passed: Vec<String>,
    /// Names of checks that failed, and why.
    pub failed: Vec<(String, String)>,
    /// Recordings without checks, and why.
    pub left_out: Vec<(String, String)>,
}

impl Report {
    /// The report in lines; the last one is `N passed, N failed`.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.left_out.iter().map(|(name, reason)| format!("left out: {name} ({reason})")).collect();
        lines.extend(self.failed.iter().map(|(name, reason)| format!("FAILED: {name}: {reason}")));
        lines.push(format!("{} passed, {} failed", self.passed.len(), self.failed.len()));
        lines
    }

    fn check(&mut self, name: String, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed.push(name),
            Err(reason) => self.failed.push((name, reason)),
        }
    }
}

/// Runs every recording of a folder.
pub fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    let names = match names(folder) {
        Ok(names) => names,
        Err(reason) => {
            report.failed.push(("recordings".to_owned(), reason));
            return report;
        }
    };
    let expected = match expected(folder) {
        Ok(expected) => expected,
        Err(reason) => {
            report.failed.push(("expected.json".to_owned(), reason));
            return report;
        }
    };
    let runner = match Runner::new() {
        Ok(runner) => runner,
        Err(error) => {
            report.failed.push(("runner".to_owned(), error.to_string()));
            return report;
        }
    };
    for name in names {
        let expected = expected.get(&name).map(Vec::as_slice).unwrap_or_default();
        recording(folder, &name, expected, &runner, &mut report);
    }
    report
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for group in fs::read_dir(folder).map_err(|error| at(folder, error))? {
        let group = group.map_err(|error| at(folder, error))?.path();
        if !group.is_dir() {
            continue;
        }
        for file in fs::read_dir(&group).map_err(|error| at(&group, error))? {
            let file = file.map_err(|error| at(&group, error))?.path();
            let relative = file.strip_prefix(folder).map(|file| file.with_extension("")).ok();
            if file.extension().is_some_and(|extension| extension == "json")
                && let Some(name) = relative.as_deref().and_then(Path::to_str)
            {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    if names.is_empty() { Err(at(folder, "no recording")) } else { Ok(names) }
}

fn expected(folder: &Path) -> Result<BTreeMap<String, Vec<Value>>, String> {
    let path = folder.join("expected.json");
    let text = fs::read_to_string(&path).map_err(|error| at(&path, error))?;
    serde_json::from_str(&text).map_err(|error| at(&path, error))
}

fn at(path: &Path, problem: impl Display) -> String {
    format!("{}: {problem}", path.display())
}

fn recording(folder: &Path, name: &str, expected: &[Value], runner: &Runner, report: &mut Report) {
    let cassette = match Cassette::load(folder, name) {
        Ok(cassette) => cassette,
        Err(error) => return report.failed.push((name.to_owned(), error.to_string())),
    };
    if name.starts_with("record-replay/") {
        return report.check(format!("{name} replay"), recorder::check(name, &cassette, runner));
    }
    if cassette.interactions.len() != expected.len() {
        let reason = format!("{} interactions, {} expectations", cassette.interactions.len(), expected.len());
        return report.failed.push((name.to_owned(), reason));
    }
    let mut first: Option<(Exchange, Outcome)> = None;
    for (index, (interaction, expected)) in cassette.interactions.iter().zip(expected).enumerate() {
        let at = format!("{name} #{}", index.saturating_add(1));
        let Interaction::Http { request, response } = interaction else {
            report.left_out.push((at, "not HTTP".to_owned()));
            continue;
        };
        let exchange = Exchange::read(name, request, response);
        let exchange = match (exchange, &first) {
            (Ok(exchange), Some((first, outcome))) => Ok(exchange.continuing(name, first, outcome)),
            (exchange, _) => exchange,
        };
        match exchange {
            Err(reason) => report.failed.push((at, reason)),
            Ok(exchange) => {
                let outcome = interaction_checks(&at, &exchange, expected, runner, report);
                first.get_or_insert((exchange, outcome));
            }
        }
    }
}

fn interaction_checks(
    at: &str,
    exchange: &Exchange,
    expected: &Value,
    runner: &Runner,
    report: &mut Report,
) -> Outcome {
    let whole = runner.whole(exchange);
    report.check(format!("{at} request"), exchange.check_request(&whole));
    report.check(format!("{at} events, whole"), summary::check(exchange, &whole, expected));
    let sizes = random_sizes(SEED ^ exchange.body.len() as u64);
    for (feed, sizes) in [("byte by byte", vec![1]), ("random pieces", sizes)] {
        let outcome = runner.pieces(exchange, &sizes);
        report.check(format!("{at} events, {feed}"), same(&whole, &outcome));
    }
    if exchange.status < 400 {
        report.check(format!("{at} cuts"), cuts(exchange, &whole, runner));
    }
    whole
}

fn same(whole: &Outcome, other: &Outcome) -> Result<(), String> {
    if whole.events == other.events && whole.error_text() == other.error_text() {
        return Ok(());
    }
    Err(format!(
        "{} events and {}, fed whole {} events and {}",
        other.events.len(),
        other.error_text(),
        whole.events.len(),
        whole.error_text()
    ))
}

fn cuts(exchange: &Exchange, whole: &Outcome, runner: &Runner) -> Result<(), String> {
    let len = exchange.body.len();
    let step = len.div_ceil(N_CUTS).max(1);
    for end in (0..len).step_by(step).chain(len.saturating_sub(8)..len) {
        let cut = runner.cut(exchange, end);
        let is_whole = cut.events.last().is_some_and(abide_ai::LLMEvent::is_terminal);
        let body = cut.events.len().saturating_sub(if is_whole { 2 } else { 0 });
        let events = cut.events.get(..body).unwrap_or_default();
        if !whole.events.starts_with(events) {
            return Err(format!("cut at byte {end}: events are no prefix of those of the whole"));
        }
        if is_whole == cut.error.is_some() {
            return Err(format!("cut at byte {end}: neither an end nor a failure, or both: {}", cut.error_text()));
        }
    }
    Ok(())
}

/// Sizes of pieces from a seed.
fn random_sizes(seed: u64) -> Vec<usize> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..97).map(|_| usize::try_from(next() % 120).unwrap_or(0).saturating_add(1)).collect()
}

#[cfg(test)]
mod tests;
