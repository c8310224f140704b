//! Exchanges with real providers by name: replayed where a cassette is there, recorded with
//! `cargo xtask record`. What came of each case is printed.

use std::path::Path;
use std::sync::Arc;

use abide_ai::route::executor::ReqwestExecutor;
use abide_ai::route::transport::websocket::ReqwestConnector;
use abide_ai::route::transport::websocket_pool::{ChannelPool, ChannelPoolOptions};
use abide_ai::schema::messages::ToolDefinition;
use abide_ai::schema::options::GenerationOptions;
use abide_ai::testing::recorded::{Live, Recorded, RecordedEnv, RecordedOptions, RecordedTests};
use abide_ai::testing::redact::Redaction;
use abide_ai::{LLMRequest, LanguageModel, ModelEntry, RequestInput, StreamOptions, ToolChoice};
use serde_json::json;

struct Suite {
    tests: RecordedTests,
    model: LanguageModel,
}

impl Suite {
    fn new(package: &str, model: &str, key: &str) -> Self {
        let provider = package.split('/').next().unwrap_or_default();
        let entry = json!({ "package": package, "provider": provider, "model": model });
        let entry: ModelEntry = serde_json::from_value(entry).unwrap();
        let options = RecordedOptions {
            dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recordings"),
            prefix: package.replace('/', "-"),
            provider: Some(provider.to_owned()),
            requires: vec![key.to_owned()],
            redaction: Redaction::default().with_header("anthropic-version"),
            ..RecordedOptions::default()
        };
        let live = Live {
            http: Arc::new(ReqwestExecutor::new().unwrap()),
            connector: Arc::new(ReqwestConnector::new().unwrap()),
        };
        Self { tests: RecordedTests::new(options, RecordedEnv::of_process(), live), model: entry.resolve().unwrap() }
    }

    fn request(&self, prompt: &str) -> LLMRequest {
        let input = RequestInput {
            system: vec!["Answer briefly.".into()],
            prompt: Some(prompt.to_owned()),
            generation: Some(GenerationOptions { max_tokens: Some(200), ..GenerationOptions::default() }),
            ..RequestInput::default()
        };
        LLMRequest::make(self.model.clone(), input)
    }

    async fn case<R: Future<Output = ()>>(&self, name: &str, body: impl FnOnce(Recorded) -> R) {
        let outcome = self.tests.test(name, body).await.unwrap();
        println!("{}: {outcome:?}", self.tests.cassette(name));
    }

    async fn run(&self) {
        let text = self.request("Reply with the word Hello.");
        self.case("streams text", |recorded| async move {
            let answer = recorded.client.generate(&text, StreamOptions::default()).await.unwrap();
            assert!(answer.text().contains("Hello"), "{answer:?}");
        })
        .await;
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        let tool = ToolDefinition::make("get_weather", "The weather in a city.", schema);
        let mut input = RequestInput { tools: vec![Arc::new(tool)], ..RequestInput::default() };
        input.tool_choice = Some(ToolChoice::named("get_weather"));
        input.prompt = Some("How is the weather in Paris?".to_owned());
        let call = LLMRequest::make(self.model.clone(), input);
        self.case("streams a tool call", |recorded| async move {
            let answer = recorded.client.generate(&call, StreamOptions::default()).await.unwrap();
            let calls = answer.tool_calls();
            assert_eq!(calls[0].input["city"], "Paris");
        })
        .await;
    }
}

#[tokio::test]
async fn openai_responses() {
    let suite = Suite::new("openai/responses", "gpt-5-nano", "OPENAI_API_KEY");
    suite.run().await;
    let request = suite.request("Reply with the word Hello.");
    suite
        .case("streams text over a socket", |recorded| async move {
            let pool = ChannelPool::new(recorded.connector, ChannelPoolOptions::default());
            let options = StreamOptions::with_web_socket(Arc::new(pool));
            let answer = recorded.client.generate(&request, options).await.unwrap();
            assert!(answer.text().contains("Hello"), "{answer:?}");
        })
        .await;
}

#[tokio::test]
async fn openai_chat() {
    Suite::new("openai/chat", "gpt-5-nano", "OPENAI_API_KEY").run().await;
}

#[tokio::test]
async fn anthropic_messages() {
    Suite::new("anthropic/messages", "claude-haiku-4-5", "ANTHROPIC_API_KEY").run().await;
}

#[tokio::test]
async fn mistral_chat() {
    Suite::new("mistral/chat", "mistral-small-latest", "MISTRAL_API_KEY").run().await;
}
