//! Scenarios Q1 to Q8 of spec/tools.md section 16, as far as they concern questions without forms.

use abide_schema::live::LiveData;
use abide_schema::question::{Answer, QuestionInfo, QuestionOption, QuestionRequest};
use abide_schema::{QuestionId, SessionId};
use tokio::task::JoinHandle;

use super::*;
use crate::tool::leaf::ToolContext;
use crate::tool::outcome::Declined;
use crate::tool::scope::Ended;
use crate::tool::testing::Bench;

fn question(header: &str, labels: &[&str]) -> QuestionInfo {
    QuestionInfo {
        question: format!("{header}?"),
        header: header.to_owned(),
        options: labels
            .iter()
            .map(|label| QuestionOption { label: (*label).to_owned(), description: String::new() })
            .collect(),
        multiple: None,
        custom: None,
    }
}

async fn asked(
    bench: &Bench,
    ctx: &ToolContext,
    questions: Vec<QuestionInfo>,
) -> (QuestionRequest, JoinHandle<Result<Vec<Answer>, QuestionError>>) {
    let before = bench.events.all().len();
    let (service, ctx) = (bench.questions.clone(), ctx.clone());
    let task = bench.world.spawn(async move { service.ask(&ctx, questions).await });
    let events = bench.events.wait_for(before + 1).await;
    let Some(LiveData::QuestionAsked(asked)) = events.last() else { panic!("expected a question: {events:?}") };
    (asked.request.clone(), task)
}

fn answers(answers: &[&[&str]]) -> Vec<Answer> {
    answers.iter().map(|answer| answer.iter().map(ToString::to_string).collect()).collect()
}

fn bench() -> Bench {
    Bench::new("/work/site", Vec::new())
}

#[tokio::test]
async fn q1_answers_come_in_the_order_of_the_questions() {
    let bench = bench();
    let ctx = bench.context();
    let (request, task) =
        asked(&bench, &ctx, vec![question("Colour", &["red", "blue"]), question("Size", &["s"])]).await;
    assert_eq!(bench.questions.list(Some(&ctx.session_id)), vec![request.clone()]);
    assert_eq!(bench.questions.get(&ctx.session_id, &request.id), Some(request.clone()));
    bench.questions.reply(&ctx.session_id, &request.id, answers(&[&["blue"]])).unwrap();
    assert_eq!(task.await.unwrap(), Ok(answers(&[&["blue"], &[]])));
    assert_eq!(bench.questions.list(None), Vec::new());
    let Some(LiveData::QuestionReplied(replied)) = bench.events.all().pop() else { panic!("no reply") };
    assert_eq!((replied.request_id, replied.answers), (request.id, answers(&[&["blue"], &[]])));
}

#[tokio::test]
async fn q2_a_dismissal_ends_the_call() {
    let bench = bench();
    let ctx = bench.context();
    let (request, task) = asked(&bench, &ctx, vec![question("Colour", &["red"])]).await;
    bench.questions.reject(&ctx.session_id, &request.id).unwrap();
    assert_eq!(ctx.scope.ended().await, Ended::Declined(Declined::Question));
    assert!(!task.is_finished());
    assert!(matches!(bench.events.all().last(), Some(LiveData::QuestionRejected(_))));
    task.abort();
}

#[tokio::test]
async fn q4_answers_that_do_not_fit_leave_the_question_waiting() {
    let bench = bench();
    let ctx = bench.context();
    let closed = QuestionInfo { custom: Some(false), ..question("Colour", &["red", "blue"]) };
    let many = QuestionInfo { multiple: Some(true), ..question("Sizes", &["s", "m"]) };
    let (request, task) = asked(&bench, &ctx, vec![closed, many]).await;
    for (given, problem) in [
        (answers(&[&["green"]]), "\"green\" is no choice of the question \"Colour\"; choices: red, blue"),
        (answers(&[&["red", "blue"]]), "the question \"Colour\" takes one answer, got 2"),
        (answers(&[&[], &[], &[]]), "expected at most 2 answers, one per question, got 3"),
    ] {
        let refused = bench.questions.reply(&ctx.session_id, &request.id, given).unwrap_err();
        assert_eq!(refused.to_string(), problem);
        assert_eq!(bench.questions.list(None).len(), 1);
    }
    let fitting = answers(&[&["red"], &["s", "own words"]]);
    bench.questions.reply(&ctx.session_id, &request.id, fitting.clone()).unwrap();
    assert_eq!(task.await.unwrap(), Ok(fitting));
}

#[tokio::test]
async fn q6_q8_only_a_waiting_question_of_the_session_is_answered() {
    let (bench, elsewhere) = (bench(), bench());
    let ctx = bench.context();
    let (request, task) = asked(&bench, &ctx, vec![question("Colour", &["red"])]).await;
    let other = SessionId::from_trusted("ses_2");
    let not_found = QuestionReplyError::NotFound(request.id.clone());
    assert_eq!(bench.questions.reply(&other, &request.id, Vec::new()), Err(not_found.clone()));
    assert_eq!(elsewhere.questions.reject(&ctx.session_id, &request.id), Err(not_found.clone()));
    bench.questions.reply(&ctx.session_id, &request.id, answers(&[&["red"]])).unwrap();
    assert_eq!(bench.questions.reply(&ctx.session_id, &request.id, Vec::new()), Err(not_found));
    let unknown = QuestionId::from_trusted("que_x");
    assert_eq!(bench.questions.reject(&ctx.session_id, &unknown), Err(QuestionReplyError::NotFound(unknown)));
    assert_eq!(task.await.unwrap(), Ok(answers(&[&["red"]])));
}

#[tokio::test]
async fn q7_an_interrupt_withdraws_the_question() {
    let bench = bench();
    let ctx = bench.context();
    let (_, task) = asked(&bench, &ctx, vec![question("Colour", &["red"])]).await;
    bench.questions.withdraw(&ctx.session_id);
    assert_eq!(ctx.scope.ended().await, Ended::Interrupted);
    let (_, dropped) = asked(&bench, &bench.context(), vec![question("Size", &["s"])]).await;
    dropped.abort();
    let events = bench.events.wait_for(4).await;
    assert!(matches!(events.last(), Some(LiveData::QuestionRejected(_))));
    assert_eq!(bench.questions.list(None), Vec::new());
    task.abort();
}

#[tokio::test]
async fn a_closed_location_dismisses() {
    let bench = bench();
    let ctx = bench.context();
    let (_, task) = asked(&bench, &ctx, vec![question("Colour", &["red"])]).await;
    bench.questions.close();
    assert_eq!(ctx.scope.ended().await, Ended::Declined(Declined::Question));
    task.abort();
}

#[tokio::test]
async fn questions_that_nobody_can_answer_are_refused() {
    let bench = bench();
    let ctx = bench.context();
    let mute = QuestionInfo { custom: Some(false), ..question("Colour", &[]) };
    for (questions, problem) in
        [(Vec::new(), "there is no question"), (vec![mute], "the question \"Colour\" has no possible answer")]
    {
        assert_eq!(bench.questions.ask(&ctx, questions).await.unwrap_err().to_string(), problem);
    }
}
