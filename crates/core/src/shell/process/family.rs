//! Processes that belong to a command: its session, its process group, its descendants, those that carry its mark.
//! Read from `/proc`; where there is none, only process groups are known.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a process that was asked to end may take.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(3);
/// How long forced ends may take: the kernel needs a moment.
const FORCE_TIME: Duration = Duration::from_secs(2);
/// The pause between two looks at the processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The environment variable that marks the processes of a command.
pub(crate) const MARK_VARIABLE: &str = "ABIDE_SHELL_ID";

/// What `/proc/<pid>/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In clock ticks since boot.
    pub(crate) start_time: u64,
    /// Whether it has ended and only waits for its parent.
    pub(crate) is_zombie: bool,
}

/// Reads one process; `None` when it is gone or the system has no `/proc`.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name may hold anything, also brackets.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    Some(Stat {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        start_time: fields.get(19)?.parse().ok()?,
        is_zombie: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}

/// Reads all processes.
fn all() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

/// Returns the id of the running boot; empty when it is not known.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Whom a family has.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// The process that leads the session; itself no member. Absent: its number may mean another process by now.
    pub(crate) leader: Option<i32>,
    /// The mark in the environment of its members; empty: no mark.
    pub(crate) mark: String,
}

impl Family {
    /// Lists the living members: of the leader's session or group, descendants of the leader, and those with the mark.
    /// The leader and the caller are none.
    pub(crate) fn members(&self) -> Vec<i32> {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let living: Vec<Stat> = all().into_iter().filter(|stat| !stat.is_zombie).collect();
        let mut members: BTreeSet<i32> = living
            .iter()
            .filter(|stat| {
                let is_led = |leader| stat.session == leader || stat.group == leader || stat.parent == leader;
                self.leader.is_some_and(is_led) || self.marks(stat.pid)
            })
            .map(|stat| stat.pid)
            .collect();
        loop {
            let n_before = members.len();
            let more: Vec<i32> =
                living.iter().filter(|stat| members.contains(&stat.parent)).map(|stat| stat.pid).collect();
            members.extend(more);
            if members.len() == n_before {
                break;
            }
        }
        members.into_iter().filter(|pid| Some(*pid) != self.leader && *pid != me && *pid > 1).collect()
    }

    fn marks(&self, pid: i32) -> bool {
        if self.mark.is_empty() {
            return false;
        }
        let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
        let wanted = format!("{MARK_VARIABLE}={}", self.mark);
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    }

    /// Ends all members: asked first, forced after `grace`. Returns whether none is left. Blocks.
    pub(crate) fn kill(&self, grace: Duration) -> bool {
        let started = Instant::now();
        let mut asked: BTreeSet<i32> = BTreeSet::new();
        loop {
            let members = self.members();
            if members.is_empty() && !self.is_group_alive() {
                return true;
            }
            let elapsed = started.elapsed();
            if elapsed > grace + FORCE_TIME {
                return false;
            }
            let forced = elapsed > grace;
            if members.is_empty() {
                // Without `/proc`: the group is all that is known.
                self.signal_group(if forced { Signal::KILL } else { Signal::TERM });
            }
            for pid in members {
                if forced {
                    signal(pid, Signal::KILL);
                } else if asked.insert(pid) {
                    signal(pid, Signal::TERM);
                    // A stopped process takes no signal before it goes on.
                    signal(pid, Signal::CONT);
                }
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    #[cfg(target_os = "linux")]
    #[expect(clippy::unused_self, reason = "other systems need it")]
    const fn is_group_alive(&self) -> bool {
        false
    }

    #[cfg(not(target_os = "linux"))]
    fn is_group_alive(&self) -> bool {
        self.leader.and_then(Pid::from_raw).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.leader.and_then(Pid::from_raw) {
            // It may be gone already.
            let _gone = kill_process_group(group, signal);
        }
    }
}

/// Sends a signal to a process, which may be gone.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _gone = kill_process(pid, signal);
    }
}

/// Returns the command line of a process, cut to `limit` characters.
pub(crate) fn command_line(pid: i32, limit: usize) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let mut cut: String = text.chars().take(limit).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    Some(cut)
}
