use super::run;
use crate::shared::shared;

#[test]
fn recorded_exchanges() {
    let Some(folder) = shared("recordings") else {
        println!("no recordings here; set ABIDE_SHARED to the folder that holds them");
        return;
    };
    let report = run(&folder);
    let lines = report.lines().join("\n");
    println!("{lines}");
    assert!(!report.passed.is_empty(), "nothing was checked:\n{lines}");
    assert!(report.failed.is_empty(), "{lines}");
}
