//! One streamed call.
//!
//! ```sh
//! cargo run -p abide-ai --example stream -- ollama llama3.2 "Say hello"
//! OPENAI_API_KEY=… cargo run -p abide-ai --example stream -- openai/chat gpt-4o-mini "Say hello"
//! BASE_URL=http://127.0.0.1:8080/v1 cargo run -p abide-ai --example stream -- openai-compatible my-model "Say hello"
//! ```
#![expect(clippy::print_stdout, reason = "the example shows the answer")]

use std::error::Error;
use std::io::Write as _;

use abide_ai::{LlmClient, ModelEntry, RequestInput, StreamOptions, llm};
use futures_util::StreamExt as _;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        |name: &str| arguments.next().ok_or(format!("usage: stream PACKAGE MODEL PROMPT ({name} is missing)"));
    let (package, model, prompt) = (next("PACKAGE")?, next("MODEL")?, next("PROMPT")?);

    // A model: what a configuration file would say. Nothing is sent yet.
    let mut entry = ModelEntry {
        provider: package.split('/').next().unwrap_or_default().into(),
        package: Some(package),
        model: model.into(),
        ..ModelEntry::default()
    };
    if let Some(base_url) = std::env::vars().find(|(name, _)| name == "BASE_URL") {
        entry.settings.insert("baseURL".to_owned(), json!(base_url.1));
    }
    let model = entry.resolve()?;

    // One call: events as they arrive, dropped means closed.
    let request = llm::request(model, RequestInput { prompt: Some(prompt), ..RequestInput::default() });
    let mut events = LlmClient::live()?.stream(&request, StreamOptions::default());
    while let Some(event) = events.next().await {
        let event = event?;
        if let Some(delta) = event.as_text_delta() {
            print!("{}", delta.text);
            std::io::stdout().flush()?;
        } else if let Some(finish) = event.as_finish() {
            let tokens = finish.usage.as_ref().and_then(|usage| usage.total_tokens);
            println!("\n[{:?}, {tokens:?} tokens]", finish.reason.normalized);
        } else {
            println!("[{}]", event.kind());
        }
    }
    Ok(())
}
