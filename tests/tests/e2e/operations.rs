//! What can be done with a session beside running it: going back, branching off, taking it along, its inbox.

use std::time::Duration;

use abide_tests::provider::{Provider, Reply, Request};
use abide_tests::sandbox::{Sandbox, stderr, stdout};
use serde_json::{Value, json};

/// A model that does what the newest prompt says: `write PATH TEXT`, or answers.
fn obedient(request: &Request) -> Reply {
    let last = request.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let text = match &last["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    match (last["role"].as_str(), words.as_slice()) {
        (Some("user"), ["write", path, text]) => Reply::Call {
            id: format!("call_{}", request.n_results),
            name: "write".to_owned(),
            input: json!({ "path": path, "content": format!("{text}\n") }),
        },
        _ => Reply::text("done"),
    }
}

struct Work {
    sandbox: Sandbox,
    provider: Provider,
    session: String,
}

impl Work {
    /// A session that wrote `a.txt` twice and two more files in the second turn's place.
    async fn begin() -> Self {
        let provider = Provider::start(Duration::ZERO, obedient).await;
        let sandbox = Sandbox::new();
        let mut config = provider.config();
        config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
        sandbox.configure(&config);
        sandbox.write("a.txt", "v0\n");
        for (n, prompt) in ["write a.txt v1", "write b.txt v1", "write a.txt v2"].iter().enumerate() {
            let arguments: &[&str] = if n == 0 { &["run", prompt] } else { &["run", "-c", prompt] };
            let output = sandbox.abide(arguments).await;
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        }
        let listed = sandbox.abide(&["session", "list", "--format", "json"]).await;
        let sessions: Value = serde_json::from_str(&stdout(&listed)).unwrap();
        let session = sessions[0]["id"].as_str().unwrap().to_owned();
        Self { sandbox, provider, session }
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.sandbox.abide(arguments).await;
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// The prompts' ids, oldest first.
    async fn prompts(&self, session: &str) -> Vec<String> {
        let shown = self.ok(&["session", "show", session, "--format", "json"]).await;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let messages = shown["messages"].as_array().unwrap().iter();
        messages
            .filter(|message| message["type"] == "user")
            .map(|message| message["id"].as_str().unwrap().to_owned())
            .collect()
    }

    fn files(&self) -> [Option<String>; 2] {
        ["a.txt", "b.txt"].map(|name| std::fs::read_to_string(self.sandbox.project().join(name)).ok())
    }
}

fn v(text: &str) -> Option<String> {
    Some(format!("{text}\n"))
}

#[tokio::test]
async fn going_back_taking_it_back_and_making_it_final() {
    let work = Work::begin().await;
    let id = work.session.as_str();
    let prompts = work.prompts(id).await;
    let staged = work.ok(&["session", "revert", "stage", id, &prompts[1]]).await;
    assert!(staged.contains("restored a.txt (+1 -1)") && staged.contains("removed b.txt"), "{staged}");
    assert_eq!(work.files(), [v("v1"), None]);
    work.ok(&["session", "revert", "clear", id]).await;
    assert_eq!(work.files(), [v("v2"), v("v1")]);
    // Without a message: before the newest prompt.
    work.ok(&["session", "revert", "stage", id]).await;
    assert_eq!(work.files(), [v("v1"), v("v1")]);
    work.ok(&["session", "revert", "commit", id]).await;
    assert_eq!(work.prompts(id).await, prompts[..2]);
    // What the commit removed is still in the log: a fork at the position before it has it.
    let log = work.ok(&["session", "log", id, "--format", "json"]).await;
    let at = log.lines().position(|line| line.contains("revert.staged")).unwrap() - 1;
    let forked = work.ok(&["session", "fork", id, "--at", &at.to_string()]).await;
    let fork = forked.split_whitespace().next().unwrap();
    assert_eq!(work.prompts(fork).await.len(), 3);
    let replayed = work.ok(&["session", "replay", id, "--to", &at.to_string()]).await;
    assert!(replayed.contains("write a.txt v2"), "{replayed}");
    work.ok(&["db", "verify"]).await;
    assert_eq!(work.provider.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn s125_a_kill_in_the_middle_of_going_back_leaves_it_done_or_not_done() {
    let points = [
        "mutation.after_plan",
        "mutation.after_stage",
        "mutation.between_renames",
        "mutation.after_apply",
        "revert.mid_restore",
    ];
    let work = Work::begin().await;
    let id = work.session.as_str();
    let prompts = work.prompts(id).await;
    for point in points {
        for clears in [false, true] {
            if clears {
                work.ok(&["session", "revert", "stage", id, &prompts[1]]).await;
            }
            let stage = ["session", "revert", "stage", id, prompts[1].as_str()];
            let clear = ["session", "revert", "clear", id];
            let mut command = work.sandbox.command(if clears { &clear[..] } else { &stage[..] });
            let killed = command.env("ABIDE_FAILPOINTS", format!("{point}=kill")).output().await.unwrap();
            assert_ne!(killed.status.code(), Some(0), "{point} was not reached");
            // The next start settles it.
            work.ok(&["session", "recover"]).await;
            let shown = work.ok(&["session", "show", id, "--format", "json"]).await;
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let is_staged = shown["session"]["revert"].is_object();
            let expected = if is_staged { [v("v1"), None] } else { [v("v2"), v("v1")] };
            assert_eq!(work.files(), expected, "{point}, clears: {clears}, staged: {is_staged}");
            let verified = work.ok(&["session", "verify", id]).await;
            assert!(verified.contains("equal"), "{verified}");
            work.ok(&["session", "revert", "clear", id]).await;
            assert_eq!(work.files(), [v("v2"), v("v1")], "{point}");
        }
    }
    let left = std::fs::read_dir(work.sandbox.project()).unwrap().flatten();
    let left: Vec<String> = left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(!left.iter().any(|name| name.ends_with(".abide-tmp")), "{left:?}");
}

#[tokio::test]
async fn a_bundle_goes_to_another_data_directory_and_on_from_there() {
    let work = Work::begin().await;
    let id = work.session.as_str();
    let file = work.sandbox.data().join("bundle.jsonl");
    let file = file.to_str().unwrap();
    work.ok(&["session", "export", id, "-o", file]).await;
    let other = tempfile::tempdir().unwrap();
    let there = other.path().to_str().unwrap();
    let imported = work.ok(&["--data-dir", there, "session", "import", file]).await;
    assert!(imported.contains(id), "{imported}");
    let again = work.ok(&["--data-dir", there, "session", "export", id]).await;
    assert_eq!(again, std::fs::read_to_string(file).unwrap());
    work.ok(&["--data-dir", there, "session", "verify", id]).await;
    work.ok(&["--data-dir", there, "run", "-s", id, "write a.txt v7"]).await;
    assert_eq!(work.files()[0], v("v7"));
    // A damaged one is refused whole, and named.
    let text = std::fs::read_to_string(file).unwrap();
    let damaged =
        text.lines().enumerate().filter(|(n, _)| *n != 2).map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    std::fs::write(file, damaged).unwrap();
    let fresh = tempfile::tempdir().unwrap();
    let refused = work.sandbox.abide(&["--data-dir", fresh.path().to_str().unwrap(), "session", "import", file]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("event 2 is missing"), "{}", stderr(&refused));
}

#[tokio::test]
async fn the_api_branches_off_deletes_and_shows_the_inbox() {
    let work = Work::begin().await;
    let mut server = work.sandbox.serve().await;
    let api = |path: &str| format!("{}/api/session/{path}", server.url);
    let id = work.session.as_str();
    let (status, fork) = request("POST", &api(&format!("{id}/fork")), Some(json!({}))).await;
    assert_eq!(status, 200, "{fork}");
    let copy = fork["data"]["id"].as_str().unwrap().to_owned();
    let prompt = |text: &str| json!({ "prompt": { "text": text }, "delivery": "queue", "resume": false });
    let (_, one) = request("POST", &api(&format!("{copy}/prompt")), Some(prompt("one"))).await;
    let (_, two) = request("POST", &api(&format!("{copy}/prompt")), Some(prompt("two"))).await;
    let (one, two) = (one["data"]["id"].as_str().unwrap().to_owned(), two["data"]["id"].as_str().unwrap().to_owned());
    let (_, inbox) = request("GET", &api(&format!("{copy}/inbox")), None).await;
    let shown: Vec<(&str, &str)> = inbox["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["id"].as_str().unwrap(), entry["prompt"]["text"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [(one.as_str(), "one"), (two.as_str(), "two")]);
    assert_eq!(request("DELETE", &api(&format!("{copy}/inbox/{one}")), None).await.0, 204);
    assert_eq!(request("DELETE", &api(&format!("{copy}/inbox/{one}")), None).await.0, 204, "again: no error");
    let steer = Some(json!({ "delivery": "steer" }));
    assert_eq!(request("PATCH", &api(&format!("{copy}/inbox/{two}")), steer.clone()).await.0, 204);
    assert_eq!(request("PATCH", &api(&format!("{copy}/inbox/msg_none")), steer).await.0, 404);
    assert_eq!(request("POST", &api(&format!("{copy}/wait")), None).await.0, 204);
    let (_, inbox) = request("GET", &api(&format!("{copy}/inbox")), None).await;
    assert_eq!(inbox["data"], json!([]));
    assert_eq!(request("DELETE", &api(&copy), None).await.0, 204);
    let (status, gone) = request("GET", &api(&copy), None).await;
    assert_eq!((status, gone["_tag"].as_str()), (404, Some("SessionNotFoundError")));
    server.kill().await;
    work.ok(&["db", "verify"]).await;
}

async fn request(method: &str, url: &str, body: Option<Value>) -> (u16, Value) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let text = body.map(|body| body.to_string()).unwrap_or_default();
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    read.expect("the server answers in time").unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}
