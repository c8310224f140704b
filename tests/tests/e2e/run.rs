//! `abide run`: output, loops, sessions, a server to attach to.

use std::time::Duration;

use abide_tests::provider::{Provider, Reply};
use abide_tests::sandbox::{Sandbox, stderr, stdout};
use serde_json::{Value, json};

fn loop_of(n: usize) -> impl Fn(&abide_tests::provider::Request) -> Reply + Send + Sync + 'static {
    move |request| {
        if request.n_results < n {
            let id = format!("call_{}", request.n_results);
            Reply::Call { id, name: "read".to_owned(), input: json!({ "path": "hello.txt" }) }
        } else {
            Reply::text("done")
        }
    }
}

#[tokio::test]
async fn the_answer_stands_on_stdout_once_and_nothing_else() {
    let provider = Provider::start(Duration::ZERO, |_| Reply::Text(vec!["Golden ".into(), "answer.".into()])).await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let output = sandbox.abide(&["run", "say it"]).await;
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "Golden answer.\n"), "{}", stderr(&output));
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn a_loop_of_fifty_calls_ends_in_both_protocols() {
    for model in ["test/model", "test-messages/model"] {
        let provider = Provider::start(Duration::ZERO, loop_of(50)).await;
        let sandbox = Sandbox::new();
        sandbox.configure(&provider.config());
        sandbox.write("hello.txt", "hello world\n");
        let output = sandbox.abide(&["run", "-m", model, "--format", "json", "go"]).await;
        assert_eq!(output.status.code(), Some(0), "{model}: {}", stderr(&output));
        let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(
            (&document["text"], &document["toolCalls"], &document["steps"]),
            (&json!("done"), &json!(50), &json!(51))
        );
        assert_eq!(provider.complaints(), Vec::<String>::new(), "{model}");
        assert_eq!(provider.requests().len(), 51, "{model}: one request a step");
    }
}

#[tokio::test]
async fn twenty_thousand_deltas_arrive_whole() {
    let deltas: Vec<String> = (0..20_000).map(|index| format!("w{index} ")).collect();
    let whole = deltas.concat();
    let provider = Provider::start(Duration::ZERO, move |_| Reply::Text(deltas.clone())).await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let output = sandbox.abide(&["run", "count"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).trim_end(), whole.trim_end());
}

#[tokio::test]
async fn every_event_is_a_line_of_json() {
    let provider = Provider::start(Duration::ZERO, |_| Reply::text("hi")).await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let output = sandbox.abide(&["run", "--format", "events", "say"]).await;
    let kinds: Vec<String> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .filter(|kind| !kind.ends_with(".delta"))
        .collect();
    for kind in ["session.next.prompt.admitted", "session.next.step.started", "session.next.text.ended", "session.idle"]
    {
        assert!(kinds.iter().any(|found| found == kind), "{kind} is missing in {kinds:?}");
    }
}

#[tokio::test]
async fn a_session_goes_on_with_what_was_said() {
    let provider = Provider::start(Duration::ZERO, |request| {
        Reply::text(format!("{} messages", request.body["messages"].as_array().map_or(0, Vec::len)))
    })
    .await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let first = sandbox.abide(&["run", "one"]).await;
    let second = sandbox.abide(&["run", "-c", "two"]).await;
    let count = |text: String| text.split(' ').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(count(stdout(&second)), count(stdout(&first)) + 2);
    let listed = sandbox.abide(&["session", "list", "--format", "json"]).await;
    let sessions: Vec<Value> = serde_json::from_str(&stdout(&listed)).unwrap();
    assert_eq!(sessions.len(), 1);
    let id = sessions[0]["id"].as_str().unwrap();
    assert_eq!(sessions[0]["title"], "one");
    for arguments in
        [&["session", "show", id][..], &["session", "log", id], &["session", "verify", id], &["db", "verify"]]
    {
        let output = sandbox.abide(arguments).await;
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    }
}

#[tokio::test]
async fn a_prompt_may_come_from_standard_input_and_go_to_a_server() {
    let provider = Provider::start(Duration::ZERO, |request| {
        let text = request.body["messages"].to_string();
        Reply::text(if text.contains("piped words") { "heard" } else { "nothing" })
    })
    .await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let mut server = sandbox.serve().await;
    let file = sandbox.data().join("prompt");
    std::fs::write(&file, "piped words\n").unwrap();
    let output = sandbox
        .command(&["run", "--attach", &server.url, "-"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .await
        .unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "heard\n"), "{}", stderr(&output));
    server.kill().await;
}

#[tokio::test]
async fn a_prompt_that_no_summary_makes_smaller_is_not_summarised_again_and_again() {
    // The provider counts 1,100 tokens in each step: more than a context of 1,200 lets stand, and nearly none of them
    // is history.
    let provider = Provider::start(Duration::ZERO, loop_of(6)).await;
    let sandbox = Sandbox::new();
    let mut config = provider.config();
    config["providers"]["test"]["models"]["model"]["limit"] = json!({ "context": 1200, "output": 100 });
    sandbox.configure(&config);
    sandbox.write("hello.txt", "hello world\n");
    let output = sandbox.abide(&["run", "go"]).await;
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "done\n"), "{}", stderr(&output));
    assert_eq!(provider.requests().len(), 7, "one request a step, and none for a summary");
}
