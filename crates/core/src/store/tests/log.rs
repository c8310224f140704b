//! Append, idempotency, conditions, reading, the bus (scenarios S01 to S10, S20, S23 to S25, S29, S30, S33, S36).

use std::sync::Arc;

use abide_schema::event::{InboxKind, Visibility};
use abide_schema::live::{BecameIdle, LiveEvent};
use abide_schema::{EventId, OwnerId, Seq, SessionId};

use super::build::{
    admitted, created, deleted, enqueued, execution_succeeded, log, one, prompted, put, renamed, ses, session, sound,
    step_ended, step_started, turn,
};
use super::{Disk, suite};
use crate::store::{
    AppendError, BUS_CAPACITY, Batch, BusEvent, Expect, Guard, Head, Hook, Item, SeqRange, Store, StoreError, View,
};

suite![
    sequences_are_dense_and_independent,
    ids_sort_in_commit_order,
    a_failed_event_undoes_its_batch,
    a_failed_hook_undoes_its_batch,
    an_id_makes_an_append_idempotent,
    an_id_is_taken_once,
    conditions_are_checked,
    a_stale_fence_writes_nothing,
    a_batch_is_of_one_session,
    subscribers_see_what_is_committed,
    a_slow_subscriber_ends_alone,
    ephemeral_events_come_right_before_their_event_or_not_at_all,
    pages_have_ends,
    contract_positions_leave_no_gap,
    a_page_sees_what_came_between,
    a_deleted_session_stays_deleted,
    removal_forgets_a_session,
    a_cost_that_is_no_number_is_refused,
    one_compaction_waits,
    many_writers_at_once,
];

async fn sequences_are_dense_and_independent(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    for name in ["x", "y"] {
        put(&*store, admitted(&a, &format!("a{name}"))).await.unwrap();
        put(&*store, admitted(&b, &format!("b{name}"))).await.unwrap();
    }
    for session in [&a, &b] {
        let seqs: Vec<u64> = log(&*store, session).await.iter().map(|event| event.seq.0).collect();
        assert_eq!(seqs, [0, 1, 2]);
        sound(store.verify(session).await);
    }
    assert_eq!(store.logs().await.unwrap(), [a, b]);
}

async fn ids_sort_in_commit_order(disk: Box<dyn Disk>) {
    let (one, two) = (disk.open(), disk.open());
    let a = session(&*one, "a").await;
    let mut last = String::new();
    for turn in 0..40 {
        let store = if turn % 3 == 0 { &two } else { &one };
        let event = put(&**store, renamed(&a, "t")).await.unwrap();
        assert!(event.id.as_str() > last.as_str(), "{} after {last}", event.id);
        event.id.as_str().clone_into(&mut last);
    }
}

async fn a_failed_event_undoes_its_batch(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let mut bus = store.subscribe();
    // The second promotion of one input fails.
    let items = vec![admitted(&a, "p").into(), prompted(&a, "p").into(), prompted(&a, "p").into()];
    let batch = Batch { hooks: vec![Hook::SetWake], ..Batch::new(a.clone(), items) };
    let error = store.append(batch).await.unwrap_err();
    assert!(matches!(error, AppendError::InputLifecycleConflict { .. }), "{error:?}");
    assert_eq!(store.head(&a).await.unwrap(), Some(Head { seq: Seq(0), contract_seq: Some(Seq(0)) }));
    assert_eq!(store.input(&super::build::msg("p")).await.unwrap(), None);
    assert_eq!(store.lease(&a).await.unwrap(), None);
    assert!(bus.try_next().is_none());
    sound(store.verify(&a).await);
    // An unrelated failure while creating is not "exists already".
    let items = vec![created(&ses("new")).into(), prompted(&ses("new"), "p").into(), prompted(&ses("new"), "p").into()];
    let error = store.append(Batch::new(ses("new"), items)).await.unwrap_err();
    assert!(matches!(error, AppendError::InputLifecycleConflict { .. }), "{error:?}");
    assert_eq!(store.session(&ses("new")).await.unwrap(), None);
    assert_eq!(store.head(&ses("new")).await.unwrap(), None);
    session(&*store, "new").await;
}

async fn a_failed_hook_undoes_its_batch(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let other = OwnerId::from_trusted("own_other");
    let acquire = |owner: &OwnerId, fence| {
        let hook = Hook::AcquireLease { owner: owner.clone(), fence, dead_owner: None };
        Batch { hooks: vec![hook], ..one(renamed(&a, "taken")) }
    };
    store.append(acquire(&other, 1)).await.unwrap();
    let before = log(&*store, &a).await;
    let error = store.append(acquire(&store.owner(), 2)).await.unwrap_err();
    assert!(matches!(error, AppendError::Busy { ref owner, .. } if *owner == other), "{error:?}");
    assert_eq!(log(&*store, &a).await, before);
    sound(store.verify(&a).await);
}

async fn an_id_makes_an_append_idempotent(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let item = || Item { id: Some(EventId::from_trusted("evt_given")), ..Item::from(renamed(&a, "t")) };
    let first = store.append(Batch::new(a.clone(), vec![item()])).await.unwrap();
    let again = store.append(Batch::new(a.clone(), vec![item(), renamed(&a, "u").into()])).await.unwrap();
    assert_eq!(again[0], first[0]);
    assert_eq!(again[1].seq, Seq(2));
    let third = store.append(Batch { expect: Expect::Head(Seq(2)), ..Batch::new(a.clone(), vec![item()]) }).await;
    assert_eq!(third.unwrap(), first);
    assert_eq!(log(&*store, &a).await.len(), 3);
}

async fn an_id_is_taken_once(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let item = |session: &SessionId, title: &str| Item {
        id: Some(EventId::from_trusted("evt_given")),
        ..Item::from(renamed(session, title))
    };
    let twice = store.append(Batch::new(a.clone(), vec![item(&a, "t"), item(&a, "t")])).await;
    assert!(matches!(twice, Err(AppendError::EventIdConflict { .. })), "{twice:?}");
    store.append(Batch::new(a.clone(), vec![item(&a, "t")])).await.unwrap();
    for (session, title) in [(&a, "other"), (&b, "t")] {
        let error = store.append(Batch::new(session.clone(), vec![item(session, title)])).await.unwrap_err();
        assert!(matches!(error, AppendError::EventIdConflict { .. }), "{error:?}");
    }
    assert_eq!(log(&*store, &b).await.len(), 1);
}

async fn conditions_are_checked(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let title = store.session(&a).await.unwrap().unwrap().title;
    let with = |expect, guard| Batch { expect, guard, ..one(renamed(&a, "new")) };
    for expect in [Expect::Empty, Expect::Head(Seq(1))] {
        let error = store.append(with(expect, None)).await.unwrap_err();
        assert!(matches!(error, AppendError::SequenceConflict { actual: Some(Seq(0)), .. }), "{error:?}");
    }
    // Two that race for the same condition: one wins.
    let guard = || Some(Guard::TitleIs(title.clone()));
    let (one, two) = tokio::join!(store.append(with(Expect::Any, guard())), store.append(with(Expect::Any, guard())));
    assert_eq!([one.is_ok(), two.is_ok()].iter().filter(|ok| **ok).count(), 1);
    let lost = one.err().or(two.err()).unwrap();
    assert!(matches!(lost, AppendError::GuardFailed), "{lost:?}");
    let head = || Expect::Head(Seq(1));
    let (one, two) = tokio::join!(store.append(with(head(), None)), store.append(with(head(), None)));
    assert_eq!([one.is_ok(), two.is_ok()].iter().filter(|ok| **ok).count(), 1);
    store.append(with(Expect::Any, Some(Guard::RevertIs(None)))).await.unwrap();
    let missing = put(&*store, renamed(&ses("none"), "x")).await.unwrap_err();
    assert!(matches!(missing, AppendError::SessionMissing(_)), "{missing:?}");
    let twice = put(&*store, created(&a)).await.unwrap_err();
    assert!(matches!(twice, AppendError::SessionAlreadyProjected(_)), "{twice:?}");
}

async fn a_stale_fence_writes_nothing(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let acquire = Hook::AcquireLease { owner: store.owner(), fence: 1, dead_owner: None };
    store.append(Batch { hooks: vec![acquire], ..one(renamed(&a, "owned")) }).await.unwrap();
    store.append(Batch { fence: Some(1), ..one(renamed(&a, "mine")) }).await.unwrap();
    let taken = store.take_over(&store.lease(&a).await.unwrap().unwrap()).await.unwrap().unwrap();
    assert_eq!((taken.fence, taken.attempts), (2, 1));
    let error = store.append(Batch { fence: Some(1), ..one(renamed(&a, "stale")) }).await.unwrap_err();
    assert!(matches!(error, AppendError::Fenced { expected: 1, actual: 2, .. }), "{error:?}");
    put(&*store, admitted(&a, "p")).await.unwrap();
    assert_eq!(store.session(&a).await.unwrap().unwrap().title, "mine");
}

async fn a_batch_is_of_one_session(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let items = vec![renamed(&a, "x").into(), renamed(&b, "x").into()];
    let error = store.append(Batch::new(a.clone(), items)).await.unwrap_err();
    assert!(matches!(error, AppendError::AggregateMismatch { .. }), "{error:?}");
    let error = store.append(Batch::new(a.clone(), Vec::new())).await.unwrap_err();
    assert!(matches!(error, AppendError::Storage(StoreError::Conflict(_))), "{error:?}");
    assert_eq!((log(&*store, &a).await.len(), log(&*store, &b).await.len()), (1, 1));
}

async fn subscribers_see_what_is_committed(disk: Box<dyn Disk>) {
    let store = disk.open();
    let mut bus = store.subscribe();
    let other = store.subscribe();
    let a = ses("a");
    let live = LiveEvent {
        id: EventId::from_trusted("evt_live"),
        location: None,
        data: BecameIdle { session_id: a.clone() }.into(),
    };
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn({
        let (store, a) = (Arc::clone(&store), a.clone());
        async move {
            session(&*store, "a").await;
            let items = turn(&a, "1").into_iter().map(Item::from).collect();
            store.append(Batch::new(a.clone(), items)).await.unwrap();
            store.publish_live(live);
        }
    });
    for seq in 0..15 {
        let Some(Ok(BusEvent::Stored(event))) = bus.next().await else { panic!("event {seq} is missing") };
        assert_eq!(event.seq, Seq(seq));
        // Committed and projected before anybody hears of it.
        let page = store.read(&a, SeqRange::default(), View::Log, 100).await.unwrap();
        assert_eq!(page.events.iter().find(|stored| stored.id == event.id), Some(&event));
        assert!(store.session(&a).await.unwrap().is_some());
    }
    let Some(Ok(BusEvent::Live(event))) = bus.next().await else { panic!("the live event is missing") };
    assert_eq!(event.id.as_str(), "evt_live");
    writer.join_next().await.unwrap().unwrap();
    assert_eq!(log(&*store, &a).await.len(), 15);
    drop(other);
}

async fn ephemeral_events_come_right_before_their_event_or_not_at_all(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let mut bus = store.subscribe();
    let live = |id: &str| LiveEvent {
        id: EventId::from_trusted(id),
        location: None,
        data: BecameIdle { session_id: a.clone() }.into(),
    };
    let item = |title: &str, ids: &[&str]| Item {
        live: ids.iter().map(|id| live(id)).collect(),
        ..Item::from(renamed(&a, title))
    };
    let refused = Batch { expect: Expect::Empty, ..Batch::new(a.clone(), vec![item("no", &["evt_never"])]) };
    store.append(refused).await.unwrap_err();
    store.append(Batch::new(a.clone(), vec![item("one", &[]), item("two", &["evt_b", "evt_c"])])).await.unwrap();
    let mut told = Vec::new();
    while let Some(Ok(event)) = bus.try_next() {
        told.push(match event {
            BusEvent::Stored(event) => event.seq.0.to_string(),
            BusEvent::Live(event) => event.id.to_string(),
        });
    }
    assert_eq!(told, ["1", "evt_b", "evt_c", "2"]);
}

async fn a_slow_subscriber_ends_alone(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let (mut slow, mut fast) = (store.subscribe(), store.subscribe());
    for number in 0..=BUS_CAPACITY {
        store.publish_live(LiveEvent {
            id: EventId::from_trusted(format!("evt_{number}")),
            location: None,
            data: BecameIdle { session_id: a.clone() }.into(),
        });
        assert!(matches!(fast.try_next(), Some(Ok(_))));
    }
    assert!(matches!(slow.next().await, Some(Err(_))));
    put(&*store, renamed(&a, "on")).await.unwrap();
    assert!(matches!(fast.next().await, Some(Ok(BusEvent::Stored(_)))));
}

async fn pages_have_ends(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    for number in 1..6 {
        put(&*store, renamed(&a, &number.to_string())).await.unwrap();
    }
    let page = |after: Option<u64>, through: Option<u64>, limit| {
        let (store, a) = (Arc::clone(&store), a.clone());
        async move {
            let range = SeqRange { after: after.map(Seq), through: through.map(Seq) };
            let page = store.read(&a, range, View::Log, limit).await.unwrap();
            (page.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), page.has_more, page.cursor)
        }
    };
    assert_eq!(page(None, None, 6).await, (vec![0, 1, 2, 3, 4, 5], false, Some(Seq(5))));
    assert_eq!(page(None, None, 5).await, (vec![0, 1, 2, 3, 4], true, Some(Seq(4))));
    assert_eq!(page(Some(4), None, 5).await, (vec![5], false, Some(Seq(5))));
    assert_eq!(page(Some(1), Some(3), 5).await, (vec![2, 3], false, Some(Seq(3))));
    assert_eq!(page(Some(5), None, 5).await, (vec![], false, Some(Seq(5))));
    let empty = store.read(&ses("none"), SeqRange::default(), View::Log, 5).await.unwrap();
    assert!(empty.events.is_empty() && !empty.has_more && empty.cursor.is_none());
}

async fn contract_positions_leave_no_gap(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let items: Vec<Item> = turn(&a, "1").into_iter().map(Item::from).collect();
    store.append(Batch::new(a.clone(), items)).await.unwrap();
    put(&*store, renamed(&a, "not in the contract")).await.unwrap();
    let read = |view, after| {
        let (store, a) = (Arc::clone(&store), a.clone());
        async move { store.read(&a, SeqRange { after, through: None }, view, 100).await.unwrap().events }
    };
    let all = read(View::Log, None).await;
    let counted: Vec<u64> = all.iter().filter_map(|event| event.contract_seq).map(|seq| seq.0).collect();
    assert_eq!(counted, (0..14).collect::<Vec<_>>());
    let contract = read(View::Contract, None).await;
    assert!(contract.iter().all(|event| event.data.def().visibility == Visibility::Contract));
    assert_eq!(contract.len(), 13);
    assert_eq!(read(View::Contract, Some(Seq(12))).await.len(), 1);
    let public = read(View::Public, None).await;
    assert_eq!(public.len(), all.len());
    assert_eq!(store.head(&a).await.unwrap(), Some(Head { seq: Seq(15), contract_seq: Some(Seq(13)) }));
    // The first row alone is none of the view; the page says that it was read.
    let page = store.read(&a, SeqRange { after: None, through: Some(Seq(0)) }, View::Contract, 5).await.unwrap();
    assert_eq!((page.events.len(), page.cursor), (0, Some(Seq(0))));
}

async fn a_page_sees_what_came_between(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    put(&*store, renamed(&a, "one")).await.unwrap();
    let first = store.read(&a, SeqRange::default(), View::Log, 1).await.unwrap();
    put(&*store, renamed(&a, "two")).await.unwrap();
    let range = SeqRange { after: first.cursor, through: None };
    let second = store.read(&a, range, View::Log, 10).await.unwrap();
    assert_eq!(second.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [1, 2]);
}

async fn a_deleted_session_stays_deleted(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let items = turn(&a, "1").into_iter().map(Item::from).collect();
    store.append(Batch { hooks: vec![Hook::SetWake], ..Batch::new(a.clone(), items) }).await.unwrap();
    put(&*store, deleted(&a)).await.unwrap();
    assert_eq!(store.session(&a).await.unwrap(), None);
    assert_eq!(store.messages(&a, crate::store::MessageQuery::default()).await.unwrap(), []);
    assert_eq!(store.lease(&a).await.unwrap(), None);
    assert_eq!(store.input(&super::build::msg("p1")).await.unwrap(), None);
    let again = put(&*store, created(&a)).await.unwrap_err();
    assert!(matches!(again, AppendError::SessionAlreadyProjected(_)), "{again:?}");
    for data in [step_started(&a, "x").into(), execution_succeeded(&a).into(), deleted(&a).into()] {
        let error = put(&*store, abide_schema::event::EventData::clone(&data)).await.unwrap_err();
        assert!(matches!(error, AppendError::SessionMissing(_)), "{error:?}");
    }
    sound(store.verify(&a).await);
    store.rebuild(&a).await.unwrap();
    sound(store.verify(&a).await);
}

async fn removal_forgets_a_session(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let items = turn(&a, "1").into_iter().map(Item::from).collect();
    store.append(Batch { hooks: vec![Hook::SetWake], ..Batch::new(a.clone(), items) }).await.unwrap();
    store.remove(&a).await.unwrap();
    assert_eq!(store.head(&a).await.unwrap(), None);
    assert_eq!(log(&*store, &a).await, []);
    assert_eq!(store.lease(&a).await.unwrap(), None);
    assert_eq!(store.logs().await.unwrap(), [b]);
    // As if it had never been.
    session(&*store, "a").await;
    put(&*store, admitted(&a, "p1")).await.unwrap();
    sound(store.verify(&a).await);
}

async fn a_cost_that_is_no_number_is_refused(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    put(&*store, step_started(&a, "s")).await.unwrap();
    for cost in [f64::NAN, f64::INFINITY] {
        let error = put(&*store, step_ended(&a, "s", cost)).await.unwrap_err();
        assert!(matches!(error, AppendError::Projection(_)), "{error:?}");
    }
    put(&*store, step_ended(&a, "s", 1e-300)).await.unwrap();
    sound(store.verify(&a).await);
}

async fn one_compaction_waits(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    put(&*store, enqueued(&a, "one", InboxKind::Compaction)).await.unwrap();
    let error = put(&*store, enqueued(&a, "two", InboxKind::Compaction)).await.unwrap_err();
    assert!(matches!(error, AppendError::InputLifecycleConflict { .. }), "{error:?}");
    put(&*store, enqueued(&a, "three", InboxKind::Synthetic)).await.unwrap();
    sound(store.verify(&a).await);
}

async fn many_writers_at_once(disk: Box<dyn Disk>) {
    let store = disk.open();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store: Arc<dyn Store> = Arc::clone(&store);
        tasks.spawn(async move {
            let a = session(&*store, &format!("s{number}")).await;
            for tag in 0..4 {
                for data in turn(&a, &format!("{number}_{tag}")) {
                    put(&*store, data).await.unwrap();
                }
                // A loser in the same group does not disturb the others.
                assert!(put(&*store, created(&a)).await.is_err());
            }
            a
        });
    }
    while let Some(done) = tasks.join_next().await {
        let a = done.unwrap();
        assert_eq!(store.head(&a).await.unwrap().unwrap().seq, Seq(56));
        sound(store.verify(&a).await);
    }
}
