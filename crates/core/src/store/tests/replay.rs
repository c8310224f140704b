//! Import of a serialized log (scenarios S15 to S22).

use abide_schema::event::LogRecord;
use abide_schema::{Seq, SessionId};

use super::build::{log, one, put, renamed, ses, session, sound, turn};
use super::{Disk, suite};
use crate::store::{
    AppendError, Batch, BusEvent, Item, MessageQuery, Replay, ReplayClaim, ReplayError, ReplayOutcome, Store,
    StoreError, replay_all,
};

suite![
    a_copy_equals_the_original,
    a_gap_is_refused,
    a_refused_record_takes_all_with_it,
    known_records_change_nothing,
    a_record_must_be_of_one_session,
    an_unknown_type_is_refused,
    a_log_has_one_replayer,
    accepted_records_are_published,
];

/// Makes a session with two turns and returns its records.
async fn export(store: &dyn Store, session: &SessionId) -> Vec<LogRecord> {
    let mut items: Vec<Item> = turn(session, "1").into_iter().chain(turn(session, "2")).map(Item::from).collect();
    items[3].metadata = serde_json::json!({ "k": 1 }).as_object().cloned();
    items[4].location = Some(abide_schema::location::LocationRef::new("/there"));
    store.append(Batch::new(session.clone(), items)).await.unwrap();
    records(store, session).await
}

async fn records(store: &dyn Store, session: &SessionId) -> Vec<LogRecord> {
    let text: Vec<String> = log(store, session)
        .await
        .iter()
        .map(|event| serde_json::to_string(&event.to_log_record().unwrap()).unwrap())
        .collect();
    text.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A fresh store of the same kind: removal leaves nothing behind.
async fn empty(store: &dyn Store, session: &SessionId) {
    store.remove(session).await.unwrap();
    assert_eq!(store.head(session).await.unwrap(), None);
}

async fn import(store: &dyn Store, records: Vec<LogRecord>) -> Result<Vec<ReplayOutcome>, ReplayError> {
    replay_all(store, records.into_iter().map(Replay::new).collect()).await
}

async fn replay_one(store: &dyn Store, replay: Replay) -> Result<ReplayOutcome, ReplayError> {
    replay_all(store, vec![replay]).await.map(|outcomes| outcomes[0])
}

async fn a_copy_equals_the_original(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let exported = export(&*store, &a).await;
    let state = || async {
        let info = store.session(&a).await.unwrap();
        (info, store.messages(&a, MessageQuery::default()).await.unwrap(), log(&*store, &a).await)
    };
    let before = state().await;
    empty(&*store, &a).await;
    let outcomes = import(&*store, exported).await.unwrap();
    assert!(outcomes.iter().all(|outcome| *outcome == ReplayOutcome::Accepted));
    assert_eq!(state().await, before);
    sound(store.verify(&a).await);
}

async fn a_gap_is_refused(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let mut exported = export(&*store, &a).await;
    empty(&*store, &a).await;
    let tail = exported.split_off(10);
    let late = records_from(&tail);
    import(&*store, exported).await.unwrap();
    let error = replay_one(&*store, Replay::new(late.into_iter().nth(1).unwrap())).await.unwrap_err();
    assert!(matches!(error, ReplayError::SequenceGap { seq: Seq(11), head: Some(Seq(9)), .. }), "{error:?}");
    let mut holed = records_from(&tail);
    holed.remove(1);
    let error = import(&*store, holed).await.unwrap_err();
    assert!(matches!(error, ReplayError::SequenceGap { seq: Seq(12), head: Some(Seq(10)), .. }), "{error:?}");
    assert_eq!(log(&*store, &a).await.len(), 10);
    // A later chunk goes on where the first ended.
    import(&*store, tail).await.unwrap();
    sound(store.verify(&a).await);
}

fn records_from(records: &[LogRecord]) -> Vec<LogRecord> {
    records.iter().map(|record| serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap()).collect()
}

async fn a_refused_record_takes_all_with_it(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let exported = export(&*store, &a).await;
    empty(&*store, &a).await;
    let mut bus = store.subscribe();
    let mut spoiled = records_from(&exported);
    spoiled[20].contract_seq = Some(Seq(999));
    let records = spoiled.into_iter().map(|record| Replay { publish: true, ..Replay::new(record) }).collect();
    let error = replay_all(&*store, records).await.unwrap_err();
    assert!(matches!(error, ReplayError::Diverged { seq: Seq(20), .. }), "{error:?}");
    assert_eq!((store.head(&a).await.unwrap(), store.session(&a).await.unwrap()), (None, None));
    assert!(bus.try_next().is_none());
    import(&*store, exported).await.unwrap();
    sound(store.verify(&a).await);
}

async fn known_records_change_nothing(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let exported = export(&*store, &a).await;
    let before = log(&*store, &a).await;
    let mut bus = store.subscribe();
    let outcomes = import(&*store, records_from(&exported)).await.unwrap();
    assert!(outcomes.iter().all(|outcome| *outcome == ReplayOutcome::Known));
    let mut other = records_from(&exported).remove(3);
    other.created.0 += 1;
    let replay = Replay { publish: true, ..Replay::new(other) };
    let error = replay_one(&*store, replay).await.unwrap_err();
    assert!(matches!(error, ReplayError::Diverged { seq: Seq(3), .. }), "{error:?}");
    assert_eq!(log(&*store, &a).await, before);
    assert!(bus.try_next().is_none());
}

async fn a_record_must_be_of_one_session(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let event = put(&*store, renamed(&a, "x")).await.unwrap();
    let mut record = event.to_log_record().unwrap();
    record.durable.aggregate_id = b.clone();
    record.durable.seq = Seq(1);
    let error = replay_one(&*store, Replay::new(record)).await.unwrap_err();
    assert!(matches!(error, ReplayError::AggregateMismatch { .. }), "{error:?}");
    // Its id is taken by the other session.
    let mut record = event.to_log_record().unwrap();
    record.durable.seq = Seq(2);
    let error = replay_one(&*store, Replay::new(record)).await.unwrap_err();
    assert!(matches!(error, ReplayError::Append(AppendError::EventIdConflict { .. })), "{error:?}");
    assert_eq!((log(&*store, &a).await.len(), log(&*store, &b).await.len()), (2, 1));
}

async fn an_unknown_type_is_refused(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    for (kind, version) in [("session.next.invented", 1), ("session.next.renamed", 9)] {
        let mut record = put(&*store, renamed(&a, "x")).await.unwrap().to_log_record().unwrap();
        record.kind = kind.to_owned();
        record.durable.version = version;
        record.durable.seq = Seq(record.durable.seq.0 + 1);
        let error = replay_one(&*store, Replay::new(record)).await.unwrap_err();
        assert!(matches!(error, ReplayError::Decode(_)), "{error:?}");
    }
    // A position among the contract's events that the log does not give.
    let mut record = put(&*store, renamed(&a, "x")).await.unwrap().to_log_record().unwrap();
    record.durable.seq = Seq(record.durable.seq.0 + 1);
    record.id = abide_schema::EventId::from_trusted("evt_new");
    record.contract_seq = Some(Seq(3));
    let error = replay_one(&*store, Replay::new(record)).await.unwrap_err();
    assert!(matches!(error, ReplayError::Diverged { .. }), "{error:?}");
    sound(store.verify(&a).await);
}

async fn a_log_has_one_replayer(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let exported = export(&*store, &a).await;
    let replay = |index: usize, owner: &str, strict| Replay {
        claim: Some(ReplayClaim { owner: owner.to_owned(), strict }),
        ..Replay::new(records_from(&exported).remove(index))
    };
    // Without owner, an exact replay claims.
    assert_eq!(replay_one(&*store, replay(0, "one", false)).await.unwrap(), ReplayOutcome::Known);
    assert_eq!(replay_one(&*store, replay(1, "two", false)).await.unwrap(), ReplayOutcome::Ignored);
    let error = replay_one(&*store, replay(1, "two", true)).await.unwrap_err();
    assert!(matches!(error, ReplayError::OwnedElsewhere { ref owner, .. } if owner == "one"), "{error:?}");
    assert_eq!(replay_one(&*store, replay(1, "one", true)).await.unwrap(), ReplayOutcome::Known);
    // Ordinary appends do not care.
    store.append(one(renamed(&a, "x"))).await.unwrap();
    empty(&*store, &a).await;
    assert_eq!(replay_one(&*store, replay(0, "two", true)).await.unwrap(), ReplayOutcome::Accepted);
}

async fn accepted_records_are_published(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let exported = export(&*store, &a).await;
    empty(&*store, &a).await;
    let mut bus = store.subscribe();
    let mut watch = store.watch(&a);
    for (index, record) in records_from(&exported).into_iter().enumerate() {
        let replay = Replay { publish: index % 2 == 0, ..Replay::new(record) };
        replay_one(&*store, replay).await.unwrap();
    }
    let mut told = Vec::new();
    while let Some(Ok(BusEvent::Stored(event))) = bus.try_next() {
        told.push(event.seq.0);
    }
    assert_eq!(told, (0..29).filter(|seq| seq % 2 == 0).collect::<Vec<_>>());
    // The watch follows in any case.
    assert!(watch.changed().await);
    assert_eq!(watch.latest().map(|head| head.seq), Some(Seq(28)));
    let nothing = replay_one(&*store, Replay { publish: true, ..Replay::new(records_from(&exported).remove(0)) }).await;
    assert_eq!(nothing.unwrap(), ReplayOutcome::Known);
    assert!(bus.try_next().is_none());
    let missing: Result<_, StoreError> = store.session(&ses("none")).await;
    assert_eq!(missing.unwrap(), None);
}
