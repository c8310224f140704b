use super::*;

/// Seeds that once broke something; they stay.
const PAST_SEEDS: &[u64] = &[];

#[test]
fn random_schedules_keep_the_invariants() {
    let mut total = Outcome::default();
    for seed in PAST_SEEDS.iter().copied().chain(0..300) {
        match run(seed) {
            Ok(outcome) => {
                total.n_lives += outcome.n_lives;
                total.n_events += outcome.n_events;
                total.n_requests += outcome.n_requests;
                total.n_tool_runs += outcome.n_tool_runs;
            }
            Err(report) => panic!("{report}"),
        }
    }
    // The schedules must do something.
    assert!(total.n_lives > 600 && total.n_requests > 600 && total.n_tool_runs > 300, "{total:?}");
}
