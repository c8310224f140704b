//! kill -9 at random moments: nothing is lost, nothing runs twice, the session goes on by itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use abide_tests::provider::{Provider, Reply};
use abide_tests::sandbox::{Sandbox, stderr, stdout};
use abide_tests::{crash, http};
use serde_json::{Value, json};

/// Kills of one run; `ABIDE_KILLS` asks for more.
const KILLS: u64 = 14;
/// Steps of the loop.
const STEPS: usize = 50;

/// A small generator: the moments differ from kill to kill and are the same in every run.
struct Moments(u64);

impl Moments {
    fn next_ms(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

async fn request(method: &str, url: &str, body: Option<Value>) -> Value {
    http::request(method, url, body.as_ref()).await.unwrap()
}

async fn is_done(url: &str, session: &str) -> bool {
    let active = request("GET", &format!("{url}/api/session/active"), None).await;
    active["data"].get(session).is_none()
}

#[tokio::test]
async fn a_loop_survives_kills_at_random_moments() {
    #[expect(clippy::disallowed_methods, reason = "the size of the test is asked for by the environment")]
    let n_kills = std::env::var("ABIDE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    // The position follows from the results; each call appends its own name, so that a second run would show.
    let provider = Provider::start(Duration::from_millis(2), |request| {
        let n = request.n_results;
        if n >= STEPS {
            return Reply::text("finished");
        }
        let command = format!("echo call_{n} >> ran.txt; sleep 0.0{}", n % 5);
        Reply::Call { id: format!("call_{n}"), name: "shell".to_owned(), input: json!({ "command": command }) }
    })
    .await;
    let sandbox = Sandbox::new();
    let mut config = provider.config();
    config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
    sandbox.configure(&config);
    let mut server = sandbox.serve().await;
    let location = json!({ "directory": sandbox.project() });
    let created = request("POST", &format!("{}/api/session", server.url), Some(json!({ "location": location }))).await;
    let session = created["data"]["id"].as_str().unwrap().to_owned();
    let prompt = json!({ "prompt": { "text": "run the loop" } });
    request("POST", &format!("{}/api/session/{session}/prompt", server.url), Some(prompt)).await;

    let mut moments = Moments(20_261_130);
    let mut seen: Vec<Value> = Vec::new();
    for kill in 0..n_kills {
        tokio::time::sleep(Duration::from_millis(20 + moments.next_ms(250))).await;
        let before = history(&server.url, &session).await;
        server.kill().await;
        server = sandbox.serve().await;
        let after = history(&server.url, &session).await;
        // What was committed before the kill is there, unchanged.
        assert!(after.len() >= before.len() && after[..before.len()] == before[..], "kill {kill} lost events");
        assert!(before.len() >= seen.len(), "kill {kill}: history shrank");
        seen = before;
    }
    let deadline = Instant::now() + Duration::from_secs(100);
    while !is_done(&server.url, &session).await {
        assert!(Instant::now() < deadline, "the session does not end by itself");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let end = history(&server.url, &session).await;
    server.kill().await;

    assert_eq!(provider.complaints(), Vec::<String>::new());
    let last = end.iter().rev().find(|event| event["type"] == "session.next.text.ended").expect("a last answer");
    assert_eq!(last["data"]["text"], "finished");
    let mut terminals: BTreeMap<String, u32> = BTreeMap::new();
    for event in &end {
        if matches!(event["type"].as_str(), Some("session.next.tool.success" | "session.next.tool.failed")) {
            *terminals.entry(event["data"]["callID"].to_string()).or_default() += 1;
        }
    }
    assert!(terminals.values().all(|n| *n == 1), "a call was settled more than once: {terminals:?}");
    // Nothing ran twice, and what the log says succeeded did run.
    let ran = std::fs::read_to_string(sandbox.project().join("ran.txt")).unwrap();
    let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
    for line in ran.lines() {
        *runs.entry(line).or_default() += 1;
    }
    assert!(runs.values().all(|n| *n == 1), "a call ran twice: {runs:?}");
    for event in end.iter().filter(|event| event["type"] == "session.next.tool.success") {
        let call = event["data"]["callID"].as_str().unwrap();
        assert_eq!(runs.get(call), Some(&1), "{call} is a success and did not run");
    }
    let verified = sandbox.abide(&["db", "verify"]).await;
    assert_eq!(verified.status.code(), Some(0), "{}{}", stdout(&verified), stderr(&verified));
}

async fn history(url: &str, session: &str) -> Vec<Value> {
    http::history(url, session).await.unwrap()
}

/// The long form is `cargo xtask crash`.
#[tokio::test]
async fn each_fault_point_leaves_a_sound_session() {
    // One case in five, so that every workload and both protocols are among them.
    for case in crash::each_point().into_iter().step_by(5) {
        if let Err(broken) = crash::run(&case).await {
            panic!("{case:?}: {broken}");
        }
    }
}
