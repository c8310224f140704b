//! What goes wrong is said clearly, with an exit code that programs can rely on, and loses nothing.

use std::time::Duration;

use abide_tests::provider::{Provider, Reply};
use abide_tests::sandbox::{Sandbox, stderr, stdout};
use serde_json::json;

#[track_caller]
fn check(output: &std::process::Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[tokio::test]
async fn refusals_of_the_provider_end_with_4() {
    for (status, kind) in [(401, "authentication_error"), (400, "invalid_request_error"), (403, "permission_error")] {
        let body = json!({ "error": { "message": format!("refused {status}"), "type": kind } });
        let provider = Provider::start(Duration::ZERO, move |_| Reply::Status(status, body.clone())).await;
        let sandbox = Sandbox::new();
        sandbox.configure(&provider.config());
        let output = sandbox.abide(&["run", "hello"]).await;
        check(&output, 4, &[&format!("refused {status}"), "--session"]);
        assert_eq!(provider.requests().len(), 1, "no retry of {status}");
        assert!(!stderr(&output).contains("secret-test-key"));
    }
}

#[tokio::test]
async fn a_permission_without_a_terminal_ends_with_3_and_names_the_request() {
    let provider = Provider::start(Duration::ZERO, |request| {
        if request.n_results == 0 {
            Reply::Call { id: "c1".into(), name: "write".into(), input: json!({ "path": "new.txt", "content": "x" }) }
        } else {
            Reply::text("done")
        }
    })
    .await;
    let sandbox = Sandbox::new();
    let mut config = provider.config();
    config["permissions"] = json!([{ "action": "edit", "resource": "*", "effect": "ask" }]);
    sandbox.configure(&config);
    let output = sandbox.abide(&["run", "write it"]).await;
    check(&output, 3, &["edit new.txt", "per_", "--auto"]);
    assert!(!sandbox.project().join("new.txt").exists());
    assert_eq!(provider.requests().len(), 1);
    let output = sandbox.abide(&["run", "--format", "json", "write it"]).await;
    check(&output, 3, &["edit new.txt"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["error"]["message"].as_str().unwrap().contains("edit new.txt"), "{document}");
    let output = sandbox.abide(&["run", "--auto", "write it"]).await;
    check(&output, 0, &["allowed once"]);
    assert_eq!(std::fs::read_to_string(sandbox.project().join("new.txt")).unwrap(), "x");
}

#[tokio::test]
async fn signals_settle_the_session_and_end_with_130() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let provider = Provider::start(Duration::ZERO, |_| Reply::Call {
            id: "c1".into(),
            name: "shell".into(),
            input: json!({ "command": "touch began; sleep 60" }),
        })
        .await;
        let sandbox = Sandbox::new();
        let mut config = provider.config();
        config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
        sandbox.configure(&config);
        let mut command = sandbox.command(&["run", "--format", "json", "wait"]);
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !sandbox.project().join("began").exists() {
            assert!(std::time::Instant::now() < deadline, "the command does not begin");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let output = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"]["code"], "aborted", "{document}");
        // Nothing is left to a recovery.
        let recovered = sandbox.abide(&["session", "recover", "--dry-run"]).await;
        assert!(stdout(&recovered).contains("nothing is left to settle"), "{}", stdout(&recovered));
    }
}

#[tokio::test]
async fn wrong_words_end_with_2_and_say_what_is_right() {
    let sandbox = Sandbox::new();
    let provider = Provider::start(Duration::ZERO, |_| Reply::text("hi")).await;
    sandbox.configure(&provider.config());
    check(&sandbox.abide(&["run", "-m", "nonsense", "hi"]).await, 2, &["nonsense", "provider/model"]);
    check(&sandbox.abide(&["run", "-a", "nobody", "hi"]).await, 2, &["nobody", "build"]);
    check(&sandbox.abide(&["run", "-s", "wrong", "hi"]).await, 2, &["wrong", "session list"]);
    check(&sandbox.abide(&["run", "-f", "missing.txt", "hi"]).await, 2, &["missing.txt"]);
    check(&sandbox.abide(&["-C", "missing", "run", "hi"]).await, 2, &["missing"]);
    check(&sandbox.abide(&["bogus"]).await, 2, &["bogus"]);
    check(&sandbox.abide(&["run", "-s", "ses_unknown", "hi"]).await, 1, &["ses_unknown"]);
    check(&sandbox.abide(&["run", "-c", "hi"]).await, 1, &["no session"]);
    check(&sandbox.abide(&["run", "-m", "test/none", "hi"]).await, 4, &["none", "abide models"]);
    assert_eq!(provider.requests().len(), 0);
    // None of them left a session.
    let listed = sandbox.abide(&["session", "list", "--format", "json"]).await;
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed, json!([]));
}

#[tokio::test]
async fn a_provider_that_is_down_is_named() {
    let sandbox = Sandbox::new();
    let provider = Provider::start(Duration::ZERO, |_| Reply::text("hi")).await;
    let config = provider.config();
    let url = provider.url();
    drop(provider);
    sandbox.configure(&config);
    let output = sandbox.abide(&["run", "hi"]).await;
    check(&output, 1, &[url.trim_start_matches("http://")]);
}

#[tokio::test]
async fn without_any_model_the_ways_to_go_on_are_named() {
    let sandbox = Sandbox::new();
    let output = sandbox.abide(&["run", "hi"]).await;
    // A local server may run on this machine; then there is a model.
    if output.status.code() != Some(0) {
        check(&output, 4, &["API_KEY"]);
    }
}

#[tokio::test]
async fn broken_configuration_is_named_with_its_place() {
    let sandbox = Sandbox::new();
    sandbox.write("abide.json", "{ \"model\": \n  nonsense }");
    let output = sandbox.abide(&["doctor"]).await;
    assert!(stdout(&output).contains("abide.json"), "{}", stdout(&output));
}

#[tokio::test]
async fn a_taken_port_and_a_newer_database_are_refused() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(&sandbox.abide(&["serve", "--port", &port]).await, 1, &[&port, "--port"]);
    check(&sandbox.abide(&["serve", "--host", "0.0.0.0", "--port", "0"]).await, 1, &["ABIDE_SERVER_PASSWORD"]);

    assert_eq!(sandbox.abide(&["session", "list"]).await.status.code(), Some(0));
    let path = stdout(&sandbox.abide(&["db", "path"]).await);
    let connection = std::process::Command::new("python3")
        .args([
            "-c",
            "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 9999')",
            path.trim(),
        ])
        .status();
    if connection.is_ok_and(|status| status.success()) {
        check(&sandbox.abide(&["session", "list"]).await, 1, &["9999", "newer"]);
    }
    std::fs::write(path.trim(), b"this is no database, it is a text that is long enough to be read as a header ....")
        .unwrap();
    check(&sandbox.abide(&["session", "list"]).await, 1, &["database"]);
}

#[tokio::test]
async fn an_unwritable_data_directory_is_named() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.data(), "a file where a directory should be").unwrap();
    let output = sandbox.abide(&["session", "list"]).await;
    check(&output, 1, &[&sandbox.data().display().to_string()]);
}
