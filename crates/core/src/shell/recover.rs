//! What became of a command whose server died (spec/session.md 9.3).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use abide_schema::tool::{Content, Verdict};
use rustix::process::Signal;
use tokio::task::spawn_blocking;

use super::process::{
    Ended, ExitMarker, Family, How, KILL_GRACE, boot_id, read_exit, signal, started_path, stat, tail,
};
use super::result::{ShellOutput, closing_line, content, output_text, running_text};
use crate::session::settle::Resolution;
use crate::store::{CallKey, JobWork, JournalStore, StoreError, ToolProcess};
use crate::tool::outcome::NormalizedResult;
use crate::tool::output::OutputLimits;

/// How long a wrapper that lost its server may take to end its command by itself.
const WRAPPER_TIME: Duration = Duration::from_secs(4);
/// The pause between two looks at it.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Finds out what a call's command did, and ends it when it still runs. Idempotent.
///
/// # Cancel safety
/// What was begun goes on: a command that is being ended is ended.
pub async fn resolve_process(
    journal: &(impl JournalStore + ?Sized),
    call: &CallKey,
    limits: OutputLimits,
) -> Resolution {
    match backgrounded(journal, call).await {
        Ok(Some(resolution)) => return resolution,
        Ok(None) => {}
        Err(error) => {
            tracing::error!(%error, call.id = %call.call, "the background jobs cannot be read");
            return Resolution::unknown();
        }
    }
    match journal.processes(&call.session).await {
        Ok(processes) => match processes.into_iter().find(|process| process.key == *call) {
            Some(process) => recover_process(process, limits).await,
            None => Resolution::not_started(),
        },
        Err(error) => {
            tracing::error!(%error, call.id = %call.call, "the process journal cannot be read");
            Resolution::unknown()
        }
    }
}

/// Returns the result of a call whose command went to the background: it runs on, and its job tells how it ends. One
/// that never passed the gate is forgotten.
async fn backgrounded(
    journal: &(impl JournalStore + ?Sized),
    call: &CallKey,
) -> Result<Option<Resolution>, StoreError> {
    for job in journal.jobs().await? {
        let JobWork::Shell { shell_id, process, .. } = job.work else { continue };
        if process.key != *call {
            continue;
        }
        let spool = PathBuf::from(&process.spool_path);
        let path = spool.clone();
        let did_start = spawn_blocking(move || waits_for_start(&process, &path)).await.unwrap_or(true);
        if !did_start {
            journal.drop_job(&job.notification).await?;
            return Ok(Some(Resolution::not_started()));
        }
        let success = NormalizedResult {
            structured: ShellOutput::running(&shell_id).to_object(),
            content: vec![Content::text(running_text(&shell_id, &spool))],
            output_paths: Vec::new(),
        };
        return Ok(Some(Resolution { verdict: Verdict::Applied, success: Some(success), ..Resolution::unknown() }));
    }
    Ok(None)
}

/// Says whether a command passed the gate; a wrapper that was told to open it may need a moment.
fn waits_for_start(process: &ToolProcess, spool: &Path) -> bool {
    let is_same_boot = !process.boot_id.is_empty() && process.boot_id == boot_id();
    let lives = || {
        is_same_boot
            && stat(process.pid).is_some_and(|found| !found.is_zombie && found.start_time == process.start_time)
    };
    let looked = Instant::now();
    loop {
        // Looked at in this order: a wrapper that is gone has written what it had to.
        let is_alive = lives();
        if started_path(spool).exists() {
            return true;
        }
        if !is_alive || looked.elapsed() > WRAPPER_TIME {
            return false;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// As [`resolve_process`], for a record.
///
/// # Cancel safety
/// What was begun goes on: a command that is being ended is ended.
pub async fn recover_process(process: ToolProcess, limits: OutputLimits) -> Resolution {
    spawn_blocking(move || recover(&process, limits)).await.unwrap_or_else(|_panicked| Resolution::unknown())
}

fn recover(process: &ToolProcess, limits: OutputLimits) -> Resolution {
    let spool = PathBuf::from(&process.spool_path);
    let is_same_boot = !process.boot_id.is_empty() && process.boot_id == boot_id();
    let found = || stat(process.pid).filter(|found| !found.is_zombie);
    let lives = || is_same_boot && found().is_some_and(|found| found.start_time == process.start_time);
    // A wrapper that lost its server ends the command itself and says so.
    let looked = Instant::now();
    while lives() && looked.elapsed() < WRAPPER_TIME {
        std::thread::sleep(LOOK_INTERVAL);
    }
    let is_wrapper_alive = lives();
    let marker = read_exit(&spool);
    // What a command left running when it ended was told to the model then, and stays.
    let mut was_alive = false;
    if is_same_boot && (is_wrapper_alive || !matches!(marker, Some(ExitMarker { killed: false, .. }))) {
        // A number that means another process by now leads nobody of the command.
        let leader = (is_wrapper_alive || stat(process.pid).is_none()).then_some(process.pid);
        let family = Family { leader, mark: mark_of(&spool) };
        was_alive = is_wrapper_alive || !family.members().is_empty();
        if !family.kill(KILL_GRACE) {
            tracing::error!(process.id = process.pid, "a command of a dead server cannot be ended");
        }
        if lives() {
            signal(process.pid, Signal::KILL);
        }
    }
    let marker = read_exit(&spool).or(marker);
    let did_start = started_path(&spool).exists();
    let partial = || match tail(&spool, limits) {
        Ok(tail) if tail.text.is_empty() => Vec::new(),
        Ok(tail) => vec![Content::text(output_text(&tail, &spool))],
        Err(error) => vec![Content::text(format!("(the output cannot be read: {error})"))],
    };
    let resolved = |verdict| Resolution { verdict, success: None, partial: partial(), detail: None };
    match marker {
        Some(ExitMarker { error: Some(reason), .. }) => {
            Resolution { detail: Some(format!("It could not be started: {reason}")), ..Resolution::not_started() }
        }
        Some(marker) if !marker.killed => match finished(&spool, &marker, limits) {
            Some(success) => Resolution { verdict: Verdict::Finished, success: Some(success), ..Resolution::unknown() },
            None => resolved(Verdict::Unknown),
        },
        Some(_) => resolved(Verdict::Killed),
        None if !did_start => Resolution::not_started(),
        None if was_alive => resolved(Verdict::Killed),
        None => resolved(Verdict::Unknown),
    }
}

/// Returns the mark of a command's processes: the spool file is named by it.
pub(crate) fn mark_of(spool: &Path) -> String {
    spool.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Makes the result that the call would have had.
fn finished(spool: &Path, marker: &ExitMarker, limits: OutputLimits) -> Option<NormalizedResult> {
    let how = match (marker.code, marker.signal) {
        (Some(code), _) => How::Exited(code),
        (None, Some(signal)) => How::Signaled(signal),
        (None, None) => return None,
    };
    let ended = Ended { how, left: marker.left.clone() };
    let tail = tail(spool, limits).ok()?;
    let is_truncated = tail.bytes_cut > 0;
    Some(NormalizedResult {
        structured: ShellOutput::new(&ended, is_truncated).to_object(),
        content: content(output_text(&tail, spool), closing_line(&ended, None, 0), ended.has_failed()),
        output_paths: if is_truncated { vec![spool.display().to_string()] } else { Vec::new() },
    })
}

/// Removes what commands wrote that nobody touched for `age`: called now and then. Blocks.
pub(crate) fn sweep(directory: &Path, age: Duration) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("sh_"));
        let is_old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().map(|passed| passed > age);
        if is_ours && is_old().unwrap_or(false) {
            // Swept later when it cannot be removed now.
            let _kept = std::fs::remove_file(entry.path());
        }
    }
}
