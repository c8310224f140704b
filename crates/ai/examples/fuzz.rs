//! Feeds hostile input to a parser: `fuzz --target T --minutes N [--seed N] [FILE ...]`.
//!
//! Without a target it takes all, one after the other. Files are inputs to begin with; the bodies of the
//! stream fixtures come along. A finding is written below `tests/it/corpus` and ends the run with 1.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use abide_ai::testing::fuzz::{TARGETS, Target, inputs, run, target};

#[expect(clippy::print_stderr, reason = "the report of this program")]
fn main() -> ExitCode {
    match fuzz() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the report of this program")]
fn fuzz() -> Result<bool, String> {
    let (mut targets, mut minutes, mut seed, mut more) = (TARGETS.to_vec(), 1.0_f64, 1_u64, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let bad = |value: &str| format!("{value:?} is no number");
        match word.as_str() {
            "--target" => {
                let name = value()?;
                let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                let found = target(&name).ok_or_else(|| format!("no target {name:?}; there are {}", names.join(", ")));
                targets = vec![*found?];
            }
            "--minutes" => {
                let text = value()?;
                minutes = text.parse().ok().filter(|minutes| *minutes > 0.0).ok_or_else(|| bad(&text))?;
            }
            "--seed" => {
                let text = value()?;
                seed = text.parse().map_err(|_| bad(&text))?;
            }
            file if !file.starts_with('-') => {
                more.push(std::fs::read(file).map_err(|error| format!("{file}: {error}"))?);
            }
            other => return Err(format!("unknown option {other}; there are --target, --minutes and --seed")),
        }
    }
    // A panic is caught and reported with its input.
    std::panic::set_hook(Box::new(|_| {}));
    let mut is_clean = true;
    for target in targets {
        let mut corpus = corpus(&target);
        corpus.extend(more.iter().cloned());
        let (begun, limit) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
        match run(&target, &corpus, seed, |_| begun.elapsed() < limit) {
            Ok(tally) => println!(
                "{}: {} inputs, {} outcomes, nothing found in {:.0} s",
                target.name,
                tally.n_runs,
                tally.n_outcomes,
                begun.elapsed().as_secs_f64()
            ),
            Err(finding) => {
                is_clean = false;
                let folder = tests().join("corpus").join(target.name);
                let path = folder.join(format!("found-{seed}-{}.bin", finding.input.len()));
                std::fs::create_dir_all(&folder)
                    .and_then(|()| std::fs::write(&path, &finding.input))
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                let shown = String::from_utf8_lossy(&finding.input);
                println!("{}: {}\n{shown}\nkept as {}", target.name, finding.what, path.display());
            }
        }
    }
    Ok(is_clean)
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it")
}

/// What was found before, and the bodies of the fixtures (of all protocols for a target that has none).
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let files = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths.into_iter().filter_map(|path| std::fs::read(path).ok())
    };
    let mut corpus: Vec<Vec<u8>> = files(tests().join("corpus").join(target.name)).collect();
    let own = tests().join("streams").join(target.name);
    let folders = if own.is_dir() {
        vec![own]
    } else {
        std::fs::read_dir(tests().join("streams")).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    for text in folders.into_iter().flat_map(files) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let body = text.split_once("\n--- body ").and_then(|(_, rest)| rest.split_once('\n'));
        let body = body.and_then(|(_, rest)| rest.split_once("\n--- events\n")).map(|(body, _)| body);
        corpus.extend(body.into_iter().flat_map(|body| inputs(target, body)));
    }
    corpus
}
