//! `abide run` against the scripted provider: start, steps, deltas, disk.

use std::path::Path;
use std::time::{Duration, Instant};

use abide_tests::provider::{Provider, Reply, Request, Stamp};
use abide_tests::sandbox::{Sandbox, binary};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::process::{Usage, Watch, run};
use crate::table::{Table, median, mib, ms};

/// Repetitions of what takes milliseconds.
const SHORT: usize = 15;
/// Repetitions of a loop.
const LOOPS: usize = 3;
/// Steps of a loop.
const STEPS: usize = 200;
/// Steps at each end that are compared.
const ENDS: usize = 20;
/// Text deltas of one long answer.
const DELTAS: usize = 20_000;
/// The file that the loop reads; its size is that of a small source file.
const FILE: &str = "hello.txt";

/// Returns a configuration in which nothing asks.
pub(crate) fn config(provider: &Provider) -> Value {
    let mut config = provider.config();
    config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
    config
}

/// A script that reads a file `n` times and then answers.
pub(crate) fn read_loop(n: usize) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    move |request| {
        if request.n_results < n {
            let id = format!("call_{}", request.n_results);
            Reply::Call { id, name: "read".to_owned(), input: json!({ "path": FILE }) }
        } else {
            Reply::text("done")
        }
    }
}

/// A project, and a provider that has answered nothing yet.
struct Bench {
    provider: Provider,
    sandbox: Sandbox,
}

impl Bench {
    fn new(runtime: &Runtime, n_lines: usize, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let provider = runtime.block_on(Provider::start(Duration::ZERO, script));
        let sandbox = Sandbox::new();
        sandbox.configure(&config(&provider));
        sandbox.write(FILE, &"a line of forty characters, or nearly so\n".repeat(n_lines));
        Self { provider, sandbox }
    }

    /// Runs a command; returns what it took and the requests that it made.
    fn run(&self, arguments: &[&str], durability: &str, watch: Watch) -> Result<(Usage, Vec<Stamp>), String> {
        let before = self.provider.stamps().len();
        let mut command = self.sandbox.command(arguments);
        command.env("ABIDE_DURABILITY", durability);
        let usage = run(command, watch)?;
        let stamps = self.provider.stamps().split_off(before);
        if let Some(complaint) = self.provider.complaints().first() {
            return Err(format!("the provider complains: {complaint}"));
        }
        Ok((usage, stamps))
    }

    /// Returns the median time from start to the first request.
    fn first_request(&self, arguments: &[&str]) -> Result<Duration, String> {
        let mut times = Vec::new();
        for _ in 0..SHORT {
            let (usage, stamps) = self.run(arguments, "power", Watch::Quiet)?;
            times.push(stamps.first().ok_or("no request was made")?.arrived - usage.started);
        }
        Ok(median(&times))
    }
}

/// `--version`, and the size of the binary.
pub(crate) fn version(table: &mut Table) -> Result<(), String> {
    let sandbox = Sandbox::new();
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..SHORT {
        times.push(run(sandbox.command(&["--version"]), Watch::Quiet)?.wall);
        peaks.push(run(sandbox.command(&["--version"]), Watch::Memory)?.peak);
    }
    // A look may come too late: the largest of all counts.
    let peak = peaks.into_iter().max().unwrap_or_default();
    table.row("`--version`", "under 5 ms, under 10 MiB", &format!("{}, {}", ms(median(&times)), mib(peak)));
    let size = std::fs::metadata(binary()).map_err(|error| format!("the binary: {error}"))?.len();
    table.row("binary (stripped)", "under 30 MiB", &mib(size));
    Ok(())
}

/// Start to first request, and the memory of a one-prompt run.
pub(crate) fn start(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    let bench = Bench::new(runtime, 6, read_loop(0));
    // The first run stores the project.
    bench.run(&["run", "hello"], "power", Watch::Quiet)?;
    let time = bench.first_request(&["run", "hello"])?;
    table.row("process start to first model request, stored project", "under 25 ms", &ms(time));
    let mut peaks = Vec::new();
    for _ in 0..SHORT {
        peaks.push(bench.run(&["run", "hello"], "power", Watch::Memory)?.0.peak);
    }
    table.row("peak memory of a one-prompt run", "under 30 MiB", &mib(median(&peaks)));

    let bench = Bench::new(runtime, 6, read_loop(STEPS));
    bench.run(&["run", "go"], "process", Watch::Quiet)?;
    let time = bench.first_request(&["run", "-c", "go on"])?;
    table.row("process start to first model request, 200-step session to resume (`run -c`)", "under 40 ms", &ms(time));
    Ok(())
}

/// The times between an answer and the next request.
fn gaps(stamps: &[Stamp]) -> Vec<Duration> {
    stamps.windows(2).map(|pair| pair[1].arrived.saturating_duration_since(pair[0].answered)).collect()
}

/// What a step costs.
pub(crate) fn steps(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    for durability in ["process", "power"] {
        let (mut costs, mut cpus, mut growths) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..LOOPS {
            let bench = Bench::new(runtime, 6, read_loop(STEPS));
            let (usage, stamps) = bench.run(&["run", "go"], durability, Watch::Quiet)?;
            let gaps = gaps(&stamps);
            if gaps.len() != STEPS {
                return Err(format!("{} steps instead of {STEPS}", gaps.len()));
            }
            costs.push(median(&gaps));
            cpus.push(usage.cpu / STEPS as u32);
            growths.push(median(&gaps[STEPS - ENDS..]).as_secs_f64() / median(&gaps[..ENDS]).as_secs_f64());
        }
        let budget = if durability == "power" { "under 1.5 ms and two syncs" } else { "under 1.5 ms" };
        table.row(&format!("cost per step, durability `{durability}`, median"), budget, &ms(median(&costs)));
        table.row(&format!("CPU per step at 200 steps, `{durability}`"), "under 2 ms", &ms(median(&cpus)));
        let growth = format!("{:.2}", median(&growths));
        table.row(
            &format!("growth, last 20 of 200 steps against the first 20, `{durability}`"),
            "at most 1.15",
            &growth,
        );
    }
    let sandbox = Sandbox::new();
    table.row("one sync of this disk (4 KiB, `fdatasync`)", "–", &ms(sync(&sandbox.project())?));
    let bench = Bench::new(runtime, 6, read_loop(50));
    bench.run(&["run", "go"], "process", Watch::Quiet)?;
    table.row("connections to the provider, 50 steps", "1", &bench.provider.n_connections().to_string());
    Ok(())
}

/// Returns the median time of a small synced write.
fn sync(folder: &Path) -> Result<Duration, String> {
    use std::io::Write as _;
    let failed = |error: std::io::Error| format!("a synced write: {error}");
    let mut file = std::fs::File::create(folder.join("sync")).map_err(failed)?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).map_err(failed)?;
        times.push(started.elapsed());
    }
    Ok(median(&times))
}

/// The processor time of a long answer.
pub(crate) fn deltas(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    let words: Vec<String> = (0..DELTAS).map(|index| format!("w{index} ")).collect();
    let bench = Bench::new(runtime, 6, move |_| Reply::Text(words.clone()));
    let mut cpus = Vec::new();
    for _ in 0..LOOPS {
        cpus.push(bench.run(&["run", "count"], "power", Watch::Quiet)?.0.cpu);
    }
    let cpu = median(&cpus);
    let each = cpu.as_secs_f64() * 1e6 / DELTAS as f64;
    let measured = format!("{}, {each:.1} us a delta", ms(cpu));
    table.row("20,000 text deltas: CPU of the whole process", "under 5 us a delta (0.1 s)", &measured);
    Ok(())
}

/// The disk that a loop over a small source file takes.
pub(crate) fn disk(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    let bench = Bench::new(runtime, 50, read_loop(STEPS));
    bench.run(&["run", "go"], "power", Watch::Quiet)?;
    let requests = bench.provider.requests();
    let last = requests.last().ok_or("no request was made")?;
    let contents = last["messages"].to_string().len() as u64;
    let written = size(&bench.sandbox.data()).map_err(|error| format!("the data directory: {error}"))?;
    let ratio = written as f64 / contents as f64;
    let measured = format!("{} for {}, {ratio:.1} times", mib(written), mib(contents));
    table.row("disk after 200 steps, against what was said", "under 3 times", &measured);
    Ok(())
}

fn size(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
