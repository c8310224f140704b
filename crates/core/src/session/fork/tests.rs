use abide_schema::message::Message;
use abide_schema::prompt::Delivery;

use super::*;
use crate::session::desk::Desk;
use crate::session::{PromptSession, StageRevert};
use crate::store::EventStore as _;

/// What users and models said, by session.
async fn said(desk: &Desk, id: &SessionId) -> Vec<String> {
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    let rows = desk.sessions.store().messages(id, query).await.unwrap();
    let text = |message: &Message| match message {
        Message::User(user) => Some(format!("> {}", user.text)),
        Message::Assistant(assistant) => Some(format!("{} parts", assistant.content.len())),
        _ => None,
    };
    rows.iter().filter_map(|row| text(&row.message)).collect()
}

#[tokio::test]
async fn s140_fork_before_a_message_of_everything_and_of_a_fork() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.sessions.rename(&desk.id, "Work".to_owned()).await.unwrap();
    desk.prompt("write a.txt v1").await;
    let second = desk.prompt("hello").await;
    let parked = PromptSession {
        text: "later".to_owned(),
        delivery: Delivery::Queue,
        resume: Some(false),
        ..PromptSession::default()
    };
    desk.sessions.prompt(&desk.id, parked).await.unwrap();

    let whole = desk.sessions.fork(&desk.id, ForkSession::default()).await.unwrap();
    assert_eq!((whole.title.as_str(), whole.parent_id.as_ref(), whole.cost), ("Work (fork #1)", None, 0.0));
    assert_eq!(whole.fork.as_ref().map(|fork| &fork.session_id), Some(&desk.id));
    assert_eq!(said(&desk, &whole.id).await, said(&desk, &desk.id).await);
    assert_eq!(desk.sessions.inbox(&whole.id).await.unwrap(), []);

    let before = ForkSession { point: ForkPoint::Before(second.clone()), ..ForkSession::default() };
    let part = desk.sessions.fork(&desk.id, before).await.unwrap();
    assert_eq!(said(&desk, &part.id).await, said(&desk, &desk.id).await[..3]);

    let nested = desk.sessions.fork(&whole.id, ForkSession::default()).await.unwrap();
    assert_eq!(nested.title, "Work (fork #2)");
    // The child's log stands alone: the parent may go.
    desk.sessions.delete(&desk.id).await.unwrap();
    desk.sessions.delete(&whole.id).await.unwrap();
    desk.store.rebuild(&nested.id).await.unwrap();
    assert_eq!(said(&desk, &nested.id).await.len(), 5);
    desk.verify().await;
    // It goes on by itself, and its history can be sent.
    let input = PromptSession { text: "and now".to_owned(), ..PromptSession::default() };
    desk.sessions.prompt(&nested.id, input).await.unwrap();
    desk.sessions.wait(&nested.id).await.unwrap();
    assert!(desk.last_request().contains("hello") && desk.last_request().contains("and now"));
    assert_eq!(said(&desk, &nested.id).await.last().unwrap(), "1 parts");
}

#[tokio::test]
async fn s140_open_items_are_not_copied() {
    let desk = Desk::new(true, &[]).await;
    desk.prompt("hello").await;
    let input = PromptSession { text: "shell sleep 5".to_owned(), ..PromptSession::default() };
    desk.sessions.prompt(&desk.id, input).await.unwrap();
    let open = async {
        while desk.count("tool.called") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), open).await.unwrap();
    let fork = desk.sessions.fork(&desk.id, ForkSession::default()).await.unwrap();
    assert_eq!(said(&desk, &fork.id).await, ["> hello", "1 parts", "> shell sleep 5"]);
    assert_eq!(desk.sessions.store().open_messages(&fork.id).await.unwrap(), []);
    desk.sessions.interrupt(&desk.id).await.unwrap();
}

#[tokio::test]
async fn a_fork_at_a_position_brings_back_what_a_revert_removed() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.prompt("write a.txt v1").await;
    let second = desk.prompt("write a.txt v2").await;
    let whole = said(&desk, &desk.id).await;
    let at = desk.sessions.store().head(&desk.id).await.unwrap().unwrap().seq;
    let stage = StageRevert { message_id: second, files: true, inclusive: None };
    desk.sessions.stage_revert(&desk.id, stage).await.unwrap();
    desk.sessions.commit_revert(&desk.id).await.unwrap();
    assert!(said(&desk, &desk.id).await.len() < whole.len());
    let fork = ForkSession { point: ForkPoint::At(at), ..ForkSession::default() };
    let fork = desk.sessions.fork(&desk.id, fork).await.unwrap();
    assert_eq!(said(&desk, &fork.id).await, whole);
    let beyond = desk.sessions.replay(&desk.id, Seq(9999)).await.unwrap_err();
    assert!(matches!(beyond, SessionsError::Invalid { field: "to", .. }), "{beyond:?}");
    desk.verify().await;
}

#[tokio::test]
async fn replay_to_each_position_shows_the_session_as_it_was() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.prompt("write a.txt v1").await;
    let log = desk.store.log(&desk.id);
    let mut last = 0;
    for event in &log {
        let past = desk.sessions.replay(&desk.id, event.seq).await.unwrap();
        assert!(past.messages.len() >= last);
        last = past.messages.len();
    }
    let whole = desk.sessions.replay(&desk.id, log.last().unwrap().seq).await.unwrap();
    assert_eq!(whole.session, desk.info().await);
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    assert_eq!(whole.messages, desk.sessions.store().messages(&desk.id, query).await.unwrap());
}

#[tokio::test]
async fn a_fork_with_an_id_is_made_once_and_an_empty_session_is_refused() {
    let desk = Desk::new(true, &[]).await;
    let empty = desk.sessions.fork(&desk.id, ForkSession::default()).await.unwrap_err();
    assert!(matches!(empty, SessionsError::Invalid { .. }), "{empty:?}");
    desk.prompt("hello").await;
    let input = ForkSession { id: Some(SessionId::from_trusted("ses_copy")), ..ForkSession::default() };
    let one = desk.sessions.fork(&desk.id, input.clone()).await.unwrap();
    assert_eq!(desk.sessions.fork(&desk.id, input).await.unwrap(), one);
    let none = ForkPoint::Before(MessageId::from_trusted("msg_none"));
    let none = desk.sessions.fork(&desk.id, ForkSession { point: none, ..ForkSession::default() }).await.unwrap_err();
    assert!(matches!(none, SessionsError::MessageNotFound { .. }), "{none:?}");
}
