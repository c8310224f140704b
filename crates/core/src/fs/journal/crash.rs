//! Processes that are really killed while they change files, with the store on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use abide_schema::tool::Verdict;
use abide_schema::{CallId, MessageId, SessionId};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::store::{SqliteStore, StoreOptions};

/// Set for the child: where it works.
const DIRECTORY: &str = "ABIDE_TEST_CRASH_DIRECTORY";
/// Set for the child: what it does.
const ROLE: &str = "ABIDE_TEST_CRASH_ROLE";
const BIG: usize = 4 * 1024 * 1024;

struct Desk {
    root: PathBuf,
    store: Arc<SqliteStore>,
    journal: Journal,
}

impl Desk {
    fn open(root: &Path) -> Self {
        let world = World::real();
        let store = Arc::new(SqliteStore::open(StoreOptions::new(root.join("data"), world.clone())).unwrap());
        let journal = Journal::new(JournalOptions {
            store: Arc::clone(&store) as Arc<dyn JournalStore>,
            world,
            blobs: root.join("data/blobs"),
            sync: false,
            on_edited: Arc::new(|_| {}),
        });
        Self { root: root.to_path_buf(), store, journal }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join("work").join(name)
    }

    async fn apply(&self, call: &str, changes: Vec<Change>) {
        let session = SessionId::from_trusted("ses_1");
        let message = MessageId::from_trusted("msg_1");
        let plan = Plan {
            call: Some(CallKey { session: session.clone(), message, call: CallId::new(call) }),
            session,
            tool: "patch".into(),
            fence: None,
            output: json!({ "structured": {}, "content": [] }),
            changes,
        };
        let guard = self.journal.lock(plan.changes.iter().flat_map(Change::paths).cloned()).await;
        self.journal.apply(guard, plan).await.unwrap();
    }

    async fn recover(&self) -> Vec<Verdict> {
        let batches = self.store.all_mutations().await.unwrap();
        let recovered = self.journal.recover(batches, None).await.unwrap();
        recovered.into_iter().map(|one| one.verdict).collect()
    }
}

fn root() -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("work")).unwrap();
    root
}

fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(directory: &Path, base: &Path, out: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, base, out);
            } else {
                let name = path.strip_prefix(base).unwrap().to_str().unwrap().to_owned();
                out.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let (base, mut out) = (root.join("work"), BTreeMap::new());
    walk(&base, &base, &mut out);
    out
}

fn start(root: &Path, role: &str, faults: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fs::journal::crash::the_process_that_is_killed", "--nocapture"])
        .env(DIRECTORY, root)
        .env(ROLE, role)
        .env(fault::VARIABLE, faults)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs in the child; on its own it has nothing to do.
#[tokio::test]
async fn the_process_that_is_killed() {
    let Some(root) = std::env::var_os(DIRECTORY) else { return };
    let desk = Desk::open(Path::new(&root));
    if std::env::var_os(ROLE).is_some_and(|role| role == "batch") {
        let changes = vec![
            Change::Create { path: desk.path("new/create"), content: b"new".to_vec(), mode: None },
            Change::Write { path: desk.path("change"), expected: None, content: b"new".to_vec() },
            Change::Delete { path: desk.path("delete"), expected: None },
        ];
        desk.apply("call", changes).await;
        return;
    }
    println!("ready");
    for n in 0.. {
        let end = if n % 2 == 0 { "END" } else { "end" };
        let content = big(end);
        desk.apply(&format!("{n}"), vec![Change::Write { path: desk.path("big.txt"), expected: None, content }]).await;
    }
}

fn big(end: &str) -> Vec<u8> {
    let mut content = vec![b'a'; BIG];
    content.extend_from_slice(end.as_bytes());
    content
}

#[tokio::test]
async fn a_batch_is_there_as_a_whole_or_not_at_all() {
    for (faults, verdict) in [
        ("mutation.after_plan=kill", Some(Verdict::NotStarted)),
        ("mutation.after_stage=kill", Some(Verdict::NotStarted)),
        ("mutation.between_renames=kill@1", Some(Verdict::Applied)),
        ("mutation.between_renames=kill@2", Some(Verdict::Applied)),
        ("mutation.after_apply=kill", Some(Verdict::Applied)),
        ("", Some(Verdict::Applied)),
    ] {
        let root = root();
        for name in ["change", "delete"] {
            fs::write(root.path().join("work").join(name), "old").unwrap();
        }
        let before = tree(root.path());
        let mut child = start(root.path(), "batch", faults);
        child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), (!faults.is_empty()).then_some(9), "{faults}: {status}");

        let desk = Desk::open(root.path());
        assert_eq!(desk.recover().await, Vec::from_iter(verdict), "{faults}");
        let after = BTreeMap::from([("change".into(), b"new".to_vec()), ("new/create".into(), b"new".to_vec())]);
        let expect = if verdict == Some(Verdict::Applied) { after } else { before };
        assert_eq!(tree(root.path()), expect, "{faults}");
        assert_eq!(desk.recover().await, Vec::from_iter(verdict), "{faults}, again");
    }
}

#[tokio::test]
async fn a_large_file_is_never_half_written() {
    let root = root();
    fs::write(root.path().join("work/big.txt"), big("end")).unwrap();
    for round in 0..50u64 {
        let mut child = start(root.path(), "loop", "");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")));
        // Somewhere in the loop: whatever the moment is, the promise holds.
        std::thread::sleep(Duration::from_millis(round * 7 % 60));
        child.kill().unwrap();
        child.wait().unwrap();
        let content = fs::read(root.path().join("work/big.txt")).unwrap();
        assert!(content == big("end") || content == big("END"), "round {round}: {} bytes", content.len());

        let desk = Desk::open(root.path());
        assert!(!desk.recover().await.contains(&Verdict::Diverged), "round {round}");
        assert_eq!(tree(root.path()).into_keys().collect::<Vec<_>>(), ["big.txt"], "round {round}");
        // The next process starts with other calls.
        fs::remove_dir_all(root.path().join("data")).unwrap();
    }
}
