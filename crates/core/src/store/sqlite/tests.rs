//! What is particular to the file: migration, bad files, full disks, a dead writer, damage.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_schema::event::{EventData, Renamed, SessionCreated, SessionDeleted};
use abide_schema::location::LocationRef;
use abide_schema::{Seq, SessionId, Timestamp};
use rusqlite::Connection;

use super::writer::Shared;
use super::{DurabilityLevel, SqliteStore, StoreOptions, Writer, migrate};
use crate::store::{
    AppendError, Batch, Durability, EventStore as _, Item, ProjectionStore as _, SeqRange, StoreError, View,
};
use crate::world::World;

fn options(directory: &Path) -> StoreOptions {
    StoreOptions { lock_timeout: Duration::from_millis(50), ..StoreOptions::new(directory, World::real()) }
}

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(options(directory)).unwrap()
}

fn ses() -> SessionId {
    SessionId::from_trusted("ses_a")
}

fn created() -> EventData {
    SessionCreated {
        timestamp: Timestamp(1),
        session_id: ses(),
        project_id: "global".into(),
        location: LocationRef::new("/w"),
        slug: "s".to_owned(),
        title: "t".to_owned(),
        version: "0".to_owned(),
        subpath: None,
        parent_id: None,
        agent: None,
        model: None,
        metadata: None,
        permissions: None,
    }
    .into()
}

fn renamed(title: &str) -> EventData {
    Renamed { timestamp: Timestamp(2), session_id: ses(), title: title.to_owned() }.into()
}

async fn put(store: &SqliteStore, data: EventData) -> Result<(), AppendError> {
    store.append(Batch::new(ses(), vec![Item::from(data)])).await.map(|_| ())
}

#[test]
fn two_that_start_together_migrate_once() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let data = directory.path().join("fresh");
        std::thread::scope(|scope| {
            let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| SqliteStore::open(options(&data)))).collect();
            for start in starts {
                start.join().unwrap().unwrap();
            }
        });
        std::fs::remove_dir_all(&data).unwrap();
    }
}

#[test]
fn what_is_no_store_of_ours_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, prepare: &dyn Fn(&Path)| {
        let data = directory.path().join(name);
        std::fs::create_dir_all(&data).unwrap();
        prepare(&data);
        let before = std::fs::read(SqliteStore::path_in(&data)).ok();
        let error = SqliteStore::open(options(&data)).unwrap_err();
        assert_eq!(std::fs::read(SqliteStore::path_in(&data)).ok(), before, "{name} was changed");
        error
    };
    let newer = check("newer", &|data| {
        drop(SqliteStore::open(options(data)).unwrap());
        let conn = Connection::open(SqliteStore::path_in(data)).unwrap();
        conn.execute_batch("PRAGMA user_version=99; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    });
    assert!(matches!(newer, StoreError::NewerVersion { found: 99, known: 2, .. }), "{newer:?}");
    let between = check("between", &|data| {
        drop(SqliteStore::open(options(data)).unwrap());
        let conn = Connection::open(SqliteStore::path_in(data)).unwrap();
        conn.execute_batch("ALTER TABLE draft DROP COLUMN updated; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    });
    assert!(matches!(&between, StoreError::OtherSchema { object, .. } if object == "draft"), "{between:?}");
    assert!(between.to_string().contains("ABIDE_DATA_DIR"));
    let foreign = check("foreign", &|data| {
        Connection::open(SqliteStore::path_in(data)).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    });
    assert!(matches!(foreign, StoreError::Other(_)), "{foreign:?}");
    let garbage =
        check("garbage", &|data| std::fs::write(SqliteStore::path_in(data), "no database".repeat(1000)).unwrap());
    assert!(matches!(garbage, StoreError::Corrupt(_)), "{garbage:?}");
    let directory_there = check("directory", &|data| std::fs::create_dir(SqliteStore::path_in(data)).unwrap());
    assert!(matches!(directory_there, StoreError::Disk(_)), "{directory_there:?}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = SqliteStore::open(options(&file.join("data"))).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Disk(_)) && text.contains("file/data"), "{text}");
}

#[tokio::test]
async fn a_lock_held_too_long_is_an_error_and_passes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let other = Connection::open(store.db_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = put(&store, created()).await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Locked(_))), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    put(&store, created()).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_passes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, created()).await.unwrap();
    let limit = |pages: &'static str| {
        store.writer.submit::<(), StoreError, _>(false, move |tx| {
            Ok(tx.conn.query_row(&format!("PRAGMA max_page_count={pages}"), [], |_| Ok(()))?)
        })
    };
    limit("1").await.unwrap();
    let long = "x".repeat(100_000);
    let (one, two) = tokio::join!(put(&store, renamed(&long)), put(&store, renamed("short enough")));
    assert!(matches!(one, Err(AppendError::Storage(StoreError::Disk(_)))), "{one:?}");
    // Whatever shared the transaction is stored whole or not at all.
    limit("1000000").await.unwrap();
    let title = store.session(&ses()).await.unwrap().unwrap().title;
    assert_eq!(title, if two.is_ok() { "short enough" } else { "t" });
    put(&store, renamed(&long)).await.unwrap();
    assert_eq!(store.verify(&ses()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_dead_writer_closes_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, created()).await.unwrap();
    let mut watch = store.watch(&ses());
    let died = store.writer.submit::<(), StoreError, _>(false, |_| panic!("a bug in a projector")).await;
    assert!(matches!(died, Err(StoreError::Closed(_))), "{died:?}");
    assert!(!watch.changed().await);
    let error = put(&store, renamed("x")).await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Closed(_))), "{error:?}");
    // What was stored can be read.
    assert_eq!(store.session(&ses()).await.unwrap().unwrap().title, "t");
    drop(store);
    put(&open(directory.path()), renamed("x")).await.unwrap();
}

#[tokio::test]
async fn a_failed_sync_closes_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let conn = migrate::open_writer(&path, Duration::from_secs(1)).unwrap();
    let shared = Arc::new(Shared::new());
    // The log is not where the syncer looks.
    let elsewhere = directory.path().join("elsewhere");
    let writer = Writer::start(conn, &elsewhere, DurabilityLevel::Power, World::real(), shared).unwrap();
    let batch = || Batch::new(ses(), vec![Item::from(created())]);
    writer.submit::<_, AppendError, _>(false, move |tx| tx.append(batch())).await.unwrap();
    let synced = Batch::new(ses(), vec![Item::from(renamed("x"))]);
    let error = writer.submit::<_, AppendError, _>(true, move |tx| tx.append(synced)).await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Closed(_))), "{error:?}");
    let later = Batch::new(ses(), vec![Item::from(renamed("y"))]);
    let error = writer.submit::<_, AppendError, _>(false, move |tx| tx.append(later)).await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Closed(_))), "{error:?}");
    writer.close();
}

#[tokio::test]
async fn what_waits_is_stored_before_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    put(&store, created()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { put(&store, renamed(&number.to_string())).await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    Arc::into_inner(store).unwrap().close().await;
    assert!(!directory.path().join("abide.db-wal").exists());
    let owners = std::fs::read_dir(directory.path().join("owners")).unwrap().count();
    assert_eq!(owners, 0);
    let again = open(directory.path());
    assert_eq!(again.head(&ses()).await.unwrap().unwrap().seq, Seq(50));
}

#[tokio::test]
async fn an_unknown_type_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, created()).await.unwrap();
    put(&store, renamed("x")).await.unwrap();
    let sql = "UPDATE event SET type = 'session.next.invented.7' WHERE pos & 0xffffffff = 1";
    store.writer.submit::<(), StoreError, _>(false, move |tx| tx.run(sql, []).map(|_| ())).await.unwrap();
    put(&store, renamed("y")).await.unwrap();
    let page = store.read(&ses(), SeqRange::default(), View::Log, 10).await.unwrap();
    assert_eq!(page.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [0, 2]);
    let range = SeqRange { after: Some(Seq(0)), through: Some(Seq(1)) };
    let page = store.read(&ses(), range, View::Log, 10).await.unwrap();
    assert_eq!((page.events.len(), page.cursor, page.has_more), (0, Some(Seq(1)), false));
}

#[tokio::test]
async fn damage_is_found_and_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, created()).await.unwrap();
    put(&store, renamed("x")).await.unwrap();
    let damage =
        |sql: &'static str| store.writer.submit::<(), StoreError, _>(false, move |tx| tx.run(sql, []).map(|_| ()));
    damage("UPDATE session SET title = 'forged', cost = 1.5").await.unwrap();
    let found = store.verify(&ses()).await.unwrap();
    assert_eq!(found, ["session ses_a: title is forged, the log says x", "session ses_a: cost is 1.5, the log says 0"]);
    store.rebuild(&ses()).await.unwrap();
    assert_eq!(store.verify(&ses()).await.unwrap(), Vec::<String>::new());
    damage("DELETE FROM session").await.unwrap();
    assert_eq!(store.verify(&ses()).await.unwrap(), ["session ses_a: is missing"]);
    store.rebuild(&ses()).await.unwrap();
    damage("DELETE FROM event WHERE pos & 0xffffffff = 1").await.unwrap();
    assert_eq!(store.verify(&ses()).await.unwrap().len(), 2);
    damage("UPDATE event SET data = '{}' WHERE pos & 0xffffffff = 0").await.unwrap();
    let error = store.read(&ses(), SeqRange::default(), View::Log, 10).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    store.vacuum().await.unwrap();
}

#[tokio::test]
async fn a_fault_at_a_commit_is_told_truly() {
    for (point, n_expected) in [("store.before_commit", 1), ("store.after_commit", 2)] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        put(&store, created()).await.unwrap();
        let faults = crate::fault::Faults::parse(&format!("{point}=error@1")).unwrap();
        let error = crate::fault::with(faults, put(&store, renamed("x"))).await.unwrap_err();
        assert!(matches!(error, AppendError::Storage(_)), "{error:?}");
        // After the commit nobody can say any more what is stored, so nothing more is.
        assert_eq!(put(&store, renamed("y")).await.is_ok(), point == "store.before_commit");
        drop(store);
        let page = open(directory.path()).read(&ses(), SeqRange::default(), View::Log, 9).await.unwrap();
        let n_found = page.events.len() - usize::from(point == "store.before_commit");
        assert_eq!(n_found, n_expected);
    }
}

#[tokio::test]
async fn what_was_deleted_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, created()).await.unwrap();
    for number in 0..250 {
        put(&store, renamed(&number.to_string())).await.unwrap();
    }
    let deleted = SessionDeleted { timestamp: Timestamp(3), session_id: ses() };
    put(&store, deleted.into()).await.unwrap();
    loop {
        let page = store.read(&ses(), SeqRange::default(), View::Log, 1000).await.unwrap();
        assert_eq!(store.verify(&ses()).await.unwrap(), Vec::<String>::new());
        if page.events.len() == 1 {
            assert_eq!(page.events[0].seq, Seq(251));
            break;
        }
        tokio::task::yield_now().await;
    }
    let again = put(&store, created()).await.unwrap_err();
    assert!(matches!(again, AppendError::SessionAlreadyProjected(_)), "{again:?}");
    store.rebuild(&ses()).await.unwrap();
    assert_eq!(store.verify(&ses()).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn synced_and_unsynced_batches_mix() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, created()).await.unwrap();
    // Many synced ones in flight, and fragments between: all arrive, in order of their positions.
    let mut tasks = tokio::task::JoinSet::new();
    let store = Arc::new(store);
    for number in 0..100 {
        let store = Arc::clone(&store);
        let durability = if number % 2 == 0 { Durability::Synced } else { Durability::Committed };
        tasks.spawn(async move {
            let batch = Batch { durability, ..Batch::new(ses(), vec![Item::from(renamed(&number.to_string()))]) };
            store.append(batch).await.unwrap()[0].seq.0
        });
    }
    let mut seqs = tasks.join_all().await;
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_commit_without_sync_does_not_wait_for_one() {
    let directory = tempfile::tempdir().unwrap();
    let conn = migrate::open_writer(&directory.path().join("db"), Duration::from_secs(1)).unwrap();
    // Where the syncer looks for the log is a pipe: opening it waits for its other end.
    let (elsewhere, pipe) = (directory.path().join("elsewhere"), directory.path().join("elsewhere-wal"));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let shared = Arc::new(Shared::new());
    let writer = Writer::start(conn, &elsewhere, DurabilityLevel::Power, World::real(), shared).unwrap();
    let submit = |synced, data| {
        let batch = Batch::new(ses(), vec![Item::from(data)]);
        writer.submit::<_, AppendError, _>(synced, move |tx| tx.append(batch))
    };
    let mut waiting = Box::pin(submit(true, created()));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // Committed after it, answered before it.
    assert_eq!(submit(false, renamed("x")).await.unwrap()[0].seq, Seq(1));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // A pipe cannot be synced, and that is told.
    drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    let error = waiting.await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Closed(_))), "{error:?}");
    writer.close();
}
