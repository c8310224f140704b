//! Hooks around calls.

use super::*;
use crate::tool::hooks::{AfterCall, BeforeCall, HookError};

/// Notes what it sees, and changes what it is told to.
#[derive(Default)]
struct Recording {
    seen: Mutex<Vec<String>>,
    rename: Option<&'static str>,
    replace: Option<&'static str>,
    fails: Option<HookFailure>,
    required: bool,
}

#[derive(Clone, Copy)]
enum HookFailure {
    Errors,
    Hangs,
    Panics,
}

impl Recording {
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    async fn fail(&self) -> Result<(), HookError> {
        match self.fails {
            None => Ok(()),
            Some(HookFailure::Errors) => Err(HookError("no".to_owned())),
            Some(HookFailure::Hangs) => std::future::pending().await,
            Some(HookFailure::Panics) => panic!("broken hook"),
        }
    }
}

impl ToolHook for Recording {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn is_required(&self) -> bool {
        self.required
    }

    fn before<'a>(&'a self, call: &'a mut BeforeCall) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            self.seen.lock().unwrap().push(format!("before {}", call.tool));
            if let Some(name) = self.rename {
                name.clone_into(&mut call.tool);
                call.input = json!({ "n": 7 });
            }
            self.fail().await
        })
    }

    fn after<'a>(&'a self, call: &'a BeforeCall, outcome: AfterCall<'a>) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            let tool = &call.tool;
            match outcome {
                AfterCall::Completed(result) => {
                    self.seen.lock().unwrap().push(format!("after {tool}: completed"));
                    if let Some(text) = self.replace {
                        *result = ToolResult { output: Some(text.into()), ..ToolResult::default() };
                    }
                }
                AfterCall::Failed(error) => {
                    self.seen.lock().unwrap().push(format!("after {tool}: error"));
                    if let Some(text) = self.replace {
                        *error = ToolError::new(text);
                    }
                }
            }
            Ok(())
        })
    }
}

fn with_hooks(hooks: Vec<Arc<dyn ToolHook>>) -> Bench {
    let mut bench = bench(&[]);
    bench.boundary = Arc::new(Boundary::new(BoundaryOptions {
        world: bench.world.clone(),
        files: OutputFiles::new(bench.world.clone(), bench.data.path()),
        limits: OutputLimits::default(),
        hooks,
        images: Images::new(ImageLimits::default()),
        secrets: Secrets::default(),
    }));
    bench
}

#[tokio::test]
async fn r36_a_hook_mends_a_wrong_name() {
    let hook = Arc::new(Recording { rename: Some("work"), ..Recording::default() });
    let bench = with_hooks(vec![hook.clone()]);
    let echo = tool(|_, input| async move { said(&input.to_string()) });
    let registry = ToolRegistry::new(Layer::new());
    let _registration = registry.location().transform(move |editor| editor.add(echo.clone()));
    let snapshot = registry.snapshot(None, &[], &bench.boundary);
    let call = bench.call("wrok", json!({}));
    let settled = snapshot.execute(call, bench.reports.clone(), CancellationToken::new()).await;
    assert_eq!(text(&settled), "{\"n\":7}");
    assert_eq!(hook.seen(), ["before wrok", "after work: completed"]);
}

#[tokio::test]
async fn b10_b11_a_hook_replaces_result_and_error() {
    let hook = Arc::new(Recording { replace: Some("replaced"), ..Recording::default() });
    let bench = with_hooks(vec![hook.clone()]);
    let sometimes =
        tool(|_, input| async move { if input["n"] == 1 { Err(ToolFailure::new("failed")) } else { said("done") } });
    assert_eq!(text(&bench.run(&sometimes, json!({})).await), "replaced");
    let (kind, error) = failure(bench.run(&sometimes, json!({ "n": 1 })).await);
    assert_eq!((kind, error.message.as_str()), (FailureKind::Execution, "replaced"));
}

#[tokio::test]
async fn b12_hooks_do_not_see_what_is_no_outcome_of_a_tool() {
    let hook = Arc::new(Recording::default());
    let bench = with_hooks(vec![hook.clone()]);
    let registry = ToolRegistry::new(Layer::new());
    let snapshot = registry.snapshot(None, &[], &bench.boundary);
    let unknown = snapshot.execute(bench.call("x", json!({})), bench.reports.clone(), CancellationToken::new()).await;
    assert_eq!(failure(unknown).0, FailureKind::Unknown);
    let panics = tool(|_, input| async move {
        assert!(input["n"] == 1, "broken");
        said("")
    });
    assert!(matches!(bench.run(&panics, json!({})).await, Settled::Defect { .. }));
    let interrupt = CancellationToken::new();
    interrupt.cancel();
    assert_eq!(bench.run_until(&panics, json!({}), interrupt).await, Settled::Interrupted);
    assert_eq!(hook.seen(), ["before x", "before work"]);
}

#[tokio::test(start_paused = true)]
async fn b13_a_hook_that_fails_changes_nothing_or_blocks() {
    let echo = tool(|_, input| async move { said(&input.to_string()) });
    for fails in [HookFailure::Errors, HookFailure::Hangs, HookFailure::Panics] {
        for required in [false, true] {
            let hook = Recording { rename: Some("other"), fails: Some(fails), required, ..Recording::default() };
            let bench = with_hooks(vec![Arc::new(hook)]);
            let settled = bench.run(&echo, json!({ "n": 1 })).await;
            if required {
                assert_eq!(failure(settled).1.message, "Blocked: hook policy failed");
            } else {
                assert_eq!(text(&settled), "{\"n\":1}");
            }
        }
    }
}

#[tokio::test]
async fn v9_invalid_input_never_reaches_a_leaf() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let counts = tool(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { said("ran") }
    });
    let hook = Arc::new(Recording::default());
    let bench = with_hooks(vec![hook.clone()]);
    let (kind, error) = failure(bench.run(&counts, json!({ "n": "one" })).await);
    assert_eq!(kind, FailureKind::InputSchema);
    assert_eq!(error.metadata, Some(JsonObject::from_iter([("kind".to_owned(), "invalid-input".into())])));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert_eq!(hook.seen(), ["before work", "after work: error"]);
}
