//! Leases, journals, small values (spec/session.md 9.2, 9.3, 12.1).

use abide_schema::event::InboxKind;
use abide_schema::message::ItemKind;
use abide_schema::permission::SavedPermission;
use abide_schema::todo::Todo;
use abide_schema::{MutationId, OwnerId, ProjectId, SavedPermissionId, Seq, SessionId, Timestamp};

use super::build::{admitted, created, enqueued, msg, one, prompted, put, renamed, ses, session};
use super::{Disk, suite};
use crate::store::{
    AppendError, AttemptState, Batch, CallKey, Draft, FileOp, Hook, Lease, Mutation, MutationFile, MutationState,
    Signal, StepAttempt, Store, StoreError, ToolProcess,
};

suite![
    a_lease_is_taken_and_released,
    a_dead_owner_is_replaced_once,
    attempts_are_counted_until_they_are_reset,
    owed_work_is_found,
    signals_are_left,
    attempts_and_drafts_come_and_go,
    a_call_has_one_mutation,
    a_stale_owner_moves_no_mutation,
    processes_come_and_go,
    values_are_kept,
    permissions_are_saved_once,
];

async fn with(store: &dyn Store, session: &SessionId, hooks: Vec<Hook>) -> Result<(), AppendError> {
    store.append(Batch { hooks, ..one(renamed(session, "x")) }).await.map(|_| ())
}

fn acquire(owner: OwnerId, fence: u64, dead_owner: Option<OwnerId>) -> Vec<Hook> {
    vec![Hook::AcquireLease { owner, fence, dead_owner }]
}

async fn a_lease_is_taken_and_released(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, me) = (session(&*store, "a").await, store.owner());
    with(&*store, &a, acquire(me.clone(), 1, None)).await.unwrap();
    // A fence counts up by one.
    let error = with(&*store, &a, acquire(me.clone(), 3, None)).await.unwrap_err();
    assert!(matches!(error, AppendError::Fenced { expected: 2, actual: 1, .. }), "{error:?}");
    with(&*store, &a, acquire(me.clone(), 2, None)).await.unwrap();
    let other = OwnerId::from_trusted("own_other");
    let error = with(&*store, &a, acquire(other.clone(), 3, None)).await.unwrap_err();
    assert!(matches!(error, AppendError::Busy { .. }), "{error:?}");
    with(&*store, &a, acquire(other.clone(), 3, Some(me.clone()))).await.unwrap();
    with(&*store, &a, vec![Hook::ReleaseLease { done: Some(Seq(2)) }]).await.unwrap();
    let lease = Lease {
        session: a.clone(),
        owner: None,
        fence: 3,
        attempts: 0,
        wake_seq: None,
        done_seq: Some(Seq(2)),
        interrupt_seq: None,
    };
    assert_eq!(store.lease(&a).await.unwrap(), Some(lease.clone()));
    // The place of this batch's last event, and never back.
    with(&*store, &a, vec![Hook::ReleaseLease { done: None }]).await.unwrap();
    with(&*store, &a, vec![Hook::ReleaseLease { done: Some(Seq(0)) }]).await.unwrap();
    assert_eq!(store.lease(&a).await.unwrap(), Some(Lease { done_seq: Some(Seq(5)), ..lease }));
}

async fn a_dead_owner_is_replaced_once(disk: Box<dyn Disk>) {
    let (here, there, third) = (disk.open(), disk.open(), disk.open());
    let a = session(&*here, "a").await;
    let dead = there.owner();
    with(&*there, &a, acquire(dead.clone(), 1, None)).await.unwrap();
    assert!(here.is_alive(&dead).await.unwrap() && here.is_alive(&here.owner()).await.unwrap());
    assert_eq!(here.orphans().await.unwrap(), []);
    drop(there);
    assert!(!here.is_alive(&dead).await.unwrap());
    let orphans = here.orphans().await.unwrap();
    assert_eq!(orphans.iter().map(|lease| &lease.session).collect::<Vec<_>>(), [&a]);
    let (one, two) = tokio::join!(here.take_over(&orphans[0]), third.take_over(&orphans[0]));
    let won = one.unwrap().or(two.unwrap()).unwrap();
    assert_eq!((won.fence, won.attempts), (2, 1));
    assert_eq!(here.take_over(&orphans[0]).await.unwrap(), None);
    assert_eq!(here.lease(&a).await.unwrap(), Some(won));
    assert_eq!(here.orphans().await.unwrap(), []);
    // An owner that nobody ever saw is dead.
    assert!(!here.is_alive(&OwnerId::from_trusted("own_never")).await.unwrap());
}

async fn attempts_are_counted_until_they_are_reset(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    with(&*store, &a, acquire(store.owner(), 1, None)).await.unwrap();
    for attempts in 1..=2 {
        let lease = store.lease(&a).await.unwrap().unwrap();
        assert_eq!(store.take_over(&lease).await.unwrap().unwrap().attempts, attempts);
    }
    let before = store.lease(&a).await.unwrap().unwrap();
    with(&*store, &a, vec![Hook::ResetAttempts]).await.unwrap();
    // Nothing else of the lease changes.
    assert_eq!(store.lease(&a).await.unwrap(), Some(Lease { attempts: 0, ..before }));
}

async fn owed_work_is_found(disk: Box<dyn Disk>) {
    let (store, other) = (disk.open(), disk.open());
    let (a, b, c) = (session(&*store, "a").await, session(&*store, "b").await, session(&*store, "c").await);
    let wake = |data| Batch { hooks: vec![Hook::SetWake], ..one(data) };
    store.append(wake(abide_schema::event::EventData::from(admitted(&a, "pa")))).await.unwrap();
    store.append(wake(admitted(&b, "pb").into())).await.unwrap();
    put(&*store, admitted(&c, "pc")).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), [a.clone(), b.clone()]);
    // Somebody alive has it.
    with(&*other, &b, acquire(other.owner(), 1, None)).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), std::slice::from_ref(&a));
    drop(other);
    assert_eq!(store.owed().await.unwrap(), [a.clone(), b.clone()]);
    // Promoted, or parked.
    put(&*store, prompted(&a, "pa")).await.unwrap();
    with(&*store, &b, vec![Hook::ReleaseLease { done: None }]).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), []);
    store.signal(&b, Signal::Wake).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), []);
    store.append(wake(enqueued(&b, "pb2", InboxKind::Synthetic).into())).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), [b]);
}

async fn signals_are_left(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    store.signal(&ses("none"), Signal::Wake).await.unwrap();
    assert_eq!(store.lease(&ses("none")).await.unwrap(), None);
    put(&*store, renamed(&a, "x")).await.unwrap();
    store.signal(&a, Signal::Interrupt).await.unwrap();
    put(&*store, renamed(&a, "y")).await.unwrap();
    store.signal(&a, Signal::Wake).await.unwrap();
    let lease = store.lease(&a).await.unwrap().unwrap();
    assert_eq!((lease.interrupt_seq, lease.wake_seq, lease.owner, lease.fence), (Some(Seq(1)), Some(Seq(2)), None, 0));
    // An interruption ends with the busy period that it reached, and does not reach the next.
    with(&*store, &a, acquire(store.owner(), 1, None)).await.unwrap();
    assert_eq!(store.lease(&a).await.unwrap().unwrap().interrupt_seq, None);
    store.signal(&a, Signal::Interrupt).await.unwrap();
    assert!(store.lease(&a).await.unwrap().unwrap().interrupt_seq.is_some());
    with(&*store, &a, vec![Hook::ReleaseLease { done: None }]).await.unwrap();
    assert_eq!(store.lease(&a).await.unwrap().unwrap().interrupt_seq, None);
}

async fn attempts_and_drafts_come_and_go(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let attempt =
        |state| StepAttempt { session: a.clone(), message: msg("s"), attempt: 1, state, updated: Timestamp(5) };
    store.put_attempt(attempt(AttemptState::Dispatched)).await.unwrap();
    store.put_attempt(attempt(AttemptState::Streaming)).await.unwrap();
    assert_eq!(store.attempts(&a).await.unwrap(), [attempt(AttemptState::Streaming)]);
    let draft = |message: &str, kind, item: &str, text: &str| Draft {
        session: a.clone(),
        message: msg(message),
        kind,
        item_id: item.to_owned(),
        text: text.to_owned(),
        updated: Timestamp(6),
    };
    store.put_draft(draft("s", ItemKind::Text, "0", "one")).await.unwrap();
    store.put_draft(draft("s", ItemKind::Text, "0", "one two")).await.unwrap();
    store.put_draft(draft("s", ItemKind::Reasoning, "0", "hm")).await.unwrap();
    store.put_draft(draft("t", ItemKind::Tool, "0", "{")).await.unwrap();
    let (text, reasoning, tool) = (
        draft("s", ItemKind::Text, "0", "one two"),
        draft("s", ItemKind::Reasoning, "0", "hm"),
        draft("t", ItemKind::Tool, "0", "{"),
    );
    assert_eq!(store.drafts(&a).await.unwrap(), [text, reasoning.clone(), tool.clone()]);
    assert_eq!((store.drafts(&b).await.unwrap(), store.attempts(&b).await.unwrap()), (vec![], vec![]));
    let hook = Hook::DropDraft { message: msg("s"), kind: ItemKind::Text, item_id: "0".to_owned() };
    with(&*store, &a, vec![hook]).await.unwrap();
    assert_eq!(store.drafts(&a).await.unwrap(), [reasoning, tool.clone()]);
    with(&*store, &a, vec![Hook::DropStep { message: msg("s") }]).await.unwrap();
    assert_eq!((store.drafts(&a).await.unwrap(), store.attempts(&a).await.unwrap()), (vec![tool], vec![]));
    with(&*store, &a, vec![Hook::DropOperational]).await.unwrap();
    assert_eq!(store.drafts(&a).await.unwrap(), []);
}

fn mutation(session: &SessionId, id: &str, call: Option<&str>) -> Mutation {
    let call = call.map(|call| CallKey { session: session.clone(), message: msg("s"), call: call.into() });
    let file = MutationFile {
        op: FileOp::Write,
        path: "/w/file".to_owned(),
        to_path: None,
        before_hash: Some("aa".to_owned()),
        before_mode: Some(0o644),
        after_hash: Some("bb".to_owned()),
        after_mode: Some(0o644),
        tmp_path: Some("/w/.file".to_owned()),
        made_directories: vec!["/w".to_owned()],
    };
    Mutation {
        id: MutationId::from_trusted(id),
        call,
        session: session.clone(),
        tool: "edit".to_owned(),
        state: MutationState::Planned,
        output: serde_json::json!({ "content": [] }),
        created: Timestamp(7),
        files: vec![file],
    }
}

async fn a_call_has_one_mutation(disk: Box<dyn Disk>) {
    let store = disk.open();
    let (a, b) = (session(&*store, "a").await, session(&*store, "b").await);
    let first = mutation(&a, "mut_1", Some("c"));
    store.plan_mutation(first.clone()).await.unwrap();
    for again in [mutation(&a, "mut_2", Some("c")), mutation(&a, "mut_1", Some("d"))] {
        let error = store.plan_mutation(again).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    }
    store.plan_mutation(mutation(&a, "mut_3", None)).await.unwrap();
    store.plan_mutation(mutation(&b, "mut_4", Some("c"))).await.unwrap();
    assert_eq!(store.mutations(&a).await.unwrap(), [first.clone(), mutation(&a, "mut_3", None)]);
    assert_eq!(store.all_mutations().await.unwrap().len(), 3);
    store.mark_mutation(&first.id, MutationState::RolledBack, None).await.unwrap();
    assert_eq!(store.mutations(&a).await.unwrap()[0].state, MutationState::RolledBack);
    let key = first.call.clone().unwrap();
    with(&*store, &a, vec![Hook::SettleMutation(key.clone()), Hook::DropOperational]).await.unwrap();
    assert_eq!(store.mutations(&a).await.unwrap(), [mutation(&a, "mut_3", None)]);
    // No mutation, nothing to settle.
    with(&*store, &a, vec![Hook::SettleMutation(key)]).await.unwrap();
    let none = store.mark_mutation(&first.id, MutationState::Applied, None).await.unwrap_err();
    assert!(matches!(none, StoreError::Conflict(_)), "{none:?}");
}

async fn a_stale_owner_moves_no_mutation(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    with(&*store, &a, acquire(store.owner(), 1, None)).await.unwrap();
    let planned = mutation(&a, "mut_1", Some("c"));
    store.plan_mutation(planned.clone()).await.unwrap();
    store.mark_mutation(&planned.id, MutationState::Applying, Some(1)).await.unwrap();
    let lease = store.lease(&a).await.unwrap().unwrap();
    store.take_over(&lease).await.unwrap().unwrap();
    let error = store.mark_mutation(&planned.id, MutationState::Applied, Some(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced { expected: 1, actual: 2, .. }), "{error:?}");
    assert_eq!(store.mutations(&a).await.unwrap()[0].state, MutationState::Applying);
}

async fn processes_come_and_go(disk: Box<dyn Disk>) {
    let store = disk.open();
    let a = session(&*store, "a").await;
    let process = |call: &str, pid| ToolProcess {
        key: CallKey { session: a.clone(), message: msg("s"), call: call.into() },
        pid,
        pgid: pid,
        start_time: 99,
        boot_id: "boot".to_owned(),
        command: "true".to_owned(),
        cwd: "/w".to_owned(),
        spool_path: "/spool".to_owned(),
        background: call == "b",
    };
    for process in [process("a", 1), process("b", 2), process("a", 3)] {
        store.put_process(process).await.unwrap();
    }
    assert_eq!(store.processes(&a).await.unwrap(), [process("a", 3), process("b", 2)]);
    store.drop_process(&process("b", 2).key).await.unwrap();
    with(&*store, &a, vec![Hook::DropProcess(process("a", 3).key)]).await.unwrap();
    assert_eq!(store.processes(&a).await.unwrap(), []);
}

async fn values_are_kept(disk: Box<dyn Disk>) {
    let store = disk.open();
    let hash = store.put_blob(b"words".to_vec()).await.unwrap();
    assert_eq!(hash, abide_schema::json::sha256_hex(b"words"));
    assert_eq!(store.put_blob(b"words".to_vec()).await.unwrap(), hash);
    assert_eq!(store.blob(&hash).await.unwrap().as_deref(), Some(&b"words"[..]));
    let a = ses("a");
    let other = abide_schema::json::sha256_hex(b"other");
    let hooks = vec![Hook::PutBlob { hash: other.clone(), data: b"other".to_vec() }];
    store.append(Batch { hooks, ..one(created(&a)) }).await.unwrap();
    assert_eq!(store.blob(&other).await.unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!(store.blob("none").await.unwrap(), None);
    store.set_value("k", Some("one".to_owned())).await.unwrap();
    store.set_value("k", Some("two".to_owned())).await.unwrap();
    assert_eq!(store.get_value("k").await.unwrap().as_deref(), Some("two"));
    store.set_value("k", None).await.unwrap();
    assert_eq!(store.get_value("k").await.unwrap(), None);
    let todos = vec![Todo { content: "x".to_owned(), status: "pending".to_owned(), priority: "low".to_owned() }];
    assert_eq!(store.todos(&a).await.unwrap(), []);
    store.set_todos(&a, todos.clone()).await.unwrap();
    assert_eq!(store.todos(&a).await.unwrap(), todos);
    // Another process sees it all.
    let there = disk.open();
    assert_eq!(there.todos(&a).await.unwrap(), todos);
    assert_eq!(there.blob(&hash).await.unwrap().as_deref(), Some(&b"words"[..]));
}

async fn permissions_are_saved_once(disk: Box<dyn Disk>) {
    let store = disk.open();
    let saved = |id: &str, project: &str, resource: &str| SavedPermission {
        id: SavedPermissionId::from_trusted(id),
        project_id: ProjectId::new(project),
        action: "edit".to_owned(),
        resource: resource.to_owned(),
    };
    store.save_permissions(vec![saved("psv_1", "p", "*"), saved("psv_2", "q", "*")]).await.unwrap();
    store.save_permissions(vec![saved("psv_3", "p", "*"), saved("psv_4", "p", "x")]).await.unwrap();
    let p = ProjectId::new("p");
    assert_eq!(store.saved_permissions(Some(&p)).await.unwrap(), [saved("psv_1", "p", "*"), saved("psv_4", "p", "x")]);
    assert_eq!(store.saved_permissions(None).await.unwrap().len(), 3);
    for _ in 0..2 {
        store.remove_permission(&SavedPermissionId::from_trusted("psv_1")).await.unwrap();
    }
    assert_eq!(store.saved_permissions(Some(&p)).await.unwrap(), [saved("psv_4", "p", "x")]);
}
