//! A process that is really killed while it writes: what it was told is stored, is stored.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use abide_schema::SessionId;
use abide_schema::event::EventData;

use super::{SqliteStore, StoreOptions};
use crate::fault;
use crate::store::tests::build::{put, session, turn};
use crate::store::{Batch, EventStore as _, Hook, Item, LeaseStore as _, SeqRange, Store, View};
use crate::world::World;

/// Set for the child: where the store is.
const DIRECTORY: &str = "ABIDE_TEST_STORE_DIRECTORY";
const WRITERS: usize = 4;

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(StoreOptions::new(directory, World::real())).unwrap()
}

fn start(directory: &Path, faults: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::sqlite::crash::the_process_that_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(fault::VARIABLE, faults)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs in the child; on its own it has nothing to do.
#[tokio::test]
async fn the_process_that_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store: Arc<dyn Store> = Arc::new(open(Path::new(&directory)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let a = session(&*store, &format!("s{number}")).await;
            let hook = Hook::AcquireLease { owner: store.owner(), fence: 1, dead_owner: None };
            let begin = EventData::from(crate::store::tests::build::renamed(&a, "begun"));
            store.append(Batch { hooks: vec![hook], ..Batch::new(a.clone(), vec![begin.into()]) }).await.unwrap();
            for tag in 0.. {
                for data in turn(&a, &format!("{number}_{tag}")) {
                    let items = vec![Item::from(data)];
                    let batch = Batch { fence: Some(1), ..Batch::new(a.clone(), items) };
                    let stored = store.append(batch).await.unwrap();
                    println!("stored {a} {}", stored[0].seq);
                }
            }
        });
    }
    tasks.join_all().await;
}

async fn killed(faults: &str, n_lines: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut child = start(directory.path(), faults);
    let mut told: BTreeMap<SessionId, u64> = BTreeMap::new();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for (index, line) in lines.map_while(Result::ok).enumerate() {
        if let Some((session, seq)) = line.strip_prefix("stored ").and_then(|rest| rest.split_once(' ')) {
            told.insert(SessionId::parse(session).unwrap(), seq.parse().unwrap());
        }
        if index == n_lines {
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success());
    let store = open(directory.path());
    assert!(!told.is_empty() || faults.contains("commit"), "nothing was stored before {faults}");
    for session in store.logs().await.unwrap() {
        let head = store.head(&session).await.unwrap().unwrap();
        assert!(told.get(&session).is_none_or(|seq| head.seq.0 >= *seq), "{session} lost events");
        assert_eq!(store.verify(&session).await.unwrap(), Vec::<String>::new());
        let page = store.read(&session, SeqRange::default(), View::Log, u32::MAX).await.unwrap();
        assert_eq!(page.events.len() as u64, head.seq.0 + 1);
        put(&store, crate::store::tests::build::renamed(&session, "alive")).await.unwrap();
    }
    // Its lock died with it.
    let orphans = store.orphans().await.unwrap();
    assert!(told.keys().all(|session| orphans.iter().any(|lease| lease.session == *session)));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn at_a_commit() {
    for faults in ["store.before_commit=kill@40", "store.after_commit=kill@40", "store.before_notify=kill@90"] {
        killed(faults, usize::MAX).await;
    }
}

#[tokio::test]
async fn at_any_time() {
    for n_lines in [5, 33, 120, 400] {
        killed("", n_lines).await;
    }
}
