use abide_schema::message::Message;

use super::*;
use crate::session::desk::Desk;
use crate::store::{EventStore as _, JournalStore as _, ProjectionStore as _};

#[tokio::test]
async fn s34_switch_agent_and_model_events_messages_row_and_history_stays_sendable() {
    let desk = Desk::new(true, &[]).await;
    desk.prompt("write a.txt v1").await;
    let other = ModelRef::parse("test/other").unwrap();
    desk.sessions.switch_model(&desk.id, other.clone()).await.unwrap();
    // Unchanged, also with the variant spelled out: nothing.
    desk.sessions.switch_model(&desk.id, other.clone()).await.unwrap();
    desk.sessions.switch_model(&desk.id, other.with_explicit_variant()).await.unwrap();
    desk.sessions.switch_agent(&desk.id, "plan".into()).await.unwrap();
    assert_eq!((desk.count("model.switched"), desk.count("agent.switched")), (1, 1));
    let info = desk.info().await;
    assert_eq!((info.model, info.agent), (Some(other.with_explicit_variant()), Some("plan".into())));
    let kinds: Vec<bool> = desk
        .messages()
        .await
        .iter()
        .filter(|message| matches!(message, Message::ModelSwitched(_) | Message::AgentSwitched(_)))
        .map(|message| matches!(message, Message::AgentSwitched(_)))
        .collect();
    assert_eq!(kinds, [false, true]);
    desk.prompt("hello").await;
    let last = desk.messages().await.pop();
    let Some(Message::Assistant(answer)) = last else { panic!("an answer is the last: {last:?}") };
    assert_eq!((answer.model.id.as_str(), answer.agent.as_str(), answer.error), ("other", "plan", None));
    assert!(desk.last_request().contains("v1"), "the history goes along");
    let none = SessionId::from_trusted("ses_none");
    let unknown = desk.sessions.switch_model(&none, other).await.unwrap_err();
    assert!(matches!(unknown, SessionsError::NotFound(_)), "{unknown:?}");
    desk.verify().await;
}

#[tokio::test]
async fn s37_delete_removes_projections_and_children_and_the_id_is_not_used_again() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    let first = desk.prompt("write a.txt v1").await;
    let child = CreateSession { parent_id: Some(desk.id.clone()), ..CreateSession::default() };
    let child = desk.sessions.create(child).await.unwrap().id;
    let stage = crate::session::StageRevert { message_id: first.clone(), files: true, inclusive: None };
    desk.sessions.stage_revert(&desk.id, stage).await.unwrap();
    desk.sessions.delete(&desk.id).await.unwrap();
    for id in [&desk.id, &child] {
        assert!(matches!(desk.sessions.get(id).await, Err(SessionsError::NotFound(_))));
        assert!(desk.store.head(id).await.unwrap().is_some(), "the sequence stays");
    }
    assert_eq!(desk.store.message(&first).await.unwrap(), None);
    assert_eq!(desk.store.past_mutations(&desk.id).await.unwrap(), []);
    assert!(desk.sessions.delete(&desk.id).await.is_err());
    let again = CreateSession {
        id: Some(desk.id.clone()),
        location: Some(LocationRef::new(desk.tree.path("project").display().to_string())),
        ..CreateSession::default()
    };
    assert!(desk.sessions.create(again).await.is_err(), "an id does not begin again");
}
