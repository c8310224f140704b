//! `abide serve`: ready, idle, asked by many at once, killed.

use std::time::{Duration, Instant};

use abide_tests::provider::{Provider, Reply};
use abide_tests::sandbox::{Sandbox, Server};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::http::{Connection, load};
use crate::process::{cpu, memory};
use crate::runs::{config, read_loop};
use crate::table::{Table, median, mib, ms, percentile};

/// Starts that are measured.
const STARTS: usize = 7;
/// Kills that are measured.
const KILLS: usize = 5;
/// Connections at once.
const CONNECTIONS: usize = 50;
/// How long the server is asked.
const PERIOD: Duration = Duration::from_secs(3);
/// How long an idle server is watched.
const IDLE: Duration = Duration::from_secs(2);
/// The longest wait for something that must happen.
const LIMIT: Duration = Duration::from_secs(20);

async fn create(connection: &mut Connection, sandbox: &Sandbox) -> Result<String, String> {
    let body = json!({ "location": { "directory": sandbox.project() } }).to_string();
    let created = connection.ask("POST", "/api/session", &body).await?;
    let created: Value = serde_json::from_slice(&created).map_err(|error| error.to_string())?;
    Ok(created["data"]["id"].as_str().ok_or("a created session has no id")?.to_owned())
}

async fn prompt(connection: &mut Connection, session: &str) -> Result<(), String> {
    let body = json!({ "prompt": { "text": "go" } }).to_string();
    connection.ask("POST", &format!("/api/session/{session}/prompt"), &body).await.map(drop)
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {LIMIT:?}"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Ready, idle, and many requests.
pub(crate) fn serve(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    runtime.block_on(async {
        let provider = Provider::start(Duration::ZERO, read_loop(1)).await;
        let sandbox = Sandbox::new();
        sandbox.configure(&config(&provider));
        sandbox.serve().await.kill().await;
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let started = Instant::now();
            let mut server = sandbox.serve().await;
            Connection::open(&server.url).await?.ask("GET", "/api/health", "").await?;
            times.push(started.elapsed());
            server.kill().await;
        }
        table.row("server: start to first answer", "under 30 ms", &ms(median(&times)));
        let mut server = sandbox.serve().await;
        let result = ask(&server, &sandbox, table).await;
        server.kill().await;
        result
    })
}

async fn ask(server: &Server, sandbox: &Sandbox, table: &mut Table) -> Result<(), String> {
    let pid = server.pid().ok_or("the server has ended")?;
    let mut connection = Connection::open(&server.url).await?;
    connection.ask("GET", "/api/health", "").await?;
    let before = cpu(pid)?;
    tokio::time::sleep(IDLE).await;
    let busy = (cpu(pid)? - before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let idle = memory(pid, "VmRSS:").ok_or("the server's memory cannot be read")?;
    table.row("server: idle memory / CPU", "under 15 MiB / 0.0 %", &format!("{} / {busy:.1} %", mib(idle)));
    let session = create(&mut connection, sandbox).await?;
    let times = load(&server.url, &format!("/api/session/{session}"), CONNECTIONS, PERIOD).await?;
    let rate = times.len() as f64 / PERIOD.as_secs_f64();
    let measured = format!("{rate:.0} requests/s, p99 {}", ms(percentile(&times, 99)));
    table.row("server: GET session, 50 at once", "over 20,000 requests/s, p99 under 10 ms", &measured);
    Ok(())
}

/// Killed in a tool call: the time from the new server's start to the session's next model request.
pub(crate) fn recovery(runtime: &Runtime, table: &mut Table) -> Result<(), String> {
    runtime.block_on(async {
        let mut times = Vec::new();
        for _ in 0..KILLS {
            times.push(recover().await?);
        }
        let budget = "under 100 ms";
        table.row("recovery of one session after kill -9, server start to running again", budget, &ms(median(&times)));
        Ok(())
    })
}

async fn recover() -> Result<Duration, String> {
    let provider = Provider::start(Duration::ZERO, |request| {
        if request.n_results > 0 {
            return Reply::text("done");
        }
        let input = json!({ "command": "touch started; sleep 30" });
        Reply::Call { id: "call".to_owned(), name: "shell".to_owned(), input }
    })
    .await;
    let sandbox = Sandbox::new();
    sandbox.configure(&config(&provider));
    let mut server = sandbox.serve().await;
    let mut connection = Connection::open(&server.url).await?;
    let session = create(&mut connection, &sandbox).await?;
    prompt(&mut connection, &session).await?;
    let started = sandbox.project().join("started");
    until("the tool call runs", || started.exists()).await?;
    server.kill().await;
    let before = provider.stamps().len();
    let began = Instant::now();
    let mut server = sandbox.serve().await;
    let result = until("the session goes on", || provider.stamps().len() > before).await;
    server.kill().await;
    result?;
    let next = provider.stamps().get(before).copied().ok_or("no request was made")?;
    Ok(next.arrived - began)
}
