//! `abide session fork|replay|import|move|inbox`: what can be done with a session beside running it.

use std::io::Read as _;
use std::path::Path;

use abide_core::session::place::PlaceError;
use abide_core::session::{Bundle, ForkPoint, ForkSession, ImportError, MoveSession};
use abide_protocol::wire::InboxEntry;
use abide_schema::location::LocationRef;
use abide_schema::prompt::Delivery;
use abide_schema::{MessageId, Seq, SessionId};

use super::session::{parse, show_transcript};
use crate::args::{Format, InboxCommand};
use crate::error::{CliError, Exit};
use crate::instance::Instance;
use crate::output;

/// The largest bundle that is read.
const MAX_BUNDLE_BYTES: u64 = 1 << 30;

fn message(text: &str) -> Result<MessageId, CliError> {
    MessageId::parse(text)
        .map_err(|error| CliError::usage(error.to_string()).hint("`abide session show` names the prompts"))
}

pub(crate) async fn import(instance: &Instance, file: &Path) -> Result<Exit, CliError> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_BUNDLE_BYTES).read_to_string(&mut text);
        read.map_err(|error| CliError::failed(format!("standard input cannot be read: {error}")))?;
        text
    } else {
        let unreadable =
            |error: std::io::Error| CliError::failed(format!("{} cannot be read: {error}", file.display()));
        if std::fs::metadata(file).map_err(unreadable)?.len() > MAX_BUNDLE_BYTES {
            return Err(CliError::failed(format!("{} is larger than 1 GiB", file.display())));
        }
        std::fs::read_to_string(file).map_err(unreadable)?
    };
    let failed = |error: ImportError| CliError::failed(error.to_string()).hint("nothing was stored");
    let bundle = Bundle::parse(&text).map_err(failed)?;
    let imported = instance.app.sessions().import(bundle).await.map_err(failed)?;
    let session = &imported.session;
    output::line(&format!("{}: {} events, {} new", session.id, imported.n_events, imported.n_new));
    if !Path::new(&session.location.directory).is_dir() {
        output::note(&format!("its directory {} is not here", session.location.directory));
        output::note(&format!("work on with: abide session move {} DIRECTORY --other-project", session.id));
    }
    Ok(Exit::Done)
}

pub(crate) async fn replay(
    instance: &Instance,
    id: &SessionId,
    to: Option<u64>,
    format: Format,
) -> Result<Exit, CliError> {
    let head = instance.app.store().head(id).await?.map_or(Seq(0), |head| head.seq);
    let past = instance.app.sessions().replay(id, to.map_or(head, Seq)).await?;
    show_transcript(&past.session, &past.messages, format)
}

pub(crate) async fn fork(
    instance: &Instance,
    id: &SessionId,
    at: Option<u64>,
    before: Option<String>,
    title: Option<String>,
) -> Result<Exit, CliError> {
    let point = match (at, before) {
        (Some(at), _) => ForkPoint::At(Seq(at)),
        (None, Some(before)) => ForkPoint::Before(message(&before)?),
        (None, None) => ForkPoint::End,
    };
    let session = instance.app.sessions().fork(id, ForkSession { id: None, point, title }).await?;
    output::line(&format!("{}  {}", session.id, session.title));
    Ok(Exit::Done)
}

pub(crate) async fn move_to(
    instance: &Instance,
    id: &SessionId,
    to: &Path,
    other_project: bool,
) -> Result<Exit, CliError> {
    let to = std::path::absolute(to).map_err(|error| CliError::usage(format!("{}: {error}", to.display())))?;
    let location = LocationRef::new(to.to_string_lossy());
    let place = instance.app.locations().get(&location).await.map_err(|error| PlaceError::from(error).to_string());
    let place = place.map_err(CliError::usage)?;
    let project_id = other_project.then(|| place.info().project.id.clone());
    let sessions = instance.app.sessions();
    sessions.move_to(id, MoveSession { location, project_id }).await?;
    sessions.wait(id).await?;
    let info = sessions.get(id).await?;
    output::line(&format!("{id} is in {}", info.location.directory));
    Ok(Exit::Done)
}

pub(crate) async fn inbox(instance: &Instance, command: InboxCommand) -> Result<Exit, CliError> {
    let sessions = instance.app.sessions();
    let (id, input, delivery) = match command {
        InboxCommand::List { id, format } => {
            let rows = sessions.inbox(&parse(&id)?).await?;
            let entries: Vec<InboxEntry> = rows.into_iter().map(InboxEntry::from).collect();
            match format.format {
                Format::Json => output::line(&serde_json::to_string_pretty(&entries)?),
                Format::Text => entries.iter().for_each(show),
            }
            if entries.is_empty() && format.format == Format::Text {
                output::note("nothing waits");
            }
            return Ok(Exit::Done);
        }
        InboxCommand::Queue { id, input } => (id, input, Some(Delivery::Queue)),
        InboxCommand::Cancel { id, input } => (id, input, None),
    };
    let (id, input) = (parse(&id)?, message(&input)?);
    let is_changed = match delivery {
        Some(delivery) => sessions.change_delivery(&id, &input, delivery).await?,
        None => sessions.cancel_input(&id, &input).await?,
    };
    output::line(if is_changed { "changed" } else { "nothing to change: it has been taken up, or is so already" });
    Ok(Exit::Done)
}

fn show(entry: &InboxEntry) {
    let text = entry.prompt.as_ref().map_or_else(|| format!("{:?}", entry.kind), |prompt| prompt.text.clone());
    let line: String = text.lines().next().unwrap_or_default().chars().take(100).collect();
    let delivery = match entry.delivery {
        Delivery::Steer => "steer",
        Delivery::Queue => "queue",
    };
    output::line(&format!("{}  {delivery}  {line}", entry.id));
}
