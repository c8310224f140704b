//! Tails (scenarios S11 to S15 and S27).

use std::sync::Arc;
use std::time::Duration;

use abide_schema::{Seq, SessionId};
use futures_util::{Stream, StreamExt as _};

use super::build::{deleted, one, put, renamed, session, turn};
use super::{Disk, suite};
use crate::store::{Batch, Durability, Item, StoreError, TailItem, View, tail};

suite![
    a_tail_replays_and_follows,
    a_slow_tail_misses_nothing,
    a_tail_starts_after_a_position,
    a_contract_tail_skips,
    another_process_reaches_a_tail,
    the_bell_rings_for_others,
];

const SOON: Duration = Duration::from_secs(20);

async fn next_event(stream: &mut (impl Stream<Item = Result<TailItem, StoreError>> + Unpin)) -> Seq {
    match tokio::time::timeout(SOON, stream.next()).await.unwrap() {
        Some(Ok(TailItem::Event(event))) => event.seq,
        other => panic!("an event was expected, not {other:?}"),
    }
}

async fn synced(stream: &mut (impl Stream<Item = Result<TailItem, StoreError>> + Unpin)) -> Option<Seq> {
    match tokio::time::timeout(SOON, stream.next()).await.unwrap() {
        Some(Ok(TailItem::Synced { seq })) => seq,
        other => panic!("the mark was expected, not {other:?}"),
    }
}

async fn a_tail_replays_and_follows(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    put(&*store, renamed(&a, "one")).await.unwrap();
    let mut stream = Box::pin(tail(Arc::clone(&store), a.clone(), None, View::Log));
    assert_eq!(next_event(&mut stream).await, Seq(0));
    // Committed while the history is read: after it, once.
    put(&*store, renamed(&a, "two")).await.unwrap();
    assert_eq!(next_event(&mut stream).await, Seq(1));
    assert_eq!(synced(&mut stream).await, Some(Seq(1)));
    assert_eq!(next_event(&mut stream).await, Seq(2));
    let waiting = tokio::time::timeout(Duration::from_millis(20), stream.next()).await;
    assert!(waiting.is_err(), "nothing more was committed");
    put(&*store, renamed(&a, "three")).await.unwrap();
    assert_eq!(next_event(&mut stream).await, Seq(3));
}

async fn a_slow_tail_misses_nothing(disk: Box<dyn Disk>) {
    const BATCHES: u64 = 500;
    let store = disk.open();
    let a = session(&*store, "a").await;
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn({
        let (store, a) = (Arc::clone(&store), a.clone());
        async move {
            for number in 0..BATCHES {
                let items = (0..20).map(|item| Item::from(renamed(&a, &format!("{number} {item}")))).collect();
                let batch = Batch { durability: Durability::Committed, ..Batch::new(a.clone(), items) };
                store.append(batch).await.unwrap();
            }
        }
    });
    let mut stream = Box::pin(tail(Arc::clone(&store), a.clone(), None, View::Log));
    let (mut expected, mut marks) = (0, 0);
    while expected <= BATCHES * 20 {
        match tokio::time::timeout(SOON, stream.next()).await.unwrap() {
            Some(Ok(TailItem::Event(event))) => {
                assert_eq!(event.seq, Seq(expected));
                expected += 1;
                if expected % 1000 == 0 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            Some(Ok(TailItem::Synced { .. })) => marks += 1,
            other => panic!("{other:?}"),
        }
    }
    writer.join_next().await.unwrap().unwrap();
    assert_eq!(marks, 1);
}

async fn a_tail_starts_after_a_position(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    put(&*store, renamed(&a, "one")).await.unwrap();
    for (after, head) in [(Seq(1), Some(Seq(1))), (Seq(7), Some(Seq(1)))] {
        let mut stream = Box::pin(tail(Arc::clone(&store), a.clone(), Some(after), View::Log));
        assert_eq!(synced(&mut stream).await, head);
    }
    let none = SessionId::from_trusted("ses_none");
    let mut stream = Box::pin(tail(Arc::clone(&store), none, None, View::Log));
    assert_eq!(synced(&mut stream).await, None);
    session(&*store, "none").await;
    assert_eq!(next_event(&mut stream).await, Seq(0));
}

async fn a_contract_tail_skips(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let mut stream = Box::pin(tail(Arc::clone(&store), a.clone(), None, View::Contract));
    assert_eq!(synced(&mut stream).await, Some(Seq(0)));
    let mut public = Box::pin(tail(Arc::clone(&store), a.clone(), Some(Seq(0)), View::Public));
    assert_eq!(synced(&mut public).await, Some(Seq(0)));
    put(&*store, renamed(&a, "no part of the contract")).await.unwrap();
    let items = turn(&a, "1").into_iter().map(Item::from).collect();
    store.append(Batch::new(a.clone(), items)).await.unwrap();
    put(&*store, deleted(&a)).await.unwrap();
    for position in 1..14 {
        let next = tokio::time::timeout(SOON, stream.next()).await.unwrap();
        let Some(Ok(TailItem::Event(event))) = next else { panic!("event {position} is missing") };
        assert_eq!(event.contract_seq, Some(Seq(position)));
    }
    for seq in 1..16 {
        assert_eq!(next_event(&mut public).await, Seq(seq));
    }
    let waiting = tokio::time::timeout(Duration::from_millis(20), public.next()).await;
    assert!(waiting.is_err(), "the deletion is internal");
}

async fn another_process_reaches_a_tail(disk: Box<dyn Disk>) {
    let (here, there) = (disk.open(), disk.open());
    let a = session(&*there, "a").await;
    let mut stream = Box::pin(tail(Arc::clone(&here), a.clone(), Some(Seq(0)), View::Log));
    assert_eq!(synced(&mut stream).await, Some(Seq(0)));
    for seq in 1..4 {
        put(&*there, renamed(&a, "there")).await.unwrap();
        let found = tokio::time::timeout(SOON, next_event(&mut stream)).await;
        assert_eq!(found, Ok(Seq(seq)));
    }
    put(&*here, renamed(&a, "here")).await.unwrap();
    assert_eq!(next_event(&mut stream).await, Seq(4));
}

async fn the_bell_rings_for_others(disk: Box<dyn Disk>) {
    let (here, there) = (disk.open(), disk.open());
    let a = session(&*here, "a").await;
    let mut bell = here.doorbell();
    there.append(one(renamed(&a, "x"))).await.unwrap();
    there.signal(&a, crate::store::Signal::Interrupt).await.unwrap();
    loop {
        assert!(tokio::time::timeout(SOON, bell.rung()).await.unwrap());
        let lease = here.lease(&a).await.unwrap();
        if lease.is_some_and(|lease| lease.interrupt_seq == Some(Seq(1))) {
            break;
        }
    }
}
