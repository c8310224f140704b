//! Crashes of the real binary: real files, processes and SQLite, a scripted provider, and what must hold afterwards.
//!
//! A case is a workload and a list of lives. Each life is one server process, which dies at a fault point or of a
//! SIGKILL; then one more life goes on to the end. Afterwards: what was acknowledged is there once, the log keeps its
//! invariants and agrees with its projections, no call ran twice, what is a success did happen, nothing that the
//! provider got was refused by its strictest rules, and one more prompt is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use abide_core::session::sim;
use abide_core::store::{EventStore as _, SeqRange, SqliteStore, StoreOptions, View};
use abide_core::world::World;
use abide_schema::SessionId;
use serde_json::{Value, json};

use crate::http::{history, request};
use crate::provider::{Provider, Reply, Request};
use crate::sandbox::{Sandbox, Server, stderr, stdout};

/// What the session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Long answers.
    Text,
    /// Calls of `edit` and `write`.
    Files,
    /// Calls of `shell`, several in one step.
    Shell,
    /// Calls of `shell`, with compactions in between.
    Compaction,
    /// As [`Workload::Text`]; the provider refuses each first request for a while.
    Retry,
}

/// All workloads.
pub const WORKLOADS: [Workload; 5] =
    [Workload::Text, Workload::Files, Workload::Shell, Workload::Compaction, Workload::Retry];

/// How a life ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// As `ABIDE_FAILPOINTS` says; the server must die of it.
    Fault(String),
    /// Failures at fault points, by which the server need not die; it is killed when the session rests.
    Errors(String),
    /// Killed after this time.
    Kill(Duration),
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the session does.
    pub workload: Workload,
    /// Whether the provider speaks the Messages protocol instead of Chat.
    pub is_messages: bool,
    /// The lives before the last.
    pub lives: Vec<Life>,
}

/// What a case did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Processes that died.
    pub n_deaths: usize,
    /// Events in the log at the end.
    pub n_events: usize,
    /// Requests that the provider got.
    pub n_requests: usize,
    /// Calls that ran.
    pub n_runs: usize,
}

/// Prompts of one life.
const PROMPTS: usize = 2;
/// Calls or rounds of one prompt.
const ROUNDS: usize = 3;
/// The longest that a life may take.
const LIFE: Duration = Duration::from_secs(90);
/// The session of every case.
const SESSION: &str = "ses_crash";

/// The model's side: the newest prompt says which round is next; no call is ever made again.
struct Model {
    workload: Workload,
    rounds: std::sync::Mutex<BTreeMap<usize, usize>>,
    n_calls: AtomicUsize,
}

impl Model {
    fn reply(&self, request: &Request) -> Reply {
        let text = request.body.to_string();
        if text.contains("records of coding sessions") {
            return Reply::text("## Objective\nGo on.");
        }
        let Some(prompt) = newest_prompt(&text) else { return Reply::text("no prompt") };
        let round = {
            let mut rounds = self.rounds.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let round = rounds.entry(prompt).or_default();
            *round += 1;
            *round
        };
        if self.workload == Workload::Retry && round == 1 {
            return Reply::Status(429, json!({ "error": { "message": "slow down", "type": "rate_limit_error" } }));
        }
        if round > ROUNDS || matches!(self.workload, Workload::Text | Workload::Retry) {
            return Reply::Text(
                (0..120).map(|n| format!("word {n} of the answer to {prompt}, a long one. ")).collect(),
            );
        }
        let call = |name: &str, input: &dyn Fn(&str) -> Value| {
            let id = format!("call_{}", self.n_calls.fetch_add(1, Ordering::Relaxed));
            let input = input(&id);
            (id, name.to_owned(), input)
        };
        Reply::Calls(match self.workload {
            Workload::Files => vec![
                call("edit", &|id| json!({ "path": "log.txt", "oldString": "end", "newString": format!("{id}\nend") })),
                call("write", &|id| json!({ "path": format!("{id}.txt"), "content": id })),
            ],
            Workload::Shell => (0..2).map(|_| call("shell", &command)).collect(),
            Workload::Text | Workload::Compaction | Workload::Retry => vec![call("shell", &command)],
        })
    }
}

fn command(id: &str) -> Value {
    json!({ "command": format!("echo {id} >> ran.txt; sleep 0.05; echo done {id}") })
}

/// The highest `prompt N:` of a request.
fn newest_prompt(text: &str) -> Option<usize> {
    let numbers = text.split("prompt ").skip(1).filter_map(|rest| rest.split_once(':')?.0.parse().ok());
    numbers.max()
}

/// Runs a case.
///
/// # Errors
/// What did not hold, in words.
pub async fn run(case: &Case) -> Result<Report, String> {
    let model =
        Arc::new(Model { workload: case.workload, rounds: std::sync::Mutex::default(), n_calls: AtomicUsize::new(0) });
    let script = model.clone();
    let provider = Provider::start(Duration::from_millis(1), move |request| script.reply(request)).await;
    let sandbox = Sandbox::new();
    sandbox.write("log.txt", "begin\nend\n");
    let mut config = provider.config();
    config["permissions"] = json!([{ "action": "*", "resource": "*", "effect": "allow" }]);
    if case.is_messages {
        config["model"] = json!("test-messages/model");
    }
    sandbox.configure(&config);
    let mut user = User { n_sent: 0, acknowledged: BTreeSet::new(), seen: Vec::new() };
    let mut report = Report::default();
    for life in &case.lives {
        report.n_deaths += usize::from(life_until_death(&sandbox, case, life, &mut user).await?);
    }
    let events = last_life(&sandbox, case, &mut user).await?;
    report.n_events = events.len();
    report.n_requests = provider.requests().len();
    if let Some(complaint) = provider.complaints().first() {
        return Err(format!("a strict provider refuses a request: {complaint}"));
    }
    report.n_runs = check_runs(&sandbox, &events)?;
    let verified = sandbox.abide(&["db", "verify"]).await;
    if !verified.status.success() {
        return Err(format!("abide db verify: {}{}", stdout(&verified), stderr(&verified)));
    }
    check_log(&sandbox).await?;
    Ok(report)
}

/// The user's side of all lives.
struct User {
    n_sent: usize,
    acknowledged: BTreeSet<String>,
    /// The longest history that was read.
    seen: Vec<Value>,
}

impl User {
    /// Sends prompts, and compactions between them; a broken connection ends it.
    async fn act(&mut self, sandbox: &Sandbox, url: &str, workload: Workload) -> Result<(), String> {
        let body = json!({ "id": SESSION, "location": { "directory": sandbox.project() } });
        request("POST", &format!("{url}/api/session"), Some(&body)).await?;
        for n in 0..PROMPTS {
            // What the model is told of its directory changes between prompts.
            sandbox.write("AGENTS.md", &format!("Rule {}\n", self.n_sent));
            let id = format!("msg_prompt{}", self.n_sent);
            let text = format!("prompt {}: do what is next", self.n_sent);
            self.n_sent += 1;
            let delivery = if n == 0 { "steer" } else { "queue" };
            let body = json!({ "id": id, "prompt": { "text": text }, "delivery": delivery });
            request("POST", &format!("{url}/api/session/{SESSION}/prompt"), Some(&body)).await?;
            self.acknowledged.insert(id.clone());
            if workload == Workload::Text && n == 0 {
                // The model is told of the directory as it is now: what changes from here on is an update.
                begins(url, &id).await?;
            }
            if workload == Workload::Compaction {
                request("POST", &format!("{url}/api/session/{SESSION}/compact"), Some(&json!({}))).await?;
            }
        }
        Ok(())
    }

    /// Reads the history: what was there once is there, unchanged.
    async fn look(&mut self, url: &str) -> Result<(), String> {
        let events = history(url, SESSION).await?;
        if events.len() < self.seen.len() || events.get(..self.seen.len()) != Some(self.seen.as_slice()) {
            return Err("an event that was read before is gone or changed".to_owned());
        }
        self.seen = events;
        Ok(())
    }
}

/// Waits until a prompt was given to the model, at most for a while: it may wait behind others.
async fn begins(url: &str, prompt: &str) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let events = history(url, SESSION).await?;
        let taken = events
            .iter()
            .position(|event| event["type"] == "session.next.prompted" && event["data"]["messageID"] == prompt);
        let after = taken.and_then(|at| events.get(at..)).unwrap_or_default();
        if after.iter().any(|event| event["type"] == "session.next.step.started") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn is_active(url: &str) -> Result<bool, String> {
    let active = request("GET", &format!("{url}/api/session/active"), None).await?;
    Ok(active["data"].get(SESSION).is_some())
}

/// Says whether the process died by itself or was killed in the end.
async fn life_until_death(sandbox: &Sandbox, case: &Case, life: &Life, user: &mut User) -> Result<bool, String> {
    let (faults, kill_after) = match life {
        Life::Fault(list) | Life::Errors(list) => (list.as_str(), None),
        Life::Kill(after) => ("", Some(*after)),
    };
    let Some(mut server) = sandbox.try_serve(&[("ABIDE_FAILPOINTS", faults)]).await else {
        // It died before it could say where it listens: in the recovery.
        return Ok(true);
    };
    let begun = Instant::now();
    // It may die during any of this.
    let acted = user.act(sandbox, &server.url, case.workload).await;
    let looked = user.look(&server.url).await;
    if let Err(broken) = looked
        && broken.contains("gone or changed")
    {
        return Err(broken);
    }
    if let Some(after) = kill_after {
        tokio::time::sleep(after.saturating_sub(begun.elapsed())).await;
        server.kill().await;
        return Ok(true);
    }
    let must_die = matches!(life, Life::Fault(_));
    if !must_die {
        drop(acted);
    }
    loop {
        if server.has_ended() {
            return Ok(true);
        }
        // Only a rest that lasts is one: wakes may be on their way.
        if !is_active(&server.url).await.unwrap_or(true) {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if !server.has_ended() && !is_active(&server.url).await.unwrap_or(true) {
                server.kill().await;
                return if must_die { Err(format!("{faults} was never reached")) } else { Ok(true) };
            }
        }
        if begun.elapsed() > LIFE {
            server.kill().await;
            return Err(format!("the life with {faults} does not end"));
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// The last life: everything that was admitted is done, and one more prompt is.
async fn last_life(sandbox: &Sandbox, case: &Case, user: &mut User) -> Result<Vec<Value>, String> {
    let mut server = sandbox.serve().await;
    user.act(sandbox, &server.url, case.workload).await?;
    wait_for_rest(&mut server).await?;
    user.look(&server.url).await?;
    let n_ended = |events: &[Value]| events.iter().filter(|event| event["type"] == "session.next.text.ended").count();
    let before = n_ended(&user.seen);
    let (id, text) = (format!("msg_prompt{}", user.n_sent), format!("prompt {}: the last one", user.n_sent));
    let body = json!({ "id": id, "prompt": { "text": text } });
    request("POST", &format!("{}/api/session/{SESSION}/prompt", server.url), Some(&body)).await?;
    user.acknowledged.insert(id);
    wait_for_rest(&mut server).await?;
    user.look(&server.url).await?;
    if n_ended(&user.seen) <= before {
        return Err("the session answers no more".to_owned());
    }
    for id in &user.acknowledged {
        let taken = |event: &&Value| event["type"] == "session.next.prompted" && event["data"]["messageID"] == **id;
        let n = user.seen.iter().filter(taken).count();
        if n != 1 {
            return Err(format!("the acknowledged prompt {id} took effect {n} times"));
        }
    }
    server.kill().await;
    Ok(std::mem::take(&mut user.seen))
}

async fn wait_for_rest(server: &mut Server) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        if server.has_ended() {
            return Err("the server ended without a fault".to_owned());
        }
        if !is_active(&server.url).await? {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if !is_active(&server.url).await? {
                return Ok(());
            }
        }
        if begun.elapsed() > LIFE {
            return Err("the session does not come to rest".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Nothing ran twice; what is a success did run. Returns how many calls ran.
fn check_runs(sandbox: &Sandbox, events: &[Value]) -> Result<usize, String> {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for file in ["ran.txt", "log.txt"] {
        let text = std::fs::read_to_string(sandbox.project().join(file)).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("call_")) {
            *runs.entry(line.to_owned()).or_default() += 1;
        }
    }
    if let Some((call, n)) = runs.iter().find(|(_, n)| **n > 1) {
        return Err(format!("{call} ran {n} times"));
    }
    let log = std::fs::read_to_string(sandbox.project().join("log.txt")).unwrap_or_default();
    if !log.starts_with("begin\n") || !log.ends_with("end\n") {
        return Err(format!("log.txt is torn: {log:?}"));
    }
    let mut tools: BTreeMap<String, String> = BTreeMap::new();
    for event in events {
        let data = &event["data"];
        let call = data["callID"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "session.next.tool.called" => {
                tools.insert(call, data["tool"].as_str().unwrap_or_default().to_owned());
            }
            "session.next.tool.success" => {
                let written = std::fs::read_to_string(sandbox.project().join(format!("{call}.txt"))).ok();
                let happened = match tools.get(&call).map(String::as_str) {
                    Some("write") => written.as_deref() == Some(call.as_str()),
                    _ => runs.contains_key(&call),
                };
                if !happened {
                    return Err(format!("{call} is a success and did not happen"));
                }
            }
            "session.next.tool.failed" => {
                let error = data["error"]["message"].as_str().unwrap_or_default();
                let untouched = error.contains("It did not run") || error.contains("rolled back completely");
                if untouched && runs.contains_key(&call) {
                    return Err(format!("{call} did happen, and its error says that it did not: {error}"));
                }
            }
            _ => {}
        }
    }
    Ok(runs.len())
}

/// The whole log, read with the store, keeps the invariants that a log can show.
async fn check_log(sandbox: &Sandbox) -> Result<(), String> {
    let store =
        SqliteStore::open(StoreOptions::new(sandbox.data(), World::real())).map_err(|error| error.to_string())?;
    let session = SessionId::parse(SESSION).map_err(|error| error.to_string())?;
    let page =
        store.read(&session, SeqRange::default(), View::Log, 100_000).await.map_err(|error| error.to_string())?;
    let events: Vec<_> = page.events.into_iter().collect();
    sim::check_log(&events, true)
}

impl Case {
    /// Says whether one of its lives names the fault point.
    pub fn names(&self, point: &str) -> bool {
        self.lives.iter().any(|life| match life {
            Life::Fault(list) | Life::Errors(list) => list.starts_with(point),
            Life::Kill(_) => false,
        })
    }
}

/// Fault points with the workload that reaches them and the hit at which the process dies. Points of the recovery are
/// reached in the second life.
const POINTS: &[(&str, Workload, u32)] = &[
    ("store.before_commit", Workload::Shell, 12),
    ("store.before_commit", Workload::Compaction, 30),
    ("store.after_commit", Workload::Shell, 15),
    ("store.after_commit", Workload::Files, 25),
    ("store.before_notify", Workload::Text, 9),
    ("admit.after_append", Workload::Text, 1),
    ("admit.after_append", Workload::Files, 2),
    ("drain.after_claim", Workload::Text, 1),
    ("promote.between", Workload::Shell, 1),
    ("promote.between", Workload::Shell, 2),
    ("context.after_update", Workload::Text, 1),
    ("attempt.before_dispatch", Workload::Text, 1),
    ("attempt.before_dispatch", Workload::Files, 2),
    ("attempt.after_dispatch", Workload::Shell, 1),
    ("attempt.after_dispatch", Workload::Compaction, 3),
    ("stream.after_event", Workload::Text, 2),
    ("stream.after_event", Workload::Shell, 6),
    ("draft.after_write", Workload::Text, 1),
    ("tool.after_called", Workload::Files, 1),
    ("tool.after_called", Workload::Shell, 2),
    ("tool.before_effect", Workload::Files, 1),
    ("tool.before_effect", Workload::Shell, 3),
    ("mutation.after_plan", Workload::Files, 1),
    ("mutation.after_stage", Workload::Files, 2),
    ("mutation.between_renames", Workload::Files, 1),
    ("mutation.after_apply", Workload::Files, 1),
    ("mutation.after_apply", Workload::Files, 4),
    ("process.after_gate", Workload::Shell, 1),
    ("process.after_gate", Workload::Compaction, 2),
    ("tool.before_settle", Workload::Files, 1),
    ("tool.before_settle", Workload::Shell, 2),
    ("step.before_terminal", Workload::Text, 1),
    ("step.before_terminal", Workload::Shell, 2),
    ("step.after_terminal", Workload::Files, 1),
    ("step.after_terminal", Workload::Text, 1),
    ("retry.after_scheduled", Workload::Retry, 1),
    ("compaction.after_started", Workload::Compaction, 1),
    ("compaction.before_ended", Workload::Compaction, 1),
    ("exec.before_terminal", Workload::Text, 1),
    ("exec.before_terminal", Workload::Compaction, 1),
];

/// One case for each entry of the table of fault points, and for the points of the recovery.
pub fn each_point() -> Vec<Case> {
    let mut cases: Vec<Case> = POINTS
        .iter()
        .enumerate()
        .map(|(index, (point, workload, nth))| Case {
            workload: *workload,
            is_messages: index % 2 == 1,
            lives: vec![Life::Fault(format!("{point}=kill@{nth}"))],
        })
        .collect();
    for (index, point) in ["recover.before_batch", "recover.after_batch"].into_iter().enumerate() {
        for workload in [Workload::Files, Workload::Shell] {
            cases.push(Case {
                workload,
                is_messages: index == 0,
                lives: vec![
                    Life::Fault("tool.before_settle=kill@1".to_owned()),
                    Life::Fault(format!("{point}=kill@1")),
                ],
            });
        }
    }
    // The disk refuses once, at a commit and inside a mutation.
    for (faults, workload) in [
        ("store.before_commit=error@14", Workload::Files),
        ("store.after_commit=error@14", Workload::Shell),
        ("mutation.after_plan=error@1", Workload::Files),
        ("mutation.after_stage=error@1", Workload::Files),
        ("mutation.between_renames=error@1", Workload::Files),
        ("draft.after_write=error@1", Workload::Text),
        ("compaction.before_ended=error@1", Workload::Compaction),
        ("step.before_terminal=error@2", Workload::Shell),
    ] {
        cases.push(Case { workload, is_messages: false, lives: vec![Life::Errors(faults.to_owned())] });
    }
    cases
}
