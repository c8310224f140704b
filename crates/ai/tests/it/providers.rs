//! Named providers: where a call goes, how it proves who asks, and what the body says differently.
//!
//! A row is a package `entry` and an `env`; `url`, `headers` (`null`: not sent), `route`, `protocol` and
//! pointers into the `body` (`null`: absent) are what is sent for one user message, or `error` is the
//! message of the failure. Every package of the table has a row.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use abide_ai::provider_package::{is_known_package, package, package_env, packages};
use abide_ai::providers::{self, ProviderOptions};
use abide_ai::route::auth::Auth;
use abide_ai::route::auth_options::ProviderAuthOption;
use abide_ai::route::executor::HttpRequest;
use abide_ai::schema::errors::AuthenticationKind;
use abide_ai::testing::TestHost;
use abide_ai::testing::scripted::{ScriptedExecutor, ScriptedResponse};
use abide_ai::{
    AIErrorKind, LLMRequest, LlmClient, ModelEntry, RequestInput, StreamOptions, SystemPart, ToolDefinition,
};
use serde_json::{Value, json};

use crate::support::{ask, fixtures};

fn rows() -> Vec<Value> {
    serde_json::from_str(&fs::read_to_string(fixtures("providers.json")).unwrap()).unwrap()
}

/// Sends one message and gives what was sent, or the failure.
async fn send(request: &LLMRequest, env: &Value) -> Result<HttpRequest, abide_ai::AIError> {
    let env = env.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
    let executor = ScriptedExecutor::fixed(ScriptedResponse::json(503, &json!({ "message": "sent" })));
    let client = LlmClient::new(Arc::new(executor.clone())).with_host(Arc::new(TestHost::new(env)));
    let error = client.generate(request, StreamOptions::default()).await.unwrap_err();
    executor.requests().pop().ok_or(error)
}

fn input(row: &Value) -> RequestInput {
    match row.get("request") {
        Some(request) => serde_json::from_value(request.clone()).unwrap(),
        None => RequestInput {
            prompt: Some("hi".to_owned()),
            prompt_cache_key: Some("session-1".to_owned()),
            ..RequestInput::default()
        },
    }
}

#[tokio::test]
async fn every_provider_is_reached_as_its_table_says() {
    for row in rows() {
        let entry: ModelEntry = serde_json::from_value(row["entry"].clone()).unwrap();
        let what = row["entry"].to_string();
        let model = match entry.resolve() {
            Ok(model) => model,
            Err(error) => {
                assert_eq!(error.to_string(), row["error"].as_str().unwrap_or_default(), "{what}");
                continue;
            }
        };
        let request = LLMRequest::make(model, input(&row));
        let sent = match send(&request, &row["env"]).await {
            Ok(sent) => sent,
            Err(error) => {
                assert_eq!(error.message(), row["error"].as_str().unwrap_or_default(), "{what}");
                continue;
            }
        };
        assert!(row["error"].is_null(), "{what}: no error");
        assert_eq!(sent.url.as_str(), row["url"], "{what}");
        for (name, value) in row["headers"].as_object().into_iter().flatten() {
            assert_eq!(json!(sent.headers.get(name)), *value, "{what}: header {name}");
        }
        for (name, found) in [("route", request.model.route.id().as_str()), ("key", request.model.metadata_key())] {
            assert!(row[name].is_null() || row[name] == found, "{what}: {name} is {found}");
        }
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        for (pointer, value) in row["body"].as_object().into_iter().flatten() {
            assert_eq!(body.pointer(pointer).unwrap_or(&Value::Null), value, "{what}: {pointer} of {body}");
        }
    }
}

/// A package is in the table once, and the rows try each.
/// Their rows are in `clouds`.
const CLOUDS: [&str; 2] = ["amazon-bedrock", "google-vertex"];

#[test]
fn every_package_has_a_row() {
    let tried: BTreeSet<String> =
        rows().iter().map(|row| row["entry"]["package"].as_str().unwrap().to_owned()).collect();
    for info in packages() {
        assert!(tried.contains(info.path) || CLOUDS.contains(&info.path), "{} has no row", info.path);
        assert!(packages().iter().filter(|other| other.path == info.path).count() == 1, "{} is there twice", info.path);
        for api in info.apis {
            assert!(is_known_package(&format!("{}/{}", info.path, api.name())));
        }
        assert!(!info.needs_key || !info.env.is_empty() || info.path == "github-copilot", "{}", info.path);
    }
}

#[test]
fn spellings() {
    #[track_caller]
    fn check(spelling: &str, path: Option<&str>) {
        assert_eq!(package(spelling).map(|info| info.path), path, "{spelling}");
    }
    check("aisdk:@ai-sdk/openai", Some("openai"));
    check("@ai-sdk/azure", Some("azure"));
    check("@openrouter/ai-sdk-provider", Some("openrouter"));
    check("llamacpp", Some("llama.cpp"));
    check("openai-compatible-responses", Some("openai-compatible"));
    check("openai/messages", None);
    check("groq/responses", None);
    check("nobody", None);
    assert_eq!(package_env("azure/chat"), ["AZURE_OPENAI_API_KEY"]);
    assert!(package_env("ollama").is_empty(), "a key of a local server is no condition");
}

/// A missing key is an error of the call, names where it was looked for, and is never sent anywhere.
#[tokio::test]
async fn a_missing_key_names_its_variables() {
    for info in packages().iter().filter(|info| info.needs_key && !CLOUDS.contains(&info.path)) {
        let mut entry = ModelEntry { provider: info.path.into(), model: "m".into(), ..ModelEntry::default() };
        entry.package = Some(info.path.to_owned());
        for (key, value) in [("resourceName", "r"), ("accountId", "a"), ("region", "us-east-1")] {
            entry.settings.insert(key.to_owned(), json!(value));
        }
        if info.env.is_empty() {
            entry.settings.insert("baseURL".to_owned(), json!("https://a.test/v1"));
        }
        let model = entry.resolve().unwrap_or_else(|error| panic!("{error}"));
        let error = send(&ask(model), &Value::Null).await.expect_err(info.path);
        let is_missing = matches!(error.kind(), AIErrorKind::Authentication { kind: AuthenticationKind::Missing });
        assert!(is_missing, "{}: {error:?}", info.path);
        assert!(!info.env.is_empty() || error.message().contains("apiKey"), "{}: {error}", info.path);
        for name in info.env {
            assert!(error.message().contains(name), "{}: {error}", info.path);
        }
    }
}

#[tokio::test]
async fn explicit_auth_wins_over_the_environment() {
    let auth = ProviderAuthOption::Auth(Auth::header("x-own", "mine"));
    let options = || ProviderOptions { auth: auth.clone(), ..ProviderOptions::default() };
    let models = [
        providers::xai::configure(options()).model("m").unwrap(),
        providers::azure::configure(providers::azure::Options {
            common: options(),
            resource_name: Some("r".to_owned()),
            ..providers::azure::Options::default()
        })
        .unwrap()
        .model("m")
        .unwrap(),
        providers::cloudflare_ai_gateway::configure(providers::cloudflare_ai_gateway::Options {
            common: options(),
            account_id: Some("a".to_owned()),
            ..providers::cloudflare_ai_gateway::Options::default()
        })
        .unwrap()
        .model("m")
        .unwrap(),
    ];
    for model in models {
        let env = json!({ "XAI_API_KEY": "e", "AZURE_OPENAI_API_KEY": "e", "CLOUDFLARE_API_TOKEN": "e" });
        let sent = send(&ask(model), &env).await.unwrap();
        assert_eq!(sent.headers.get("x-own"), Some("mine"));
        for header in ["authorization", "api-key", "cf-aig-authorization"] {
            assert_eq!(sent.headers.get(header), None, "{header}");
        }
    }
}

/// What a package does not know as its own is an option of the request; a route is no setting.
#[tokio::test]
async fn leftover_settings_are_options() {
    let entry: ModelEntry = serde_json::from_value(json!({
        "package": "openai/responses", "provider": "openai", "model": "gpt-5.1",
        "settings": {
            "apiKey": "k", "baseURL": "https://a.test/v1", "organization": "o", "project": "p",
            "headers": { "x-a": "1" }, "body": { "extra": { "a": 1 } }, "textVerbosity": "high", "route": "x",
            "timeout": 5000, "queryParams": { "v": "2" },
        },
        "headers": { "X-A": "2" }, "body": { "extra": { "b": 2 } },
        "limits": { "output": 7 }, "generation": { "temperature": 0.0 },
    }))
    .unwrap();
    let model = entry.resolve().unwrap();
    assert_eq!(model.defaults.limits.and_then(|limits| limits.output), Some(7));
    let sent = send(&ask(model), &Value::Null).await.unwrap();
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body["text"], json!({ "verbosity": "high" }), "the caller's option wins over OpenAI's default");
    assert_eq!(
        (&body["extra"], &body["temperature"], &body["route"]),
        (&json!({ "a": 1, "b": 2 }), &json!(0), &Value::Null)
    );
    for (name, value) in [("x-a", "2"), ("openai-organization", "o"), ("openai-project", "p")] {
        assert_eq!(sent.headers.get(name), Some(value));
    }
    assert_eq!(sent.url.as_str(), "https://a.test/v1/responses?v=2");
    let shown = format!("{entry:?}");
    assert!(!shown.contains("\"k\"") && !shown.contains("https"), "{shown}");
}

/// Cache marks go where the gateway passes them on.
#[test]
fn marks_of_gateways() {
    #[track_caller]
    fn check(package: &str, id: &str, wanted: [bool; 3]) {
        let settings = json!({ "apiKey": "k", "region": "us-east-1" });
        let entry: ModelEntry =
            serde_json::from_value(json!({ "package": package, "provider": "p", "model": id, "settings": settings }))
                .unwrap();
        let input = RequestInput {
            system: vec![SystemPart::make("be brief")],
            prompt: Some("hi".to_owned()),
            tools: vec![Arc::new(ToolDefinition::make("t", "d", json!({ "type": "object" })))],
            ..RequestInput::default()
        };
        let request = LLMRequest::make(entry.resolve().unwrap(), input);
        let body = abide_ai::testing::test_client(ScriptedExecutor::scripted([""; 0])).prepare(&request).unwrap().body;
        let n_marks = |value: &Value| value.to_string().matches("cache_control").count();
        let system = if body["system"].is_null() { &body["messages"][0] } else { &body["system"] };
        let last = body["messages"].as_array().unwrap().last().unwrap();
        let found = [n_marks(&body["tools"]) > 0, n_marks(system) > 0, n_marks(last) > 0];
        assert_eq!(found, wanted, "{package} {id}: {body}");
    }
    check("openrouter", "anthropic/claude-opus-4.8", [true, true, true]);
    check("openrouter", "~anthropic/claude-opus-4.8", [true, true, true]);
    check("openrouter", "qwen/qwen3-coder", [false, true, true]);
    check("openrouter", "openai/gpt-5.1", [false, false, false]);
    check("vercel-ai-gateway", "anthropic/claude-opus-4.8", [true, true, true]);
    check("vercel-ai-gateway", "google/gemini-3", [false, false, false]);
    check("vercel-ai-gateway/chat", "qwen/qwen3-coder", [false, true, true]);
    check("alibaba", "qwen3-coder-plus", [false, true, true]);
    check("alibaba", "glm-4.7", [false, false, false]);
    check("digitalocean/chat", "anthropic-claude-opus-4", [true, true, true]);
    check("groq", "anthropic/claude", [false, false, false]);
}
