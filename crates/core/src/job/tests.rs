use std::sync::atomic::{AtomicUsize, Ordering};

use abide_schema::AgentId;
use tokio::sync::Notify;

use super::*;
use crate::session::sim::{Random, sim_world};
use crate::store::{JournalStore as _, MemoryStore};

/// Takes notices.
#[derive(Default)]
struct Told(Mutex<Vec<(JobRecord, JobOutcome)>>);

impl Told {
    fn states(&self) -> Vec<String> {
        let told = self.0.lock().unwrap();
        told.iter().map(|(record, outcome)| format!("{} {}", record.id, outcome.state)).collect()
    }
}

impl Notices for Arc<Told> {
    fn deliver(&self, record: JobRecord, outcome: JobOutcome) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push((record, outcome));
        Box::pin(async {})
    }
}

struct Room {
    jobs: Jobs,
    store: Arc<MemoryStore>,
    told: Arc<Told>,
}

impl Room {
    fn new() -> Self {
        let world = sim_world(&Random::new(7));
        let store = Arc::new(MemoryStore::new(world.clone()));
        let jobs = Jobs::new(store.clone(), world);
        let told = Arc::new(Told::default());
        jobs.notify(Arc::new(told.clone()));
        Self { jobs, store, told }
    }
}

fn spec(id: &str, session: &str) -> JobSpec {
    JobSpec {
        id: JobId::from_trusted(id),
        kind: JobKind::Subagent,
        session: SessionId::from_trusted(session),
        title: "look".to_owned(),
        work: JobWork::Subagent {
            child: SessionId::from_trusted(id),
            agent: AgentId::new("explore"),
            description: "look".to_owned(),
        },
        started: Timestamp::from_millis(0),
        notification: None,
    }
}

fn done() -> JobOutcome {
    JobOutcome {
        status: JobStatus::Completed,
        state: "completed".to_owned(),
        content: vec![Content::text("found")],
        facts: JsonObject::new(),
    }
}

/// A job that ends when it is told to: with success, or as cancelled.
async fn held(go: Arc<Notify>, control: JobControl) -> JobOutcome {
    tokio::select! {
        biased;
        () = control.stop.cancelled() => JobOutcome::cancelled("stopped"),
        () = go.notified() => done(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_job_is_joined_and_all_see_its_end() {
    let room = Room::new();
    let (go, runs) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let id = JobId::from_trusted("ses_a");
    for n in 0..2 {
        let (go, runs) = (go.clone(), runs.clone());
        let started = room.jobs.start(spec("ses_a", "ses_p"), |control| async move {
            runs.fetch_add(1, Ordering::Relaxed);
            held(go, control).await
        });
        assert_eq!(started, Ok(n == 0));
    }
    let look = Some(Duration::ZERO);
    assert_eq!(room.jobs.wait(&id, look).await, None);
    let (jobs, parent) = (room.jobs.clone(), SessionId::from_trusted("ses_p"));
    go.notify_one();
    let (waited, blocked) = tokio::join!(jobs.wait(&id, None), jobs.block(&id, &parent));
    assert_eq!((waited, blocked), (Some(done()), Blocked::Finished(done())));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    // In the foreground nobody is told, and nothing is recorded.
    assert_eq!((room.told.states(), room.store.jobs().await.unwrap()), (Vec::new(), Vec::new()));
    assert_eq!(jobs.block(&JobId::from_trusted("ses_none"), &parent).await, Blocked::Unknown);
    assert_eq!(jobs.wait(&JobId::from_trusted("ses_none"), None).await, None);
    // The same id may be used again.
    let (again, control) = (Arc::new(Notify::new()), spec("ses_a", "ses_p"));
    again.notify_one();
    assert_eq!(jobs.start(control, |control| held(again, control)), Ok(true));
    assert_eq!(jobs.wait(&id, None).await, Some(done()));
}

#[tokio::test(start_paused = true)]
async fn what_goes_to_the_background_is_recorded_first_and_told_once() {
    let room = Room::new();
    let (jobs, parent) = (room.jobs.clone(), SessionId::from_trusted("ses_p"));
    let (go, id) = (Arc::new(Notify::new()), JobId::from_trusted("ses_a"));
    let goes = go.clone();
    jobs.start(spec("ses_a", "ses_p"), |control| held(goes, control)).unwrap();
    let moved = async {
        tokio::task::yield_now().await;
        jobs.background_all(&parent).await.unwrap()
    };
    let (blocked, moved) = tokio::join!(jobs.block(&id, &parent), moved);
    assert_eq!((blocked, moved), (Blocked::Backgrounded, 1));
    let records = room.store.jobs().await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(jobs.background(&id).await.unwrap(), Some(records[0].notification.clone()));
    // Nobody waits for it any more.
    assert_eq!(jobs.background_all(&parent).await.unwrap(), 0);
    go.notify_one();
    assert!(jobs.wait_background(&parent).await);
    assert!(!jobs.wait_background(&parent).await);
    assert_eq!(room.told.states(), ["ses_a completed"]);
    assert_eq!(room.told.0.lock().unwrap()[0].0, records[0]);
    assert_eq!(jobs.background(&id).await.unwrap(), Some(records[0].notification.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_job_is_told_of_unless_its_session_is_stopped() {
    let room = Room::new();
    for (id, session) in [("ses_a", "ses_p"), ("ses_b", "ses_q")] {
        let spec = room.jobs.recorded(spec(id, session)).await.unwrap();
        room.jobs.start(spec, |control| held(Arc::new(Notify::new()), control)).unwrap();
    }
    let (a, b) = (JobId::from_trusted("ses_a"), JobId::from_trusted("ses_b"));
    assert!(room.jobs.cancel(&a));
    room.jobs.cancel_all(&SessionId::from_trusted("ses_q"));
    for id in [&a, &b] {
        assert_eq!(room.jobs.wait(id, None).await.unwrap().status, JobStatus::Cancelled);
    }
    while room.jobs.wait_background(&SessionId::from_trusted("ses_q")).await {}
    assert!(!room.jobs.cancel(&a));
    assert_eq!(room.told.states(), ["ses_a cancelled"]);
    // The notices' taker drops the record; nobody is told of the other.
    let left = room.store.jobs().await.unwrap();
    assert_eq!(left.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), ["ses_a"]);
}

#[tokio::test(start_paused = true)]
async fn too_many_are_refused_and_a_bug_ends_one_job() {
    let room = Room::new();
    for n in 0..MAX_RUNNING {
        let spec = spec(&format!("ses_{n}"), "ses_p");
        room.jobs.start(spec, |control| held(Arc::new(Notify::new()), control)).unwrap();
    }
    let more = |session: &str| room.jobs.start(spec("ses_x", session), |_| async { panic!("a bug") });
    assert_eq!(more("ses_p"), Err(JobError::TooMany));
    assert_eq!(more("ses_q"), Ok(true));
    let outcome = room.jobs.wait(&JobId::from_trusted("ses_x"), None).await.unwrap();
    assert_eq!((outcome.status, outcome.state.as_str()), (JobStatus::Error, "error"));
    assert_eq!(room.jobs.list(None).len(), MAX_RUNNING + 1);
    assert_eq!(room.jobs.list(Some(&SessionId::from_trusted("ses_q"))).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_process_settles_nothing() {
    let room = Room::new();
    let recorded = room.jobs.recorded(spec("ses_a", "ses_p")).await.unwrap();
    let go = Arc::new(Notify::new());
    let goes = go.clone();
    room.jobs.start(recorded, |control| held(goes, control)).unwrap();
    tokio::task::yield_now().await;
    room.jobs.close().await;
    go.notify_one();
    assert_eq!(room.told.states(), Vec::<String>::new());
    assert_eq!(room.store.jobs().await.unwrap().len(), 1);
    assert_eq!(room.jobs.start(spec("ses_b", "ses_p"), |_| async { done() }), Err(JobError::Closed));
}

#[test]
fn sh13_attributes_of_notices_are_escaped() {
    let record = JobRecord {
        notification: MessageId::from_trusted("msg_n"),
        id: JobId::from_trusted("sh_1"),
        session: SessionId::from_trusted("ses_p"),
        owner: abide_schema::OwnerId::from_trusted("own_1"),
        work: JobWork::Shell {
            shell_id: "sh_1".to_owned(),
            process: crate::store::ToolProcess {
                key: crate::store::CallKey {
                    session: SessionId::from_trusted("ses_p"),
                    message: MessageId::from_trusted("msg_m"),
                    call: "call_1".into(),
                },
                pid: 1,
                pgid: 1,
                start_time: 1,
                boot_id: String::new(),
                command: "echo \"<a>\" & wait\necho 2".to_owned(),
                cwd: "/".to_owned(),
                spool_path: "/s".to_owned(),
                background: true,
            },
            deadline: None,
            limit_ms: None,
        },
        started: Timestamp::from_millis(0),
    };
    let outcome = JobOutcome { state: "timeout".to_owned(), ..done() };
    let notice = notice::notice(&record, &outcome);
    assert_eq!(
        notice.text,
        "<shell id=\"sh_1\" state=\"timeout\" command=\"echo &quot;&lt;a&gt;&quot; &amp; wait&#10;echo 2\">\nfound\n</shell>"
    );
    assert_eq!(notice.description, "echo \"<a>\" & wait\necho 2");
    let facts = serde_json::json!({ "jobID": "sh_1", "shellID": "sh_1", "source": "shell", "state": "timeout" });
    assert_eq!(serde_json::Value::Object(notice.metadata), facts);
}
