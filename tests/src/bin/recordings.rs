//! Replays the recorded provider exchanges; the last line says how many checks passed and failed.

use std::process::ExitCode;

use abide_tests::recordings;
use abide_tests::shared::shared;

#[expect(clippy::print_stdout, reason = "the report of this program")]
fn main() -> ExitCode {
    let Some(folder) = shared("recordings") else {
        println!("no recordings: set ABIDE_SHARED to the folder that holds them");
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    };
    let report = recordings::run(&folder);
    for line in report.lines() {
        println!("{line}");
    }
    if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
