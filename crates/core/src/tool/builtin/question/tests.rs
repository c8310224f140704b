use abide_schema::permission::{Effect, Rule};
use abide_schema::tool::joined_text;

use super::*;
use crate::tool::testing::Bench;

fn tool(bench: &Bench) -> QuestionTool {
    QuestionTool::new(bench.permissions.clone(), bench.questions.clone())
}

fn input() -> QuestionInput {
    serde_json::from_value(json!({ "questions": [
        { "question": "Which colour?", "header": "Colour of the walls in the whole house", "multiple": true,
          "options": [{ "label": "red", "description": "warm" }, { "label": "blue" }] },
        { "question": "Why?", "header": "Why", "options": [] },
    ] }))
    .unwrap()
}

#[tokio::test]
async fn the_answers_come_back_in_order() {
    let bench = Bench::new("/", vec![Rule::new("question", "*", Effect::Allow)]);
    let (tool, context) = (tool(&bench), bench.context());
    let answer = async {
        bench.events.wait_for(1).await;
        let request = bench.questions.list(None).pop().unwrap();
        assert_eq!(request.questions[0].header, "Colour of the walls in the who");
        assert_eq!(request.tool.unwrap().call_id, context.id);
        let answers = vec![vec!["red".to_owned(), "blue".to_owned()]];
        bench.questions.reply(&request.session_id, &request.id, answers).unwrap();
    };
    let (returned, ()) = tokio::join!(tool.execute(context.clone(), input()), answer);
    let returned = returned.unwrap();
    assert_eq!(serde_json::to_value(&returned.output).unwrap(), json!({ "answers": [["red", "blue"], []] }));
    let expected = "The user answered: \"Which colour?\"=\"red, blue\", \"Why?\"=\"Unanswered\"";
    assert_eq!(joined_text(&returned.content), expected);
}

#[tokio::test]
async fn a_denied_question_is_not_asked() {
    let bench = Bench::new("/", vec![Rule::new("*", "*", Effect::Deny)]);
    let failure = tool(&bench).execute(bench.context(), input()).await.unwrap_err();
    assert_eq!(failure.message, "Permission denied: question");
    assert_eq!(bench.events.all(), []);
}

#[tokio::test]
async fn a_dismissed_question_never_returns() {
    let bench = Bench::new("/", vec![Rule::new("*", "*", Effect::Allow)]);
    let (tool, context) = (tool(&bench), bench.context());
    let dismiss = async {
        bench.events.wait_for(1).await;
        let request = bench.questions.list(None).pop().unwrap();
        bench.questions.reject(&request.session_id, &request.id).unwrap();
        context.scope.ended().await
    };
    tokio::select! {
        biased;
        returned = tool.execute(context.clone(), input()) => panic!("{returned:?}"),
        ended = dismiss => assert_eq!(ended, crate::tool::scope::Ended::Declined(crate::tool::outcome::Declined::Question)),
    }
}
