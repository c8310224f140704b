//! One process from its start to its end: how long, how much memory, how much processor time.

use std::io::{Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The longest that one process may run.
const LIMIT: Duration = Duration::from_secs(60);
/// The pause between two looks at its memory.
const LOOK: Duration = Duration::from_micros(500);

/// What is measured besides time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nothing that costs processor time.
    Quiet,
    /// The peak of its memory, by looking again and again; its time is then no measure.
    Memory,
}

/// What a process took.
pub(crate) struct Usage {
    /// When it was started.
    pub(crate) started: Instant,
    /// From start to end.
    pub(crate) wall: Duration,
    /// User and system time, with that of its children.
    pub(crate) cpu: Duration,
    /// The largest resident set, in bytes; 0 when nobody looked.
    pub(crate) peak: u64,
}

/// Runs a command to its end; it must succeed.
pub(crate) fn run(mut command: tokio::process::Command, watch: Watch) -> Result<Usage, String> {
    let mut errors = tempfile::tempfile().map_err(|error| format!("no temporary file: {error}"))?;
    let stderr = errors.try_clone().map_err(|error| format!("no temporary file: {error}"))?;
    let command = command.as_std_mut().stdout(std::process::Stdio::null()).stderr(stderr);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    let watched = follow(&child, started, watch);
    if watched.is_err() {
        // The end of a process that cannot be killed would be waited for in vain.
        child.kill().map_err(|error| format!("{command:?} cannot be killed: {error}"))?;
    }
    let status = child.wait().map_err(|error| format!("{command:?} cannot be waited for: {error}"))?;
    let usage = watched?;
    if status.success() {
        return Ok(usage);
    }
    let mut text = String::new();
    drop(errors.rewind().and_then(|()| errors.read_to_string(&mut text)));
    Err(format!("{command:?} ended with {status}: {}", text.trim_end()))
}

/// Follows a process until it has ended; it stays a zombie, so that its figures can still be read.
fn follow(child: &Child, started: Instant, watch: Watch) -> Result<Usage, String> {
    let pid = child.id();
    let handle = open(pid)?;
    let mut peak = 0;
    loop {
        let left = LIMIT.checked_sub(started.elapsed()).ok_or_else(|| format!("not ended after {LIMIT:?}"))?;
        let pause = match watch {
            Watch::Quiet => left,
            Watch::Memory => LOOK,
        };
        if has_ended(&handle, pause)? {
            let wall = started.elapsed();
            return Ok(Usage { started, wall, cpu: cpu(pid)?, peak });
        }
        if watch == Watch::Memory {
            peak = memory(pid, "VmHWM:").unwrap_or(0).max(peak);
        }
    }
}

fn open(pid: u32) -> Result<OwnedFd, String> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("a process id is out of range")?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| format!("the process cannot be watched: {error}"))
}

fn has_ended(handle: &OwnedFd, pause: Duration) -> Result<bool, String> {
    let timeout = Timespec::try_from(pause).map_err(|error| error.to_string())?;
    match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(format!("the process cannot be watched: {error}")),
    }
}

/// Returns a figure of a process's memory in bytes: `VmHWM:` is its peak, `VmRSS:` what it holds now.
pub(crate) fn memory(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns the processor time of a process and of its children that have ended.
pub(crate) fn cpu(pid: u32) -> Result<Duration, String> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The name, in parentheses, may hold spaces; fields 14 to 17 of the line are the times.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(|| format!("{path} has no name"))?;
    let times: Vec<u64> = fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    if times.len() != 4 {
        return Err(format!("{path} has no times"));
    }
    let ticks = u32::try_from(times.iter().sum::<u64>()).map_err(|_| format!("{path}: times out of range"))?;
    Ok(Duration::from_secs(1) * ticks / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100))
}
