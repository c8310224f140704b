//! Watches a background command whose server died (spec/session.md 9.3, spec/tools.md 11.8).

use std::path::PathBuf;
use std::time::Duration;

use abide_schema::tool::Content;
use tokio::task::spawn_blocking;

use super::process::{Ended, ExitMarker, Family, Follower, How, KILL_GRACE, boot_id, read_exit, signal, stat, tail};
use super::recover::mark_of;
use super::result::{ShellOutput, outcome, output_text};
use crate::job::{JobControl, JobOutcome};
use crate::store::ToolProcess;
use crate::tool::output::OutputLimits;

/// The pause between two looks at a process that is nobody's child.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the wrapper of a command that ended may take to write down how.
const MARKER_TIME: Duration = Duration::from_secs(2);

/// A command to watch.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Its wrapper.
    pub process: ToolProcess,
    /// How long it may still run; absent: as long as it wants.
    pub left: Option<Duration>,
    /// The limit that it was given, for the result.
    pub limit_ms: Option<u64>,
    /// How much of its output the model sees.
    pub limits: OutputLimits,
    /// The most bytes that it may write before it is ended.
    pub max_output_bytes: u64,
}

impl Adopted {
    /// Watches the command until it ends, its time is up, or it is to stop. A command that is gone is told of as far as
    /// it wrote down how it ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the command alone.
    pub async fn watch(self, control: JobControl, mut output: impl FnMut(&str) + Send) -> JobOutcome {
        let spool = PathBuf::from(&self.process.spool_path);
        let left = self.left;
        let deadline = async move {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        let mut follower = Some(Follower::at_end(spool.clone()));
        let mut gone_for = Duration::ZERO;
        let stopped = loop {
            tokio::select! {
                biased;
                () = control.stop.cancelled() => break Some(How::Stopped),
                () = &mut deadline => break Some(How::TimedOut),
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
            let look = follower.take();
            let (process, path) = (self.process.clone(), spool.clone());
            let looked = spawn_blocking(move || {
                let lives = lives(&process);
                let mut look = look;
                let growth = look.as_mut().and_then(|look| look.read().ok());
                (look, growth, lives, read_exit(&path).is_some())
            });
            let Ok((look, growth, lives, has_ended)) = looked.await else { break None };
            follower = look;
            let size = growth.map_or(0, |growth| {
                if !growth.text.is_empty() {
                    output(&growth.text);
                }
                growth.size
            });
            if size > self.max_output_bytes {
                break Some(How::TooMuchOutput);
            }
            if has_ended {
                break None;
            }
            if !lives {
                gone_for += LOOK_INTERVAL;
            }
            if gone_for > MARKER_TIME || (!lives && self.process.boot_id != boot_id()) {
                break None;
            }
        };
        let ended = spawn_blocking(move || self.finish(&spool, stopped)).await;
        ended.unwrap_or_else(|_panicked| JobOutcome::error("The end of the command cannot be read"))
    }

    fn finish(&self, spool: &std::path::Path, stopped: Option<How>) -> JobOutcome {
        if stopped.is_some() {
            let leader = lives(&self.process).then_some(self.process.pid);
            let family = Family { leader, mark: mark_of(spool) };
            if !family.kill(KILL_GRACE) {
                tracing::error!(process.id = self.process.pid, "a command of a dead server cannot be ended");
            }
            if lives(&self.process) {
                signal(self.process.pid, rustix::process::Signal::KILL);
            }
        }
        let tail = tail(spool, self.limits).unwrap_or_default();
        let marker = read_exit(spool);
        let how = stopped.or_else(|| marker.as_ref().and_then(how));
        if let Some(how) = how {
            let left = marker.map(|marker| marker.left).filter(|_| stopped.is_none()).unwrap_or_default();
            return outcome(&Ended { how, left }, &tail, spool, self.limit_ms, self.max_output_bytes);
        }
        let words = match marker {
            Some(ExitMarker { error: Some(reason), .. }) => format!("The command could not be started: {reason}"),
            Some(_) => "The command was ended when the program was restarted.".to_owned(),
            None => "The command is gone; how it ended is not known. It may have taken effect.".to_owned(),
        };
        let facts = ShellOutput { truncated: tail.bytes_cut > 0, ..ShellOutput::default() };
        JobOutcome {
            content: vec![Content::text(output_text(&tail, spool)), Content::text(words.clone())],
            facts: facts.to_object(),
            ..JobOutcome::cancelled(words)
        }
    }
}

const fn how(marker: &ExitMarker) -> Option<How> {
    match (marker.killed, marker.code, marker.signal) {
        (true, _, _) => None,
        (false, Some(code), _) => Some(How::Exited(code)),
        (false, None, Some(signal)) => Some(How::Signaled(signal)),
        (false, None, None) => None,
    }
}

/// Says whether the wrapper still runs: the same number may mean another process by now.
fn lives(process: &ToolProcess) -> bool {
    !process.boot_id.is_empty()
        && process.boot_id == boot_id()
        && stat(process.pid).is_some_and(|found| !found.is_zombie && found.start_time == process.start_time)
}
