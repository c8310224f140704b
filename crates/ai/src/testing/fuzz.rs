//! Hostile input: targets that take any bytes, and the driver that makes them up.
//!
//! A target never panics; it says what broke a rule. The driver changes inputs of a corpus, keeps those that
//! show something new (other events, another failure), and makes a failing input small. No instrumented
//! build is needed: what is new is told from outside. The same seed gives the same run.

mod mutate;
mod targets;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::mutate::Random;
pub use self::targets::{TARGETS, Target, inputs, target};

/// The most bytes of an input.
const MAX_INPUT: usize = 16 * 1024;
/// The most inputs that are kept.
const MAX_CORPUS: usize = 4096;
/// The most tries to make a failing input smaller.
const MAX_SHRINK: usize = 4000;

/// An input that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The input, as small as it got.
    pub input: Vec<u8>,
    /// Which rule.
    pub what: String,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs that were tried.
    pub n_runs: u64,
    /// Different outcomes that were seen.
    pub n_outcomes: usize,
}

/// Tries one input; a panic is a finding too.
///
/// # Errors
/// The rule that was broken.
pub fn try_input(target: &Target, input: &[u8]) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("panicked: {text}"))
    })
}

/// Tries every input of a corpus, then changed ones until `goes_on` says no.
///
/// # Errors
/// The first finding.
pub fn run(
    target: &Target,
    corpus: &[Vec<u8>],
    seed: u64,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<Tally, Finding> {
    let mut random = Random::new(seed);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut tally = Tally::default();
    let mut attempt = |input: Vec<u8>, kept: &mut Vec<Vec<u8>>, tally: &mut Tally| {
        tally.n_runs += 1;
        match try_input(target, &input) {
            Ok(outcome) => {
                if seen.insert(outcome) && kept.len() < MAX_CORPUS {
                    kept.push(input);
                }
                tally.n_outcomes = seen.len();
                Ok(())
            }
            Err(what) => Err(shrink(target, input, what)),
        }
    };
    for input in corpus {
        attempt(input.clone(), &mut kept, &mut tally)?;
    }
    if kept.is_empty() {
        kept.push(b"data: {}\n\n".to_vec());
    }
    while goes_on(tally.n_runs) {
        let mut input = random.pick(&kept).cloned().unwrap_or_default();
        let other = random.pick(&kept).cloned().unwrap_or_default();
        mutate::change(&mut input, &other, &mut random);
        input.truncate(MAX_INPUT);
        attempt(input, &mut kept, &mut tally)?;
    }
    Ok(tally)
}

/// Takes pieces away for as long as any rule stays broken.
fn shrink(target: &Target, mut input: Vec<u8>, mut what: String) -> Finding {
    let mut n_tries = 0;
    let mut size = input.len() / 2;
    while size > 0 && n_tries < MAX_SHRINK {
        let mut at = 0;
        while at < input.len() && n_tries < MAX_SHRINK {
            let mut smaller = input.clone();
            drop(smaller.drain(at..(at + size).min(input.len())));
            n_tries += 1;
            match try_input(target, &smaller) {
                Ok(_) => at += size,
                Err(broken) => {
                    input = smaller;
                    what = broken;
                }
            }
        }
        size /= 2;
    }
    Finding { input, what }
}
