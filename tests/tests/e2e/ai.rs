//! The model layer from the command line.

use std::time::Duration;

use abide_tests::provider::{Provider, Reply};
use abide_tests::sandbox::{Sandbox, stderr, stdout};
use serde_json::{Value, json};

#[tokio::test]
async fn models_say_which_key_is_wanted_and_whether_it_is_there() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["ai", "models", "--format", "json"]);
    let output = command.env("XAI_API_KEY", "secret-xai").output().await.unwrap();
    let providers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let find = |id: &str| providers.iter().find(|provider| provider["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    assert_eq!((&find("xai")["state"], &find("xai")["env"]), (&json!("ready"), &json!(["XAI_API_KEY"])));
    assert_eq!(find("openrouter")["state"], "no key");
    assert_eq!(find("azure")["settings"][0]["setting"], "resourceName");
    assert_eq!(find("vercel-ai-gateway")["apis"], json!(["messages", "responses", "chat"]));
    assert!(!stdout(&output).contains("secret-xai"));
    let one = stdout(&sandbox.abide(&["ai", "models", "anthropic"]).await);
    let lines: Vec<&str> = one.lines().collect();
    assert!(lines[0].contains("no key") && lines[0].contains("ANTHROPIC_API_KEY"), "{one}");
    assert!(lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with("  anthropic/")), "{one}");
    let unknown = sandbox.abide(&["ai", "models", "nobody"]).await;
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("nobody") && stderr(&unknown).contains("openrouter"), "{}", stderr(&unknown));
}

#[tokio::test]
async fn a_stream_shows_its_text_or_its_events() {
    let provider = Provider::start(Duration::ZERO, |_| Reply::text("hello there")).await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let output = sandbox.abide(&["ai", "stream", "say it"]).await;
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "hello there\n"), "{}", stderr(&output));
    let output = sandbox.abide(&["ai", "stream", "--format", "json", "say it"]).await;
    let events: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"step-start"), Some(&"finish")), "{kinds:?}");
    let texts = events.iter().filter(|event| event["type"] == "text-delta");
    assert_eq!(texts.map(|event| event["text"].as_str().unwrap()).collect::<String>(), "hello there");
}

#[tokio::test]
async fn failures_say_what_to_do() {
    let provider = Provider::start(Duration::ZERO, |_| {
        Reply::Status(401, json!({ "error": { "message": "wrong key", "type": "authentication_error" } }))
    })
    .await;
    let sandbox = Sandbox::new();
    sandbox.configure(&provider.config());
    let check = async |arguments: &[&str], code: i32, words: &[&str]| {
        let output = sandbox.abide(arguments).await;
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        for word in words {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
        assert!(!text.contains("panicked") && !text.contains("secret-test-key"), "{text}");
    };
    check(&["ai", "stream", "hi"], 4, &["wrong key", "HTTP 401", "hint"]).await;
    check(&["ai", "stream", "-m", "xai/grok-4", "hi"], 4, &["XAI_API_KEY"]).await;
    check(&["ai", "stream", "-m", "azure/gpt", "hi"], 4, &["AZURE_OPENAI_API_KEY"]).await;
    check(&["ai", "stream", "-m", "nonsense", "hi"], 2, &["nonsense", "provider/model"]).await;
    check(&["ai", "stream", "-m", "nobody/m", "hi"], 4, &["nobody"]).await;
}
