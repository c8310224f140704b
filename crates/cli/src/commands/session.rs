//! `abide session`: sessions and their logs.

use abide_core::session::recovery::{NextAction, Recovered};
use abide_core::store::{MessageQuery, Order, SeqRange, SessionQuery, View};
use abide_schema::event::EventData;
use abide_schema::message::{AssistantContent, Message, ToolState};
use abide_schema::project::MessageRow;
use abide_schema::session::SessionInfo;
use abide_schema::tool::joined_text;
use abide_schema::{Seq, SessionId};
use serde_json::json;

use super::operations;
use crate::args::{Format, Global, SessionCommand};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

/// Events of one page of a log.
const PAGE: u32 = 512;

pub(crate) async fn run(global: Global, command: SessionCommand) -> Result<Exit, CliError> {
    let instance = Instance::open(&global).await?;
    let result = with(&global, &instance, command).await;
    instance.close().await;
    result
}

pub(crate) fn parse(id: &str) -> Result<SessionId, CliError> {
    SessionId::parse(id)
        .map_err(|error| CliError::usage(error.to_string()).hint("`abide session list` shows the sessions"))
}

async fn with(global: &Global, instance: &Instance, command: SessionCommand) -> Result<Exit, CliError> {
    match command {
        SessionCommand::List { all, limit, format } => list(global, instance, all, limit, format.format).await,
        SessionCommand::Show { id, format } => show(instance, &parse(&id)?, format.format).await,
        SessionCommand::Log { id, after, format } => log(instance, &parse(&id)?, after, format.format).await,
        SessionCommand::Export { id, output } => {
            let text = instance.app.sessions().export(&parse(&id)?).await?.to_text()?;
            let text = instance.app.secrets().redact(&text).into_owned();
            match output {
                None => output::out(&text),
                Some(path) => std::fs::write(&path, text)
                    .map_err(|error| CliError::failed(format!("{} cannot be written: {error}", path.display())))?,
            }
            Ok(Exit::Done)
        }
        SessionCommand::Import { file } => operations::import(instance, &file).await,
        SessionCommand::Replay { id, to, format } => {
            operations::replay(instance, &parse(&id)?, to, format.format).await
        }
        SessionCommand::Fork { id, at, before, title } => {
            operations::fork(instance, &parse(&id)?, at, before, title).await
        }
        SessionCommand::Move { id, to, other_project } => {
            operations::move_to(instance, &parse(&id)?, &to, other_project).await
        }
        SessionCommand::Inbox(command) => operations::inbox(instance, command).await,
        SessionCommand::Revert(command) => super::revert::run(instance, command).await,
        SessionCommand::Recover { id, dry_run } => recover(instance, id, dry_run).await,
        SessionCommand::Verify { id } => {
            let id = parse(&id)?;
            instance.app.sessions().get(&id).await?;
            let differences = instance.app.store().verify(&id).await?;
            for difference in &differences {
                output::line(difference);
            }
            if differences.is_empty() {
                output::line("the projections equal the log");
                Ok(Exit::Done)
            } else {
                Err(CliError::failed(format!("{} differences", differences.len())).hint("abide db rebuild"))
            }
        }
        SessionCommand::Delete { id } => {
            let id = parse(&id)?;
            instance.app.sessions().delete(&id).await?;
            output::line(&format!("deleted {id}"));
            Ok(Exit::Done)
        }
    }
}

async fn list(global: &Global, instance: &Instance, all: bool, limit: u32, format: Format) -> Result<Exit, CliError> {
    let directory = instance::directory(global)?.to_string_lossy().into_owned();
    let query =
        SessionQuery { directory: (!all).then_some(directory), order: Order::Desc, limit, ..SessionQuery::default() };
    let sessions = instance.app.store().sessions(query).await?;
    match format {
        Format::Json => output::line(&serde_json::to_string_pretty(&sessions)?),
        Format::Text => {
            for session in &sessions {
                output::line(&format!(
                    "{}  {}  {}{}",
                    session.id,
                    session.time.updated.to_iso(),
                    session.title,
                    if all { format!("  ({})", session.location.directory) } else { String::new() }
                ));
            }
            if sessions.is_empty() {
                output::note("no sessions; `--all` shows those of other directories");
            }
        }
    }
    Ok(Exit::Done)
}

async fn show(instance: &Instance, id: &SessionId, format: Format) -> Result<Exit, CliError> {
    let info = instance.app.sessions().get(id).await?;
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    let rows = instance.app.store().messages(id, query).await?;
    show_transcript(&info, &rows, format)
}

/// Prints a session with its messages.
pub(crate) fn show_transcript(info: &SessionInfo, rows: &[MessageRow], format: Format) -> Result<Exit, CliError> {
    let messages: Vec<&Message> = rows.iter().map(|row| &row.message).collect();
    if format == Format::Json {
        output::line(&serde_json::to_string_pretty(&json!({ "session": info, "messages": messages }))?);
        return Ok(Exit::Done);
    }
    output::line(&format!("{}\n{} in {}\n", info.title, info.id, info.location.directory));
    for message in messages {
        show_message(message);
    }
    output::line(&format!("{} tokens, ${:.4}", info.tokens.total(), info.cost));
    Ok(Exit::Done)
}

fn show_message(message: &Message) {
    match message {
        Message::User(user) => output::line(&format!("> {}\n  ({})\n", user.text, user.id)),
        Message::Synthetic(synthetic) => output::line(&format!("[note] {}\n", synthetic.text)),
        Message::System(system) => output::line(&format!("[update] {}\n", system.text)),
        Message::Compaction(compaction) => {
            output::line(&format!("[summary, {:?}] {}\n", compaction.status, compaction.summary));
        }
        Message::Shell(shell) => output::line(&format!("$ {}\n{}\n", shell.command, shell.output)),
        Message::AgentSwitched(switched) => output::line(&format!("[agent] {}\n", switched.agent)),
        Message::ModelSwitched(switched) => output::line(&format!("[model] {}\n", switched.model)),
        Message::Skill(skill) => output::line(&format!("[skill] {}\n", skill.name)),
        Message::LocationSwitched(moved) => output::line(&format!("[moved] {}\n", moved.location.directory)),
        Message::Idle(_) => {}
        Message::Assistant(assistant) => {
            for item in &assistant.content {
                match item {
                    AssistantContent::Text(text) => output::line(&format!("{}\n", text.text)),
                    AssistantContent::Reasoning(_) => {}
                    AssistantContent::Tool(tool) => {
                        let (mark, input, detail) = match &tool.state {
                            ToolState::Pending { input } => ("…", input.clone(), String::new()),
                            ToolState::Running { input, .. } => ("…", to_json(input), String::new()),
                            ToolState::Completed { input, content, .. } => ("✓", to_json(input), joined_text(content)),
                            ToolState::Error { input, error, .. } => ("✗", to_json(input), error.message.clone()),
                        };
                        output::line(&format!("{mark} {} {input}", tool.name));
                        for row in detail.lines().take(12) {
                            output::line(&format!("    {row}"));
                        }
                    }
                }
            }
            if let Some(error) = &assistant.error {
                output::line(&format!("[failed] {}\n", error.message));
            }
        }
    }
}

fn to_json(map: &abide_schema::JsonObject) -> String {
    serde_json::Value::Object(map.clone()).to_string()
}

async fn events(
    instance: &Instance,
    id: &SessionId,
    after: Option<u64>,
    mut take: impl FnMut(&abide_schema::event::StoredEvent) -> Result<(), CliError>,
) -> Result<(), CliError> {
    instance.app.sessions().get(id).await?;
    let mut range = SeqRange { after: after.map(Seq), through: None };
    loop {
        let page = instance.app.store().read(id, range, View::Log, PAGE).await?;
        for event in &page.events {
            take(event)?;
        }
        match page.cursor {
            Some(cursor) if page.has_more => range.after = Some(cursor),
            Some(_) | None => return Ok(()),
        }
    }
}

async fn log(instance: &Instance, id: &SessionId, after: Option<u64>, format: Format) -> Result<Exit, CliError> {
    events(instance, id, after, |event| {
        let record = event.to_log_record()?;
        match format {
            Format::Json => output::line(&serde_json::to_string(&record)?),
            Format::Text => {
                let contract = event.contract_seq.map_or_else(String::new, |seq| seq.to_string());
                let data: String = record.data.get().chars().take(160).collect();
                output::line(&format!("{:>5} {contract:>5}  {:<36} {data}", event.seq.0, record.kind));
            }
        }
        Ok(())
    })
    .await?;
    Ok(Exit::Done)
}

async fn recover(instance: &Instance, id: Option<String>, dry_run: bool) -> Result<Exit, CliError> {
    let only = id.as_deref().map(parse).transpose()?;
    let sessions = instance.app.sessions();
    let report = if dry_run { sessions.explain_recovery().await? } else { sessions.recover(only.as_ref()).await? };
    let report: Vec<&Recovered> =
        report.iter().filter(|recovered| only.as_ref().is_none_or(|only| *only == recovered.session)).collect();
    if report.is_empty() {
        output::line("nothing is left to settle");
        return Ok(Exit::Done);
    }
    for recovered in report {
        output::line(&format!("{}: {}", recovered.session, next_text(recovered.next)));
        for event in &recovered.settled {
            let detail = match event {
                EventData::ToolFailed(failed) => format!("{}: {}", failed.call_id, failed.error.message),
                EventData::ToolSuccess(success) => format!("{}: it had been carried out", success.call_id),
                EventData::StepFailed(failed) => failed.assistant_message_id.to_string(),
                _ => String::new(),
            };
            output::line(&format!("    {} {detail}", event.def().name));
        }
    }
    if !dry_run {
        // What resumed runs on in a server; here it is stopped so that the next start takes it up again.
        sessions.shutdown(std::time::Duration::from_secs(8)).await;
    }
    Ok(Exit::Done)
}

const fn next_text(next: NextAction) -> &'static str {
    match next {
        NextAction::Resumes => "settled; goes on by itself in the next server or run",
        NextAction::Completed => "it had finished; only the end was missing",
        NextAction::Stays => "settled; the user had stopped it, so it stays",
        NextAction::GivenUp => "settled; it was resumed too often and is given up",
        NextAction::Child => "settled; its parent decides",
    }
}
