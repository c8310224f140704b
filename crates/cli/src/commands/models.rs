//! `abide models`.

use crate::args::{Format, Global, ModelsArgs};
use crate::error::{CliError, Exit};
use crate::instance::{self, Instance};
use crate::output;

pub(crate) async fn run(global: Global, args: ModelsArgs) -> Result<Exit, CliError> {
    let instance = Instance::open(&global).await?;
    let result = list(&global, &instance, args.format.format).await;
    instance.close().await;
    result
}

async fn list(global: &Global, instance: &Instance, format: Format) -> Result<Exit, CliError> {
    let directory = instance::directory(global)?;
    let location = instance.location(&abide_schema::location::LocationRef::new(directory.to_string_lossy())).await?;
    let models = location.list_models().await;
    match format {
        Format::Json => output::line(&serde_json::to_string_pretty(&models)?),
        Format::Text => {
            for model in &models {
                output::line(&format!("{}/{}  {}", model.provider_id, model.id, model.name));
            }
            if models.is_empty() {
                return Err(CliError::failed("no provider can be used")
                    .hint("put a key into the environment, for example ANTHROPIC_API_KEY or OPENAI_API_KEY")
                    .hint("or start a local server: Ollama, LM Studio, llama.cpp or vLLM")
                    .hint("or configure a provider in abide.json, see README.md"));
            }
        }
    }
    Ok(Exit::Done)
}
