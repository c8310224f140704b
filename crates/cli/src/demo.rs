//! `abide demo`: the main job end to end, for real except for the model, which is scripted.
//!
//! A throwaway repository with a failing test; a server process of this very binary over HTTP; the scripted model
//! reads, edits and runs the test; in the middle of that the server is killed with SIGKILL; a new one recovers the
//! session, which goes on by itself and finishes. Then the test is run once more, by the demo itself.

mod model;
mod repository;
mod server;

use std::time::Duration;

use abide_protocol::client::{Client, ClientOptions, LogItem};
use abide_schema::event::EventData;
use abide_schema::tool::joined_text;
use abide_schema::{Seq, SessionId};
use futures_util::StreamExt as _;

use self::repository::Repository;
use self::server::ServerProcess;
use crate::args::DemoArgs;
use crate::error::{CliError, Exit};
use crate::output::{line, note};

/// Nothing in the demo may take longer.
const LIMIT: Duration = Duration::from_secs(60);

const PROMPT: &str = "The test fails. Find out why, fix it, and show that it passes.";

pub(crate) async fn run(args: DemoArgs) -> Result<Exit, CliError> {
    match tokio::time::timeout(LIMIT * 3, play(&args)).await {
        Ok(result) => result,
        Err(_) => Err(CliError::failed("the demo did not end in time")),
    }
}

async fn play(args: &DemoArgs) -> Result<Exit, CliError> {
    line("abide demo: a real session over HTTP. Only the model is scripted; everything else is the real thing.");
    line("");
    let repository = Repository::create(args.keep).await?;
    line(&format!("1. A throwaway repository with a failing test: {}", repository.root().display()));
    let before = repository.test().await?;
    line(&format!("   $ sh test.sh   -> exit {}", before.code));
    if before.code == 0 {
        return Err(CliError::failed("the test of the throwaway repository does not fail"));
    }
    let model = model::ScriptedModel::start().await?;
    repository.configure(model.url())?;
    line(&format!("2. A scripted model on {} (it stands for a provider)", model.url()));
    let mut server = ServerProcess::start(repository.root(), repository.data()).await?;
    line(&format!("3. abide serve, process {}, on {}", server.pid(), server.url()));
    let client = connect(&server, &repository)?;
    let input = serde_json::from_value(serde_json::json!({
        "location": { "directory": repository.root() },
    }))?;
    let session = client.create_session(&input).await?.id;
    let prompt = serde_json::from_value(serde_json::json!({ "prompt": { "text": PROMPT } }))?;
    client.prompt(&session, &prompt).await?;
    line(&format!("4. The prompt: {PROMPT}"));
    let mut cursor = None;
    until(
        &client,
        &session,
        &mut cursor,
        |data| matches!(data, EventData::ToolCalled(called) if called.tool == "shell"),
    )
    .await?;
    repository.wait_for_marker(LIMIT).await?;
    let killed = server.pid();
    server.kill().await?;
    line("");
    line(&format!("5. kill -9 {killed}: the server died in the middle of the shell call"));
    let mut server = ServerProcess::start(repository.root(), repository.data()).await?;
    line(&format!("6. abide serve again, process {}: it settles what was open and goes on by itself", server.pid()));
    line("");
    let client = connect(&server, &repository)?;
    until(&client, &session, &mut cursor, |data| {
        matches!(
            data,
            EventData::ExecutionSucceeded(_) | EventData::ExecutionFailed(_) | EventData::ExecutionInterrupted(_)
        )
    })
    .await?;
    server.stop().await?;
    let after = repository.test().await?;
    line("");
    line("7. What changed:");
    for row in repository.diff().await?.lines() {
        line(&format!("   {row}"));
    }
    line("");
    line(&format!("8. The test, run by the demo itself: exit {}", after.code));
    let asked_twice = model.n_unpaired();
    if after.code != 0 {
        return Err(CliError::failed("the demo failed: the test still fails").hint(after.output));
    }
    if asked_twice > 0 {
        return Err(CliError::failed(format!(
            "the demo failed: {asked_twice} requests had a call without exactly one result"
        )));
    }
    if args.keep {
        let (root, data) = (repository.root().display(), repository.data().display());
        line("");
        line("Look at the log:");
        line(&format!("   abide --data-dir {data} session log {session}"));
        line(&format!("   abide --data-dir {data} session show {session}"));
        line(&format!("   cd {root} && git diff"));
    } else {
        line("");
        line("Look at the log of such a session: abide demo --keep, then abide session log <id>.");
    }
    line("");
    line("The demo is done: nothing was lost, nothing ran twice, the test passes.");
    Ok(Exit::Done)
}

fn connect(server: &ServerProcess, repository: &Repository) -> Result<Client, CliError> {
    Ok(Client::new(&ClientOptions {
        url: server.url().to_owned(),
        directory: Some(repository.root().to_string_lossy().into_owned()),
        ..ClientOptions::default()
    })?)
}

/// Follows the log and shows it until an event is reached.
async fn until(
    client: &Client,
    session: &SessionId,
    cursor: &mut Option<Seq>,
    reached: impl Fn(&EventData) -> bool,
) -> Result<(), CliError> {
    let mut log = client.log(session, *cursor, true);
    loop {
        let item = tokio::time::timeout(LIMIT, log.next())
            .await
            .map_err(|_| CliError::failed("the session stands still"))?
            .ok_or_else(|| CliError::failed("the log ended"))??;
        let LogItem::Record(record) = item else { continue };
        *cursor = Some(record.durable.seq);
        let event = record.decode().map_err(|error| CliError::failed(error.to_string()))?;
        show(&event.data);
        if reached(&event.data) {
            return Ok(());
        }
    }
}

fn show(data: &EventData) {
    match data {
        EventData::TextEnded(text) if !text.text.is_empty() => line(&format!("   model: {}", text.text)),
        EventData::ToolCalled(called) => {
            let input = serde_json::Value::Object(called.input.clone()).to_string();
            line(&format!("   call:  {} {}", called.tool, short(&input)));
        }
        EventData::ToolSuccess(success) => line(&format!("   done:  {}", short(&joined_text(&success.content)))),
        EventData::ToolFailed(failed) => line(&format!("   fail:  {}", short(&failed.error.message))),
        EventData::Recovered(recovered) => {
            let verdicts: Vec<String> =
                recovered.tools.iter().map(|tool| format!("{} {:?}", tool.call_id, tool.verdict)).collect();
            line(&format!("   recovered: {}", verdicts.join(", ")));
        }
        EventData::StepFailed(failed) => note(&format!("   step:  {}", failed.error.message)),
        _ => {}
    }
}

fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() > 110 { format!("{} ...", text.chars().take(110).collect::<String>()) } else { text }
}
