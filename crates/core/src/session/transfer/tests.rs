use super::*;
use crate::session::desk::Desk;
use crate::store::{MessageQuery, Order};

async fn exported(desk: &Desk) -> String {
    desk.sessions.export(&desk.id).await.unwrap().to_text().unwrap()
}

#[tokio::test]
async fn a_bundle_makes_the_same_session_elsewhere_and_goes_on_there() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.prompt("write a.txt v1").await;
    let text = exported(&desk).await;
    let other = Desk::new(true, &[("a.txt", "v1\n")]).await;
    let imported = other.sessions.import(Bundle::parse(&text).unwrap()).await.unwrap();
    assert_eq!(imported.session, desk.info().await);
    assert_eq!((imported.n_events, imported.n_new), (desk.store.log(&desk.id).len(), desk.store.log(&desk.id).len()));
    let all = || MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    assert_eq!(
        other.sessions.store().messages(&desk.id, all()).await.unwrap(),
        desk.sessions.store().messages(&desk.id, all()).await.unwrap()
    );
    assert_eq!(other.sessions.export(&desk.id).await.unwrap().to_text().unwrap(), text, "a round trip");
    other.verify().await;
    // Again: nothing is new. Then what was added since.
    let again = other.sessions.import(Bundle::parse(&text).unwrap()).await.unwrap();
    assert_eq!(again.n_new, 0);
    desk.prompt("hello").await;
    let more = other.sessions.import(Bundle::parse(&exported(&desk).await).unwrap()).await.unwrap();
    assert!(more.n_new > 0 && more.session == desk.info().await);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_whole_and_named() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.prompt("write a.txt v1").await;
    let text = exported(&desk).await;
    let lines: Vec<&str> = text.lines().collect();
    let without = |n: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != n).map(|(_, line)| *line);
        kept.collect::<Vec<_>>().join("\n")
    };
    let value = lines.iter().position(|line| line.contains("abide.value")).unwrap();
    let other = Desk::new(true, &[]).await;
    other.prompt("hello").await;
    let mixed = format!("{}\n{}", lines[0], exported(&other).await.lines().nth(1).unwrap());
    let cases = [
        ("not json\n".to_owned(), "line 1 is neither an event nor a value"),
        (String::new(), "the bundle holds no events"),
        (mixed, "the bundle holds events of"),
        (without(0), "event 0 is missing"),
        (without(3), "event 3 is missing"),
        (without(value), "which is not in the bundle"),
        (text.replace("session.next.prompted", "session.next.unheard"), "cannot be read"),
        (text.replace("session.next.prompt.admitted", "session.next.prompted"), "does not fit"),
        (text.replacen("\"text\":\"", "\"text\":\"x", 1_000), "is damaged"),
    ];
    for (text, expected) in cases {
        let target = Desk::new(true, &[]).await;
        let before = target.sessions.store().logs().await.unwrap();
        let refused = match Bundle::parse(&text) {
            Ok(bundle) => target.sessions.import(bundle).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(refused.to_string().contains(expected), "{refused} should say {expected:?}");
        assert_eq!(target.sessions.store().logs().await.unwrap(), before, "{expected}: nothing is stored");
    }
}

#[tokio::test]
async fn a_session_that_went_on_differently_or_was_deleted_stays_as_it_is() {
    let desk = Desk::new(true, &[("a.txt", "v0\n")]).await;
    desk.prompt("hello").await;
    let text = exported(&desk).await;
    let other = Desk::new(true, &[]).await;
    other.sessions.import(Bundle::parse(&text).unwrap()).await.unwrap();
    other.sessions.rename(&desk.id, "mine".to_owned()).await.unwrap();
    desk.prompt("more").await;
    let diverged = other.sessions.import(Bundle::parse(&exported(&desk).await).unwrap()).await.unwrap_err();
    assert!(matches!(diverged, ImportError::Diverged { .. }), "{diverged:?}");
    assert_eq!(other.sessions.get(&desk.id).await.unwrap().title, "mine");
    other.sessions.delete(&desk.id).await.unwrap();
    let deleted = other.sessions.import(Bundle::parse(&text).unwrap()).await.unwrap_err();
    assert!(matches!(deleted, ImportError::Deleted { .. }), "{deleted:?}");
}
