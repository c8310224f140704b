//! Runs the session engine in its simulated world, one schedule a seed; the last line says how many passed and failed.

use std::process::ExitCode;

const USAGE: &str = "sim [--seed N] [--count N]   runs the schedules of the seeds N .. N + count [default: 0, 200]";
const COUNT: u64 = 200;

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok((first, count)) => run(first, count),
        Err(message) => {
            eprintln!("sim: {message}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(u64, u64), String> {
    let (mut first, mut count) = (0, COUNT);
    while let Some(name) = arguments.next() {
        let target = match name.as_str() {
            "--seed" => &mut first,
            "--count" => &mut count,
            _ => return Err(format!("unknown argument {name:?}")),
        };
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
        *target = value.parse().map_err(|_| format!("{name} needs a number, not {value:?}"))?;
    }
    Ok((first, count))
}

fn run(first: u64, count: u64) -> ExitCode {
    let (mut passed, mut failed) = (0u64, 0u64);
    for seed in first..first.saturating_add(count) {
        match abide_core::session::sim::run(seed) {
            Ok(_) => passed += 1,
            Err(report) => {
                failed += 1;
                println!("seed {seed}:\n{report}\nagain: cargo xtask sim --seed {seed} --count 1\n");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
