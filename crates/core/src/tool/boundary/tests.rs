//! Scenarios B1 to B20 and V9 to V15 of spec/tools.md section 16, and S88 of spec/session.md.

mod hooks;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use abide_schema::live::LiveData;
use abide_schema::permission::{Effect, Reply, Rule};
use abide_schema::tool::{Content, Freeform, ToolOptions};
use futures_util::future::BoxFuture;
use insta::assert_snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::permission::{AssertInput, PermissionError, PermissionService};
use crate::question::QuestionService;
use crate::tool::failure::caused;
use crate::tool::image::ImageLimits;
use crate::tool::info::ForeignTool;
use crate::tool::leaf::{Keep, ToolReturn, TypedTool};
use crate::tool::outcome::{Declined, ToolSnapshot as _};
use crate::tool::registry::{Layer, ToolRegistry};
use crate::tool::runtime::definition;
use crate::tool::schema::{ExternalSchema, Issue, ValueSchema};
use crate::tool::testing::Bench;

/// A foreign tool of a closure.
struct Code<F>(F);

impl<F> ForeignTool for Code<F>
where
    F: Fn(ToolContext, Value) -> BoxFuture<'static, Result<RawReturn, ToolFailure>> + Send + Sync,
{
    fn execute(self: Arc<Self>, ctx: ToolContext, input: Value) -> BoxFuture<'static, Result<RawReturn, ToolFailure>> {
        (self.0)(ctx, input)
    }
}

fn tool_of<F, Fut>(output: Option<Value>, code: F) -> ToolInfo
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<RawReturn, ToolFailure>> + Send + 'static,
{
    let schema = |document: Value| {
        let Value::Object(document) = document else { panic!("no schema: {document}") };
        ValueSchema::Json(Arc::new(document))
    };
    let code = Code(move |ctx: ToolContext, input: Value| -> BoxFuture<'static, _> { Box::pin(code(ctx, input)) });
    ToolInfo::foreign(
        "work",
        "works",
        schema(
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "additionalProperties": false }),
        ),
        output.map(schema),
        ToolOptions::direct(),
        Arc::new(code),
    )
}

fn tool<F, Fut>(code: F) -> ToolInfo
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<RawReturn, ToolFailure>> + Send + 'static,
{
    tool_of(None, code)
}

#[expect(clippy::unnecessary_wraps, reason = "what leaves return")]
fn said(text: &str) -> Result<RawReturn, ToolFailure> {
    Ok(ToolReturn::new(None).with_text(text))
}

fn bench(rules: &[(&str, Effect)]) -> Bench {
    Bench::new("/work/site", rules.iter().map(|(action, effect)| Rule::new(*action, "*", *effect)).collect())
}

#[track_caller]
fn text(settled: &Settled) -> String {
    let Settled::Completed(result) = settled else { panic!("{settled:?}") };
    abide_schema::tool::joined_text(&result.content)
}

#[track_caller]
fn failure(settled: Settled) -> (FailureKind, ToolError) {
    let Settled::Failed { error, kind } = settled else { panic!("{settled:?}") };
    (kind, error)
}

/// Sets a flag when dropped.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A leaf that does everything to learn of a refusal: it times out, races, retries and maps every error.
async fn stubborn(
    permissions: PermissionService,
    ctx: ToolContext,
    guard: Arc<AtomicBool>,
    reached: Arc<AtomicBool>,
) -> Result<RawReturn, ToolFailure> {
    let _guard = OnDrop(guard);
    let asking = permissions.assert(&ctx, AssertInput::new("edit", "a"));
    let outcome = tokio::time::timeout(Duration::from_hours(1), asking).await;
    reached.store(true, Ordering::SeqCst);
    match outcome {
        Ok(Ok(())) => said("done"),
        Ok(Err(error)) => Err(caused("Unable to work", &error)),
        Err(_elapsed) => said("Unable to wait"),
    }
}

#[tokio::test]
async fn s88_b1_a_leaf_cannot_catch_a_decline() {
    let bench = bench(&[]);
    let (guard, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (permissions, dropped, seen) = (bench.permissions.clone(), guard.clone(), reached.clone());
    let tool = tool(move |ctx, _| stubborn(permissions.clone(), ctx, dropped.clone(), seen.clone()));
    let answering = async {
        bench.events.wait_for(1).await;
        let request = bench.permissions.list(None).remove(0);
        bench.permissions.reply(&request.session_id, &request.id, Reply::Reject, None).await.unwrap();
    };
    let (settled, ()) = tokio::join!(bench.run(&tool, json!({})), answering);
    assert_eq!(settled, Settled::Declined(Declined::Permission));
    assert!(guard.load(Ordering::SeqCst), "the leaf was dropped before the settlement");
    assert!(!reached.load(Ordering::SeqCst), "the leaf went on");
}

#[tokio::test]
async fn s88_a_leaf_that_gives_up_first_does_not_outrun_its_decline() {
    let bench = bench(&[]);
    let permissions = bench.permissions.clone();
    let tool = tool(move |ctx, _| {
        let permissions = permissions.clone();
        async move {
            let scope = ctx.scope.clone();
            let asking = permissions.assert(&ctx, AssertInput::new("edit", "a"));
            // Returns in the same poll in which the decline came.
            tokio::select! {
                biased;
                _ = asking => said("answered"),
                _ended = scope.ended() => said("swallowed"),
            }
        }
    });
    let answering = async {
        bench.events.wait_for(1).await;
        bench.permissions.close();
    };
    let (settled, ()) = tokio::join!(bench.run(&tool, json!({})), answering);
    assert_eq!(settled, Settled::Declined(Declined::Permission));
}

#[tokio::test]
async fn q2_a_dismissed_question_ends_the_call() {
    let bench = bench(&[]);
    let questions: QuestionService = bench.questions.clone();
    let tool = tool(move |ctx, _| {
        let questions = questions.clone();
        async move {
            let info = abide_schema::question::QuestionInfo {
                question: "Which?".to_owned(),
                header: "Which".to_owned(),
                options: Vec::new(),
                multiple: None,
                custom: None,
            };
            questions.ask(&ctx, vec![info]).await?;
            said("answered")
        }
    });
    let answering = async {
        bench.events.wait_for(1).await;
        let request = bench.questions.list(None).remove(0);
        bench.questions.reject(&request.session_id, &request.id).unwrap();
    };
    let (settled, ()) = tokio::join!(bench.run(&tool, json!({})), answering);
    assert_eq!(settled, Settled::Declined(Declined::Question));
}

/// What a leaf can be told is a closed set without declines: these matches have no wildcard arm.
#[test]
fn s88_the_errors_of_a_leaf_have_no_room_for_a_decline() {
    fn by_what_a_leaf_can_see(error: &PermissionError) -> &'static str {
        match error {
            PermissionError::Blocked { .. } => "blocked",
            PermissionError::Corrected { .. } => "corrected",
        }
    }
    let corrected = PermissionError::Corrected { feedback: String::new(), together: false };
    assert_eq!(by_what_a_leaf_can_see(&corrected), "corrected");
}

/// A decline is no error, no value that can be copied or made: the first implementation exists for every type, so a
/// second one would make the call ambiguous and this would not compile.
mod no_way_to_hold_a_decline {
    use crate::permission::Refused;
    use crate::question::Dismissed;
    use crate::tool::outcome::ToolFailure;
    use crate::tool::scope::Decline;

    trait Ambiguous<A> {
        fn check() {}
    }
    struct Otherwise;
    impl<T> Ambiguous<()> for T {}
    impl<T: std::error::Error> Ambiguous<Otherwise> for T {}
    struct Copied;
    impl<T: Clone> Ambiguous<Copied> for T {}
    struct Made;
    impl<T: Default> Ambiguous<Made> for T {}
    struct Converted;
    impl<T: Into<ToolFailure>> Ambiguous<Converted> for T {}

    #[test]
    fn s88_compiles() {
        <Decline as Ambiguous<_>>::check();
        <Refused as Ambiguous<_>>::check();
        <Dismissed as Ambiguous<_>>::check();
    }
}

#[tokio::test]
async fn b2_words_reach_the_model() {
    let bench = bench(&[]);
    let permissions = bench.permissions.clone();
    let tool = tool(move |ctx, _| {
        let permissions = permissions.clone();
        async move {
            permissions
                .assert(&ctx, AssertInput::new("edit", "a"))
                .await
                .map_err(|e| caused("Could not write a", &e))?;
            said("done")
        }
    });
    let answering = async {
        bench.events.wait_for(1).await;
        let request = bench.permissions.list(None).remove(0);
        let words = Some("not that file".to_owned());
        bench.permissions.reply(&request.session_id, &request.id, Reply::Reject, words).await.unwrap();
    };
    let (settled, ()) = tokio::join!(bench.run(&tool, json!({})), answering);
    let (kind, error) = failure(settled);
    assert_eq!(kind, FailureKind::Execution);
    assert_eq!(error.message, "Could not write a: The user refused this action and said: not that file");
}

#[tokio::test]
async fn b3_a_rule_that_denies_is_its_own_kind_also_behind_the_leafs_words() {
    let bench = bench(&[("edit", Effect::Deny)]);
    for wrapped in [false, true] {
        let permissions = bench.permissions.clone();
        let tool = tool(move |ctx, _| {
            let permissions = permissions.clone();
            async move {
                let asked = permissions.assert(&ctx, AssertInput::new("edit", "a")).await;
                asked.map_err(|error| {
                    let failure = ToolFailure::from(error);
                    if wrapped { caused("Could not write a", &failure) } else { failure }
                })?;
                said("done")
            }
        });
        let (kind, error) = failure(bench.run(&tool, json!({})).await);
        assert_eq!(kind, FailureKind::PermissionRejected);
        let text = "Permission denied: edit";
        assert_eq!(error.message, if wrapped { format!("Could not write a: {text}") } else { text.to_owned() });
    }
}

#[tokio::test]
async fn b4_a_panic_is_a_defect_of_that_call_alone() {
    let bench = bench(&[]);
    let broken = tool(|_, input| async move {
        assert!(input["n"] != 1, "broken at 1");
        said("fine")
    });
    let calls = (bench.run(&broken, json!({ "n": 1 })), bench.run(&broken, json!({ "n": 2 })));
    let (defect, fine) = tokio::join!(calls.0, calls.1);
    assert_eq!(defect, Settled::Defect { report: "broken at 1".to_owned() });
    assert_eq!(text(&fine), "fine");
}

#[tokio::test]
async fn b5_an_interrupt_drops_the_leaf_and_its_tasks() {
    let bench = bench(&[]);
    let flags: [Arc<AtomicBool>; 2] = Default::default();
    let [leaf, task] = flags.clone();
    let started = Arc::new(tokio::sync::Notify::new());
    let begun = Arc::clone(&started);
    let waits = tool(move |ctx, _| {
        let (leaf, task, begun) = (leaf.clone(), task.clone(), begun.clone());
        async move {
            let _guard = OnDrop(leaf);
            drop(ctx.scope.spawn(async move {
                let _guard = OnDrop(task);
                begun.notify_one();
                std::future::pending::<()>().await;
            }));
            std::future::pending().await
        }
    });
    let interrupt = CancellationToken::new();
    let stopping = async {
        started.notified().await;
        interrupt.cancel();
    };
    let (settled, ()) = tokio::join!(bench.run_until(&waits, json!({}), interrupt.clone()), stopping);
    assert_eq!(settled, Settled::Interrupted);
    assert!(flags.iter().all(|flag| flag.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn dropping_the_call_interrupts_it() {
    let bench = bench(&[]);
    let flag = Arc::new(AtomicBool::new(false));
    let (guard, started) = (flag.clone(), Arc::new(tokio::sync::Notify::new()));
    let begun = Arc::clone(&started);
    let waits = tool(move |_, _| {
        let (guard, begun) = (guard.clone(), begun.clone());
        async move {
            let _guard = OnDrop(guard);
            begun.notify_one();
            std::future::pending().await
        }
    });
    tokio::select! {
        settled = bench.run(&waits, json!({})) => panic!("{settled:?}"),
        () = started.notified() => {}
    }
    while !flag.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn b6_a_commit_runs_to_its_end_and_then_the_call_settles() {
    let bench = bench(&[]);
    let committed = Arc::new(AtomicBool::new(false));
    let (started, release) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (done, begun, go) = (committed.clone(), started.clone(), release.clone());
    let commits = tool(move |ctx, _| {
        let (done, begun, go) = (done.clone(), begun.clone(), go.clone());
        async move {
            ctx.scope
                .commit(async move {
                    begun.notify_one();
                    go.notified().await;
                    done.store(true, Ordering::SeqCst);
                })
                .await;
            said("committed")
        }
    });
    let interrupt = CancellationToken::new();
    let call = bench.run_until(&commits, json!({}), interrupt.clone());
    tokio::pin!(call);
    tokio::select! {
        settled = &mut call => panic!("{settled:?}"),
        () = started.notified() => interrupt.cancel(),
    }
    // However long the commit takes, the call does not settle before.
    for _ in 0..20 {
        let settled = futures_util::poll!(&mut call);
        assert!(settled.is_pending());
        tokio::task::yield_now().await;
    }
    release.notify_one();
    assert_eq!(call.await, Settled::Interrupted);
    assert!(committed.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_panic_in_a_commit_is_a_defect_also_after_an_interrupt() {
    let bench = bench(&[]);
    for interrupted in [false, true] {
        let interrupt = CancellationToken::new();
        let token = interrupt.clone();
        let commits = tool(move |ctx, _| {
            let token = token.clone();
            async move {
                ctx.scope
                    .commit(async move {
                        if interrupted {
                            token.cancel();
                            tokio::task::yield_now().await;
                        }
                        panic!("torn");
                    })
                    .await;
                said("committed")
            }
        });
        let settled = bench.run_until(&commits, json!({}), interrupt).await;
        assert_eq!(settled, Settled::Defect { report: "torn".to_owned() });
    }
}

#[tokio::test]
async fn b17_the_context_has_the_ids_of_the_call() {
    let bench = bench(&[]);
    let sees = tool(|ctx, _| async move {
        said(&format!("{} {} {} {} {}", ctx.session_id, ctx.agent, ctx.message_id, ctx.id, ctx.fence))
    });
    assert_eq!(text(&bench.run(&sees, json!({})).await), "ses_1 build msg_1 call_1 1");
}

#[tokio::test(start_paused = true)]
async fn b16_progress_is_merged_deduplicated_and_limited() {
    let bench = bench(&[]);
    let late = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&late);
    let reports = tool(move |ctx, _| {
        let kept = kept.clone();
        async move {
            let report = |key: &str, value: i32| {
                ctx.progress.report(JsonObject::from_iter([(key.to_owned(), value.into())]));
            };
            report("a", 1);
            report("a", 1);
            for n in 0..100 {
                report("n", n);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            report("n", 99);
            report("b", 2);
            report("b", 3);
            kept.lock().unwrap().replace(ctx.progress.clone());
            said("done")
        }
    });
    assert_eq!(text(&bench.run(&reports, json!({})).await), "done");
    late.lock().unwrap().take().unwrap().report(JsonObject::from_iter([("late".to_owned(), true.into())]));
    let seen: Vec<Value> = bench.reports.all().into_iter().map(|(structured, _)| structured.into()).collect();
    assert_eq!(
        seen,
        [
            json!({ "a": 1 }),
            json!({ "a": 1, "n": 99 }),
            json!({ "a": 1, "n": 99, "b": 2 }),
            json!({ "a": 1, "n": 99, "b": 3 })
        ]
    );
}

#[tokio::test]
async fn b20_the_cause_is_told_once_and_the_text_is_capped() {
    let bench = bench(&[]);
    let fails = |message: String, cause: Value| {
        tool(move |_, _| {
            let failure = ToolFailure { message: message.clone(), error: Some(cause.clone()), metadata: None };
            async move { Err(failure) }
        })
    };
    let run = async |message: &str, cause: Value| {
        let tool = fails(message.to_owned(), cause);
        failure(bench.run(&tool, json!({})).await).1.message
    };
    assert_eq!(run("Could not read a", json!({ "message": "no such file" })).await, "Could not read a: no such file");
    assert_eq!(run("Could not read a", json!("no such file")).await, "Could not read a: no such file");
    assert_eq!(run("Could not: gone", json!({ "message": "gone" })).await, "Could not: gone");
    assert_eq!(run("Could not", json!({ "code": 3 })).await, "Could not");
    let long = run(&"é".repeat(10_000), json!(null)).await;
    assert!(long.len() <= 8 * 1024 && long.contains("bytes cut"), "{}", long.len());
}

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    /// The first.
    a: u8,
    /// The second.
    #[serde(default)]
    b: u8,
    /// Digits that a schema cannot describe.
    #[expect(dead_code, reason = "only decoded")]
    digits: Option<Digits>,
}

#[derive(JsonSchema)]
#[schemars(transparent)]
struct Digits(#[expect(dead_code, reason = "only decoded")] String);

impl<'de> Deserialize<'de> for Digits {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_good = text.bytes().all(|byte| byte.is_ascii_digit());
        if is_good { Ok(Self(text)) } else { Err(serde::de::Error::custom("expected digits")) }
    }
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: u32,
}

/// Adds two numbers.
struct Adds;

impl TypedTool for Adds {
    type Input = Numbers;
    type Output = Sum;

    fn name(&self) -> &'static str {
        "add"
    }

    fn description(&self) -> String {
        "Adds two numbers.".to_owned()
    }

    async fn execute(&self, _: ToolContext, input: Numbers) -> Result<ToolReturn<Sum>, ToolFailure> {
        Ok(ToolReturn::new(Sum { sum: u32::from(input.a) + u32::from(input.b) }))
    }
}

#[tokio::test]
async fn a_typed_tool_runs() {
    let bench = bench(&[]);
    let add = ToolInfo::typed(Adds);
    let settled = bench.run(&add, json!({ "a": 1, "b": 2, "surplus": true })).await;
    let expected = NormalizedResult {
        structured: JsonObject::from_iter([("sum".to_owned(), 3.into())]),
        content: vec![Content::text("{\"sum\":3}")],
        output_paths: Vec::new(),
    };
    assert_eq!(settled, Settled::Completed(expected));
    assert_eq!(text(&bench.run(&add, json!({ "a": 1, "digits": null })).await), "{\"sum\":1}");
}

#[tokio::test]
async fn v11_what_the_schema_cannot_say_is_an_issue_too() {
    let bench = bench(&[]);
    let (kind, error) = failure(bench.run(&ToolInfo::typed(Adds), json!({ "a": 1, "digits": "x1" })).await);
    assert_eq!(kind, FailureKind::InputSchema);
    assert_snapshot!(error.message, @r#"
    The arguments for tool "add" are not valid:
    - digits: expected digits

    Arguments provided:
    {
      "a": 1,
      "digits": "x1"
    }

    Please update the arguments and call the tool again.
    "#);
}

#[tokio::test]
async fn v13_v14_v15_outputs() {
    let bench = bench(&[]);
    let gives = |schema: Option<Value>, output: Option<Value>| {
        tool_of(schema, move |_, _| {
            let output = output.clone();
            async move { Ok(ToolReturn::new(output)) }
        })
    };
    let object = || Some(json!({ "type": "object", "required": ["a"] }));
    let run = async |schema: Option<Value>, output: Option<Value>| bench.run(&gives(schema, output), json!({})).await;
    let (_, error) = failure(run(object(), None).await);
    assert_eq!(error.message, "The tool gave no value for its declared output");
    let undeclared = Settled::Defect { report: "work returned output without an output schema".to_owned() };
    assert_eq!(run(None, Some(json!(1))).await, undeclared);
    let (_, error) = failure(run(object(), Some(json!({}))).await);
    assert_eq!(error.message, "The tool's output does not match its schema: a: missing required property");
    assert_eq!(text(&run(object(), Some(json!({ "a": [1, "é"] }))).await), "{\"a\":[1,\"é\"]}");
    assert_eq!(text(&run(Some(json!({})), Some(json!("as it is"))).await), "as it is");
    assert_eq!(text(&run(None, None).await), "");
}

#[tokio::test]
async fn o6_o7_o15_bounding_in_the_boundary() {
    let bench = bench(&[]);
    let big = || Some(json!({ "rows": vec!["x".repeat(1000); 60] }));
    let gives = tool_of(Some(json!({})), move |_, _| async move { Ok(ToolReturn::new(big())) });
    let Settled::Completed(result) = bench.run(&gives, json!({})).await else { panic!("no result") };
    assert_eq!(Value::Object(result.structured), big().unwrap());
    let [path] = result.output_paths.as_slice() else { panic!("{:?}", result.output_paths) };
    assert_eq!(std::fs::read_to_string(path).unwrap(), big().unwrap().to_string());
    assert_eq!(result.content.len(), 2);

    // The directory cannot be made: nothing lossy succeeds.
    std::fs::remove_dir_all(bench.data.path().join("tool-output")).unwrap();
    std::fs::write(bench.data.path().join("tool-output"), "a file").unwrap();
    let (kind, error) = failure(bench.run(&gives, json!({})).await);
    assert_eq!(kind, FailureKind::Execution);
    assert!(error.message.starts_with("The tool finished but its full output could not be stored: "));
    assert_eq!(text(&bench.run(&tool(|_, _| async { said("short") }), json!({})).await), "short");
}

#[tokio::test]
async fn a_producers_own_bounds_and_files_are_kept() {
    let bench = bench(&[]);
    let long = "x\n".repeat(5000);
    let says = long.clone();
    let bounds = tool(move |_, _| {
        let says = says.clone();
        async move { Ok(ToolReturn::new(None).with_text(says).bounded(true).with_output_path("/data/x")) }
    });
    let Settled::Completed(result) = bench.run(&bounds, json!({})).await else { panic!("no result") };
    assert_eq!(result.content, vec![Content::text(long)]);
    assert_eq!(result.output_paths, ["/data/x"]);
}

#[tokio::test]
async fn a_tail_tool_keeps_the_end() {
    let bench = bench(&[]);
    let mut says =
        tool(|_, _| async { said(&format!("{}\n", (0..3000).map(|n| n.to_string()).collect::<Vec<_>>().join("\n"))) });
    says.keep = Keep::Tail;
    let settled = bench.run(&says, json!({})).await;
    assert!(text(&settled).ends_with("2998\n2999\n"));
    assert!(text(&settled).starts_with("[1000 lines cut; complete text in "));
}

#[tokio::test(start_paused = true)]
async fn permits_bound_the_leaves_that_work() {
    let bench = bench(&[]);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (running.clone(), most.clone());
    let mut works = tool(move |_, _| {
        let (now, peak) = (now.clone(), peak.clone());
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            said("done")
        }
    });
    let all = (0..40).map(|_| bench.run(&works, json!({})));
    futures_util::future::join_all(all).await;
    assert_eq!(most.load(Ordering::SeqCst), 32);
    works.load = Load::Waits;
    let all = (0..40).map(|_| bench.run(&works, json!({})));
    futures_util::future::join_all(all).await;
    assert_eq!(most.load(Ordering::SeqCst), 40);
}

/// A validator of a plugin that takes its time and gives another value.
struct Doubling(JsonObject);

impl ExternalSchema for Doubling {
    fn document(&self) -> &JsonObject {
        &self.0
    }

    fn validate(&self, value: Value) -> BoxFuture<'_, Result<Value, Vec<Issue>>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let n = value["n"].as_i64().ok_or_else(|| vec![Issue::new("n", "expected integer")])?;
            Ok(json!({ "n": n * 2 }))
        })
    }
}

#[tokio::test]
async fn v12_v18_schemas_from_outside() {
    let bench = bench(&[]);
    let mut doubles = tool(|_, input| async move { said(&input.to_string()) });
    doubles.input = ValueSchema::External(Arc::new(Doubling(JsonObject::new())));
    assert_eq!(text(&bench.run(&doubles, json!({ "n": 2 })).await), "{\"n\":4}");
    let (_, refused) = failure(bench.run(&doubles, json!({ "n": "x" })).await);
    let wanted = "The arguments for tool \"work\" are not valid:\n- n: expected integer\n\nArguments provided:\n{\n  \"n\": \"x\"\n}\n\n\
                  Please update the arguments and call the tool again.";
    assert_eq!(refused.message, wanted);

    // A tool without a schema takes everything, and says so.
    let mut anything = tool(|_, input| async move { said(&input.to_string()) });
    anything.input = ValueSchema::Json(Arc::new(JsonObject::new()));
    assert_eq!(text(&bench.run(&anything, json!({ "x": [1] })).await), "{\"x\":[1]}");
    assert!(definition("work", &anything).input_schema.is_empty());
}

#[tokio::test]
async fn pa14_plain_text_is_the_patch() {
    let bench = bench(&[]);
    let mut patches = tool(|_, input| async move { said(input["n"].as_str().unwrap_or("no text")) });
    let schema = json!({ "type": "object", "properties": { "n": { "type": "string" } } });
    patches.input = ValueSchema::Json(Arc::new(schema.as_object().unwrap().clone()));
    patches.freeform = Some(Freeform { input: "n".to_owned(), name: "apply_work".to_owned() });
    let registry = ToolRegistry::new(Layer::new());
    let _registration = registry.location().transform(move |editor| editor.add(patches.clone()));
    let snapshot = registry.snapshot(None, &[], &bench.boundary);
    let settle = async |snapshot: &Snapshot, name: &str, input: Value| {
        let call = bench.call(name, input);
        match snapshot.execute(call, bench.reports.clone(), CancellationToken::new()).await {
            Settled::Failed { error, .. } => error.message,
            settled => text(&settled),
        }
    };
    // By either name, as text or as an object.
    for name in ["work", "apply_work"] {
        assert_eq!(settle(&snapshot, name, json!("a patch")).await, "a patch", "{name}");
        assert_eq!(settle(&snapshot, name, json!({ "n": "a patch" })).await, "a patch", "{name}");
    }
    assert_eq!(snapshot.effects("apply_work"), snapshot.effects("work"));
    // Not when it is not offered.
    let without = snapshot.without(&["work"]);
    assert_eq!(without.definitions().len(), 0);
    assert_eq!(settle(&without, "work", json!({})).await, "work cannot be used in this request");
    assert_eq!(settle(&without, "apply_work", json!({})).await, "Unknown tool: apply_work");
}

#[tokio::test]
async fn keys_are_in_nothing_that_a_tool_returns() {
    const KEY: &str = "sk-0123456789";
    let mut bench = bench(&[]);
    let secrets = Secrets::default();
    secrets.add([KEY.to_owned()]);
    bench.boundary = Arc::new(Boundary::new(BoundaryOptions {
        world: bench.world.clone(),
        files: OutputFiles::new(bench.world.clone(), bench.data.path()),
        limits: OutputLimits::default(),
        hooks: Vec::new(),
        images: Images::new(ImageLimits::default()),
        secrets,
    }));
    let shows = tool(|ctx, _| async move {
        ctx.progress.report(JsonObject::from_iter([("line".to_owned(), KEY.into())]));
        ctx.progress.output(OutputStream::Stdout, &format!("live {KEY}"));
        let long = format!("{KEY}\n").repeat(3000);
        Ok(ToolReturn::<Option<Value>>::default().with_text(long).with_metadata("key", KEY))
    });
    let settled = bench.run(&shows, json!({})).await;
    let Settled::Completed(result) = &settled else { panic!("{settled:?}") };
    assert!(text(&settled).starts_with("[redacted]\n[redacted]\n"));
    let stored = std::fs::read_to_string(&result.output_paths[0]).unwrap();
    let fails = tool(|_, _| async move { Err(caused("no", &ToolFailure::new(format!("key {KEY}")))) });
    let failed = bench.run(&fails, json!({})).await;
    for shown in [format!("{settled:?}"), stored, format!("{failed:?}"), format!("{:?}", bench.reports.all())] {
        assert!(shown.contains("[redacted]") && !shown.contains(KEY), "{shown}");
    }
}

#[tokio::test]
async fn r33_a_call_finishes_with_the_tool_it_started_with() {
    let bench = bench(&[]);
    let permissions = bench.permissions.clone();
    let asks = tool(move |ctx, _| {
        let permissions = permissions.clone();
        async move {
            permissions.assert(&ctx, AssertInput::new("edit", "a")).await?;
            said("old")
        }
    });
    let registry = ToolRegistry::new(Layer::new());
    let registration = registry.location().transform(move |editor| editor.add(asks.clone()));
    let snapshot = registry.snapshot(None, &[], &bench.boundary);
    let removing = async {
        bench.events.wait_for(1).await;
        drop(registration);
        let request = bench.permissions.list(None).remove(0);
        bench.permissions.reply(&request.session_id, &request.id, Reply::Once, None).await.unwrap();
    };
    let call = snapshot.execute(bench.call("work", json!({})), bench.reports.clone(), CancellationToken::new());
    let (settled, ()) = tokio::join!(call, removing);
    assert_eq!(text(&settled), "old");
    assert!(bench.events.all().iter().any(|event| matches!(event, LiveData::PermissionReplied(_))));
}

#[tokio::test]
async fn nobody_is_asked_inside_a_commit() {
    let bench = bench(&[]);
    let permissions = bench.permissions.clone();
    let asks = tool(move |ctx, _| {
        let (permissions, inside) = (permissions.clone(), ctx.clone());
        async move {
            let asked =
                ctx.scope.commit(async move { permissions.assert(&inside, AssertInput::new("edit", "a")).await });
            asked.await?;
            said("done")
        }
    });
    let settled = bench.run(&asks, json!({})).await;
    assert_eq!(settled, Settled::Defect { report: "nobody can be asked inside a commit section".to_owned() });
}
