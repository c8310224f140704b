//! Kills the real binary at each fault point and at random moments; the last line says how many cases passed.

use std::process::ExitCode;
use std::time::Duration;

use abide_core::fault::POINTS;
use abide_core::session::sim::Random;
use abide_tests::crash::{self, Case, Life, WORKLOADS, Workload};

const USAGE: &str = "crash [--seed N] [--count N] [--point NAME]
  first each fault point with each workload that reaches it, then N cases of random kills [default: 0, 20]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (mut seed, mut count, mut point) = (0u64, 20u64, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<u64>();
        match (name.as_str(), number) {
            ("--seed", Ok(number)) => seed = number,
            ("--count", Ok(number)) => count = number,
            ("--point", _) if POINTS.contains(&value.as_str()) => point = Some(value),
            _ => {
                eprintln!("crash: {name} {value} is not understood\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let mut cases: Vec<Case> =
        crash::each_point().into_iter().filter(|case| point.as_ref().is_none_or(|point| case.names(point))).collect();
    if point.is_none() {
        cases.extend((seed..seed + count).map(random_case));
    }
    let (mut passed, mut failed, mut deaths) = (0u32, 0u32, 0usize);
    for case in cases {
        match crash::run(&case).await {
            Ok(report) => {
                passed += 1;
                deaths += report.n_deaths;
                println!("passed {case:?}: {report:?}");
            }
            Err(broken) => {
                failed += 1;
                println!("FAILED {case:?}: {broken}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, {deaths} deaths");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One to four lives, each with a kill at a random moment or a fault that may or may not be reached.
fn random_case(seed: u64) -> Case {
    let random = Random::new(seed);
    let pick = |limit: usize| usize::try_from(random.below(limit as u64)).unwrap_or(0);
    let workload = WORKLOADS.get(pick(WORKLOADS.len())).copied().unwrap_or(Workload::Text);
    let lives = (0..=random.below(4))
        .map(|_| match random.below(4) {
            0 => {
                let point = POINTS.get(pick(POINTS.len())).copied().unwrap_or("store.before_commit");
                let action = if random.below(2) == 0 { "kill" } else { "error" };
                Life::Errors(format!("{point}={action}@{}", 1 + random.below(20)))
            }
            _ => Life::Kill(Duration::from_millis(20 + random.below(900))),
        })
        .collect();
    Case { workload, is_messages: random.below(2) == 0, lives }
}
