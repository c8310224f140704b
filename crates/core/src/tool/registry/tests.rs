//! Scenarios R1 to R36 of spec/tools.md section 16, as far as they concern registration and lookup.

use std::sync::atomic::{AtomicUsize, Ordering};

use abide_schema::permission::Effect;
use abide_schema::tool::ToolOptions;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tool::info::{ForeignTool, RawReturn, ToolInfo};
use crate::tool::leaf::{ToolContext, ToolReturn};
use crate::tool::outcome::{FailureKind, Settled, ToolFailure, ToolSnapshot as _};
use crate::tool::schema::ValueSchema;
use crate::tool::testing::Bench;

/// Says its own name.
struct Says(String);

impl ForeignTool for Says {
    fn execute(self: Arc<Self>, _: ToolContext, _: Value) -> BoxFuture<'static, Result<RawReturn, ToolFailure>> {
        Box::pin(async move { Ok(ToolReturn::new(None).with_text(self.0.as_str())) })
    }
}

fn tool_with(name: &str, says: &str, options: ToolOptions) -> ToolInfo {
    let input = ValueSchema::Json(Arc::default());
    ToolInfo::foreign(name, format!("says {says}"), input, None, options, Arc::new(Says(says.to_owned())))
}

fn tool(name: &str, says: &str) -> ToolInfo {
    tool_with(name, says, ToolOptions::direct())
}

fn adding(layer: &Layer, tools: Vec<ToolInfo>) -> Registration {
    layer.transform(move |editor| {
        for tool in tools.clone() {
            editor.add(tool);
        }
    })
}

fn registry() -> ToolRegistry {
    ToolRegistry::new(Layer::new())
}

/// What is effective: `name` or `name=says`.
fn effective(registry: &ToolRegistry, session: Option<&SessionId>) -> Vec<String> {
    let tools = registry.effective(session);
    tools.iter().map(|(name, entry)| format!("{name}={}", entry.tool.description.replace("says ", ""))).collect()
}

#[track_caller]
fn check_effective(registry: &ToolRegistry, expected: &[&str]) {
    assert_eq!(effective(registry, None), expected);
}

fn bench() -> Bench {
    Bench::new("/work/site", Vec::new())
}

/// Calls `name` on a snapshot: what it said, or why it failed.
async fn call(bench: &Bench, snapshot: &Snapshot, name: &str) -> Result<String, (FailureKind, String)> {
    let call = bench.call(name, json!({}));
    let settled = snapshot.execute(call, bench.reports.clone(), tokio_util::sync::CancellationToken::new()).await;
    match settled {
        Settled::Completed(result) => Ok(abide_schema::tool::joined_text(&result.content)),
        Settled::Failed { error, kind } => Err((kind, error.message)),
        Settled::Declined(_) | Settled::Interrupted | Settled::Defect { .. } => panic!("{settled:?}"),
    }
}

#[test]
fn r1_the_later_registration_hides_the_earlier() {
    let registry = registry();
    let layer = registry.location();
    let _first = adding(layer, vec![tool("echo", "1")]);
    let second = adding(layer, vec![tool("echo", "2")]);
    check_effective(&registry, &["echo=2"]);
    drop(second);
    check_effective(&registry, &["echo=1"]);
}

#[test]
fn r2_disposing_again_does_nothing() {
    let layer = Layer::new();
    let registration = adding(&layer, vec![tool("echo", "1")]);
    let revision = layer.watch();
    let before = *revision.borrow();
    registration.dispose();
    registration.dispose();
    drop(registration);
    assert_eq!(*revision.borrow(), before + 1);
}

#[test]
fn r3_the_middle_one_goes() {
    let registry = registry();
    let layer = registry.location();
    let _a = adding(layer, vec![tool("echo", "1"), tool("a", "1")]);
    let middle = adding(layer, vec![tool("echo", "2"), tool("b", "2")]);
    let top = adding(layer, vec![tool("echo", "3"), tool("c", "3")]);
    middle.dispose();
    check_effective(&registry, &["a=1", "c=3", "echo=3"]);
    top.dispose();
    check_effective(&registry, &["a=1", "echo=1"]);
}

#[test]
fn r4_r7_updates_and_removals_create_nothing() {
    let registry = registry();
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let counted = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let _registration = registry.location().transform(move |editor| {
        editor.update("missing", |_| counted());
        editor.remove("missing");
        editor.add(tool("echo", "1"));
        editor.remove("echo");
        editor.update("echo", |_| counted());
        assert!(editor.get("echo").is_none());
    });
    check_effective(&registry, &[]);
    assert_eq!(called.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn r5_r6_an_update_keeps_the_name_and_must_be_valid() {
    let (registry, bench) = (registry(), bench());
    let layer = registry.location();
    let _added = adding(layer, vec![tool("echo", "1"), tool("other", "1")]);
    let _updated = layer.transform(|editor| {
        editor.update("echo", |echo| {
            let mut options = ToolOptions::direct();
            options.namespace = Some("elsewhere".to_owned());
            *echo = tool_with("renamed", "2", options);
        });
        editor.update("other", |other| other.description.clear());
    });
    check_effective(&registry, &["echo=2", "other=1"]);
    assert_eq!(layer.errors(), vec![RegistrationError::NoDescription]);
    let snapshot = registry.snapshot(None, &[], &bench.boundary);
    assert_eq!(call(&bench, &snapshot, "echo").await, Ok("2".to_owned()));
    assert_eq!(call(&bench, &snapshot, "other").await, Ok("1".to_owned()));
}

#[test]
fn r8_to_r12_names() {
    #[track_caller]
    fn check(name: &str, namespace: Option<&str>, codemode: bool, expected: Result<&str, RegistrationError>) {
        let options =
            ToolOptions { namespace: namespace.map(str::to_owned), permission: None, codemode, pinned: false };
        assert_eq!(names::effective(name, &options), expected.map(str::to_owned));
    }
    let long = "x".repeat(65);
    let (just, shorter) = ("x".repeat(64), "x".repeat(60));
    check("", None, false, Err(RegistrationError::Name(String::new())));
    check(&long, None, false, Err(RegistrationError::Name(long.clone())));
    check(&just, None, false, Ok(&just));
    check("echo.tool", None, false, Ok("echo_tool"));
    check("größe", None, false, Ok("gr__e"));
    check("1st", None, false, Ok("1st"));
    check("_a-b", None, false, Ok("_a-b"));
    check("x", Some("a.b"), false, Ok("a_b_x"));
    check("x", Some("slack..admin"), false, Err(RegistrationError::Namespace("slack..admin".to_owned())));
    check("x", Some(""), false, Err(RegistrationError::Namespace(String::new())));
    check(&shorter, Some("abcd"), false, Err(RegistrationError::TooLong(format!("abcd_{shorter}"))));
    check(&shorter, Some("abcd"), true, Ok(&format!("abcd_{shorter}")));
    check("execute", None, false, Err(RegistrationError::Reserved("execute".to_owned())));
    check("execute", None, true, Ok("execute"));
    check("search", None, true, Err(RegistrationError::Reserved("search".to_owned())));
    check("search", None, false, Ok("search"));
    check("search", Some("web"), true, Ok("web_search"));

    let registry = registry();
    let _registration = registry.location().transform(|editor| {
        editor.namespace("slack..admin", None);
        editor.add(tool("", "1"));
        editor.add(tool("good", "1"));
        editor.add(tool("echo.tool", "1"));
        editor.add(tool("echo_tool", "2"));
    });
    check_effective(&registry, &["echo_tool=2", "good=1"]);
    assert_eq!(registry.location().errors().len(), 2);
}

#[test]
fn a_pinned_direct_tool_is_refused() {
    let layer = Layer::new();
    let pinned = ToolOptions { pinned: true, ..ToolOptions::direct() };
    let _registration = adding(&layer, vec![tool_with("a", "1", pinned)]);
    assert_eq!(layer.errors(), vec![RegistrationError::Pinned]);
}

#[test]
fn r13_r14_a_reload_reads_what_is_captured_now() {
    let registry = registry();
    let layer = registry.location();
    let source = Arc::new(Mutex::new(vec![tool("a", "mcp"), tool("b", "mcp")]));
    let discovered = Arc::clone(&source);
    let _mcp = layer.transform(move |editor| {
        for tool in discovered.lock().unwrap().clone() {
            editor.add(tool);
        }
    });
    let _plugin = adding(layer, vec![tool("b", "plugin")]);
    check_effective(&registry, &["a=mcp", "b=plugin"]);
    *source.lock().unwrap() = vec![tool("b", "mcp 2"), tool("c", "mcp 2")];
    check_effective(&registry, &["a=mcp", "b=plugin"]);
    layer.reload();
    check_effective(&registry, &["b=plugin", "c=mcp 2"]);
}

#[test]
fn r15_a_batch_is_one_publication_and_a_teardown_none() {
    let layer = Layer::new();
    let revision = layer.watch();
    let registrations = layer.batch(|| {
        let made = ["a", "b", "c"].map(|name| adding(&layer, vec![tool(name, "1")]));
        assert_eq!(*revision.borrow(), 0);
        made
    });
    assert_eq!(*revision.borrow(), 1);
    layer.close();
    drop(registrations);
    assert_eq!(*revision.borrow(), 1);
    // R18: nothing is added to a closed layer.
    let _late = adding(&layer, vec![tool("d", "1")]);
    assert_eq!(layer.current().tools.len(), 0);
}

#[tokio::test]
async fn r16_r17_layers_hide_each_other() {
    let bench = bench();
    let application = Layer::new();
    let registry = ToolRegistry::new(application.clone());
    let _process = adding(&application, vec![tool("echo", "application"), tool("a", "application")]);
    let _location = adding(registry.location(), vec![tool("echo", "location")]);
    let (mine, other) = (SessionId::from_trusted("ses_1"), SessionId::from_trusted("ses_2"));
    let client = adding(&registry.session(&mine), vec![tool("echo", "client"), tool("open", "client")]);
    assert_eq!(effective(&registry, Some(&mine)), ["a=application", "echo=client", "open=client"]);
    assert_eq!(effective(&registry, Some(&other)), ["a=application", "echo=location"]);
    let snapshot = registry.snapshot(Some(&mine), &[], &bench.boundary);
    assert_eq!(call(&bench, &snapshot, "open").await, Ok("client".to_owned()));
    drop(client);
    let stale = Err((FailureKind::Stale, "Stale tool call: open".to_owned()));
    assert_eq!(call(&bench, &snapshot, "open").await, stale);
    registry.location().close();
    check_effective(&registry, &["a=application", "echo=application"]);
}

#[test]
fn r19_a_panicking_transform_is_left_out_and_then_off() {
    let registry = registry();
    let layer = registry.location();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let _broken = layer.transform(move |editor| {
        editor.add(tool("half", "1"));
        counted.fetch_add(1, Ordering::Relaxed);
        panic!("broken plugin");
    });
    let _good = adding(layer, vec![tool("good", "1")]);
    check_effective(&registry, &["good=1"]);
    assert_eq!(layer.errors(), vec![RegistrationError::Panicked("broken plugin".to_owned())]);
    for _ in 0..5 {
        layer.reload();
    }
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    check_effective(&registry, &["good=1"]);
}

fn names_of(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.definitions().iter().map(|definition| definition.name.as_str()).collect()
}

#[test]
fn r20_to_r26_a_snapshot_has_the_visible_tools_by_name() {
    let (registry, bench) = (registry(), bench());
    let with_action = |name: &str, action: &str| {
        tool_with(name, "1", ToolOptions { permission: Some(action.to_owned()), ..ToolOptions::direct() })
    };
    let hidden = tool_with("later", "1", ToolOptions { codemode: true, ..ToolOptions::direct() });
    let _registration = adding(
        registry.location(),
        vec![
            tool("shell", "1"),
            with_action("write", "edit"),
            with_action("patch", "edit"),
            tool("edit", "1"),
            tool("Zoo", "1"),
            tool("read", "1"),
            hidden,
        ],
    );
    let rule = |action: &str, resource: &str, effect| Rule::new(action, resource, effect);
    let names = |rules: &[Rule]| {
        names_of(&registry.snapshot(None, rules, &bench.boundary)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["Zoo", "edit", "patch", "read", "shell", "write"]);
    assert_eq!(names(&[rule("edit", "*", Effect::Deny)]), ["Zoo", "read", "shell"]);
    assert_eq!(names(&[rule("*", "*", Effect::Deny)]), Vec::<String>::new());
    assert_eq!(names(&[rule("*", "*", Effect::Deny), rule("read", "*", Effect::Allow)]), ["read"]);
}

#[tokio::test]
async fn r27_r32_a_call_of_something_that_was_not_offered() {
    let (registry, bench) = (registry(), bench());
    let _registration = adding(registry.location(), vec![tool("shell", "1"), tool("read", "1")]);
    let denied = [Rule::new("shell", "*", Effect::Deny)];
    let snapshot = registry.snapshot(None, &denied, &bench.boundary);
    for name in ["shell", "nothing", "execute", ""] {
        let unknown = Err((FailureKind::Unknown, format!("Unknown tool: {name}")));
        assert_eq!(call(&bench, &snapshot, name).await, unknown);
    }
    assert_eq!(call(&bench, &snapshot, "read").await, Ok("1".to_owned()));
}

#[tokio::test]
async fn r28_to_r31_only_what_was_advertised_runs() {
    let (registry, bench) = (registry(), bench());
    let layer = registry.location();
    let base = adding(layer, vec![tool("a", "1"), tool("b", "1")]);
    let overlay = adding(layer, vec![tool("b", "2")]);
    let snapshot = registry.snapshot(None, &[], &bench.boundary);
    let stale = |name: &str| Err((FailureKind::Stale, format!("Stale tool call: {name}")));

    // R31: a reload that gives the same definitions changes nothing.
    layer.reload();
    assert_eq!(call(&bench, &snapshot, "a").await, Ok("1".to_owned()));
    assert_eq!(call(&bench, &snapshot, "b").await, Ok("2".to_owned()));
    // R30: the overlay goes, and what it hid is not what was offered.
    overlay.dispose();
    assert_eq!(call(&bench, &snapshot, "b").await, stale("b"));
    assert_eq!(call(&bench, &snapshot, "a").await, Ok("1".to_owned()));
    // R29: one is replaced, though by an equal one of somebody else.
    let _again = adding(layer, vec![tool("b", "2")]);
    assert_eq!(call(&bench, &snapshot, "b").await, stale("b"));
    // R28: removed.
    base.dispose();
    assert_eq!(call(&bench, &snapshot, "a").await, stale("a"));
}

#[tokio::test]
async fn r34_r35_hooks_of_a_request_rename_and_remove() {
    let (registry, bench) = (registry(), bench());
    let _registration = adding(registry.location(), vec![tool("echo", "1"), tool("gone", "1")]);
    let names = BTreeMap::from([("alias".to_owned(), "echo".to_owned())]);
    let snapshot = registry.snapshot(None, &[], &bench.boundary).advertising(names);
    assert_eq!(names_of(&snapshot), ["alias"]);
    assert_eq!(call(&bench, &snapshot, "alias").await, Ok("1".to_owned()));
    for name in ["echo", "gone"] {
        let text = format!("{name} cannot be used in this request");
        assert_eq!(call(&bench, &snapshot, name).await, Err((FailureKind::Unknown, text)));
    }
}

#[test]
fn v19_definitions_are_equal_while_nothing_changes() {
    let (registry, bench) = (registry(), bench());
    let _registration = adding(registry.location(), vec![tool("a", "1")]);
    let one = registry.snapshot(None, &[], &bench.boundary);
    registry.location().reload();
    let two = registry.snapshot(None, &[], &bench.boundary);
    assert_eq!(one.definitions(), two.definitions());
    assert_eq!(one.definitions()[0].input_schema, abide_schema::JsonObject::new());
}

proptest! {
    /// Law 5: disposing a registration removes exactly that one and reveals what it hid.
    #[test]
    fn registrations_are_a_stack_per_name(steps in proptest::collection::vec((0usize..3, any::<bool>(), 0usize..8), 1..20)) {
        let registry = registry();
        let mut model: Vec<(String, usize)> = Vec::new();
        let mut live: Vec<(usize, Registration)> = Vec::new();
        for (step, (name, add, which)) in steps.into_iter().enumerate() {
            if add || live.is_empty() {
                let name = ["a", "b", "c"][name];
                model.push((name.to_owned(), step));
                live.push((step, adding(registry.location(), vec![tool(name, &step.to_string())])));
            } else {
                let (id, registration) = live.remove(which % live.len());
                drop(registration);
                model.retain(|(_, step)| *step != id);
            }
            let expected: BTreeMap<String, usize> = model.iter().cloned().collect();
            let expected: Vec<String> = expected.into_iter().map(|(name, step)| format!("{name}={step}")).collect();
            prop_assert_eq!(effective(&registry, None), expected);
        }
    }
}
