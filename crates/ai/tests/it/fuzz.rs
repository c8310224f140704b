//! A short run of every fuzz target: what was found before, and some changed inputs.

use abide_ai::testing::fuzz::{TARGETS, inputs, run, try_input};

use crate::support::{files, fixtures};

/// Changed inputs of one target.
const N_RUNS: u64 = 1500;

#[test]
fn targets() {
    for target in TARGETS {
        let folder = fixtures("corpus").join(target.name);
        let mut corpus = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let input = std::fs::read(&path).unwrap();
            assert_eq!(try_input(target, &input).err(), None, "{}", path.display());
            corpus.push(input);
        }
        let is_protocol = fixtures("streams").join(target.name).is_dir();
        let all = ["openai-chat", "anthropic-messages", "openai-responses", "gemini", "mistral-chat"];
        for protocol in all.iter().filter(|protocol| !is_protocol || **protocol == target.name) {
            for path in files(&fixtures("streams").join(protocol), "txt") {
                let text = std::fs::read_to_string(path).unwrap();
                let (head, _) = text.split_once("\n--- events\n").unwrap();
                let (_, body) = head.split_once("\n--- body ").unwrap();
                corpus.extend(inputs(target, body.split_once('\n').unwrap().1));
            }
        }
        let tally = run(target, &corpus, 7, |n_runs| n_runs < N_RUNS).unwrap_or_else(|finding| {
            panic!("{}: {}\n{}", target.name, finding.what, String::from_utf8_lossy(&finding.input))
        });
        assert!(tally.n_outcomes > 1, "{}: every input gives the same", target.name);
    }
}
