//! Background commands and child sessions over kills of the server.

use std::time::Duration;

use abide_tests::provider::{Provider, Reply, Request};
use abide_tests::sandbox::{Sandbox, Server, has_content, stderr, stdout};
use serde_json::{Value, json};

use crate::api::{idle, log, messages, notices, prompt, request, session, until};

/// Goes on until it is told to end, then ends with code 3.
const HELD: &str =
    "echo begun; echo $$ > pid.txt; while [ ! -e go ]; do sleep 0.05; done; echo ended >> ended.txt; exit 3";

fn call(name: &str, input: Value) -> Reply {
    Reply::Call { id: "call_0".to_owned(), name: name.to_owned(), input }
}

/// Says whether a child session asks: its first message says who started it.
fn is_child(request: &Request) -> bool {
    request.body["messages"].to_string().contains("Another session (")
}

async fn sandbox(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Provider, Sandbox) {
    let provider = Provider::start(Duration::from_millis(1), script).await;
    let sandbox = Sandbox::new();
    let mut config = provider.config();
    config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
    sandbox.configure(&config);
    (provider, sandbox)
}

async fn begin(sandbox: &Sandbox) -> (Server, String) {
    let server = sandbox.serve().await;
    let id = session(sandbox, &server.url).await;
    prompt(&server.url, &id, "go").await;
    (server, id)
}

async fn verified(sandbox: &Sandbox) {
    let verified = sandbox.abide(&["db", "verify"]).await;
    assert_eq!(verified.status.code(), Some(0), "{}{}", stdout(&verified), stderr(&verified));
}

fn is_alive(sandbox: &Sandbox) -> bool {
    let pid = std::fs::read_to_string(sandbox.project().join("pid.txt")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn background(request: &Request) -> Reply {
    match request.n_results {
        0 => call("shell", json!({ "command": HELD, "background": true })),
        _ => Reply::text("done"),
    }
}

#[tokio::test]
async fn x8_a_background_command_survives_a_kill_and_is_told_of_once() {
    let (provider, sandbox) = sandbox(background).await;
    let (mut server, id) = begin(&sandbox).await;
    let began = sandbox.project().join("pid.txt");
    until("the command begins", || async { has_content(&began).then_some(()) }).await;
    idle(&server.url).await;
    server.kill().await;
    assert!(is_alive(&sandbox));
    let mut server = sandbox.serve().await;
    assert_eq!(notices(&server.url, &id).await, Vec::<String>::new());
    sandbox.write("go", "");
    let told = until("the notice comes", || async {
        Some(notices(&server.url, &id).await).filter(|notices| !notices.is_empty())
    })
    .await;
    assert!(told.len() == 1 && told[0].contains("state=\"completed\"") && told[0].contains("code 3"), "{told:?}");
    idle(&server.url).await;
    server.kill().await;
    // The next start has nothing to tell.
    let mut server = sandbox.serve().await;
    idle(&server.url).await;
    assert_eq!(notices(&server.url, &id).await, told);
    server.kill().await;
    assert_eq!(std::fs::read_to_string(sandbox.project().join("ended.txt")).unwrap(), "ended\n");
    assert_eq!(provider.complaints(), Vec::<String>::new());
    verified(&sandbox).await;
}

#[tokio::test]
async fn s132_a_background_command_that_ended_meanwhile_is_told_of_once() {
    let (_provider, sandbox) = sandbox(background).await;
    let (mut server, id) = begin(&sandbox).await;
    let began = sandbox.project().join("pid.txt");
    until("the command begins", || async { has_content(&began).then_some(()) }).await;
    idle(&server.url).await;
    server.kill().await;
    sandbox.write("go", "");
    until("the command ends", || async { (!is_alive(&sandbox)).then_some(()) }).await;
    for _ in 0..2 {
        let mut server = sandbox.serve().await;
        until("the notice comes", || async { (notices(&server.url, &id).await.len() == 1).then_some(()) }).await;
        idle(&server.url).await;
        let told = notices(&server.url, &id).await;
        assert!(told.len() == 1 && told[0].contains("code 3"), "{told:?}");
        server.kill().await;
    }
    verified(&sandbox).await;
}

#[tokio::test]
async fn s131_a_killed_parent_is_told_its_child_whose_command_is_ended() {
    let (provider, sandbox) = sandbox(|request| match (is_child(request), request.n_results) {
        (true, 0) => call("shell", json!({ "command": HELD, "timeout": 0 })),
        (true, _) => Reply::text("child done"),
        (false, 0) => call("subagent", json!({ "agent": "general", "description": "hold it", "prompt": "Hold it." })),
        (false, _) => Reply::text("done"),
    })
    .await;
    let (mut server, id) = begin(&sandbox).await;
    let began = sandbox.project().join("pid.txt");
    until("the command begins", || async { has_content(&began).then_some(()) }).await;
    let children = request("GET", &format!("{}/api/session?parentID={id}", server.url), None).await;
    let child = children["data"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(children["data"].as_array().unwrap().len(), 1);
    server.kill().await;
    let mut server = sandbox.serve().await;
    idle(&server.url).await;
    assert!(!is_alive(&sandbox));
    let own = messages(&server.url, &id).await;
    assert!(own.iter().any(|message| message.to_string().contains("\"text\":\"done\"")), "the parent goes on");
    let of = |events: Vec<Value>| {
        let failed = events.into_iter().find(|event| event["type"] == "session.next.tool.failed").unwrap();
        (failed["data"]["verdict"].clone(), failed["data"]["error"]["message"].as_str().unwrap().to_owned())
    };
    let (verdict, words) = of(log(&sandbox, &id).await);
    assert!(verdict == "child-interrupted" && words.contains(&child), "{verdict} {words}");
    assert_eq!(of(log(&sandbox, &child).await).0, "killed");
    // Only sessions without parent.
    let roots = request("GET", &format!("{}/api/session?parentID=null", server.url), None).await;
    let roots: Vec<&str> = roots["data"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(roots, [&id]);
    server.kill().await;
    assert_eq!(provider.complaints(), Vec::<String>::new());
    verified(&sandbox).await;
}

#[tokio::test]
async fn the_user_sends_what_a_call_waits_for_to_the_background() {
    let (_provider, sandbox) = sandbox(|request| match request.n_results {
        0 => call("shell", json!({ "command": HELD, "timeout": 0 })),
        _ => Reply::text("done"),
    })
    .await;
    let (mut server, id) = begin(&sandbox).await;
    let began = sandbox.project().join("pid.txt");
    until("the command begins", || async { has_content(&began).then_some(()) }).await;
    request("POST", &format!("{}/api/session/{id}/background", server.url), None).await;
    idle(&server.url).await;
    assert!(is_alive(&sandbox));
    server.kill().await;
    assert!(is_alive(&sandbox));
    let mut server = sandbox.serve().await;
    sandbox.write("go", "");
    until("the notice comes", || async { (notices(&server.url, &id).await.len() == 1).then_some(()) }).await;
    server.kill().await;
}

#[tokio::test]
async fn a_run_asks_for_its_children_and_ends_with_3_when_nobody_answers() {
    let (_provider, sandbox) = sandbox(|request| match (is_child(request), request.n_results) {
        (true, 0) => call("shell", json!({ "command": "echo ran >> ran.txt" })),
        (true, _) => Reply::text("child done"),
        (false, 0) => call("subagent", json!({ "agent": "general", "description": "run it", "prompt": "Run it." })),
        (false, _) => Reply::text("done"),
    })
    .await;
    let path = sandbox.project().join("abide.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    config["permissions"] = json!([{ "action": "shell", "resource": "*", "effect": "ask" }]);
    sandbox.configure(&config);
    let output = sandbox.abide(&["run", "go"]).await;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("shell echo ran"), "{}", stderr(&output));
    assert!(!sandbox.project().join("ran.txt").exists());
    let output = sandbox.abide(&["run", "--auto", "go"]).await;
    assert_eq!((output.status.code(), stdout(&output).trim()), (Some(0), "done"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(sandbox.project().join("ran.txt")).unwrap(), "ran\n");
}
