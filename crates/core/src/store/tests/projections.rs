//! What the projections show (scenarios S31 to S37).

use abide_schema::event::{InboxKind, ShellStarted};
use abide_schema::location::LocationRef;
use abide_schema::{ProjectId, SessionId, Timestamp};

use super::build::{
    admitted, compaction_ended, compaction_started, created, deleted, enqueued, execution_succeeded, input_started,
    msg, prompted, put, renamed, ses, session, sound, step_ended, step_started, text_ended, text_started, turn,
};
use super::{Disk, suite};
use crate::store::{AppendError, Batch, Item, MessageAnchor, MessageQuery, Order, SessionAnchor, SessionQuery, Store};

suite![
    one_of_two_creations_wins,
    sessions_are_listed_in_pages,
    sessions_are_filtered,
    messages_are_paged_both_ways,
    order_follows_the_log,
    history_starts_at_the_checkpoint,
    open_state_is_found,
    inputs_wait_in_order,
    a_message_is_of_any_session,
    children_outlive_their_parent,
];

async fn one_of_two_creations_wins(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = ses("a");
    let (one, two) = tokio::join!(put(&*store, created(&a)), put(&*store, created(&a)));
    let lost = match (one, two) {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(lost, AppendError::SessionAlreadyProjected(id) if id == a));
    put(&*store, renamed(&a, "now")).await.unwrap();
    let info = store.session(&a).await.unwrap().unwrap();
    assert_eq!((info.title.as_str(), info.time.created), ("now", Timestamp(1)));
}

async fn some_sessions(store: &dyn Store) -> Vec<SessionId> {
    // Two share a time; ids do not follow it.
    let mut out = Vec::new();
    for (name, time) in [("c", 10), ("a", 20), ("b", 20), ("d", 30), ("e", 40)] {
        let id = ses(name);
        put(store, abide_schema::event::SessionCreated { timestamp: Timestamp(time), ..created(&id) }).await.unwrap();
        out.push(id);
    }
    out
}

async fn sessions_are_listed_in_pages(disk: Box<dyn Disk>) {
    let store = disk.open();
    let ids = some_sessions(&*store).await;
    for order in [Order::Asc, Order::Desc] {
        let mut expected = ids.clone();
        if order == Order::Desc {
            expected.reverse();
        }
        let page = |anchor: Option<(usize, bool)>| {
            let (store, expected) = (&store, &expected);
            async move {
                let times = [10, 20, 20, 30, 40];
                let anchor = anchor.map(|(index, backwards)| {
                    let id = expected[index].clone();
                    let time = times[ids_index(&id)];
                    SessionAnchor { time: Timestamp(time), id, backwards }
                });
                let query = SessionQuery { order, limit: 2, anchor, ..SessionQuery::default() };
                let found = store.sessions(query).await.unwrap();
                found.into_iter().map(|info| info.id).collect::<Vec<_>>()
            }
        };
        assert_eq!(page(None).await, expected[..2]);
        assert_eq!(page(Some((1, false))).await, expected[2..4]);
        assert_eq!(page(Some((3, false))).await, expected[4..]);
        assert_eq!(page(Some((4, true))).await, expected[2..4]);
        assert_eq!(page(Some((2, true))).await, expected[..2]);
        assert_eq!(page(Some((0, true))).await, []);
    }
}

fn ids_index(id: &SessionId) -> usize {
    ["ses_c", "ses_a", "ses_b", "ses_d", "ses_e"].iter().position(|name| *name == id.as_str()).unwrap()
}

/// An id without its prefix.
fn bare(id: &str) -> String {
    id.split_once('_').unwrap().1.to_owned()
}

async fn sessions_are_filtered(disk: Box<dyn Disk>) {
    let store = disk.open();
    let base = |name: &str| created(&ses(name));
    let location = |directory: &str| LocationRef::new(directory);
    for data in [
        base("plain"),
        abide_schema::event::SessionCreated { title: "Größe der STRASSE".to_owned(), ..base("title") },
        abide_schema::event::SessionCreated { location: location("/other"), ..base("elsewhere") },
        abide_schema::event::SessionCreated { project_id: ProjectId::new("p"), ..base("project") },
        abide_schema::event::SessionCreated { subpath: Some("src/lib".to_owned()), ..base("below") },
        abide_schema::event::SessionCreated { subpath: Some("srcs".to_owned()), ..base("beside") },
        abide_schema::event::SessionCreated { parent_id: Some(ses("plain")), ..base("child") },
    ] {
        put(&*store, data).await.unwrap();
    }
    let check = |query: SessionQuery, expected: &'static [&'static str]| {
        let store = &store;
        async move {
            let query = SessionQuery { limit: 50, ..query };
            let mut found: Vec<_> =
                store.sessions(query).await.unwrap().into_iter().map(|info| bare(info.id.as_str())).collect();
            found.sort();
            assert_eq!(found, expected);
        }
    };
    let query = SessionQuery::default;
    check(SessionQuery { directory: Some("/other".to_owned()), ..query() }, &["elsewhere"]).await;
    check(SessionQuery { project: Some(ProjectId::new("p")), ..query() }, &["project"]).await;
    check(SessionQuery { subpath: Some("src".to_owned()), ..query() }, &["below"]).await;
    check(SessionQuery { search: Some("grösse".to_owned()), ..query() }, &[]).await;
    check(SessionQuery { search: Some("GRÖßE".to_owned()), ..query() }, &["title"]).await;
    check(SessionQuery { search: Some("%".to_owned()), ..query() }, &[]).await;
    check(SessionQuery { parent: Some(Some(ses("plain"))), ..query() }, &["child"]).await;
    let roots = &["below", "beside", "elsewhere", "plain", "project", "title"];
    check(SessionQuery { parent: Some(None), ..query() }, roots).await;
    check(SessionQuery { workspace: Some("wrk_x".to_owned()), ..query() }, &[]).await;
    let mixed = SessionQuery { directory: Some("/work".to_owned()), subpath: Some("srcs".to_owned()), ..query() };
    check(mixed, &["beside"]).await;
}

async fn messages_are_paged_both_ways(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let items = ["1", "2", "3"].iter().flat_map(|tag| turn(&a, tag)).map(Item::from).collect();
    store.append(Batch::new(a.clone(), items)).await.unwrap();
    let all = store.messages(&a, MessageQuery { order: Order::Asc, ..MessageQuery::default() }).await.unwrap();
    let kinds: Vec<_> = all.iter().map(|row| row.message.kind()).collect();
    assert_eq!(kinds, ["user", "assistant", "compaction", "idle"].repeat(3));
    assert_eq!(all[1].message.as_assistant().unwrap().content.len(), 3);
    let mut forward = all.clone();
    for order in [Order::Asc, Order::Desc] {
        let page = |anchor: Option<(usize, bool)>, limit| {
            let anchor =
                anchor.map(|(index, backwards)| MessageAnchor { position: forward[index].position, backwards });
            let query = MessageQuery { order, limit: Some(limit), anchor, ..MessageQuery::default() };
            store.messages(&a, query)
        };
        assert_eq!(page(None, 5).await.unwrap(), forward[..5]);
        assert_eq!(page(Some((4, false)), 5).await.unwrap(), forward[5..10]);
        assert_eq!(page(Some((9, false)), 5).await.unwrap(), forward[10..]);
        assert_eq!(page(Some((10, true)), 5).await.unwrap(), forward[5..10]);
        assert_eq!(page(Some((3, true)), 5).await.unwrap(), forward[..3]);
        forward.reverse();
    }
    let from = MessageQuery { order: Order::Asc, from: Some(all[5].position), ..MessageQuery::default() };
    assert_eq!(store.messages(&a, from).await.unwrap(), all[5..]);
    put(&*store, compaction_started(&a, "open")).await.unwrap();
    let contract = MessageQuery { order: Order::Asc, contract_only: true, ..MessageQuery::default() };
    let kinds: Vec<_> = store.messages(&a, contract).await.unwrap().iter().map(|row| row.message.kind()).collect();
    assert_eq!(kinds, ["user", "assistant", "compaction"].repeat(3));
    assert_eq!(store.messages(&ses("none"), MessageQuery::default()).await.unwrap(), []);
}

async fn order_follows_the_log(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    for (id, time) in [("z", 90), ("m", 10), ("a", 50)] {
        put(&*store, admitted(&a, id)).await.unwrap();
        put(&*store, abide_schema::event::Prompted { timestamp: Timestamp(time), ..prompted(&a, id) }).await.unwrap();
    }
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    let ids: Vec<_> = store.messages(&a, query).await.unwrap().iter().map(|row| row.message.id().clone()).collect();
    assert_eq!(ids, [msg("z"), msg("m"), msg("a")]);
}

async fn history_starts_at_the_checkpoint(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    assert_eq!(store.history_start(&a).await.unwrap(), None);
    put(&*store, compaction_started(&a, "one")).await.unwrap();
    assert_eq!(store.history_start(&a).await.unwrap(), None);
    put(&*store, compaction_ended(&a, "one")).await.unwrap();
    let first = store.history_start(&a).await.unwrap().unwrap();
    assert_eq!(first.seq.0, 1);
    put(&*store, compaction_started(&a, "two")).await.unwrap();
    assert_eq!(store.history_start(&a).await.unwrap(), Some(first));
    let failed = abide_schema::event::CompactionFailed {
        timestamp: Timestamp(9),
        session_id: a.clone(),
        message_id: msg("two"),
        reason: abide_schema::event::CompactionReason::Auto,
        error: abide_schema::error::SessionError::new(abide_schema::error::ErrorCode::CompactionFailed, "no"),
        cost: None,
        tokens: None,
    };
    put(&*store, failed).await.unwrap();
    assert_eq!(store.history_start(&a).await.unwrap(), Some(first));
    sound(store.verify(&a).await);
}

async fn open_state_is_found(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let open = || {
        let (store, a) = (&store, &a);
        async move {
            let rows = store.open_messages(a).await.unwrap();
            rows.iter().map(|row| bare(row.message.id().as_str())).collect::<Vec<_>>()
        }
    };
    put(&*store, step_started(&b, "other")).await.unwrap();
    assert_eq!(open().await, Vec::<String>::new());
    put(&*store, step_started(&a, "s")).await.unwrap();
    put(&*store, text_started(&a, "s", "t")).await.unwrap();
    put(&*store, input_started(&a, "s", "c")).await.unwrap();
    let shell = ShellStarted {
        timestamp: Timestamp(5),
        session_id: a.clone(),
        message_id: msg("shell"),
        call_id: "sh".into(),
        command: "ls".to_owned(),
        shell: None,
    };
    put(&*store, shell).await.unwrap();
    put(&*store, compaction_started(&a, "sum")).await.unwrap();
    assert_eq!(open().await, ["s", "shell", "sum"]);
    // The step ends, its items are still open.
    put(&*store, step_ended(&a, "s", 0.0)).await.unwrap();
    put(&*store, compaction_ended(&a, "sum")).await.unwrap();
    assert_eq!(open().await, ["s", "shell"]);
    assert_eq!(store.open_messages(&a).await.unwrap()[0].message.as_assistant().unwrap().content.len(), 2);
    put(&*store, text_ended(&a, "s", "t", "x")).await.unwrap();
    put(&*store, super::build::failed(&a, "s", "c")).await.unwrap();
    assert_eq!(open().await, ["shell"]);
}

async fn inputs_wait_in_order(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    put(&*store, admitted(&a, "z")).await.unwrap();
    put(&*store, enqueued(&a, "m", InboxKind::Synthetic)).await.unwrap();
    put(&*store, admitted(&a, "b")).await.unwrap();
    put(&*store, prompted(&a, "z")).await.unwrap();
    let ids: Vec<_> = store.pending_inputs(&a).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, [msg("m"), msg("b")]);
    let promoted = store.input(&msg("z")).await.unwrap().unwrap();
    assert_eq!((promoted.admitted_seq.0, promoted.promoted_seq.map(|seq| seq.0)), (1, Some(4)));
    assert_eq!(
        (promoted.admitted_contract_seq.map(|seq| seq.0), promoted.promoted_contract_seq.map(|seq| seq.0)),
        (Some(1), Some(3))
    );
}

async fn a_message_is_of_any_session(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    put(&*store, admitted(&a, "p")).await.unwrap();
    put(&*store, prompted(&a, "p")).await.unwrap();
    assert_eq!(store.message(&msg("p")).await.unwrap().unwrap().session_id, a);
    // Neither as an input nor as a step of another session.
    assert!(matches!(put(&*store, admitted(&b, "p")).await, Err(AppendError::InputLifecycleConflict { .. })));
    assert!(matches!(put(&*store, step_started(&b, "p")).await, Err(AppendError::Projection(_))));
    put(&*store, step_started(&a, "s")).await.unwrap();
    assert!(matches!(put(&*store, step_started(&b, "s")).await, Err(AppendError::Projection(_))));
    // Nor may it touch the other's items.
    put(&*store, text_started(&a, "s", "t")).await.unwrap();
    put(&*store, text_ended(&b, "s", "t", "stolen")).await.unwrap();
    put(&*store, text_started(&b, "s", "u")).await.unwrap();
    for session in [&a, &b] {
        sound(store.verify(session).await);
    }
    assert_eq!(store.open_messages(&a).await.unwrap()[0].message.as_assistant().unwrap().content.len(), 1);
}

async fn children_outlive_their_parent(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    for name in ["x", "y"] {
        let data = abide_schema::event::SessionCreated { parent_id: Some(a.clone()), ..created(&ses(name)) };
        put(&*store, data).await.unwrap();
    }
    assert_eq!(store.children(&a).await.unwrap(), [ses("x"), ses("y")]);
    put(&*store, deleted(&ses("x"))).await.unwrap();
    assert_eq!(store.children(&a).await.unwrap(), [ses("y")]);
    put(&*store, deleted(&a)).await.unwrap();
    // Each is an aggregate of its own: the engine deletes them one by one.
    assert_eq!(store.children(&a).await.unwrap(), [ses("y")]);
    put(&*store, execution_succeeded(&ses("y"))).await.unwrap();
}
