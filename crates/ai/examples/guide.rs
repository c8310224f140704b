//! The code of the guide (the documentation of the crate), compiled and run without any network.
//!
//! ```sh
//! cargo run -p abide-ai --example guide
//! ```
#![expect(clippy::print_stdout, reason = "the example shows its answers")]
#![expect(clippy::default_trait_access, reason = "the guide shows it as short as it can be written")]

use std::error::Error;

use abide_ai::testing::replay::{Delivery, ReplayExecutor};
use abide_ai::testing::scripted::{ScriptedExecutor, ScriptedResponse, sse_events};
use abide_ai::testing::{cassette::Cassette, redact::Redaction, test_client};
use abide_ai::{LanguageModel, LlmClient, providers};
use serde_json::json;

mod first_call {
    use abide_ai::{LlmClient, RequestInput, StreamOptions, llm, providers};
    use futures_util::StreamExt as _;

    pub(super) async fn greet(client: &LlmClient) -> Result<String, Box<dyn std::error::Error>> {
        let model = providers::ollama::configure(Default::default()).model("llama3.2")?;
        let request = llm::request(model, RequestInput { prompt: Some("Hello".into()), ..Default::default() });
        let mut events = client.stream(&request, StreamOptions::default());
        let mut text = String::new();
        while let Some(event) = events.next().await {
            if let Some(delta) = event?.as_text_delta() {
                text += &delta.text;
            }
        }
        Ok(text)
    }
}

mod tool_loop {
    use std::sync::Arc;

    use abide_ai::schema::messages::ToolResultPart;
    use abide_ai::tool::{Tool, ToolContext, ToolFailure, Tools, to_definitions};
    use abide_ai::tool_runtime::ToolRuntime;
    use abide_ai::{LanguageModel, LlmClient, Message, RequestInput, RequestPatch, StreamOptions, llm};

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct City {
        /// Its name.
        city: String,
    }

    pub(super) async fn ask(client: &LlmClient, model: LanguageModel) -> Result<String, abide_ai::AIError> {
        let weather = async |city: City, _: ToolContext| match city.city.as_str() {
            "Paris" => Ok("sunny, 22 degrees".to_owned()),
            other => Err(ToolFailure::new(format!("nothing is known about {other}"))),
        };
        let tools = Tools::from_iter([("weather".to_owned(), Tool::make("Tells the weather.", weather))]);
        let prompt = Some("How is the weather in Paris?".to_owned());
        let input = RequestInput { prompt, tools: to_definitions(&tools), ..Default::default() };
        let mut request = llm::request(model, input);
        loop {
            let answer = client.generate(&request, StreamOptions::default()).await?;
            let mut messages = request.messages.clone();
            messages.push(Arc::new(answer.message.clone()));
            let mut has_calls = false;
            for call in answer.events.iter().filter_map(|event| event.as_tool_call()) {
                if call.provider_executed != Some(true) {
                    let result = ToolRuntime::dispatch(&tools, call).await.result;
                    let part = ToolResultPart::make(call.id.clone(), call.name.clone(), result);
                    messages.push(Arc::new(Message::tool(part)));
                    has_calls = true;
                }
            }
            if !has_calls {
                return Ok(answer.text());
            }
            request = request.update(RequestPatch { messages: Some(messages), ..Default::default() });
        }
    }
}

mod switching {
    use abide_ai::{ConfigurationError, LanguageModel, ModelEntry, providers};

    pub(super) fn in_code(key: &str) -> Result<LanguageModel, ConfigurationError> {
        let options = providers::ProviderOptions::key(key);
        providers::openrouter::configure(options).model("anthropic/claude-opus-4.8")
    }

    pub(super) fn from_configuration(text: &str) -> Result<LanguageModel, Box<dyn std::error::Error>> {
        let entry: ModelEntry = serde_json::from_str(text)?;
        Ok(entry.resolve()?)
    }
}

mod failures {
    use abide_ai::{AIError, LLMRequest, LLMResponse, LlmClient, RetryClass, StreamOptions};

    pub(super) async fn twice(client: &LlmClient, request: &LLMRequest) -> Result<LLMResponse, AIError> {
        match client.generate(request, StreamOptions::default()).await {
            Err(error) if error.is_context_overflow() => Err(error), // make the prompt shorter first
            Err(error) if error.retry_class() != RetryClass::Never => {
                tokio::time::sleep(error.retry_after().unwrap_or_default()).await;
                client.generate(request, StreamOptions::default()).await
            }
            done => done,
        }
    }
}

fn chat(events: impl IntoIterator<Item = serde_json::Value>) -> String {
    sse_events(events)
}

fn text(text: &str) -> String {
    chat([json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": "stop" }] })])
}

fn model() -> Result<LanguageModel, abide_ai::ConfigurationError> {
    providers::ollama::configure(Default::default()).model("llama3.2")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client: LlmClient = test_client(ScriptedExecutor::scripted([text("Hello!")]));
    println!("{}", first_call::greet(&client).await?);

    let call =
        json!({ "index": 0, "id": "c1", "function": { "name": "weather", "arguments": "{\"city\":\"Paris\"}" } });
    let call = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] }, "finish_reason": "tool_calls" }] });
    let client = test_client(ScriptedExecutor::scripted([chat([call]), text("It is sunny.")]));
    println!("{}", tool_loop::ask(&client, model()?).await?);

    let configured =
        r#"{ "package": "groq", "provider": "groq", "model": "llama-3.3-70b", "settings": { "apiKey": "k" } }"#;
    for model in [switching::in_code("k")?, switching::from_configuration(configured)?] {
        println!("{} {}", model.provider, model.id);
    }

    let client = test_client(ScriptedExecutor::dynamic(|n, _| {
        Ok(if n == 0 { ScriptedResponse::json(503, &json!({ "message": "busy" })) } else { text("At last.").into() })
    }));
    let request = abide_ai::llm::request(model()?, abide_ai::RequestInput::default());
    println!("{}", failures::twice(&client, &request).await?.text());

    let exchange = json!({
        "transport": "http",
        "request": {
            "method": "POST", "url": "http://127.0.0.1:11434/v1/chat/completions",
            "headers": { "content-type": "application/json" },
            "body": test_client(ScriptedExecutor::scripted([""])).prepare(&request)?.body.to_string(),
        },
        "response": { "status": 200, "headers": { "content-type": "text/event-stream" }, "body": text("As recorded.") },
    });
    let cassette: Cassette = serde_json::from_value(json!({ "version": 1, "interactions": [exchange] }))?;
    let replay = ReplayExecutor::new("guide", cassette, Redaction::default(), Delivery::Pieces(7));
    let client = test_client(replay.clone());
    println!("{}", client.generate(&request, abide_ai::StreamOptions::default()).await?.text());
    replay.verify()?;
    Ok(())
}
