//! `abide run`: send a prompt, show what happens, answer what is asked.

mod backend;
mod render;

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use abide_schema::error::ErrorCode;
use abide_schema::live::LiveData;
use abide_schema::model::ModelRef;
use abide_schema::permission::{PermissionRequest, Reply};
use abide_schema::question::QuestionRequest;

use self::backend::{Backend, Happening, Start};
use self::render::Renderer;
use crate::args::{Global, RunArgs};
use crate::error::{CliError, Exit};
use crate::output;

/// The longest prompt that is read from standard input, in bytes.
const MAX_PROMPT: u64 = 16 * 1024 * 1024;

pub(crate) async fn run(global: Global, args: RunArgs) -> Result<Exit, CliError> {
    let prompt = prompt(&args)?;
    let model = args
        .model
        .as_deref()
        .map(|text| {
            ModelRef::parse(text).ok_or_else(|| {
                CliError::usage(format!("{text:?} names no model"))
                    .hint("write provider/model, for example openai/gpt-5; `abide models` lists what there is")
            })
        })
        .transpose()?;
    let start = Start {
        session: args.session.clone(),
        continue_last: args.continue_last,
        model,
        agent: args.agent.clone(),
        title: args.title.clone(),
    };
    let mut backend = Backend::open(&global, args.attach.as_deref()).await?;
    let result = drive(&mut backend, &global, &args, start, prompt).await;
    backend.close().await;
    result
}

/// Takes the prompt from the arguments, or from standard input.
fn prompt(args: &RunArgs) -> Result<String, CliError> {
    let typed = args.prompt.join(" ");
    let piped = !std::io::stdin().is_terminal();
    if typed != "-" && !typed.is_empty() {
        return Ok(typed);
    }
    if typed.is_empty() && !piped {
        return Err(CliError::usage("a prompt is needed").hint("abide run \"fix the failing test\""));
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_PROMPT)
        .read_to_string(&mut text)
        .map_err(|error| CliError::usage(format!("the prompt on standard input cannot be read: {error}")))?;
    if text.trim().is_empty() {
        return Err(CliError::usage("the prompt on standard input is empty"));
    }
    Ok(text)
}

async fn drive(
    backend: &mut Backend,
    global: &Global,
    args: &RunArgs,
    start: Start,
    prompt: String,
) -> Result<Exit, CliError> {
    // From here on a signal settles the session instead of ending the process.
    let stop = crate::commands::serve::stop_signal();
    tokio::pin!(stop);
    let directory = crate::instance::directory(global)?;
    let files = args.files.iter().map(|file| file_uri(&directory, file)).collect::<Result<Vec<_>, _>>()?;
    let session = backend.session(start, &directory).await?;
    let mut renderer = Renderer::new(args.format, args.thinking, session.clone());
    backend.prompt(&session, prompt, files).await?;
    let mut needs = None;
    let mut interrupted = false;
    loop {
        let happening = tokio::select! {
            happening = backend.next() => happening?,
            () = &mut stop, if !interrupted => {
                interrupted = true;
                output::note("interrupting ...");
                backend.interrupt(&session).await?;
                continue;
            }
        };
        match happening {
            Happening::Event(event) => {
                renderer.event(&event)?;
                match event.live() {
                    // What the session's children ask is asked here, too.
                    Some(LiveData::PermissionAsked(asked)) => {
                        if needs.is_none() && backend.is_below(&session, &asked.request.session_id).await? {
                            needs = permission(backend, &session, args, &asked.request).await?;
                        }
                    }
                    Some(LiveData::QuestionAsked(asked)) => {
                        if needs.is_none() && backend.is_below(&session, &asked.request.session_id).await? {
                            needs = question(backend, &session, &asked.request).await?;
                        }
                    }
                    Some(_) | None => {}
                }
            }
            Happening::Idle => break,
        }
    }
    let stopped = needs.as_ref().map(|needs| needs.message.clone());
    renderer.finish(stopped.or_else(|| interrupted.then(|| "The run was interrupted".to_owned())))?;
    let n_jobs = backend.n_in_background(&session);
    if n_jobs > 0 {
        output::note(&output::dim(&format!(
            "{n_jobs} background job(s) go on; how they end is told when abide works in this session again"
        )));
    }
    if !renderer.has_steps() && !interrupted && needs.is_none() {
        output::note(&output::dim(&format!(
            "no step ran here: when another abide executes the session, `abide session show {session}` has its answer"
        )));
    }
    if let Some(needs) = needs {
        return Err(needs);
    }
    if interrupted {
        return Ok(Exit::Interrupted);
    }
    match renderer.failure() {
        None => Ok(Exit::Done),
        Some(failure) => {
            let exit = match failure.code {
                Some(
                    ErrorCode::ProviderAuth
                    | ErrorCode::ProviderQuota
                    | ErrorCode::ProviderInvalidRequest
                    | ErrorCode::ProviderNoRoute
                    | ErrorCode::ProviderContentFilter
                    | ErrorCode::ProviderRateLimit
                    | ErrorCode::ProviderContextOverflow,
                ) => Exit::ProviderRefused,
                Some(_) | None => Exit::Failed,
            };
            Err(CliError::new(exit, failure.message.clone())
                .hint(format!("go on with: abide run --session {session} \"...\"")))
        }
    }
}

/// Answers a permission request; returns the failure of a run that nobody can answer.
async fn permission(
    backend: &mut Backend,
    session: &abide_schema::SessionId,
    args: &RunArgs,
    request: &PermissionRequest,
) -> Result<Option<CliError>, CliError> {
    let what = format!("{} {}", request.action, request.resources.join(", "));
    if args.auto {
        output::note(&output::dim(&format!("allowed once: {what}")));
        backend.reply_permission(&request.session_id, request, Reply::Once, None).await?;
        return Ok(None);
    }
    if !output::is_interactive() {
        backend.interrupt(session).await?;
        return Ok(Some(
            CliError::new(Exit::NeedsAnswer, format!("permission is needed: {what} (request {})", request.id))
                .hint("run it on a terminal, or with --auto to allow what is asked")
                .hint("or allow it in abide.json: {\"permissions\": [{\"action\": …, \"resource\": …, \"effect\": \"allow\"}]}"),
        ));
    }
    output::note(&format!("\nPermission: {what}"));
    if let Some(diff) = request.metadata.as_ref().and_then(|facts| facts.get("diff")).and_then(|diff| diff.as_str()) {
        output::note(diff);
    }
    loop {
        output::note_part("allow [o]nce, [a]lways, [r]eject, or say what to do instead: ");
        let Some(answer) = read_line().await? else {
            backend.reply_permission(&request.session_id, request, Reply::Reject, None).await?;
            return Ok(None);
        };
        let (reply, message) = match answer.as_str() {
            "" => continue,
            "o" | "once" | "y" | "yes" => (Reply::Once, None),
            "a" | "always" => (Reply::Always, None),
            "r" | "reject" | "n" | "no" => (Reply::Reject, None),
            words => (Reply::Reject, Some(words.to_owned())),
        };
        backend.reply_permission(&request.session_id, request, reply, message).await?;
        return Ok(None);
    }
}

/// Answers questions; returns the failure of a run that nobody can answer.
async fn question(
    backend: &mut Backend,
    session: &abide_schema::SessionId,
    request: &QuestionRequest,
) -> Result<Option<CliError>, CliError> {
    if !output::is_interactive() {
        backend.interrupt(session).await?;
        let asked = request.questions.first().map(|question| question.question.clone()).unwrap_or_default();
        return Ok(Some(
            CliError::new(Exit::NeedsAnswer, format!("an answer is needed: {asked} (request {})", request.id))
                .hint("run it on a terminal"),
        ));
    }
    let mut answers = Vec::new();
    for question in &request.questions {
        output::note(&format!("\n{}", question.question));
        for (index, option) in question.options.iter().enumerate() {
            output::note(&format!("  {}. {} - {}", index + 1, option.label, option.description));
        }
        output::note_part("number, or own words (empty to dismiss): ");
        let answer = read_line().await?.unwrap_or_default();
        if answer.is_empty() {
            backend.reject_question(&request.session_id, request).await?;
            return Ok(None);
        }
        let chosen = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| question.options.get(number.checked_sub(1)?))
            .map_or(answer, |option| option.label.clone());
        answers.push(vec![chosen]);
    }
    backend.reply_question(&request.session_id, request, answers).await?;
    Ok(None)
}

/// Reads a line from the terminal; `None` at its end.
async fn read_line() -> Result<Option<String>, CliError> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|n| (n > 0).then(|| line.trim().to_owned()))
    });
    Ok(read.await.map_err(|error| CliError::failed(error.to_string()))??)
}

fn file_uri(directory: &Path, file: &Path) -> Result<String, CliError> {
    let path = if file.is_absolute() { file.to_owned() } else { directory.join(file) };
    if !path.exists() {
        return Err(CliError::usage(format!("the file {} does not exist", path.display())));
    }
    let mut uri = url::Url::from_file_path(&path)
        .map_err(|()| CliError::usage(format!("{} is no file that can be attached", path.display())))?
        .to_string();
    if path.is_dir() && !uri.ends_with('/') {
        uri.push('/');
    }
    Ok(uri)
}
