//! What only the memory store can do: crash at any commit, and do the same twice.

use std::sync::Arc;

use abide_schema::Seq;

use super::build::{admitted, log, prompted, put, renamed, session, sound, turn};
use super::world;
use crate::store::{
    AppendError, CommitFault, CommitKind, EventStore as _, LeaseStore as _, MemoryStore, ProjectionStore as _,
    StoreError,
};

#[tokio::test]
async fn a_crash_leaves_what_was_committed() {
    for (fault, n_expected) in [(CommitFault::CrashBefore, 2), (CommitFault::CrashAfter, 3)] {
        let store = MemoryStore::new(world());
        let a = session(&store, "a").await;
        put(&store, admitted(&a, "p")).await.unwrap();
        store.on_commit(move |number, kind| {
            assert_eq!((number, kind), (3, CommitKind::Append));
            fault.clone()
        });
        let error = put(&store, prompted(&a, "p")).await.unwrap_err();
        assert!(matches!(error, AppendError::Storage(StoreError::Closed(_))), "{error:?}");
        assert!(matches!(put(&store, renamed(&a, "x")).await, Err(AppendError::Storage(StoreError::Closed(_)))));
        let next = store.reopen();
        assert!(!next.is_alive(&store.owner()).await.unwrap());
        assert_eq!(log(&next, &a).await.len(), n_expected);
        sound(next.verify(&a).await);
        put(&next, renamed(&a, "x")).await.unwrap();
    }
}

#[tokio::test]
async fn a_failed_write_stores_nothing() {
    let store = MemoryStore::new(world());
    let a = session(&store, "a").await;
    let mut bus = store.subscribe();
    store.on_commit(|number, _| match number {
        2 => CommitFault::Fail(StoreError::Disk("full".to_owned())),
        _ => CommitFault::None,
    });
    let error = put(&store, admitted(&a, "p")).await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Disk(_))), "{error:?}");
    assert!(bus.try_next().is_none());
    assert_eq!(store.input(&super::build::msg("p")).await.unwrap(), None);
    let event = put(&store, admitted(&a, "p")).await.unwrap();
    assert_eq!(event.seq, Seq(1));
    assert!(bus.try_next().is_some());
    sound(store.verify(&a).await);
}

#[tokio::test]
async fn the_same_run_gives_the_same_log() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let store = MemoryStore::new(world());
        let a = session(&store, "a").await;
        for data in turn(&a, "1") {
            put(&store, data).await.unwrap();
        }
        runs.push((store.log(&a).into_iter().map(|event| (*event).clone()).collect::<Vec<_>>(), store.rows()));
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn a_handle_that_is_dropped_is_dead() {
    let store = Arc::new(MemoryStore::new(world()));
    let other = store.attach();
    let owner = other.owner();
    assert!(store.is_alive(&owner).await.unwrap());
    drop(other);
    assert!(!store.is_alive(&owner).await.unwrap());
}
