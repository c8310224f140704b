use std::fs;

use abide_schema::message::Message;

use super::*;
use crate::session::PromptSession;
use crate::session::desk::Desk;
use crate::store::EventStore as _;

fn to(desk: &Desk, path: &str) -> MoveSession {
    let directory = desk.tree.path(path).canonicalize().unwrap().display().to_string();
    MoveSession { location: LocationRef::new(directory), project_id: None }
}

#[tokio::test]
async fn s109_a_moved_session_works_in_the_new_place_with_a_new_baseline() {
    let desk = Desk::new(true, &[("sub/a.txt", "v0\n")]).await;
    desk.prompt("write one.txt 1").await;
    let baselines = desk.count("context.baselined");
    desk.sessions.move_to(&desk.id, to(&desk, "project/sub")).await.unwrap();
    desk.sessions.wait(&desk.id).await.unwrap();
    let info = desk.info().await;
    assert!(info.location.directory.ends_with("/project/sub"), "{}", info.location.directory);
    assert_eq!(info.subpath.as_deref(), Some("sub"));
    assert_eq!(desk.sessions.inbox(&desk.id).await.unwrap(), []);
    desk.prompt("write two.txt 2").await;
    assert_eq!((desk.read("sub/two.txt").as_deref(), desk.read("two.txt")), (Some("2\n"), None));
    assert_eq!(desk.count("context.baselined"), baselines + 1);
    assert!(desk.last_request().contains("now works in the directory"), "the model is told");
    assert!(desk.messages().await.iter().any(|message| matches!(message, Message::LocationSwitched(_))));
    // Where it is already: nothing happens.
    let before = desk.store.log(&desk.id).len();
    desk.sessions.move_to(&desk.id, to(&desk, "project/sub")).await.unwrap();
    assert_eq!(desk.store.log(&desk.id).len(), before);
    desk.verify().await;
}

#[tokio::test]
async fn a_move_in_the_middle_of_work_goes_on_in_the_new_place() {
    let desk = Desk::new(true, &[("sub/a.txt", "v0\n")]).await;
    let input = PromptSession { text: "shell sleep 1; pwd".to_owned(), ..PromptSession::default() };
    desk.sessions.prompt(&desk.id, input).await.unwrap();
    desk.sessions.move_to(&desk.id, to(&desk, "project/sub")).await.unwrap();
    desk.sessions.wait(&desk.id).await.unwrap();
    // The answer after the tool's result was made after the move, in the same execution.
    let kinds: Vec<&str> = desk.store.log(&desk.id).iter().map(|event| event.data.def().name).collect();
    let at = |name: &str| kinds.iter().rposition(|kind| kind.ends_with(name)).unwrap();
    assert!(at("step.ended") > at(".moved"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| kind.ends_with("execution.started")).count(), 1);
    assert!(desk.last_request().contains("/project"), "the result is seen");
    desk.verify().await;
}

#[tokio::test]
async fn another_project_has_to_be_named_and_a_lost_directory_fails_the_move_only() {
    let desk = Desk::new(true, &[]).await;
    desk.prompt("hello").await;
    fs::create_dir_all(desk.tree.path("elsewhere")).unwrap();
    let refused = desk.sessions.move_to(&desk.id, to(&desk, "elsewhere")).await.unwrap_err();
    assert!(matches!(refused, SessionsError::Invalid { field: "projectID", .. }), "{refused:?}");
    let none = MoveSession { location: LocationRef::new("/nowhere/at/all"), project_id: None };
    let missing = desk.sessions.move_to(&desk.id, none).await.unwrap_err();
    assert!(matches!(missing, SessionsError::Place(_)), "{missing:?}");
    let named = MoveSession { project_id: Some("global".into()), ..to(&desk, "elsewhere") };
    desk.sessions.move_to(&desk.id, named).await.unwrap();
    desk.sessions.wait(&desk.id).await.unwrap();
    let info = desk.info().await;
    assert!(info.location.directory.ends_with("/elsewhere") && info.project_id.as_str() == "global", "{info:?}");
    assert_eq!(desk.store.verify(&desk.id).await.unwrap(), Vec::<String>::new());
}
