//! Patches through the whole program: who gets the tool, and what a crash in the middle of one leaves.

use std::process::Output;
use std::time::Duration;

use abide_tests::provider::{Provider, Reply};
use abide_tests::sandbox::{Sandbox, stderr};
use serde_json::{Value, json};

const PATCH: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1\n*** Update File: b.txt\n@@\n-two\n+2\n\
                     *** Add File: new/c.txt\n+3\n*** End Patch";

/// Offers a patch once, whatever else the history holds.
async fn provider() -> Provider {
    Provider::start(Duration::ZERO, |request| {
        if request.body["messages"].to_string().contains("call_1") {
            return Reply::text("done");
        }
        let input = json!({ "patchText": PATCH });
        Reply::Call { id: "call_1".to_owned(), name: "apply_patch".to_owned(), input }
    })
    .await
}

/// A project with two files and a model that was trained on patches.
fn sandbox(provider: &Provider) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut config = provider.config();
    let models = &mut config["providers"]["test"]["models"];
    models["gpt-5"] = models["model"].clone();
    config["model"] = json!("test/gpt-5");
    config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
    sandbox.configure(&config);
    sandbox.write("a.txt", "one\n");
    sandbox.write("b.txt", "two\n");
    sandbox
}

fn files(sandbox: &Sandbox) -> [Option<String>; 3] {
    ["a.txt", "b.txt", "new/c.txt"].map(|name| std::fs::read_to_string(sandbox.project().join(name)).ok())
}

fn texts(files: [Option<&str>; 3]) -> [Option<String>; 3] {
    files.map(|text| text.map(str::to_owned))
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["function"]["name"].as_str()).collect()
}

/// What the model was told about its call in the last request.
fn told(provider: &Provider) -> String {
    let requests = provider.requests();
    let messages = requests.last().and_then(|request| request["messages"].as_array().cloned()).unwrap_or_default();
    let result = messages.iter().rev().find(|message| message["role"] == "tool");
    result.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// Runs the program with a fault.
async fn failing(sandbox: &Sandbox, fault: &str) -> Output {
    sandbox.command(&["run", "go"]).env("ABIDE_FAILPOINTS", fault).output().await.unwrap()
}

#[tokio::test]
async fn a_model_that_knows_patches_gets_patch_alone() {
    let provider = provider().await;
    let sandbox = sandbox(&provider);
    let output = sandbox.abide(&["run", "go"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(files(&sandbox), texts([Some("1\n"), Some("2\n"), Some("3\n")]));
    assert_eq!(told(&provider), "Patch applied:\nM a.txt\nM b.txt\nA new/c.txt");
    let requests = provider.requests();
    let offered = tools(&requests[0]);
    assert!(offered.contains(&"patch") && !offered.contains(&"edit") && !offered.contains(&"write"), "{offered:?}");

    let output = sandbox.abide(&["run", "-m", "test/model", "go"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let requests = provider.requests();
    let offered = tools(&requests[2]);
    assert!(!offered.contains(&"patch") && offered.contains(&"edit") && offered.contains(&"write"), "{offered:?}");
}

/// X5 to X7 through the program: it is killed in the middle of a patch, and the next run says what became of it.
#[tokio::test]
async fn a_patch_that_a_crash_cuts_off_is_whole_or_nothing() {
    let before = [Some("one\n"), Some("two\n"), None];
    let after = [Some("1\n"), Some("2\n"), Some("3\n")];
    for (fault, expected, words) in [
        ("mutation.after_plan=kill", before, "It had not started to change anything; it is safe to repeat."),
        ("mutation.after_stage=kill", before, "It had not started to change anything; it is safe to repeat."),
        ("mutation.between_renames=kill@1", after, "Patch applied:\nM a.txt\nM b.txt\nA new/c.txt"),
        ("mutation.between_renames=kill@2", after, "Patch applied:\nM a.txt\nM b.txt\nA new/c.txt"),
        ("mutation.after_apply=kill", after, "Patch applied:\nM a.txt\nM b.txt\nA new/c.txt"),
    ] {
        let provider = provider().await;
        let sandbox = sandbox(&provider);
        let killed = failing(&sandbox, fault).await;
        assert_eq!(killed.status.code(), None, "{fault}: {}", stderr(&killed));
        let output = sandbox.abide(&["run", "-c", "go on"]).await;
        assert_eq!(output.status.code(), Some(0), "{fault}: {}", stderr(&output));
        assert_eq!(files(&sandbox), texts(expected), "{fault}");
        assert!(told(&provider).contains(words), "{fault}: {}", told(&provider));
        let left = std::fs::read_dir(sandbox.project()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(!left.iter().any(|name| name.ends_with(".abide-tmp")), "{fault}: {left:?}");
    }
}

/// A failure in the middle is undone at once; a foreign change before recovery is left alone and told.
#[tokio::test]
async fn a_patch_is_undone_or_its_foreign_change_is_told() {
    let provider = provider().await;
    let sandbox = sandbox(&provider);
    let output = failing(&sandbox, "mutation.between_renames=error@2").await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(files(&sandbox), texts([Some("one\n"), Some("two\n"), None]));
    assert!(told(&provider).starts_with("Patch not applied: "), "{}", told(&provider));
    assert!(told(&provider).ends_with("No files were changed."), "{}", told(&provider));

    let provider = self::provider().await;
    let sandbox = self::sandbox(&provider);
    assert_eq!(failing(&sandbox, "mutation.between_renames=kill@1").await.status.code(), None);
    sandbox.write("b.txt", "mine\n");
    let output = sandbox.abide(&["run", "-c", "go on"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(files(&sandbox)[1].as_deref(), Some("mine\n"));
    let told = told(&provider);
    assert!(told.contains("neither as before nor as planned"), "{told}");
    assert!(told.contains("a.txt: after") && told.contains("b.txt: other"), "{told}");
}
