use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use abide_schema::message::{FileStatus, Message, RevertCoverage};

use super::*;
use crate::session::desk::Desk;
use crate::session::{PromptSession, SessionsError};
use crate::store::{CommitFault, JournalStore as _, ProjectionStore as _};

fn to(message: &MessageId) -> StageRevert {
    StageRevert { message_id: message.clone(), files: true, inclusive: None }
}

fn shown(revert: &Revert) -> Vec<(String, FileStatus, u64, u64)> {
    let files = revert.files.clone().unwrap_or_default();
    files.into_iter().map(|file| (file.path, file.status, file.additions, file.deletions)).collect()
}

#[tokio::test]
async fn s137_stage_restores_files_of_later_steps_from_the_first_touching_tree() {
    for git in [true, false] {
        let desk = Desk::new(git, &[("a.txt", "v0\n"), ("kept.txt", "mine\n")]).await;
        let first = desk.prompt("write a.txt v1").await;
        let second = desk.prompt("write a.txt v2\nwrite sub/new.txt new").await;
        desk.prompt("write a.txt v3").await;
        fs::write(desk.tree.path("project/kept.txt"), "the user's own\n").unwrap();

        let staged = desk.sessions.stage_revert(&desk.id, to(&second)).await.unwrap();
        assert_eq!(
            shown(&staged),
            [("a.txt".to_owned(), FileStatus::Modified, 1, 1), ("sub/new.txt".to_owned(), FileStatus::Deleted, 0, 1)]
        );
        let diff = staged.diff.clone().unwrap();
        assert!(diff.contains("-v3\n+v1\n") && diff.contains("-new"), "{diff}");
        let expected = if git { RevertCoverage::Full } else { RevertCoverage::EditsOnly };
        assert_eq!(staged.coverage, Some(expected));
        assert_eq!(staged.snapshot.as_deref().unwrap().starts_with("mut_"), !git);
        assert_eq!((desk.read("a.txt").as_deref(), desk.read("sub/new.txt")), (Some("v1\n"), None));

        // Staging again moves the boundary and keeps the original.
        let moved = desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
        assert_eq!(moved.snapshot, staged.snapshot);
        assert_eq!(desk.read("a.txt").as_deref(), Some("v0\n"));
        assert!(moved.diff.unwrap().contains("-v3\n+v0\n"));
        // Forward again: files that are not in the plan any more are as they were.
        let messages = desk.messages().await;
        let last = messages.iter().rev().find(|message| matches!(message, Message::User(_))).unwrap().id().clone();
        desk.sessions.stage_revert(&desk.id, to(&last)).await.unwrap();
        assert_eq!((desk.read("a.txt").as_deref(), desk.read("sub/new.txt").as_deref()), (Some("v2\n"), Some("new\n")));
        assert_eq!(desk.messages().await, messages, "nothing is removed while staged");

        desk.sessions.clear_revert(&desk.id).await.unwrap();
        assert_eq!((desk.read("a.txt").as_deref(), desk.read("sub/new.txt").as_deref()), (Some("v3\n"), Some("new\n")));
        assert_eq!(desk.read("kept.txt").as_deref(), Some("the user's own\n"));
        assert_eq!(desk.info().await.revert, None);
        assert_eq!(
            desk.store.past_mutations(&desk.id).await.unwrap().iter().filter(|batch| batch.call.is_none()).count(),
            0
        );
        assert_eq!((desk.count("revert.staged"), desk.count("revert.cleared")), (3, 1));
        desk.verify().await;
    }
}

#[tokio::test]
async fn s138_commit_deletes_later_messages_and_inputs() {
    for inclusive in [None, Some(false)] {
        let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
        let first = desk.prompt("write a.txt v1").await;
        let second = desk.prompt("write a.txt v2").await;
        let parked = PromptSession { text: "later".to_owned(), resume: Some(false), ..PromptSession::default() };
        desk.sessions.prompt(&desk.id, parked).await.unwrap();
        let input = StageRevert { inclusive, ..to(&second) };
        desk.sessions.stage_revert(&desk.id, input).await.unwrap();
        desk.sessions.commit_revert(&desk.id).await.unwrap();
        assert_eq!(desk.read("a.txt").as_deref(), Some("v1\n"), "files stay as staged");
        let users: Vec<MessageId> = desk
            .messages()
            .await
            .iter()
            .filter(|message| matches!(message, Message::User(_)))
            .map(|message| message.id().clone())
            .collect();
        let kept = if inclusive == Some(false) { vec![first, second.clone()] } else { vec![first] };
        assert_eq!(users, kept);
        assert_eq!(desk.store.pending_inputs(&desk.id).await.unwrap().len(), 0);
        assert_eq!(desk.store.input(&second).await.unwrap().is_some(), inclusive == Some(false));
        assert_eq!(desk.info().await.revert, None);
        desk.verify().await;
        // It goes on from there.
        desk.prompt("write a.txt v9").await;
        assert!(!desk.last_request().contains("v2") || inclusive == Some(false));
        assert_eq!(desk.read("a.txt").as_deref(), Some("v9\n"));
    }
}

#[tokio::test]
async fn s138_a_prompt_while_staged_commits_first() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.prompt("write a.txt v1").await;
    let second = desk.prompt("write a.txt v2").await;
    desk.sessions.stage_revert(&desk.id, to(&second)).await.unwrap();
    let next = desk.prompt("hello").await;
    assert_eq!(desk.info().await.revert, None);
    assert!(!desk.last_request().contains("v2"), "{}", desk.last_request());
    assert!(desk.messages().await.iter().any(|message| *message.id() == next));
    let log = desk.store.log(&desk.id);
    let at = log.iter().position(|event| matches!(event.data, EventData::RevertCommitted(_))).unwrap();
    assert!(matches!(log[at + 1].data, EventData::PromptAdmitted(_)), "one batch");
    desk.verify().await;
}

#[tokio::test]
async fn s139_a_busy_session_refuses_to_go_back() {
    let desk = Desk::new(true, &[]).await;
    let first = desk.prompt("hello").await;
    let input = PromptSession { text: "shell sleep 5".to_owned(), ..PromptSession::default() };
    desk.sessions.prompt(&desk.id, input).await.unwrap();
    let busy = |result: Result<(), SessionsError>| assert!(matches!(result, Err(SessionsError::Busy(_))), "{result:?}");
    busy(desk.sessions.stage_revert(&desk.id, to(&first)).await.map(drop));
    busy(desk.sessions.clear_revert(&desk.id).await);
    busy(desk.sessions.commit_revert(&desk.id).await);
    desk.sessions.interrupt(&desk.id).await.unwrap();
    desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
}

#[tokio::test]
async fn what_a_command_changed_comes_back_with_git_and_is_said_to_stay_without() {
    for git in [true, false] {
        let desk = Desk::new(git, &[("a.txt", "v0\n"), ("tool.sh", "run\n")]).await;
        let first =
            desk.prompt("shell printf x > a.txt; printf '\\000\\001' > b.bin; chmod 755 tool.sh; rm -f kept").await;
        let staged = desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
        let mode = fs::metadata(desk.tree.path("project/tool.sh")).unwrap().permissions().mode();
        if git {
            assert_eq!((desk.read("a.txt").as_deref(), mode & 0o111), (Some("v0\n"), 0));
            assert!(!desk.tree.path("project/b.bin").exists());
            desk.sessions.clear_revert(&desk.id).await.unwrap();
            assert_eq!(desk.read("a.txt").as_deref(), Some("x"));
            assert_eq!(fs::read(desk.tree.path("project/b.bin")).unwrap(), [0, 1]);
        } else {
            assert_eq!((desk.read("a.txt").as_deref(), staged.coverage), (Some("x"), Some(RevertCoverage::EditsOnly)));
            assert_eq!(shown(&staged), []);
        }
    }
}

#[tokio::test]
async fn edits_of_ignored_files_come_back_from_the_journal() {
    let desk = Desk::new(true, &[(".gitignore", ".env\n"), (".env", "KEY=1\n")]).await;
    let first = desk.prompt("write .env KEY=2").await;
    desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
    assert_eq!(desk.read(".env").as_deref(), Some("KEY=1\n"));
    desk.sessions.clear_revert(&desk.id).await.unwrap();
    assert_eq!(desk.read(".env").as_deref(), Some("KEY=2\n"));
}

#[tokio::test]
async fn files_false_leaves_files_alone_and_gives_back_those_of_an_earlier_stage() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    let first = desk.prompt("write a.txt v1").await;
    let alone = StageRevert { files: false, ..to(&first) };
    let staged = desk.sessions.stage_revert(&desk.id, alone.clone()).await.unwrap();
    assert_eq!((staged.files, desk.read("a.txt").as_deref()), (Some(Vec::new()), Some("v1\n")));
    desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
    assert_eq!(desk.read("a.txt").as_deref(), Some("v0\n"));
    let staged = desk.sessions.stage_revert(&desk.id, alone).await.unwrap();
    assert_eq!((staged.files, desk.read("a.txt").as_deref()), (Some(Vec::new()), Some("v1\n")));
}

#[tokio::test]
async fn nothing_staged_is_no_error_and_no_event() {
    let desk = Desk::new(false, &[]).await;
    desk.prompt("hello").await;
    let before = desk.store.log(&desk.id).len();
    desk.sessions.clear_revert(&desk.id).await.unwrap();
    desk.sessions.commit_revert(&desk.id).await.unwrap();
    let none = desk.sessions.stage_revert(&desk.id, to(&MessageId::from_trusted("msg_none"))).await.unwrap_err();
    assert!(matches!(none, SessionsError::MessageNotFound { .. }), "{none:?}");
    assert_eq!(desk.store.log(&desk.id).len(), before);
}

#[tokio::test]
async fn s125_a_crash_at_each_commit_leaves_files_and_stage_in_step() {
    // Commits of a stage: plan, applying, applied, event. Of a clear as many.
    for clear in [false, true] {
        for at in 1..=5 {
            for fault in [CommitFault::CrashBefore, CommitFault::CrashAfter] {
                let mut desk = Desk::new(true, &[("a.txt", "v0\n"), ("b.txt", "v0\n")]).await;
                let first = desk.prompt("write a.txt v1\nwrite b.txt v1\nwrite c.txt v1").await;
                if clear {
                    desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
                }
                let start = std::sync::atomic::AtomicU64::new(0);
                let crash = fault.clone();
                desk.store.on_commit(move |_, _| {
                    let n = start.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                    if n == at { crash.clone() } else { CommitFault::None }
                });
                let done = if clear {
                    desk.sessions.clear_revert(&desk.id).await
                } else {
                    desk.sessions.stage_revert(&desk.id, to(&first)).await.map(drop)
                };
                desk.restart().await;
                let staged = desk.info().await.revert.is_some();
                let files = [desk.read("a.txt"), desk.read("b.txt"), desk.read("c.txt")];
                let v = |text: &str| Some(format!("{text}\n"));
                let expected = if staged { [v("v0"), v("v0"), None] } else { [v("v1"), v("v1"), v("v1")] };
                assert_eq!(files, expected, "clear {clear}, commit {at}, {fault:?}, {done:?}");
                assert!(done.is_err() || staged != clear, "what was acknowledged holds");
                assert_eq!(desk.store.mutations(&desk.id).await.unwrap(), []);
                assert!(desk.count("revert.staged") <= 1 && desk.count("revert.cleared") <= 1);
                desk.verify().await;
                // And it can be done again.
                desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
                desk.sessions.clear_revert(&desk.id).await.unwrap();
                assert_eq!(desk.read("a.txt"), v("v1"));
            }
        }
    }
}

#[tokio::test]
async fn a_staged_session_rests_until_it_is_decided() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    let first = desk.prompt("write a.txt v1").await;
    let parked = PromptSession { text: "write a.txt v2".to_owned(), resume: Some(false), ..PromptSession::default() };
    desk.sessions.prompt(&desk.id, parked).await.unwrap();
    desk.sessions.stage_revert(&desk.id, to(&first)).await.unwrap();
    desk.sessions.wake(&desk.id);
    desk.sessions.wait(&desk.id).await.unwrap();
    assert_eq!((desk.read("a.txt").as_deref(), desk.info().await.revert.is_some()), (Some("v0\n"), true));
    desk.sessions.clear_revert(&desk.id).await.unwrap();
    desk.sessions.wake(&desk.id);
    desk.sessions.wait(&desk.id).await.unwrap();
    assert_eq!(desk.read("a.txt").as_deref(), Some("v2\n"));
}
