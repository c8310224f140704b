use abide_schema::live::LiveData;
use abide_schema::permission::{Effect, Rule};
use abide_schema::tool::joined_text;

use super::*;
use crate::tool::testing::Bench;

fn tool(bench: &Bench) -> TodoTool {
    TodoTool::new(bench.permissions.clone(), Arc::clone(&bench.values) as Arc<dyn ValueStore>, bench.events.publish())
}

fn input(statuses: &[&str]) -> TodoInput {
    let item = |status: &&str| Item {
        content: format!("do {status}"),
        status: (*status).to_owned(),
        priority: "odd".to_owned(),
    };
    TodoInput { todos: statuses.iter().map(item).collect() }
}

#[tokio::test]
async fn the_list_is_replaced_and_announced() {
    let bench = Bench::new("/", vec![Rule::new("todowrite", "*", Effect::Allow)]);
    let session = bench.context().session_id;
    for statuses in [&["pending", "in_progress"][..], &["completed"], &[]] {
        let returned = tool(&bench).execute(bench.context(), input(statuses)).await.unwrap();
        let stored = bench.values.todos(&session).await.unwrap();
        assert_eq!(stored, returned.output.todos);
        assert_eq!(stored.iter().map(|todo| todo.status.as_str()).collect::<Vec<_>>(), statuses);
        assert_eq!(joined_text(&returned.content), serde_json::to_string_pretty(&stored).unwrap());
        let Some(LiveData::TodoUpdated(event)) = bench.events.all().pop() else { panic!("no event") };
        assert_eq!((event.session_id, event.todos), (session.clone(), stored));
    }
}

#[tokio::test]
async fn two_items_in_progress_are_worth_a_word() {
    let bench = Bench::new("/", vec![Rule::new("*", "*", Effect::Allow)]);
    let returned = tool(&bench).execute(bench.context(), input(&["in_progress", "in_progress"])).await.unwrap();
    assert_eq!(returned.content[1].as_text(), Some("2 items are in_progress; one at a time is clearer."));
}

#[tokio::test]
async fn a_denied_list_stays() {
    let bench = Bench::new("/", vec![Rule::new("*", "*", Effect::Deny)]);
    let failure = tool(&bench).execute(bench.context(), input(&["pending"])).await.unwrap_err();
    assert_eq!(failure.message, "Permission denied: todowrite");
    assert_eq!(bench.values.todos(&bench.context().session_id).await.unwrap(), []);
    assert_eq!(bench.events.all(), []);
}
