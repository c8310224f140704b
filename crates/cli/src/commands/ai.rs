//! `abide ai stream`: one model request, without session, tools or history.

use abide_ai::{LLMEvent, LLMRequest, LlmClient, RequestInput, StreamOptions, SystemPart};
use abide_core::session::place::Place as _;
use abide_schema::location::LocationRef;
use abide_schema::model::ModelRef;
use futures_util::StreamExt as _;

use crate::args::{AiCommand, Global};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

pub(crate) async fn run(global: Global, command: AiCommand) -> Result<Exit, CliError> {
    let AiCommand::Stream { prompt, model, system, events } = command;
    let instance = Instance::open(&global).await?;
    let result = stream(&global, &instance, prompt, model.as_deref(), system, events).await;
    instance.close().await;
    result
}

async fn stream(
    global: &Global,
    instance: &Instance,
    prompt: String,
    model: Option<&str>,
    system: Option<String>,
    events: bool,
) -> Result<Exit, CliError> {
    let model = model
        .map(|text| {
            ModelRef::parse(text)
                .ok_or_else(|| CliError::usage(format!("{text:?} names no model")).hint("write provider/model"))
        })
        .transpose()?;
    let directory = instance::directory(global)?;
    let location = instance.location(&LocationRef::new(directory.to_string_lossy())).await?;
    let agent = location.agent(None).map_err(|error| CliError::failed(error.to_string()))?;
    let resolved = location
        .model(model.as_ref(), &agent)
        .await
        .map_err(|error| CliError::new(Exit::ProviderRefused, error.to_string()))?;
    let input = RequestInput {
        system: system.into_iter().map(SystemPart::make).collect(),
        prompt: Some(prompt),
        ..RequestInput::default()
    };
    let request = LLMRequest::make(resolved.language, input);
    let client = LlmClient::live().map_err(|error| CliError::failed(error.to_string()))?;
    let mut stream = client.stream(&request, StreamOptions::default());
    let mut open_line = false;
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            signal = tokio::signal::ctrl_c() => {
                signal?;
                return Ok(Exit::Interrupted);
            }
        };
        match event {
            None => break,
            Some(Err(error)) => {
                return Err(CliError::new(Exit::ProviderRefused, error.message().to_owned()));
            }
            Some(Ok(event)) if events => output::line(&serde_json::to_string(&event)?),
            Some(Ok(LLMEvent::TextDelta(delta))) => {
                output::out(&delta.text);
                open_line = !delta.text.ends_with('\n');
            }
            Some(Ok(LLMEvent::ReasoningDelta(delta))) => output::note_part(&output::dim(&delta.text)),
            Some(Ok(_)) => {}
        }
    }
    if open_line {
        output::out("\n");
    }
    Ok(Exit::Done)
}
