//! `abide session revert`: going back.

use abide_core::session::StageRevert;
use abide_core::store::{MessageQuery, Order};
use abide_schema::message::{FileStatus, Message, Revert, RevertCoverage};
use abide_schema::{MessageId, SessionId};

use super::session::parse;
use crate::args::{Format, RevertCommand};
use crate::error::{CliError, Exit};
use crate::instance::Instance;
use crate::output;

pub(crate) async fn run(instance: &Instance, command: RevertCommand) -> Result<Exit, CliError> {
    let sessions = instance.app.sessions();
    match command {
        RevertCommand::Stage { id, message, no_files, keep, format } => {
            let id = parse(&id)?;
            let message_id = match message {
                Some(message) => MessageId::parse(&message).map_err(|error| {
                    CliError::usage(error.to_string()).hint("`abide session show` names the prompts")
                })?,
                None => newest_prompt(instance, &id).await?,
            };
            let input = StageRevert { message_id, files: !no_files, inclusive: keep.then_some(false) };
            let revert = sessions.stage_revert(&id, input).await?;
            match format.format {
                Format::Json => output::line(&serde_json::to_string_pretty(&revert)?),
                Format::Text => show(&id, &revert),
            }
        }
        RevertCommand::Clear { id } => {
            let id = parse(&id)?;
            let was_staged = sessions.get(&id).await?.revert.is_some();
            sessions.clear_revert(&id).await?;
            output::line(if was_staged { "taken back: the files are as before" } else { "nothing is staged" });
        }
        RevertCommand::Commit { id } => {
            let id = parse(&id)?;
            let was_staged = sessions.get(&id).await?.revert.is_some();
            sessions.commit_revert(&id).await?;
            output::line(if was_staged {
                "final: the messages are gone, the log keeps them"
            } else {
                "nothing is staged"
            });
        }
    }
    Ok(Exit::Done)
}

/// Finds the newest prompt that is not reverted already.
async fn newest_prompt(instance: &Instance, id: &SessionId) -> Result<MessageId, CliError> {
    instance.app.sessions().get(id).await?;
    let query = MessageQuery { order: Order::Desc, ..MessageQuery::default() };
    let rows = instance.app.store().messages(id, query).await?;
    let found = rows.into_iter().find_map(|row| match row.message {
        Message::User(user) => Some(user.id),
        _ => None,
    });
    found.ok_or_else(|| CliError::failed(format!("session {id} has no prompt to go back before")))
}

fn show(id: &SessionId, revert: &Revert) {
    for file in revert.files.iter().flatten() {
        let word = match file.status {
            FileStatus::Added => "back",
            FileStatus::Modified => "restored",
            FileStatus::Deleted => "removed",
        };
        output::line(&format!("{word:>8} {} (+{} -{})", file.path, file.additions, file.deletions));
    }
    for skipped in revert.skipped.iter().flatten() {
        output::line(&format!("    left {skipped}"));
    }
    if revert.files.iter().flatten().next().is_none() {
        output::line("no file changes");
    }
    match revert.coverage {
        Some(RevertCoverage::EditsOnly) => {
            output::note("only edits of the file tools are covered here; what commands changed stays");
        }
        Some(RevertCoverage::Full) | None => {}
    }
    output::line(&format!("staged before {}; then: abide session revert commit {id}, or clear", revert.message_id));
}
