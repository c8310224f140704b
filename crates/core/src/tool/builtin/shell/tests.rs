use std::collections::BTreeMap;
use std::time::Instant;

use abide_schema::ProjectId;
use abide_schema::location::{LocationInfo, ProjectRef};
use abide_schema::permission::{Effect, Reply, Rule};
use abide_schema::tool::joined_text;
use serde_json::Value;

use super::*;
use crate::shell::process::tests::{test_environment, test_helper, until};
use crate::shell::process::{Family, signal};
use crate::store::{MemoryStore, Store};
use crate::tool::testing::Bench;

/// A location in a temporary directory, with the tool.
struct Room {
    directory: tempfile::TempDir,
    bench: Bench,
    tool: Arc<ShellTool>,
    store: Arc<MemoryStore>,
    jobs: Jobs,
}

impl Room {
    fn new(rules: Vec<Rule>) -> Self {
        Self::with_environment(rules, BTreeMap::new())
    }

    fn with_environment(rules: Vec<Rule>, more: BTreeMap<String, String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (project, home) = (root.join("project"), root.join("home"));
        std::fs::create_dir(&project).unwrap();
        std::fs::create_dir(&home).unwrap();
        let location = LocationInfo {
            directory: project.display().to_string(),
            workspace_id: None,
            project: ProjectRef { id: ProjectId::new("p"), directory: project.display().to_string() },
        };
        let bench = Bench::new(&project, rules);
        let mut environment = test_environment();
        environment.insert("HOME".to_owned(), home.display().to_string());
        environment.extend(["AUTHOR", "COMMITTER"].iter().flat_map(|who| {
            [(format!("GIT_{who}_NAME"), "n".to_owned()), (format!("GIT_{who}_EMAIL"), "n@example.com".to_owned())]
        }));
        environment.extend(more);
        let store = Arc::new(MemoryStore::new(bench.world.clone()));
        let jobs = Jobs::new(Arc::clone(&store) as Arc<dyn Store>, World::real());
        let of_tool = jobs.clone();
        let tool = ShellTool::new(ShellServices {
            // Marks of commands must differ also between tests that run at the same time.
            world: World::real(),
            access: Arc::new(Access::open(&location, Some(home)).unwrap()),
            permissions: bench.permissions.clone(),
            journal: Arc::clone(&store) as Arc<dyn JournalStore>,
            shell: Shell::of(Path::new("/bin/bash")).unwrap(),
            environment,
            secret_files: SecretFiles::default(),
            secrets: vec!["TEST_KEY".to_owned()],
            spool_directory: root.join("spool"),
            helper: Some(test_helper()),
            limits: OutputLimits::default(),
            max_output_bytes: MAX_OUTPUT_BYTES,
            asks_for_places: true,
            resources: Arc::new(CommandLimits::default),
            jobs: Arc::new(move || Some(of_tool.clone())),
            publish: bench.events.publish(),
        });
        Self { directory, bench, tool: Arc::new(tool), store, jobs }
    }

    fn allowing() -> Self {
        Self::new(vec![Rule::new("*", "*", Effect::Allow)])
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    async fn run(&self, input: Value) -> Result<ToolReturn<ShellOutput>, ToolFailure> {
        self.tool.execute(self.bench.context(), serde_json::from_value(input).unwrap()).await
    }

    /// Lists the processes of the last command that still live.
    fn left(&self) -> Vec<i32> {
        let reports = self.bench.reports.all();
        let id = reports.iter().find_map(|(report, _)| report.get("shellID")?.as_str()).unwrap_or("none").to_owned();
        Family { leader: None, mark: id }.members()
    }

    fn kill_left(&self) {
        for pid in self.left() {
            signal(pid, rustix::process::Signal::KILL);
        }
    }
}

fn set_up(room: &Room, row: &Value) {
    let lines = match (row["setup"].as_str(), row["command"].as_str()) {
        (Some(setup), _) if setup.starts_with("git repository") => "git init -q . && echo x > x && git add x",
        (_, Some("git log")) => "git init -q . && echo x > x && git add x && git commit -qm x",
        _ => return,
    };
    let status = std::process::Command::new("sh")
        .args(["-c", lines])
        .current_dir(room.project())
        .envs(&room.tool.services.environment)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Runs the rows of a case through the tool.
async fn check(text: &str) {
    let case: Value = serde_json::from_str(text).unwrap();
    for row in case["rows"].as_array().unwrap() {
        let room = Room::allowing();
        set_up(&room, row);
        let mut input = json!({ "command": row["command"] });
        if let Some(limit) = row.get("timeout_ms") {
            input["timeout"] = limit.clone();
        }
        let started = Instant::now();
        if row.get("interrupt_after_ms").is_some() {
            interrupt(&room, input).await;
        } else if row.get("setup").is_some_and(|setup| setup.as_str().unwrap().starts_with("workdir is removed")) {
            let failure = removed_while_asking(&row["command"]).await;
            says(&failure.message, &row["says"]);
            continue;
        } else {
            let returned = room.run(input).await.unwrap();
            outcome(&room, row, &returned);
        }
        if let Some(limit) = row["max_ms"].as_u64() {
            assert!(started.elapsed() < Duration::from_millis(limit), "{row}: {:?}", started.elapsed());
        }
        if row.get("left_processes").is_some() {
            until("nothing is left", || room.left().is_empty());
        }
        room.kill_left();
    }
}

fn outcome(room: &Room, row: &Value, returned: &ToolReturn<ShellOutput>) {
    let shown = returned.content[0].as_text().unwrap();
    let output = if shown == "(no output)" { "" } else { shown };
    let facts = serde_json::to_value(&returned.output).unwrap();
    let is = |name: &str, value: &Value| row.get(name).is_none_or(|wanted| wanted == value);
    assert!(is("exit", &facts["exit"]) && is("signal", &facts["signal"]), "{row}: {facts}");
    assert!(is("output", &json!(output)), "{row}: {output:?}");
    // The last command of this row is an `echo`, whose exit code is that of the line in every shell: that nobody was
    // asked is seen from its time and output.
    let is_echo = row["command"].as_str().unwrap().ends_with("; echo got $x");
    if let Some(code) = row.get("exit_not").filter(|_| !is_echo) {
        assert_ne!(&facts["exit"], code, "{row}: {output}");
    }
    if is_echo {
        assert!(output.contains("/dev/tty") && output.ends_with("got\n"), "{row}: {output}");
    }
    if let Some(part) = row.get("output_contains") {
        assert!(output.contains(part.as_str().unwrap()), "{row}: {output:?}");
    }
    if row.get("timed_out").is_some() {
        assert_eq!(facts["timeout"], json!(true), "{row}");
    }
    if let Some(limit) = row["output_max_bytes"].as_u64() {
        assert!(shown.len() as u64 <= limit, "{row}: {} bytes", shown.len());
    }
    if row.get("full_output_saved").is_some() {
        let path = &returned.output_paths[0];
        let size = std::fs::metadata(path).unwrap().len();
        assert_eq!(size, 200_000_000);
        // Nobody reads it again.
        std::fs::remove_file(path).unwrap();
        // "how much was left out" and "where the whole output is".
        let cut = usize::try_from(size).unwrap() - shown.find("\n\n[").unwrap();
        let note = format!("[earlier output cut; complete output in {path}] {cut} bytes are left out here.");
        assert_eq!(shown.split("\n\n").last(), Some(note.as_str()));
    }
    if row["command"].as_str().unwrap().contains(" & echo") {
        let closing = returned.content[1].as_text().unwrap();
        assert!(closing.starts_with("The command exited with code 0.\nStill running: "), "{row}: {closing}");
        assert!(!room.left().is_empty(), "{row}");
    }
}

fn says(text: &str, parts: &Value) {
    for part in parts.as_array().unwrap() {
        assert!(text.to_lowercase().contains(part.as_str().unwrap()), "{text}");
    }
}

/// Drops a call as soon as its command runs, which is what an interrupt does.
async fn interrupt(room: &Room, input: Value) {
    let call = room.run(input);
    let seen = async {
        while !room.bench.reports.output().contains('S') {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        returned = call => panic!("{returned:?}"),
        () = seen => {}
    }
    assert_ne!(room.bench.reports.all().len(), 0);
}

async fn removed_while_asking(command: &Value) -> ToolFailure {
    let room = Room::new(
        vec![Rule::new("shell", "*", Effect::Ask), Rule::new("*", "*", Effect::Allow)].into_iter().rev().collect(),
    );
    let gone = room.project().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let approve = async {
        room.bench.events.wait_for(1).await;
        std::fs::remove_dir(&gone).unwrap();
        let request = room.bench.permissions.list(None).pop().unwrap();
        room.bench.permissions.reply(&request.session_id, &request.id, Reply::Once, None).await.unwrap();
    };
    let (returned, ()) = tokio::join!(room.run(json!({ "command": command, "workdir": "gone" })), approve);
    returned.unwrap_err()
}

#[tokio::test]
async fn children_in_the_background() {
    check(include_str!("../../../shell/fixtures/run/C138.json")).await;
}

#[tokio::test]
async fn questions_nobody_can_answer() {
    check(include_str!("../../../shell/fixtures/run/C139.json")).await;
}

#[tokio::test]
async fn time_limits() {
    check(include_str!("../../../shell/fixtures/run/C140.json")).await;
}

// The job ends the command while the test looks: they need threads of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupts() {
    check(include_str!("../../../shell/fixtures/run/C141.json")).await;
}

#[tokio::test]
async fn sizes() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default().to_owned();
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
    };
    let before = peak();
    check(include_str!("../../../shell/fixtures/run/C142.json")).await;
    assert!(peak() - before < 64 * 1024, "{} KiB more", peak() - before);
}

#[tokio::test]
async fn bytes() {
    check(include_str!("../../../shell/fixtures/run/C143.json")).await;
}

#[tokio::test]
async fn how_it_ended() {
    check(include_str!("../../../shell/fixtures/run/C144.json")).await;
}

#[tokio::test]
async fn the_model_is_told_output_and_end() {
    let room = Room::allowing();
    let returned = room.run(json!({ "command": "echo out; echo err >&2; exit 3" })).await.unwrap();
    assert_eq!(joined_text(&returned.content), "out\nerr\n\nThe command exited with code 3.");
    assert_eq!(serde_json::to_value(&returned.output).unwrap(), json!({ "exit": 3, "truncated": false }));
    assert_eq!((returned.metadata["truncated"].clone(), returned.output_paths.len()), (json!(false), 0));
    assert_eq!(room.bench.reports.output(), "out\nerr\n");
    let returned = room.run(json!({ "command": "true" })).await.unwrap();
    assert_eq!(joined_text(&returned.content), "(no output)\nThe command exited with code 0.");
    let returned = room.run(json!({ "command": "sleep 60", "timeout": 20 })).await.unwrap();
    let expected =
        "(no output)\nThe command was stopped after its limit of 20 ms; use a larger timeout if it needs longer.";
    assert_eq!(joined_text(&returned.content), expected);
    assert_eq!(serde_json::to_value(&returned.output).unwrap(), json!({ "timeout": true, "truncated": false }));
}

#[tokio::test]
async fn the_environment_has_no_secrets_and_asks_nothing() {
    let secrets = [("ABIDE_PASSWORD", "s3cret"), ("TEST_KEY", "s3cret"), ("MINE", "kept")];
    let more = secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let room = Room::with_environment(vec![Rule::new("*", "*", Effect::Allow)], more);
    let returned = room.run(json!({ "command": "env" })).await.unwrap();
    let output = returned.content[0].as_text().unwrap();
    assert!(!output.contains("s3cret") && output.contains("MINE=kept") && output.contains("GIT_TERMINAL_PROMPT=0"));
}

#[tokio::test]
async fn the_directory_is_the_working_directory_or_the_given_one() {
    let room = Room::allowing();
    let sub = room.project().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let sub = sub.canonicalize().unwrap();
    for (workdir, expected) in
        [(None, sub.parent().unwrap()), (Some("sub"), sub.as_path()), (sub.to_str(), sub.as_path())]
    {
        let returned = room.run(json!({ "command": "pwd", "workdir": workdir })).await.unwrap();
        assert_eq!(returned.content[0].as_text(), Some(format!("{}\n", expected.display()).as_str()));
    }
    let failure = room.run(json!({ "command": "pwd", "workdir": "none" })).await.unwrap_err();
    assert_eq!(
        failure.message,
        format!("The working directory {} does not exist", sub.parent().unwrap().join("none").display())
    );
}

#[tokio::test]
async fn a_denied_command_does_not_start() {
    let room = Room::new(vec![Rule::new("*", "*", Effect::Allow), Rule::new("shell", "rm *", Effect::Deny)]);
    let failure = room.run(json!({ "command": "touch ran; /bin/rm x" })).await.unwrap_err();
    assert_eq!(failure.message, "Permission denied: shell");
    assert!(crate::permission::is_blocked(&failure));
    assert!(!room.project().join("ran").exists() && !room.directory.path().join("spool").exists());
}

/// The places outside are asked for first, then the commands; each request says what it would save.
#[tokio::test]
async fn what_is_asked() {
    let rules = vec![Rule::new("*", "*", Effect::Ask)];
    let room = Room::new(rules);
    let outside = room.directory.path().canonicalize().unwrap().join("home/x");
    let command = format!("cargo test && echo $(git log) > {}", outside.display());
    let approve = async {
        for n in [1, 3] {
            room.bench.events.wait_for(n).await;
            let request = room.bench.permissions.list(None).pop().unwrap();
            room.bench.permissions.reply(&request.session_id, &request.id, Reply::Once, None).await.unwrap();
            if n == 1 {
                let border = format!("{}/*", outside.parent().unwrap().display());
                assert_eq!((request.action.as_str(), request.resources), ("external_directory", vec![border.clone()]));
                assert_eq!(request.save, Some(vec![border]));
            } else {
                assert_eq!(request.action, "shell");
                let echo = format!("echo $(git log) > {}", outside.display());
                assert_eq!(request.resources, ["cargo test", echo.as_str(), "git log"]);
                assert_eq!(request.save.unwrap(), ["cargo test *", "echo *", "git log *"]);
                assert_eq!(request.metadata.unwrap()["command"], json!(command));
            }
        }
    };
    let (returned, ()) = tokio::join!(room.run(json!({ "command": command })), approve);
    returned.unwrap();
}

/// "Always" for one line leaves an opaque line with the same start to be asked about.
#[tokio::test]
async fn what_is_saved_covers_no_opaque_line() {
    let room = Room::new(vec![Rule::new("*", "*", Effect::Ask)]);
    let approve = async {
        room.bench.events.wait_for(1).await;
        let request = room.bench.permissions.list(None).pop().unwrap();
        room.bench.permissions.reply(&request.session_id, &request.id, Reply::Always, None).await.unwrap();
    };
    let (returned, ()) = tokio::join!(room.run(json!({ "command": "echo a" })), approve);
    returned.unwrap();
    // Silent by now.
    room.run(json!({ "command": "echo b" })).await.unwrap();
    let reject = async {
        room.bench.events.wait_for(3).await;
        let request = room.bench.permissions.list(None).pop().unwrap();
        assert_eq!((request.resources, request.save), (vec!["echo a; eval b".to_owned()], None));
        let message = Some("no".to_owned());
        room.bench.permissions.reply(&request.session_id, &request.id, Reply::Reject, message).await.unwrap();
    };
    let (returned, ()) = tokio::join!(room.run(json!({ "command": "echo a; eval b" })), reject);
    assert!(returned.unwrap_err().message.contains("no"));
}

#[tokio::test]
async fn a_call_is_announced_before_it_runs() {
    let room = Room::allowing();
    let context = room.bench.context();
    let returned = room.run(json!({ "command": "true" })).await.unwrap();
    let records = room.tool.services.journal.processes(&context.session_id).await.unwrap();
    let key =
        CallKey { session: context.session_id.clone(), message: context.message_id.clone(), call: context.id.clone() };
    assert_eq!(records.iter().map(|record| &record.key).collect::<Vec<_>>(), [&key]);
    assert!(records[0].spool_path.contains(returned.metadata["shellID"].as_str().unwrap()));
    // Settling removes the record; until then a crash finds the result.
    let resolution =
        crate::shell::recover::resolve_process(&*room.tool.services.journal, &key, OutputLimits::default()).await;
    let success = resolution.success.unwrap();
    assert_eq!(success.content, returned.content);
    assert_eq!(Value::Object(success.structured), serde_json::to_value(&returned.output).unwrap());
}

#[tokio::test]
async fn an_injected_failure_before_the_gate_runs_nothing() {
    let room = Room::allowing();
    let faults = fault::Faults::parse("tool.before_effect=error").unwrap();
    let failure = fault::with(faults, room.run(json!({ "command": "touch ran" }))).await.unwrap_err();
    assert_eq!(failure.message, "Unable to execute command: touch ran");
    assert!(!room.project().join("ran").exists());
}

impl Room {
    /// Waits for the end of the only job.
    async fn job(&self) -> JobOutcome {
        let job = self.jobs.list(None).pop().expect("a job was started");
        let waited = self.jobs.wait(&job.id, Some(Duration::from_secs(60))).await;
        waited.expect("the job ends in time")
    }
}

#[tokio::test]
async fn sh13_the_background_returns_at_once_and_has_no_limit_of_its_own() {
    let room = Room::allowing();
    let line = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo end";
    let returned = room.run(json!({ "command": line, "background": true })).await.unwrap();
    let (status, id) = (returned.output.status.as_deref(), returned.output.shell_id.clone().unwrap());
    assert_eq!((status, returned.output.exit), (Some("running"), None));
    assert!(joined_text(&returned.content).contains(&id));
    let records = room.store.jobs().await.unwrap();
    let JobWork::Shell { shell_id, process, deadline, .. } = &records[0].work else { panic!("a command") };
    assert_eq!((shell_id, deadline, process.command.as_str(), process.background), (&id, &None, line, true));
    // No call waits for it: nothing else is announced.
    assert_eq!(room.store.processes(&process.key.session).await.unwrap(), []);
    std::fs::write(room.project().join("go"), "").unwrap();
    let outcome = room.job().await;
    assert_eq!(outcome.state, "completed");
    assert!(joined_text(&outcome.content).contains("begun\nend\n"));
    assert_eq!(outcome.facts["exit"], 0);
    // With a limit it ends by it.
    let room = Room::allowing();
    room.run(json!({ "command": "sleep 60", "background": true, "timeout": 50 })).await.unwrap();
    let outcome = room.job().await;
    assert_eq!((outcome.state.as_str(), &outcome.facts["timeout"]), ("timeout", &json!(true)));
    assert!(room.left().is_empty());
}

#[tokio::test]
async fn sh14_the_user_sends_a_command_to_the_background() {
    let room = Room::allowing();
    let line = "while [ ! -e go ]; do sleep 0.01; done; echo end";
    let call = room.run(json!({ "command": line, "timeout": 2000 }));
    let moved = async {
        let session = room.bench.context().session_id;
        let started = Instant::now();
        while room.jobs.background_all(&session).await.unwrap() == 0 {
            assert!(started.elapsed() < Duration::from_secs(30), "the call never waits");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (returned, ()) = tokio::join!(call, moved);
    assert_eq!(returned.unwrap().output.status.as_deref(), Some("running"));
    // Its limit has ended with the foreground.
    tokio::time::sleep(Duration::from_millis(2200)).await;
    std::fs::write(room.project().join("go"), "").unwrap();
    let outcome = room.job().await;
    assert_eq!((outcome.state.as_str(), &outcome.facts["exit"]), ("completed", &json!(0)));
    assert_eq!(room.store.jobs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn sh15_a_stopped_command_stays_readable() {
    let room = Room::allowing();
    room.run(json!({ "command": "echo begun; sleep 60", "background": true })).await.unwrap();
    let job = room.jobs.list(None).pop().unwrap();
    let JobWork::Shell { process, .. } = &room.store.jobs().await.unwrap()[0].work else { panic!("a command") };
    let spool = PathBuf::from(&process.spool_path);
    until("it begins", || std::fs::read_to_string(&spool).is_ok_and(|text| text == "begun\n"));
    assert!(room.jobs.cancel(&job.id));
    let outcome = room.job().await;
    assert_eq!((outcome.status, outcome.state.as_str()), (JobStatus::Cancelled, "stopped"));
    let text = joined_text(&outcome.content);
    assert!(text.contains("begun") && text.contains("The user stopped the command"), "{text}");
    assert!(room.left().is_empty());
}

#[tokio::test]
async fn an_interrupted_call_whose_command_is_in_the_background_leaves_it() {
    let room = Room::allowing();
    let returned = room.run(json!({ "command": "sleep 60", "background": true })).await.unwrap();
    drop(returned);
    let job = room.jobs.list(None).pop().unwrap();
    assert_eq!(job.status, JobStatus::Running);
    room.jobs.cancel(&job.id);
    room.job().await;
}
