//! `abide ai`: the model layer alone, without session, tools or history.

use abide_ai::provider_package::package;
use abide_ai::schema::errors::AuthenticationKind;
use abide_ai::{AIError, AIErrorKind, LLMEvent, LLMRequest, LlmClient, RequestInput, StreamOptions, SystemPart};
use abide_core::catalog::{Availability, Keys, LocalModels, Provider};
use abide_core::location::Location;
use abide_core::session::place::Place as _;
use abide_schema::ProviderId;
use abide_schema::location::LocationRef;
use abide_schema::model::ModelRef;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::args::{AiCommand, Format, Global};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

pub(crate) async fn run(global: Global, command: AiCommand) -> Result<Exit, CliError> {
    let instance = Instance::open(&global).await?;
    let result = dispatch(&global, &instance, command).await;
    instance.close().await;
    result
}

async fn dispatch(global: &Global, instance: &Instance, command: AiCommand) -> Result<Exit, CliError> {
    let directory = instance::directory(global)?;
    let location = instance.location(&LocationRef::new(directory.to_string_lossy())).await?;
    match command {
        AiCommand::Models { provider, format } => models(&location, provider.as_deref(), format.format).await,
        AiCommand::Stream { prompt, model, system, format } => {
            let prompt = if prompt == "-" { std::io::read_to_string(std::io::stdin())? } else { prompt };
            stream(&location, prompt, model.as_deref(), system, format).await
        }
    }
}

async fn models(location: &Location, wanted: Option<&str>, format: Format) -> Result<Exit, CliError> {
    let (state, keys) = (location.state(), location.keys().await);
    let local = location.local_models(true).await;
    if let Some(id) = wanted
        && state.catalog.provider(&ProviderId::from(id)).is_none()
    {
        let known: Vec<&str> = state.catalog.providers().map(|provider| provider.id.as_str()).collect();
        return Err(
            CliError::usage(format!("there is no provider {id:?}")).hint(format!("known: {}", known.join(", ")))
        );
    }
    let providers: Vec<Value> = state
        .catalog
        .providers()
        .filter(|provider| wanted.is_none_or(|id| provider.id.as_str() == id))
        .map(|provider| describe(provider, &keys, &local))
        .collect();
    match format {
        Format::Json => output::line(&serde_json::to_string_pretty(&providers)?),
        Format::Text => {
            for provider in &providers {
                print_provider(provider);
            }
        }
    }
    Ok(Exit::Done)
}

fn describe(provider: &Provider, keys: &Keys, local: &LocalModels) -> Value {
    let found = local.found.iter().find(|(id, _)| *id == provider.id).map(|(_, models)| models.as_slice());
    let state = match keys.availability(provider) {
        Availability::Usable if provider.is_local && found.is_none() => "not running",
        Availability::Usable => "ready",
        Availability::Disabled => "disabled",
        Availability::NoKey { .. } => "no key",
        Availability::Unsupported { .. } => "unsupported",
    };
    let info = provider.package.as_deref().and_then(package);
    let settings: Vec<Value> = info
        .map_or(&[][..], |info| info.settings_env)
        .iter()
        .map(|(setting, variables)| json!({ "setting": setting, "env": variables }))
        .collect();
    let listed = provider.models.values().map(|model| json!({ "id": model.id, "name": model.name }));
    let served = found.into_iter().flatten().filter(|id| !provider.models.contains_key(*id));
    let models: Vec<Value> = listed.chain(served.map(|id| json!({ "id": id, "name": id }))).collect();
    json!({
        "id": provider.id,
        "name": provider.name,
        "package": provider.package,
        "env": provider.env,
        "settings": settings,
        "apis": info.map_or(&[][..], |info| info.apis).iter().map(|api| api.name()).collect::<Vec<_>>(),
        "state": state,
        "open": provider.is_open,
        "models": models,
    })
}

fn print_provider(provider: &Value) {
    let text = |name: &str| provider[name].as_str().unwrap_or_default();
    let words = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
    };
    let key = match words(&provider["env"]) {
        none if none.is_empty() => "needs no key".to_owned(),
        names => names,
    };
    output::line(&format!("{:<24} {:<12} {key}", text("id"), text("state")));
    for setting in provider["settings"].as_array().into_iter().flatten() {
        let name = setting["setting"].as_str().unwrap_or_default();
        output::line(&format!("  setting {name}, or {}", words(&setting["env"])));
    }
    for model in provider["models"].as_array().into_iter().flatten() {
        let part = |name: &str| model[name].as_str().unwrap_or_default();
        let name = if part("name") == part("id") { String::new() } else { format!("  {}", part("name")) };
        output::line(&format!("  {}/{}{name}", text("id"), part("id")));
    }
}

async fn stream(
    location: &Location,
    prompt: String,
    model: Option<&str>,
    system: Option<String>,
    format: Format,
) -> Result<Exit, CliError> {
    let model = model
        .map(|text| {
            ModelRef::parse(text).ok_or_else(|| {
                CliError::usage(format!("{text:?} names no model"))
                    .hint("write provider/model; `abide ai models` lists them")
            })
        })
        .transpose()?;
    let agent = location.agent(None).map_err(|error| CliError::failed(error.to_string()))?;
    let resolved = location
        .model(model.as_ref(), &agent)
        .await
        .map_err(|error| CliError::new(Exit::ProviderRefused, error.to_string()))?;
    let name = format!("{}/{}", resolved.model.provider_id, resolved.model.id);
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
                if open_line {
                    output::out("\n");
                }
                return Err(refusal(&name, &error));
            }
            Some(Ok(event)) if format == Format::Json => output::line(&serde_json::to_string(&event)?),
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

/// What went wrong and what to do about it. The body of a response may hold anything, so it is not shown.
fn refusal(model: &str, error: &AIError) -> CliError {
    let status = error.http().filter(|http| http.status >= 400).map(|http| format!(" (HTTP {})", http.status));
    let message = format!("{model}: {}{}", error.message(), status.unwrap_or_default());
    let exit = match error.kind() {
        AIErrorKind::Transport(_) | AIErrorKind::InvalidProviderOutput { .. } => Exit::Failed,
        _ => Exit::ProviderRefused,
    };
    let refusal = CliError::new(exit, message);
    match error.kind() {
        AIErrorKind::Authentication { kind: AuthenticationKind::Missing } => {
            refusal.hint("`abide ai models` says which key each provider wants")
        }
        AIErrorKind::Authentication { .. } => refusal.hint("the key was sent and refused; is it the right one?"),
        AIErrorKind::RateLimit { .. } | AIErrorKind::ProviderInternal { .. } => match error.retry_after() {
            Some(wait) => refusal.hint(format!("try again in {} s", wait.as_secs().max(1))),
            None => refusal.hint("try again in a while"),
        },
        AIErrorKind::QuotaExceeded => refusal.hint("the account has no credit left for this call"),
        AIErrorKind::Transport(details) if details.code.as_deref() == Some("ECONNREFUSED") => {
            refusal.hint("nothing listens there; is the server running?")
        }
        AIErrorKind::InvalidRequest { .. } if error.http().is_some_and(|http| http.status == 404) => {
            refusal.hint("is the model spelled as the provider spells it?")
        }
        _ => refusal,
    }
}
