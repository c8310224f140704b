//! Measures the release binary against a scripted provider on loopback; prints the table of docs/performance.md.
//!
//! `bench [GROUP ...]` measures some groups only: version, start, steps, deltas, disk, snapshot, serve, recovery.

#[cfg(target_os = "linux")]
mod http;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod runs;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod snapshot;
#[cfg(target_os = "linux")]
mod table;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("bench: the figures come from /proc: run it on Linux");
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::time::Duration;

    /// Nothing may take longer.
    const LIMIT: Duration = Duration::from_secs(600);
    const GROUPS: [&str; 8] = ["version", "start", "steps", "deltas", "disk", "snapshot", "serve", "recovery"];

    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !GROUPS.contains(&name.as_str())) {
        eprintln!("bench: unknown group {unknown:?}; there are {}", GROUPS.join(", "));
        return ExitCode::from(2);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    #[expect(clippy::disallowed_methods, reason = "a watchdog that lives as long as the process")]
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        eprintln!("bench: not done after {LIMIT:?}");
        std::process::exit(1);
    });
    let mut table = table::Table::new();
    for group in GROUPS.into_iter().filter(|group| wanted.is_empty() || wanted.iter().any(|name| name == group)) {
        let result = match group {
            "version" => runs::version(&mut table),
            "start" => runs::start(&runtime, &mut table),
            "steps" => runs::steps(&runtime, &mut table),
            "deltas" => runs::deltas(&runtime, &mut table),
            "disk" => runs::disk(&runtime, &mut table),
            "snapshot" => snapshot::unchanged(&runtime, &mut table),
            "serve" => server::serve(&runtime, &mut table),
            _ => server::recovery(&runtime, &mut table),
        };
        if let Err(reason) = result {
            table.failed(group, &reason);
        }
    }
    if table.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
