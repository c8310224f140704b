//! Two servers on one database: one drain for a session, whoever is asked (spec/session.md 12.2).

use std::time::Duration;

use abide_tests::provider::{Provider, Reply, Request};
use abide_tests::sandbox::{Sandbox, has_content, stderr, stdout};
use serde_json::{Value, json};

use crate::api::{idle, log, messages, prompt, request, session, until};

/// Answers each prompt; the first one only after a command that is held.
fn held(request: &Request) -> Reply {
    let prompts: Vec<&Value> =
        request.body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user").collect();
    if prompts.len() == 1 && request.n_results == 0 {
        let command = "echo begun > begun.txt; while [ ! -e go ]; do sleep 0.05; done";
        let input = json!({ "command": command, "timeout": 0 });
        return Reply::Call { id: "call_0".to_owned(), name: "shell".to_owned(), input };
    }
    Reply::text(format!("answer {}", prompts.len()))
}

async fn room() -> (Provider, Sandbox) {
    let provider = Provider::start(Duration::from_millis(1), held).await;
    let sandbox = Sandbox::new();
    let mut config = provider.config();
    config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
    sandbox.configure(&config);
    (provider, sandbox)
}

/// The executions in a log: each begins after the one before has ended, and the fence rises.
fn executions(events: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = false;
    for event in events {
        match event["type"].as_str().unwrap_or_default() {
            "session.next.execution.started" => {
                open = true;
                found.push(event["data"]["owner"].as_str().unwrap().to_owned());
            }
            "session.next.execution.succeeded"
            | "session.next.execution.failed"
            | "session.next.execution.interrupted" => {
                assert!(open, "an execution ends twice: {event}");
                open = false;
            }
            _ => {}
        }
    }
    assert!(!open, "an execution has no end");
    found
}

async fn answered(url: &str, id: &str, text: &str) -> Option<()> {
    messages(url, id).await.iter().any(|message| message.to_string().contains(text)).then_some(())
}

#[tokio::test]
async fn s134_two_servers_have_one_drain_and_the_owner_hears_the_other() {
    let (provider, sandbox) = room().await;
    let (mut one, mut two) = (sandbox.serve().await, sandbox.serve().await);
    let id = session(&sandbox, &one.url).await;
    prompt(&one.url, &id, "first").await;
    let begun = sandbox.project().join("begun.txt");
    until("the command begins", || async { has_content(&begun).then_some(()) }).await;
    prompt(&two.url, &id, "second").await;
    sandbox.write("go", "");
    until("both are answered", || answered(&two.url, &id, "answer 2")).await;
    // Waiting at either sees the end of the work.
    request("POST", &format!("{}/api/session/{id}/wait", two.url), None).await;
    idle(&one.url).await;
    idle(&two.url).await;
    let owners = executions(&log(&sandbox, &id).await);
    assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
    assert_eq!(provider.complaints(), Vec::<String>::new());

    // An interrupt at the one that does not execute.
    std::fs::remove_file(sandbox.project().join("go")).unwrap();
    std::fs::remove_file(&begun).unwrap();
    let other = session(&sandbox, &one.url).await;
    prompt(&one.url, &other, "first").await;
    until("the command begins", || async { has_content(&begun).then_some(()) }).await;
    request("POST", &format!("{}/api/session/{other}/interrupt", two.url), None).await;
    idle(&one.url).await;
    let events = log(&sandbox, &other).await;
    executions(&events);
    let end = events.iter().rev().find(|event| event["type"] == "session.next.execution.interrupted");
    assert_eq!(end.expect("it is interrupted")["data"]["reason"], "user");
    one.kill().await;
    two.kill().await;
    let verified = sandbox.abide(&["db", "verify"]).await;
    assert_eq!(verified.status.code(), Some(0), "{}{}", stdout(&verified), stderr(&verified));
}

#[tokio::test]
async fn s135_a_server_takes_over_what_it_left_to_one_that_died() {
    let (_provider, sandbox) = room().await;
    let (mut one, mut two) = (sandbox.serve().await, sandbox.serve().await);
    let id = session(&sandbox, &one.url).await;
    prompt(&one.url, &id, "first").await;
    let begun = sandbox.project().join("begun.txt");
    until("the command begins", || async { has_content(&begun).then_some(()) }).await;
    prompt(&two.url, &id, "second").await;
    one.kill().await;
    until("the second is answered", || answered(&two.url, &id, "answer ")).await;
    idle(&two.url).await;
    let owners = executions(&log(&sandbox, &id).await);
    assert!(owners.len() >= 2 && owners.first() != owners.last(), "{owners:?}");
    two.kill().await;
}

#[tokio::test]
async fn s130_a_second_server_leaves_the_sessions_of_the_first_alone() {
    let (_provider, sandbox) = room().await;
    let mut one = sandbox.serve().await;
    let id = session(&sandbox, &one.url).await;
    prompt(&one.url, &id, "first").await;
    let begun = sandbox.project().join("begun.txt");
    until("the command begins", || async { has_content(&begun).then_some(()) }).await;
    let mut two = sandbox.serve().await;
    idle(&two.url).await;
    sandbox.write("go", "");
    until("the first answers", || answered(&one.url, &id, "answer 1")).await;
    idle(&one.url).await;
    assert_eq!(executions(&log(&sandbox, &id).await).len(), 1);
    one.kill().await;
    two.kill().await;
}
