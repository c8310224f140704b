use super::*;
use crate::session::PromptSession;
use crate::session::desk::Desk;

async fn parked(desk: &Desk, text: &str, delivery: Delivery) -> MessageId {
    let input = PromptSession { text: text.to_owned(), delivery, resume: Some(false), ..PromptSession::default() };
    desk.sessions.prompt(&desk.id, input).await.unwrap().id
}

#[tokio::test]
async fn s49_cancel_pending_cancel_delivered_steer_to_queue_and_back_wake_only_on_steer() {
    let desk = Desk::new(true, &[]).await;
    let delivered = desk.prompt("hello").await;
    let one = parked(&desk, "one", Delivery::Steer).await;
    let two = parked(&desk, "two", Delivery::Queue).await;
    let ids = |rows: Vec<InputRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(ids(desk.sessions.inbox(&desk.id).await.unwrap()), [one.clone(), two.clone()]);

    // Delivered or unknown: nothing to take back.
    for input in [&delivered, &MessageId::from_trusted("msg_none")] {
        assert!(!desk.sessions.cancel_input(&desk.id, input).await.unwrap());
    }
    assert!(!desk.sessions.change_delivery(&desk.id, &delivered, Delivery::Queue).await.unwrap());
    let none = MessageId::from_trusted("msg_none");
    let unknown = desk.sessions.change_delivery(&desk.id, &none, Delivery::Steer).await.unwrap_err();
    assert!(matches!(unknown, SessionsError::MessageNotFound { .. }), "{unknown:?}");

    // To queue: nothing wakes; the same again changes nothing.
    assert!(desk.sessions.change_delivery(&desk.id, &one, Delivery::Queue).await.unwrap());
    assert!(!desk.sessions.change_delivery(&desk.id, &one, Delivery::Queue).await.unwrap());
    assert!(desk.sessions.cancel_input(&desk.id, &two).await.unwrap());
    assert!(!desk.sessions.cancel_input(&desk.id, &two).await.unwrap());
    desk.sessions.wait(&desk.id).await.unwrap();
    assert_eq!(ids(desk.sessions.inbox(&desk.id).await.unwrap()), std::slice::from_ref(&one));

    // To steer: it runs.
    assert!(desk.sessions.change_delivery(&desk.id, &one, Delivery::Steer).await.unwrap());
    desk.sessions.wait(&desk.id).await.unwrap();
    assert_eq!(desk.sessions.inbox(&desk.id).await.unwrap(), []);
    assert!(desk.last_request().contains("one") && !desk.last_request().contains("two"));
    assert_eq!((desk.count("inbox.cancelled"), desk.count("inbox.delivery.changed")), (1, 2));
    desk.verify().await;
}

#[tokio::test]
async fn s50_a_second_request_to_compact_joins_the_pending_one() {
    let desk = Desk::new(true, &[]).await;
    desk.prompt("hello").await;
    let (one, two) = tokio::join!(desk.sessions.compact(&desk.id), desk.sessions.compact(&desk.id));
    one.unwrap();
    two.unwrap();
    desk.sessions.wait(&desk.id).await.unwrap();
    assert_eq!(desk.sessions.inbox(&desk.id).await.unwrap(), []);
    assert!(desk.count("inbox.enqueued") >= 1);
    desk.verify().await;
}
