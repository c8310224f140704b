use std::sync::{Arc, Mutex};
use std::time::Instant;

use abide_schema::tool::Verdict;
use abide_schema::{CallId, MessageId, SessionId};

use super::*;
use crate::shell::recover::recover_process;
use crate::store::{CallKey, ToolProcess};
use crate::tool::output::OutputLimits;

const HELPER_VARIABLE: &str = "ABIDE_TEST_HELPER";
const SERVER_VARIABLE: &str = "ABIDE_TEST_SERVER";

/// Returns the wrapper that this test program is: run again with [`HELPER_VARIABLE`] set.
pub(crate) fn test_helper() -> Helper {
    Helper {
        program: std::env::current_exe().unwrap(),
        arguments: ["--exact", "shell::process::tests::the_wrapper_runs_nothing_without_a_server", "--nocapture"]
            .map(str::to_owned)
            .to_vec(),
    }
}

pub(crate) fn test_environment() -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> = std::env::vars().collect();
    environment.insert(HELPER_VARIABLE.to_owned(), "1".to_owned());
    environment
}

/// Waits until `condition` holds; fails when it does not within some seconds.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(15), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn spec(&self, line: &str, helper: Option<Helper>) -> CommandSpec {
        spec(self.directory.path(), line, helper)
    }

    fn pid(&self, name: &str) -> i32 {
        let path = self.path(name);
        until("a process says its number", || std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

fn spec(directory: &Path, line: &str, helper: Option<Helper>) -> CommandSpec {
    let mark = format!("sh_{}", directory.file_name().unwrap().to_str().unwrap());
    CommandSpec {
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), line.to_owned()],
        directory: directory.to_path_buf(),
        environment: test_environment(),
        spool: directory.join(format!("{mark}.out")),
        mark,
        helper,
        max_output_bytes: 1 << 30,
        resources: CommandLimits::default(),
    }
}

fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !stat.is_zombie)
}

fn both() -> [Option<Helper>; 2] {
    [Some(test_helper()), None]
}

async fn run(place: &Place, line: &str, helper: Option<Helper>) -> (Ended, String) {
    let waiting = prepare(place.spec(line, helper)).await.unwrap();
    let ended = waiting.open(false).await.unwrap().wait(None, |_| {}).await.unwrap();
    let spool = place.spec(line, None).spool;
    (ended, std::fs::read_to_string(spool).unwrap())
}

/// Run as the wrapper when the variable is set. Otherwise: a wrapper whose server goes away at the gate runs nothing.
#[test]
fn the_wrapper_runs_nothing_without_a_server() {
    if std::env::var_os(HELPER_VARIABLE).is_some() {
        let _code = helper::run();
        return;
    }
    for helper in both() {
        let place = Place::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pid = runtime.block_on(async {
            let waiting = prepare(place.spec("echo ran > ran", helper)).await.unwrap();
            assert!(lives(waiting.identity().pid));
            waiting.identity().pid
        });
        until("the wrapper ends", || !lives(pid));
        assert!(!place.path("ran").exists() && !started_path(&place.spec("", None).spool).exists());
    }
}

#[tokio::test]
async fn output_comes_in_order_and_live() {
    for helper in both() {
        let place = Place::new();
        let line =
            "for i in 1 2 3; do echo out $i; echo err $i >&2; done; while [ ! -e go ]; do sleep 0.01; done; echo end";
        let seen = Arc::new(Mutex::new(String::new()));
        let (sink, go) = (Arc::clone(&seen), place.path("go"));
        let running = prepare(place.spec(line, helper)).await.unwrap().open(false).await.unwrap();
        let ended = running
            .wait(None, move |text| {
                let mut seen = sink.lock().unwrap();
                seen.push_str(text);
                // The command goes on only when its first output has been seen.
                if seen.contains("err 3") {
                    std::fs::write(&go, "").unwrap();
                }
            })
            .await
            .unwrap();
        assert_eq!(ended, Ended { how: How::Exited(0), left: Vec::new() });
        let expected = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nend\n";
        assert_eq!(std::fs::read_to_string(place.spec(line, None).spool).unwrap(), expected);
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn how_it_ended_is_known() {
    let place = Place::new();
    assert_eq!(run(&place, "exit 7", Some(test_helper())).await.0.how, How::Exited(7));
    let place = Place::new();
    assert_eq!(run(&place, "kill -9 $$", Some(test_helper())).await.0.how, How::Signaled(9));
    let place = Place::new();
    // A command that signals its own group does not take the wrapper with it.
    assert_eq!(run(&place, "kill -9 0", Some(test_helper())).await.0.how, How::Signaled(9));
    let place = Place::new();
    assert_eq!(run(&place, "exit 7", None).await.0.how, How::Exited(7));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let place = Place::new();
    let spec = CommandSpec { program: "/no/such/shell".to_owned(), ..place.spec("", Some(test_helper())) };
    let error = prepare(spec).await.unwrap().open(false).await.unwrap().wait(None, |_| {}).await.unwrap_err();
    assert!(matches!(error, RunError::Program { .. }), "{error:?}");
    let helper = Helper { program: "/no/such/helper".into(), arguments: Vec::new() };
    let error = prepare(Place::new().spec("", Some(helper))).await.unwrap_err();
    assert!(matches!(error, RunError::Wrapper { .. }), "{error:?}");
}

/// A process that left its group and its session, whose parent is gone, and which takes no hint.
const STRAY: &str =
    "setsid sh -c 'trap \"\" TERM; echo $$ > stray; while :; do sleep 0.1; done' & echo $$ > main; sleep 60";

#[tokio::test]
async fn the_time_limit_ends_everything() {
    for helper in both() {
        let place = Place::new();
        let running = prepare(place.spec(STRAY, helper)).await.unwrap().open(false).await.unwrap();
        let (main, stray) = (place.pid("main"), place.pid("stray"));
        let ended = running.wait(Some(Duration::from_millis(1)), |_| {}).await.unwrap();
        assert_eq!(ended.how, How::TimedOut);
        assert!(!lives(main) && !lives(stray));
    }
}

#[tokio::test]
async fn dropping_ends_everything() {
    let place = Place::new();
    let running = prepare(place.spec(STRAY, Some(test_helper()))).await.unwrap().open(false).await.unwrap();
    let (main, stray) = (place.pid("main"), place.pid("stray"));
    drop(running);
    until("all are ended", || !lives(main) && !lives(stray));
}

#[tokio::test]
async fn too_much_output_ends_it() {
    let place = Place::new();
    let spec = CommandSpec { max_output_bytes: 100_000, ..place.spec("yes", Some(test_helper())) };
    let running = prepare(spec).await.unwrap().open(false).await.unwrap();
    assert_eq!(running.wait(None, |_| {}).await.unwrap().how, How::TooMuchOutput);
}

#[tokio::test]
async fn what_goes_on_is_named() {
    for helper in both() {
        let place = Place::new();
        let (ended, output) = run(
            &place,
            "setsid sleep 61 & echo $! > pid; until grep -aq ^sleep /proc/$!/cmdline; do :; done; echo done",
            helper,
        )
        .await;
        let pid = place.pid("pid");
        assert_eq!((ended.how, output.as_str()), (How::Exited(0), "done\n"));
        assert_eq!(ended.left, [format!("{pid} sleep 61")]);
        signal(pid, rustix::process::Signal::KILL);
    }
}

fn record(place: &Path, identity: &ProcessIdentity) -> ToolProcess {
    ToolProcess {
        key: CallKey {
            session: SessionId::from_trusted("ses_1"),
            message: MessageId::from_trusted("msg_1"),
            call: CallId::new("call_1"),
        },
        pid: identity.pid,
        pgid: identity.pid,
        start_time: identity.start_time,
        boot_id: identity.boot_id.clone(),
        command: String::new(),
        cwd: place.display().to_string(),
        spool_path: spec(place, "", None).spool.display().to_string(),
        background: false,
    }
}

/// Run as a server when the variable names a directory: starts the command in the file `line` there and waits for it.
/// Otherwise: a server that is killed takes its commands with it, and what they did is known afterwards.
#[test]
fn a_dead_server_leaves_no_command_behind() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    if let Some(directory) = std::env::var_os(SERVER_VARIABLE) {
        let directory = PathBuf::from(directory);
        let line = std::fs::read_to_string(directory.join("line")).unwrap();
        let helper = directory.join("helped").exists().then(test_helper);
        runtime().block_on(async {
            let waiting = prepare(spec(&directory, &line, helper)).await.unwrap();
            let identity = waiting.identity().clone();
            let text = format!("{} {} {}\n", identity.pid, identity.start_time, identity.boot_id);
            std::fs::write(directory.join("identity"), text).unwrap();
            if directory.join("stays-at-gate").exists() {
                std::future::pending::<()>().await;
            }
            waiting.open(false).await.unwrap().wait(None, |_| {}).await.unwrap();
            std::fs::write(directory.join("ended"), "\n").unwrap();
            std::future::pending::<()>().await;
        });
        return;
    }
    let check = |line: &str, ready: &str, is_helped: bool, expected: Verdict| {
        let place = Place::new();
        std::fs::write(place.path("line"), line).unwrap();
        if is_helped {
            std::fs::write(place.path("helped"), "").unwrap();
        }
        if expected == Verdict::NotStarted {
            std::fs::write(place.path("stays-at-gate"), "").unwrap();
        }
        let mut server = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shell::process::tests::a_dead_server_leaves_no_command_behind", "--nocapture"])
            .env(SERVER_VARIABLE, place.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until("the server is where it shall be", || {
            std::fs::read_to_string(place.path(ready)).is_ok_and(|text| text.ends_with('\n'))
        });
        let identity = std::fs::read_to_string(place.path("identity")).unwrap();
        let fields: Vec<&str> = identity.split_whitespace().collect();
        let identity = ProcessIdentity {
            pid: fields[0].parse().unwrap(),
            start_time: fields[1].parse().unwrap(),
            boot_id: fields[2].to_owned(),
        };
        server.kill().unwrap();
        server.wait().unwrap();
        let mark = place.spec("", None).mark;
        let family = Family { leader: Some(identity.pid), mark };
        if is_helped {
            // Without anybody's help.
            until("nothing is left", || family.members().is_empty() && !lives(identity.pid));
        }
        let resolution =
            runtime().block_on(recover_process(record(place.directory.path(), &identity), OutputLimits::default()));
        assert_eq!(resolution.verdict, expected, "{line}: {resolution:?}");
        until("nothing is left", || family.members().is_empty() && !lives(identity.pid));
        resolution
    };
    let partial =
        |resolution: &crate::session::settle::Resolution| abide_schema::tool::joined_text(&resolution.partial);
    for is_helped in [true, false] {
        let killed = check(&format!("echo some; {STRAY}"), "stray", is_helped, Verdict::Killed);
        assert_eq!(partial(&killed), "some\n");
        check("echo x > ran", "identity", is_helped, Verdict::NotStarted);
        let finished = check("echo all; exit 3", "ended", is_helped, Verdict::Finished);
        let success = finished.success.unwrap();
        assert_eq!(
            serde_json::to_value(&success.structured).unwrap(),
            serde_json::json!({ "exit": 3, "truncated": false })
        );
        assert_eq!(abide_schema::tool::joined_text(&success.content), "all\n\nThe command exited with code 3.");
    }
}

#[tokio::test]
async fn a_command_of_which_nothing_is_left_is_unknown() {
    let place = Place::new();
    let spec = place.spec("", None);
    std::fs::write(&spec.spool, "some").unwrap();
    std::fs::write(started_path(&spec.spool), "").unwrap();
    // A number that means another process: that one is left alone.
    let me = i32::try_from(std::process::id()).unwrap();
    let identity = ProcessIdentity { pid: me, start_time: 1, boot_id: boot_id() };
    let resolution = recover_process(record(place.directory.path(), &identity), OutputLimits::default()).await;
    assert_eq!(resolution.verdict, Verdict::Unknown);
    let identity = ProcessIdentity { pid: me, start_time: stat(me).unwrap().start_time, boot_id: "other".to_owned() };
    let resolution = recover_process(record(place.directory.path(), &identity), OutputLimits::default()).await;
    assert_eq!(resolution.verdict, Verdict::Unknown);
}

#[tokio::test]
async fn x8_a_detached_command_outlives_its_server_and_is_adopted() {
    use crate::job::{JobControl, JobStatus};
    use crate::shell::adopt::Adopted;
    for helper in both() {
        let place = Place::new();
        let line = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo end; exit 3";
        let waiting = prepare(place.spec(line, helper)).await.unwrap();
        let identity = waiting.identity().clone();
        let running = waiting.open(true).await.unwrap();
        until("it begins", || std::fs::read_to_string(place.spec("", None).spool).is_ok_and(|text| !text.is_empty()));
        // The server goes away.
        drop(running);
        let adopted = Adopted {
            process: process(&place, &identity, line),
            left: None,
            limit_ms: None,
            limits: OutputLimits::default(),
            max_output_bytes: 1 << 30,
        };
        let control = JobControl { stop: CancellationToken::new(), background: CancellationToken::new() };
        let seen = Arc::new(Mutex::new(String::new()));
        let (sink, go) = (Arc::clone(&seen), place.path("go"));
        let watched = adopted.clone().watch(control.clone(), move |text| sink.lock().unwrap().push_str(text));
        let (outcome, ()) = tokio::join!(watched, async { std::fs::write(&go, "").unwrap() });
        assert_eq!((outcome.status, outcome.state.as_str()), (JobStatus::Completed, "completed"));
        let text = abide_schema::tool::joined_text(&outcome.content);
        assert!(text.contains("begun\nend\n") && text.contains("code 3"), "{text}");
        assert!(seen.lock().unwrap().ends_with("end\n"));
        // Watched once more: it says the same.
        assert_eq!(adopted.watch(control, |_| {}).await, outcome);
    }
}

#[tokio::test]
async fn an_adopted_command_can_be_stopped_and_has_its_limit() {
    use crate::job::JobControl;
    use crate::shell::adopt::Adopted;
    for (left, state) in [(None, "stopped"), (Some(Duration::from_millis(300)), "timeout")] {
        let place = Place::new();
        let waiting = prepare(place.spec(STRAY, Some(test_helper()))).await.unwrap();
        let identity = waiting.identity().clone();
        drop(waiting.open(true).await.unwrap());
        let (main, stray) = (place.pid("main"), place.pid("stray"));
        let adopted = Adopted {
            process: process(&place, &identity, STRAY),
            left,
            limit_ms: left.map(|_| 300),
            limits: OutputLimits::default(),
            max_output_bytes: 1 << 30,
        };
        let control = JobControl { stop: CancellationToken::new(), background: CancellationToken::new() };
        if left.is_none() {
            control.stop.cancel();
        }
        let outcome = adopted.watch(control, |_| {}).await;
        assert_eq!(outcome.state, state);
        assert!(!lives(main) && !lives(stray));
    }
}

#[tokio::test]
async fn x9_a_command_that_died_meanwhile_is_told_of_as_far_as_it_is_known() {
    use crate::job::{JobControl, JobStatus};
    use crate::shell::adopt::Adopted;
    let place = Place::new();
    let waiting = prepare(place.spec(STRAY, Some(test_helper()))).await.unwrap();
    let identity = waiting.identity().clone();
    drop(waiting.open(true).await.unwrap());
    let (main, stray) = (place.pid("main"), place.pid("stray"));
    for pid in [identity.pid, main, stray] {
        signal(pid, rustix::process::Signal::KILL);
    }
    until("all are gone", || !lives(main) && !lives(stray));
    let adopted = Adopted {
        process: process(&place, &identity, STRAY),
        left: None,
        limit_ms: None,
        limits: OutputLimits::default(),
        max_output_bytes: 1 << 30,
    };
    let control = JobControl { stop: CancellationToken::new(), background: CancellationToken::new() };
    let outcome = adopted.watch(control, |_| {}).await;
    assert_eq!((outcome.status, outcome.state.as_str()), (JobStatus::Cancelled, "cancelled"));
}

#[tokio::test]
async fn a_command_goes_to_the_background_while_it_runs() {
    for helper in both() {
        let place = Place::new();
        let line = "while [ ! -e go ]; do sleep 0.01; done; echo end";
        let running = prepare(place.spec(line, helper)).await.unwrap().open(false).await.unwrap();
        let steering = Steering::default();
        steering.background.cancel();
        let go = place.path("go");
        let ended = running.steered(Some(Duration::from_millis(200)), &steering, |_| {});
        let later = async {
            // Longer than the limit, which has ended.
            tokio::time::sleep(Duration::from_millis(600)).await;
            std::fs::write(&go, "").unwrap();
        };
        let (ended, ()) = tokio::join!(ended, later);
        assert_eq!(ended.unwrap().how, How::Exited(0));
    }
}

fn process(place: &Place, identity: &ProcessIdentity, line: &str) -> ToolProcess {
    ToolProcess {
        key: CallKey {
            session: SessionId::from_trusted("ses_1"),
            message: MessageId::from_trusted("msg_1"),
            call: CallId::new("call_1"),
        },
        pid: identity.pid,
        pgid: identity.pid,
        start_time: identity.start_time,
        boot_id: identity.boot_id.clone(),
        command: line.to_owned(),
        cwd: place.path("").display().to_string(),
        spool_path: place.spec("", None).spool.display().to_string(),
        background: true,
    }
}

#[tokio::test]
async fn limits_hold_for_everything_that_a_command_starts() {
    let resources = CommandLimits { file_size: Some(4096), open_files: Some(32), ..CommandLimits::default() };
    let place = Place::new();
    let line = "sh -c 'ulimit -n; head -c 100000 /dev/zero > big'; echo $?; wc -c < big";
    let spec = CommandSpec { resources, ..place.spec(line, Some(test_helper())) };
    let ended = prepare(spec).await.unwrap().open(false).await.unwrap().wait(None, |_| {}).await.unwrap();
    assert_eq!(ended.how, How::Exited(0));
    let output = std::fs::read_to_string(place.spec("", None).spool).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines.first(), lines.last().map(|line| line.trim())), (Some(&"32"), Some("4096")), "{output}");
}
