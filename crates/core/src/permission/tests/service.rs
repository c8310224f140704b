//! Requests, replies, saved rules.

use std::sync::Arc;

use abide_schema::live::LiveData;
use abide_schema::permission::{Effect, PermissionRequest, Reply, Rule, SavedPermission};
use abide_schema::{PermissionId, SessionId};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use super::super::*;
use crate::store::ValueStore as _;
use crate::tool::leaf::ToolContext;
use crate::tool::outcome::{Declined, ToolFailure};
use crate::tool::scope::Ended;
use crate::tool::testing::Bench;
use Effect::{Allow, Ask, Deny};

type Asserted = JoinHandle<Result<(), PermissionError>>;

fn bench(rules: &[(&str, &str, Effect)]) -> Bench {
    let rules = rules.iter().map(|(action, resource, effect)| Rule::new(*action, *resource, *effect)).collect();
    Bench::new("/work/site", rules)
}

fn context(bench: &Bench, session: &str) -> ToolContext {
    ToolContext { session_id: session_id(session), ..bench.context() }
}

fn session_id(session: &str) -> SessionId {
    SessionId::from_trusted(session)
}

/// Starts an assert and waits until it is asked.
async fn asked(bench: &Bench, ctx: &ToolContext, input: AssertInput) -> (PermissionRequest, Asserted) {
    let before = bench.events.all().len();
    let (service, ctx) = (bench.permissions.clone(), ctx.clone());
    let task = bench.world.spawn(async move { service.assert(&ctx, input).await });
    let events = bench.events.wait_for(before + 1).await;
    let Some(LiveData::PermissionAsked(asked)) = events.last() else { panic!("expected a question: {events:?}") };
    (asked.request.clone(), task)
}

fn edit(resource: &str) -> AssertInput {
    AssertInput::new("edit", resource).saving("*")
}

fn create(id: Option<&str>, session: &str, resources: &[&str]) -> Create {
    Create {
        id: id.map(PermissionId::from_trusted),
        session_id: session_id(session),
        action: "edit".to_owned(),
        resources: resources.iter().map(ToString::to_string).collect(),
        save: None,
        metadata: None,
        source: None,
        agent: None,
    }
}

async fn reply(bench: &Bench, request: &PermissionRequest, reply: Reply, message: Option<&str>) {
    let message = message.map(str::to_owned);
    bench.permissions.reply(&request.session_id, &request.id, reply, message).await.unwrap();
}

/// The replies that were published: request and reply.
fn replies(bench: &Bench) -> Vec<(PermissionId, Reply)> {
    let reply = |event: LiveData| {
        let LiveData::PermissionReplied(replied) = event else { return None };
        Some((replied.request_id, replied.reply))
    };
    bench.events.all().into_iter().filter_map(reply).collect()
}

#[tokio::test]
async fn p10_rules_that_decide_ask_nobody() {
    let bench = bench(&[("edit", "*", Allow), ("edit", "d*", Deny)]);
    let ctx = bench.context();
    assert_eq!(bench.permissions.assert(&ctx, edit("a")).await, Ok(()));
    let blocked = bench.permissions.assert(&ctx, edit("d1")).await.unwrap_err();
    assert_eq!(blocked.to_string(), "Permission denied: edit");
    assert_eq!(
        blocked,
        PermissionError::Blocked {
            rules: vec![Rule::new("edit", "d*", Deny)],
            action: "edit".to_owned(),
            resources: vec!["d1".to_owned()],
            reason: None,
        }
    );
    assert_eq!(bench.permissions.create(create(None, "ses_1", &["a"])).await.unwrap().effect, Allow);
    assert_eq!(bench.permissions.create(create(None, "ses_1", &["d"])).await.unwrap().effect, Deny);
    assert_eq!(bench.permissions.list(None), Vec::new());
    assert_eq!(bench.events.all(), Vec::new());
}

#[tokio::test]
async fn p28_the_request_is_the_calls_and_hides_the_agent() {
    let bench = bench(&[]);
    let ctx = bench.context();
    let input = edit("a").with_metadata("files", serde_json::json!([]));
    let (request, task) = asked(&bench, &ctx, input).await;
    let expected = serde_json::json!({
        "id": request.id,
        "sessionID": "ses_1",
        "action": "edit",
        "resources": ["a"],
        "save": ["*"],
        "metadata": { "files": [] },
        "source": { "type": "tool", "messageID": "msg_1", "callID": "call_1" },
    });
    assert_eq!(serde_json::to_value(&request).unwrap(), expected);
    assert_eq!(bench.permissions.list(Some(&ctx.session_id)), vec![request.clone()]);
    assert_eq!(bench.permissions.get(&ctx.session_id, &request.id), Some(request.clone()));
    assert_eq!(bench.permissions.list(Some(&session_id("ses_2"))), Vec::new());
    task.abort();
}

#[tokio::test]
async fn p11_once_runs_the_call_and_is_over() {
    let bench = bench(&[]);
    let ctx = bench.context();
    let (request, task) = asked(&bench, &ctx, edit("a")).await;
    reply(&bench, &request, Reply::Once, None).await;
    assert_eq!(task.await.unwrap(), Ok(()));
    assert_eq!(bench.permissions.list(None), Vec::new());
    assert_eq!(bench.permissions.get(&request.session_id, &request.id), None);
    let again = bench.permissions.reply(&request.session_id, &request.id, Reply::Once, None).await;
    assert!(matches!(again, Err(ReplyError::NotFound(id)) if id == request.id));
    assert_eq!(bench.values.saved_permissions(None).await.unwrap(), Vec::new());
    assert_eq!(replies(&bench), vec![(request.id, Reply::Once)]);
}

#[tokio::test]
async fn p12_a_refusal_takes_the_sessions_other_requests_along() {
    let bench = bench(&[]);
    let (mine, other) = (bench.context(), context(&bench, "ses_2"));
    let (first, task_1) = asked(&bench, &mine, edit("a")).await;
    let second_call = context(&bench, "ses_1");
    let (second, task_2) = asked(&bench, &second_call, edit("b")).await;
    let (third, task_3) = asked(&bench, &other, edit("c")).await;
    reply(&bench, &first, Reply::Reject, Some("  ")).await;
    assert_eq!(mine.scope.ended().await, Ended::Declined(Declined::Permission));
    assert_eq!(second_call.scope.ended().await, Ended::Declined(Declined::Permission));
    assert_eq!(bench.permissions.list(None), vec![third]);
    assert_eq!(replies(&bench), vec![(first.id, Reply::Reject), (second.id, Reply::Reject)]);
    // The leaves never got an answer.
    assert_eq!((task_1.is_finished(), task_2.is_finished(), task_3.is_finished()), (false, false, false));
    for task in [task_1, task_2, task_3] {
        task.abort();
    }
}

#[tokio::test]
async fn p13_words_reach_the_model_and_the_run_goes_on() {
    let bench = bench(&[]);
    let ctx = bench.context();
    let (first, task_1) = asked(&bench, &ctx, edit("a")).await;
    let (_, task_2) = asked(&bench, &ctx, edit("b")).await;
    reply(&bench, &first, Reply::Reject, Some("use b.txt")).await;
    let mine = task_1.await.unwrap().unwrap_err();
    assert_eq!(mine, PermissionError::Corrected { feedback: "use b.txt".to_owned(), together: false });
    let others = task_2.await.unwrap().unwrap_err();
    assert_eq!(others, PermissionError::Corrected { feedback: "use b.txt".to_owned(), together: true });
    assert_eq!(ToolFailure::from(mine).message, "The user refused this action and said: use b.txt");
    assert_eq!(
        ToolFailure::from(others).message,
        "The user refused this action and said: use b.txt (rejected together with another request)"
    );
    assert_eq!(ctx.scope.early_end(), None);
}

#[tokio::test]
async fn p14_always_saves_once_and_the_next_request_is_silent() {
    let bench = bench(&[("edit", "*", Ask)]);
    let ctx = bench.context();
    for _ in 0..2 {
        let (request, task) = asked(&bench, &ctx, AssertInput::new("edit", "a").saving("a").saving("a")).await;
        reply(&bench, &request, Reply::Always, None).await;
        assert_eq!(task.await.unwrap(), Ok(()));
        assert_eq!(bench.permissions.assert(&ctx, edit("a")).await, Ok(()));
        let saved = bench.values.saved_permissions(None).await.unwrap();
        let [SavedPermission { id, project_id, action, resource }] = saved.as_slice() else { panic!("{saved:?}") };
        assert_eq!((project_id.as_str(), action.as_str(), resource.as_str()), ("project", "edit", "a"));
        // Removed, it asks again.
        bench.values.remove_permission(id).await.unwrap();
    }
}

#[tokio::test]
async fn p15_always_releases_what_is_covered_now() {
    let bench = bench(&[]);
    let (mine, other) = (bench.context(), context(&bench, "ses_2"));
    let (first, task_1) = asked(&bench, &mine, AssertInput::new("edit", "src/a").saving("src/*")).await;
    let (covered, task_2) = asked(&bench, &other, AssertInput::new("edit", "src/b")).await;
    let (outside, task_3) = asked(&bench, &mine, AssertInput::new("edit", "doc/c")).await;
    let mut partly = AssertInput::new("edit", "src/c");
    partly.resources.push("doc/d".to_owned());
    let (both, task_4) = asked(&bench, &mine, partly).await;
    reply(&bench, &first, Reply::Always, None).await;
    assert_eq!(task_1.await.unwrap(), Ok(()));
    assert_eq!(task_2.await.unwrap(), Ok(()));
    assert_eq!(bench.permissions.list(None), vec![outside, both]);
    assert_eq!(replies(&bench), vec![(first.id, Reply::Always), (covered.id, Reply::Always)]);
    task_3.abort();
    task_4.abort();
}

#[tokio::test]
async fn p16_always_without_patterns_is_once() {
    let bench = bench(&[]);
    let ctx = bench.context();
    let (request, task) = asked(&bench, &ctx, AssertInput::new("question", "*")).await;
    reply(&bench, &request, Reply::Always, None).await;
    assert_eq!(task.await.unwrap(), Ok(()));
    assert_eq!(bench.values.saved_permissions(None).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn p17_the_same_id_again_is_the_waiting_request() {
    let bench = bench(&[]);
    let first = bench.permissions.create(create(Some("per_1"), "ses_1", &["a"])).await.unwrap();
    assert_eq!(first, Created { id: PermissionId::from_trusted("per_1"), effect: Ask });
    let again = bench.permissions.create(create(Some("per_1"), "ses_1", &["other"])).await.unwrap();
    assert_eq!(again, first);
    let elsewhere = bench.permissions.create(create(Some("per_1"), "ses_2", &["a"])).await;
    assert!(matches!(elsewhere, Err(CreateError::IdTaken(_))));
    let waiting = bench.permissions.list(None);
    assert_eq!(waiting.iter().map(|request| request.resources.clone()).collect::<Vec<_>>(), vec![vec!["a".to_owned()]]);
    assert_eq!(bench.events.all().len(), 1);
}

#[tokio::test]
async fn p18_leaving_the_wait_withdraws_the_request() {
    let bench = bench(&[]);
    let ctx = bench.context();
    let (request, task) = asked(&bench, &ctx, edit("a")).await;
    task.abort();
    bench.events.wait_for(2).await;
    assert_eq!(replies(&bench), vec![(request.id, Reply::Reject)]);
    assert_eq!(bench.permissions.list(None), Vec::new());
}

#[tokio::test]
async fn an_interrupt_withdraws_the_sessions_requests() {
    let bench = bench(&[]);
    let (mine, other) = (bench.context(), context(&bench, "ses_2"));
    let (request, task_1) = asked(&bench, &mine, edit("a")).await;
    let (stays, task_2) = asked(&bench, &other, edit("b")).await;
    bench.permissions.withdraw(&request.session_id);
    assert_eq!(mine.scope.ended().await, Ended::Interrupted);
    assert_eq!(bench.permissions.list(None), vec![stays]);
    assert_eq!(replies(&bench), vec![(request.id, Reply::Reject)]);
    task_1.abort();
    task_2.abort();
}

#[tokio::test]
async fn p19_a_closed_service_declines() {
    let bench = bench(&[("read", "*", Allow)]);
    let ctx = bench.context();
    let (request, task) = asked(&bench, &ctx, edit("a")).await;
    bench.permissions.close();
    assert_eq!(ctx.scope.ended().await, Ended::Declined(Declined::Permission));
    assert_eq!(replies(&bench), vec![(request.id, Reply::Reject)]);
    assert_eq!(bench.permissions.create(create(None, "ses_1", &["a"])).await.unwrap().effect, Deny);
    let late = context(&bench, "ses_3");
    let (service, ctx) = (bench.permissions.clone(), late.clone());
    let later = bench.world.spawn(async move { service.assert(&ctx, AssertInput::new("read", "a")).await });
    assert_eq!(late.scope.ended().await, Ended::Declined(Declined::Permission));
    task.abort();
    later.abort();
}

#[tokio::test]
async fn p20_nothing_cannot_be_permitted() {
    let bench = bench(&[("*", "*", Allow)]);
    assert!(matches!(bench.permissions.create(create(None, "ses_1", &[])).await, Err(CreateError::NoResource)));
    let input = AssertInput { action: "edit".to_owned(), ..AssertInput::default() };
    let refused = bench.permissions.assert(&bench.context(), input).await.unwrap_err();
    assert_eq!(refused.to_string(), "a permission request needs at least one resource");
}

#[tokio::test]
async fn an_unknown_session_is_named() {
    let bench = bench(&[("*", "*", Allow)]);
    let refused = bench.permissions.create(create(None, "ses_gone", &["a"])).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no session ses_gone");
}

#[tokio::test]
async fn p25_another_session_cannot_reply() {
    let bench = bench(&[]);
    let (request, task) = asked(&bench, &bench.context(), edit("a")).await;
    let other = session_id("ses_2");
    assert_eq!(bench.permissions.get(&other, &request.id), None);
    let refused = bench.permissions.reply(&other, &request.id, Reply::Once, None).await;
    assert!(matches!(refused, Err(ReplyError::NotFound(_))));
    assert_eq!(bench.permissions.list(None).len(), 1);
    task.abort();
}

struct Hook;

impl EvaluateHook for Hook {
    fn evaluate<'a>(&'a self, evaluation: &'a mut Evaluation) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match evaluation.resources.first().map(String::as_str) {
                Some("trusted") => evaluation.effect = Allow,
                Some("strange") => {
                    evaluation.effect = Deny;
                    evaluation.message = Some("policy 7 forbids it".to_owned());
                }
                _others => evaluation.message = Some("please look".to_owned()),
            }
        })
    }
}

#[tokio::test]
async fn p21_hooks_change_evaluations_but_no_configured_deny() {
    let given = bench(&[]);
    let permissions = PermissionService::new(PermissionOptions {
        world: given.world.clone(),
        project: crate::tool::testing::project(),
        directory: "/work/site".into(),
        rules: crate::tool::testing::given_rules(vec![
            Rule::new("edit", "*", Ask),
            Rule::new("edit", "trusted", Deny),
            Rule::new("write", "*", Ask),
        ]),
        values: Arc::clone(&given.values) as Arc<dyn crate::store::ValueStore>,
        publish: given.events.publish(),
        hooks: vec![Arc::new(Hook)],
    });
    let bench = Bench { permissions, ..given };
    let ctx = bench.context();
    let assert = |action: &str, resource: &str| {
        let input = AssertInput::new(action, resource);
        let (service, ctx) = (bench.permissions.clone(), ctx.clone());
        async move { service.assert(&ctx, input).await.map_err(|error| error.to_string()) }
    };
    assert_eq!(assert("write", "trusted").await, Ok(()));
    assert_eq!(assert("edit", "trusted").await, Err("Permission denied: edit".to_owned()));
    assert_eq!(assert("edit", "strange").await, Err("policy 7 forbids it".to_owned()));
    let (request, task) = asked(&bench, &ctx, edit("other")).await;
    assert_eq!(request.message.as_deref(), Some("please look"));
    task.abort();
}

#[tokio::test]
async fn effect_tells_without_asking() {
    let bench = bench(&[("read", "*", Allow), ("read", "secret", Deny), ("read", "maybe", Ask)]);
    let ctx = bench.context();
    for (resource, expected) in [("a", Allow), ("secret", Deny), ("maybe", Ask)] {
        assert_eq!(bench.permissions.effect(&ctx, "read", &[resource.to_owned()]).await, expected);
    }
    let gone = context(&bench, "ses_gone");
    assert_eq!(bench.permissions.effect(&gone, "read", &["a".to_owned()]).await, Deny);
    assert_eq!(bench.events.all(), Vec::new());
}
