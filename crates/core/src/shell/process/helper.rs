//! The wrapper of a command: a process of its own that starts the command behind a gate, writes down how it ended, and
//! ends everything that belongs to it when the other end of its standard input goes away, for whatever reason.
//!
//! It runs no async code and shares nothing with the server but pipes and files.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_schema::config::CommandLimits;
use rustix::process::{Resource, Rlimit, WaitOptions, getpid, getrlimit, setrlimit, setsid};
use serde::{Deserialize, Serialize};

use super::family::{Family, KILL_GRACE, command_line};
use super::marker::{ExitMarker, write_exit, write_started};
use crate::world::World;

/// The argument that makes a program the wrapper: its first line of `main` compares it and calls [`run`].
pub const HELPER_ARGUMENT: &str = "__shell";

/// What the wrapper writes when it waits at the gate.
pub(crate) const READY: &str = "abide-shell-ready";
/// What opens the gate.
pub(crate) const GO: &str = "go\n";
/// What lets the command outlive the server.
pub(crate) const DETACH: &str = "detach\n";
/// The most processes that are named when a command leaves some.
const MAX_LEFT: usize = 10;
/// The longest command line of such a process, in characters.
const MAX_LEFT_CHARS: usize = 120;

/// What to run: the first line on the wrapper's standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) spool: PathBuf,
    pub(crate) mark: String,
    #[serde(default)]
    pub(crate) resources: CommandLimits,
}

/// Runs as the wrapper. Standard input brings what to run, then the byte that opens the gate; its end means that
/// nobody waits any more. Never returns an error code: what happened stands in the markers.
pub fn run() -> ExitCode {
    let _done = wrap();
    ExitCode::SUCCESS
}

fn wrap() -> io::Result<()> {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let spec: Spec = serde_json::from_str(&line)?;
    // A session of its own: no terminal to ask, and one name for all that belongs to the command.
    let _leads_already = setsid();
    #[cfg(target_os = "linux")]
    let _unsupported = rustix::process::set_child_subreaper(Some(getpid()));
    {
        let mut output = io::stdout().lock();
        writeln!(output, "\n{READY}")?;
        output.flush()?;
    }
    line.clear();
    input.read_line(&mut line)?;
    if line != GO {
        return Ok(());
    }
    let family = Family { leader: Some(getpid().as_raw_nonzero().get()), mark: String::new() };
    let marker = match start(&spec) {
        Ok(pid) => watch(pid, input, &family),
        Err(error) => ExitMarker { error: Some(error.to_string()), ..ExitMarker::default() },
    };
    let finished_at = Some(World::real().now().as_millis());
    write_exit(&spec.spool, &ExitMarker { finished_at, ..marker })
}

fn start(spec: &Spec) -> io::Result<u32> {
    let output = append(&spec.spool)?;
    let errors = output.try_clone()?;
    let mut command = Command::new(&spec.program);
    command.args(&spec.arguments).current_dir(&spec.directory).stdin(Stdio::null()).stdout(output).stderr(errors);
    // A group of its own, so that a command which signals its group does not end the wrapper.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    write_started(&spec.spool)?;
    limit(&spec.resources);
    Ok(command.spawn()?.id())
}

/// Limits this process, and so all that it starts. A limit above what the system allows stays at that.
fn limit(resources: &CommandLimits) {
    let wanted = [
        (Resource::As, resources.memory),
        (Resource::Cpu, resources.cpu_seconds),
        (Resource::Fsize, resources.file_size),
        (Resource::Nofile, resources.open_files),
        (Resource::Nproc, resources.processes),
    ];
    for (resource, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        let _unsupported = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

fn append(spool: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(spool)
}

/// Waits for the command and for the end of the input.
fn watch(pid: u32, mut input: BufReader<io::Stdin>, family: &Family) -> ExitMarker {
    let is_left = Arc::new(AtomicBool::new(false));
    let (flag, everybody) = (Arc::clone(&is_left), family.clone());
    let watcher = std::thread::Builder::new().name("abide-shell-input".to_owned()).spawn(move || {
        let mut line = String::new();
        while matches!(input.read_line(&mut line), Ok(n_bytes) if n_bytes > 0) {
            if line == DETACH {
                return;
            }
            line.clear();
        }
        flag.store(true, Ordering::SeqCst);
        everybody.kill(KILL_GRACE);
    });
    if watcher.is_err() {
        family.kill(KILL_GRACE);
        return ExitMarker { killed: true, ..ExitMarker::default() };
    }
    let mut marker = ExitMarker::default();
    loop {
        // Whatever else ends is a child that was left to the wrapper.
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended.as_raw_nonzero().get().unsigned_abs() == pid => {
                marker.code = status.exit_status();
                marker.signal = status.terminating_signal();
                break;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                marker.error = Some(error.to_string());
                break;
            }
        }
    }
    if is_left.load(Ordering::SeqCst) {
        // The watcher is at it as well; this one goes on until nobody is left.
        family.kill(KILL_GRACE);
        marker.killed = true;
    } else {
        let describe = |pid: i32| Some(format!("{pid} {}", command_line(pid, MAX_LEFT_CHARS)?));
        marker.left = family.members().into_iter().filter_map(describe).take(MAX_LEFT).collect();
    }
    marker
}
