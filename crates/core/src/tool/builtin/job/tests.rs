use abide_schema::{MessageId, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::job::{JobControl, JobOutcome, JobSpec};
use crate::store::{CallKey, MemoryStore, ToolProcess};
use crate::tool::testing::Bench;

struct Room {
    bench: Bench,
    jobs: Jobs,
    tool: JobTool,
    spool: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let bench = Bench::new("/", Vec::new());
        let jobs = Jobs::new(Arc::new(MemoryStore::new(bench.world.clone())), bench.world.clone());
        let of_tool = jobs.clone();
        let tool = JobTool::new(Arc::new(move || Some(of_tool.clone())), OutputLimits::default());
        Self { bench, jobs, tool, spool: tempfile::tempdir().unwrap() }
    }

    fn start(&self, id: &str, session: &str) {
        let process = ToolProcess {
            key: CallKey {
                session: SessionId::from_trusted(session),
                message: MessageId::from_trusted("msg_1"),
                call: "call_1".into(),
            },
            pid: 1,
            pgid: 1,
            start_time: 0,
            boot_id: String::new(),
            command: "make".to_owned(),
            cwd: "/".to_owned(),
            spool_path: self.spool.path().join(id).display().to_string(),
            background: true,
        };
        let spec = JobSpec {
            id: JobId::from_trusted(id),
            kind: JobKind::Shell,
            session: process.key.session.clone(),
            title: "make".to_owned(),
            work: JobWork::Shell { shell_id: id.to_owned(), process, deadline: None, limit_ms: None },
            started: Timestamp::from_millis(0),
            notification: None,
        };
        let run = |control: JobControl| async move {
            control.stop.cancelled().await;
            JobOutcome::cancelled("It was stopped.")
        };
        self.jobs.start(spec, run).unwrap();
    }

    async fn check(&self, input: Value, expected: Result<&str, &str>) {
        let input: JobInput = serde_json::from_value(input).unwrap();
        let found = self.tool.execute(self.bench.context(), input).await;
        let found = found.map(|returned| joined_text(&returned.content)).map_err(|failure| failure.message);
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn background_work_is_listed_shown_waited_for_and_stopped() {
    let room = Room::new();
    room.check(json!({ "action": "list" }), Ok("No jobs.")).await;
    room.check(json!({ "action": "stop" }), Err("Give the id of the job")).await;
    room.check(json!({ "action": "stop", "id": "sh_x" }), Err("No job sh_x in this session; jobs: there are none"))
        .await;
    room.start("sh_1", "ses_1");
    room.start("sh_2", "ses_2");
    room.check(json!({ "action": "list" }), Ok("sh_1 shell running: make")).await;
    // Other sessions' jobs are none of its business.
    room.check(json!({ "action": "stop", "id": "sh_2" }), Err("No job sh_2 in this session; jobs: sh_1")).await;
    room.check(json!({ "action": "output", "id": "sh_1" }), Ok("sh_1 shell running: make\n(no output yet)")).await;
    std::fs::write(room.spool.path().join("sh_1"), "cc a.c\n").unwrap();
    room.check(json!({ "action": "output", "id": "sh_1" }), Ok("sh_1 shell running: make\ncc a.c\n")).await;
    let waits = "sh_1 shell running: make\nIt still runs. A notice comes when it ends.";
    room.check(json!({ "action": "wait", "id": "sh_1", "timeout": 5 }), Ok(waits)).await;
    room.check(json!({ "action": "stop", "id": "sh_1" }), Ok("sh_1 shell cancelled: make\nIt is stopped.")).await;
    room.check(json!({ "action": "stop", "id": "sh_1" }), Ok("sh_1 shell cancelled: make\nIt had ended already."))
        .await;
    room.check(json!({ "action": "wait", "id": "sh_1" }), Ok("sh_1 shell cancelled: make\nIt was stopped.")).await;
}
