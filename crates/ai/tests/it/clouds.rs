//! Providers of the clouds: addresses, credentials and settings of packages.

use std::sync::Arc;

use abide_ai::route::executor::HttpRequest;
use abide_ai::schema::errors::AuthenticationKind;
use abide_ai::testing::TestHost;
use abide_ai::testing::scripted::{ScriptedExecutor, ScriptedResponse, sse_events};
use abide_ai::{AIError, AIErrorKind, LlmClient, ModelEntry, StreamOptions};
use serde_json::{Value, json};

use crate::support::ask;

/// The requests of one call of a package; the answer is of no concern.
async fn sent(package: &str, model: &str, settings: Value, host: TestHost) -> Result<Vec<HttpRequest>, AIError> {
    let entry = ModelEntry {
        package: Some(package.to_owned()),
        provider: "p".into(),
        model: model.into(),
        settings: settings.as_object().cloned().unwrap(),
        ..ModelEntry::default()
    };
    let model = entry.resolve_in(&host).map_err(|error| AIError::invalid_request(error.to_string()))?;
    let token = json!({ "access_token": "ya29", "expires_in": 3599 });
    let executor = ScriptedExecutor::dynamic(move |_, request| {
        if request.url.path() == "/token" {
            return Ok(ScriptedResponse::json(200, &token));
        }
        Ok(sse_events([json!({ "candidates": [{ "finishReason": "STOP" }] })]).into())
    });
    let client = LlmClient::new(Arc::new(executor.clone())).with_host(Arc::new(host));
    match client.generate(&ask(model.clone()), StreamOptions::default()).await {
        Err(error) if matches!(error.kind(), AIErrorKind::Authentication { .. }) => return Err(error),
        Ok(_) | Err(_) => {}
    }
    // A second call shows what is kept.
    drop(client.generate(&ask(model), StreamOptions::default()).await);
    Ok(executor.requests())
}

/// URL, name and value of a header.
type Wanted<'a> = (&'a str, &'a str, &'a str);

async fn check(package: &str, model: &str, settings: Value, env: &[(&str, &str)], wanted: Result<Wanted<'_>, &str>) {
    let found = sent(package, model, settings.clone(), TestHost::new(env.iter().copied())).await;
    match (found, wanted) {
        (Ok(requests), Ok((url, header, value))) => {
            let request = requests.last().unwrap();
            assert_eq!(request.url.as_str(), url, "{package} {settings}");
            assert_eq!(request.headers.get(header), Some(value), "{package} {settings}");
        }
        (Err(error), Err(wanted)) => {
            assert!(error.message().contains(wanted), "{package} {settings}: {}", error.message());
        }
        (Ok(_), Err(wanted)) => panic!("{package} {settings}: no failure, expected {wanted}"),
        (Err(error), Ok(_)) => panic!("{package} {settings}: {error:?}"),
    }
}

#[tokio::test]
async fn google() {
    const URL: &str =
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";
    let key = |value| Ok((URL, "x-goog-api-key", value));
    for package in ["google", "google/gemini", "@ai-sdk/google", "aisdk:@ai-sdk/google"] {
        check(package, "gemini-3-pro", json!({ "apiKey": "k" }), &[], key("k")).await;
    }
    let both = [("GEMINI_API_KEY", "second"), ("GOOGLE_GENERATIVE_AI_API_KEY", "first")];
    check("google", "gemini-3-pro", json!({}), &both, key("first")).await;
    check("google", "gemini-3-pro", json!({}), &both[..1], key("second")).await;
    check("google", "gemini-3-pro", json!({}), &[], Err("GOOGLE_GENERATIVE_AI_API_KEY or GEMINI_API_KEY")).await;
    let own = json!({ "apiKey": "k", "baseURL": "http://127.0.0.1:9/v1/" });
    let tuned = "http://127.0.0.1:9/v1/tunedModels/a%20b:streamGenerateContent?alt=sse";
    check("google", "tunedModels/a b", own, &[], Ok((tuned, "x-goog-api-key", "k"))).await;
}

#[tokio::test]
async fn amazon_bedrock() {
    let url = |region: &str, model: &str| {
        format!("https://bedrock-runtime.{region}.amazonaws.com/model/{model}/converse-stream")
    };
    let check = async |model: &str, settings: Value, env: &[(&str, &str)], wanted: String| {
        check("amazon-bedrock", model, settings, env, Ok((&wanted, "authorization", "Bearer t"))).await;
    };
    let nova = "amazon.nova-micro-v1:0";
    let env = [("AWS_REGION", "ap-south-1"), ("AWS_DEFAULT_REGION", "eu-west-1"), ("AWS_BEARER_TOKEN_BEDROCK", "t")];
    check(nova, json!({}), &env[2..], url("us-east-1", "us.amazon.nova-micro-v1%3A0")).await;
    check(nova, json!({}), &env[1..], url("eu-west-1", "eu.amazon.nova-micro-v1%3A0")).await;
    check(nova, json!({}), &env, url("ap-south-1", "apac.amazon.nova-micro-v1%3A0")).await;
    check(nova, json!({ "region": "us-west-2" }), &env, url("us-west-2", "us.amazon.nova-micro-v1%3A0")).await;
    check("global.a.b", json!({}), &env, url("ap-south-1", "global.a.b")).await;
    let arn = "arn:aws:bedrock:us-east-1:1:inference-profile/x";
    let escaped = "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx";
    check(arn, json!({ "apiKey": "t" }), &[], url("us-east-1", escaped)).await;
    let own = "http://127.0.0.1:9/model/mistral.m/converse-stream".to_owned();
    check("mistral.m", json!({ "apiKey": "t", "baseURL": "http://127.0.0.1:9" }), &[], own.clone()).await;
    check("mistral.m", json!({ "apiKey": "t", "endpoint": "http://127.0.0.1:9" }), &[], own).await;
    let half = json!({ "accessKeyId": "AKID" });
    super::clouds::check("amazon-bedrock/converse", nova, half, &[], Err("secretAccessKey belong together")).await;
    let keys = json!({ "credentials": { "accessKeyId": "AKID", "secretAccessKey": "s", "sessionToken": "st" } });
    let wanted = url("us-east-1", "us.amazon.nova-micro-v1%3A0");
    let signed = Ok((wanted.as_str(), "x-amz-security-token", "st"));
    super::clouds::check("@ai-sdk/amazon-bedrock", nova, keys, &[], signed).await;
}

const fn token(url: &str) -> Wanted<'_> {
    (url, "authorization", "Bearer t")
}

#[tokio::test]
async fn google_vertex() {
    const ACTION: &str = ":streamGenerateContent?alt=sse";
    const GEMINI: &str = "publishers/google/models/gemini-3-pro";
    let place = json!({ "project": "p1", "location": "europe-west4", "accessToken": "t" });
    let url = format!(
        "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p1/locations/europe-west4/{GEMINI}{ACTION}"
    );
    check("google-vertex", "gemini-3-pro", place.clone(), &[], Ok(token(&url))).await;
    let url = "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p1/locations/europe-west4/endpoints/77:streamGenerateContent?alt=sse";
    check("@ai-sdk/google-vertex", "endpoints/77", place.clone(), &[], Ok(token(url))).await;
    let env = [("GCLOUD_PROJECT", "p2"), ("GOOGLE_CLOUD_LOCATION", "global"), ("GOOGLE_VERTEX_API_KEY", "xk")];
    let express = format!("https://aiplatform.googleapis.com/v1/{GEMINI}{ACTION}");
    check("google-vertex", "gemini-3-pro", json!({}), &env, Ok((&express, "x-goog-api-key", "xk"))).await;
    check("google-vertex", "gemini-3-pro", json!({ "apiKey": "k" }), &[], Ok((&express, "x-goog-api-key", "k"))).await;
    let url = format!("https://aiplatform.googleapis.com/v1beta1/projects/p1/locations/global/{GEMINI}{ACTION}");
    let placed = json!({ "project": "p1", "accessToken": "t" });
    check("google-vertex", "gemini-3-pro", placed, &env, Ok(token(&url))).await;
    let url = format!(
        "https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p2/locations/us-central1/{GEMINI}{ACTION}"
    );
    check("google-vertex", "gemini-3-pro", json!({ "accessToken": "t" }), &env[..1], Ok(token(&url))).await;
    let url = "https://aiplatform.eu.rep.googleapis.com/v1/projects/p1/locations/eu/publishers/anthropic/models/claude-sonnet-4-5%4020250929:streamRawPredict";
    let eu = json!({ "project": "p1", "location": "eu", "accessToken": "t" });
    check("google-vertex/messages", "claude-sonnet-4-5@20250929", eu, &[], Ok(token(url))).await;
    let url = "https://aiplatform.googleapis.com/v1/projects/p1/locations/global/publishers/anthropic/models/c:streamRawPredict";
    let default = json!({ "project": "p1", "accessToken": "t" });
    check("@ai-sdk/google-vertex/anthropic", "c", default.clone(), &[], Ok(token(url))).await;
    let url = "https://us-central1-aiplatform.googleapis.com/v1/projects/p1/locations/us-central1/endpoints/openapi/chat/completions";
    check("google-vertex/chat", "meta/llama-4", default, &[], Ok(token(url))).await;
    let refused = async |package: &str, model: &str, settings: Value, wanted: &str| {
        check(package, model, settings, &[], Err(wanted)).await;
    };
    refused("google-vertex", "g", json!({}), "no project is set; set project, or one of GOOGLE_VERTEX_PROJECT").await;
    refused("google-vertex", "g", json!({ "apiKey": "k", "accessToken": "t" }), "both apiKey and accessToken").await;
    refused("google-vertex/messages", "c", json!({ "apiKey": "k" }), "an API key serves only Gemini").await;
    refused("google-vertex", "endpoints/7", json!({ "apiKey": "k" }), "needs a project, not an API key").await;
    refused("google-vertex", "g", json!({ "project": "p1" }), "gcloud auth application-default login").await;
}

#[tokio::test]
async fn claude_on_vertex_is_named_by_the_url() {
    let settings = json!({ "project": "p1", "accessToken": "t" });
    let requests = sent("google-vertex/messages", "c", settings, TestHost::default()).await.unwrap();
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!((&body["anthropic_version"], body.get("model")), (&json!("vertex-2023-10-16"), None));
    assert_eq!(requests[0].headers.get("anthropic-version"), None);
}

#[tokio::test]
async fn gemini_on_vertex_takes_labels_and_no_call_ids() {
    let entry: ModelEntry = serde_json::from_value(json!({
        "package": "google-vertex", "provider": "google-vertex", "model": "gemini-3-pro",
        "settings": { "project": "p1", "accessToken": "t", "labels": { "team": "a" } },
    }))
    .unwrap();
    let history = json!([
        { "role": "user", "content": [{ "type": "text", "text": "q" }] },
        { "role": "assistant", "content": [{
            "type": "tool-call", "id": "fc-1", "name": "clock", "input": {},
            "providerMetadata": { "vertex": { "functionCallId": "fc-1", "thoughtSignature": "cw==" } },
        }] },
        { "role": "tool", "content": [{
            "type": "tool-result", "id": "fc-1", "name": "clock", "result": { "type": "text", "value": "noon" },
        }] },
    ]);
    let messages = serde_json::from_value(history).unwrap();
    let input = abide_ai::RequestInput { messages, ..abide_ai::RequestInput::default() };
    let request = abide_ai::LLMRequest::make(entry.resolve().unwrap(), input);
    let client = abide_ai::testing::test_client(ScriptedExecutor::scripted([""; 0]));
    let body = client.prepare(&request).unwrap().body;
    assert_eq!(body["labels"], json!({ "team": "a" }));
    let call = json!({ "functionCall": { "name": "clock", "args": {} }, "thoughtSignature": "cw==" });
    assert_eq!(body["contents"][1]["parts"][0], call);
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"].get("id"), None);
}

/// Made for this test; it opens nothing.
const KEY: &str = include_str!("clouds/key.pem");

#[tokio::test]
async fn application_default_credentials() {
    let user = json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r" });
    let account = json!({
        "type": "service_account", "client_email": "a@p.test", "private_key": KEY, "private_key_id": "k1",
        "token_uri": "https://tokens.test/token",
    });
    let settings = || json!({ "project": "p1" });
    let asked = async |host: TestHost| {
        let requests = sent("google-vertex", "g", settings(), host).await?;
        assert_eq!(requests.len(), 3, "one token for two calls");
        assert_eq!(requests[1].headers.get("authorization"), Some("Bearer ya29"));
        let body = String::from_utf8(requests[0].body.to_vec()).unwrap();
        Ok::<_, AIError>((requests[0].url.to_string(), body))
    };
    let home = TestHost::new([("HOME", "/home/u")])
        .with_file("/home/u/.config/gcloud/application_default_credentials.json", &user.to_string());
    let form = "grant_type=refresh_token&client_id=c&client_secret=s&refresh_token=r";
    let wanted = ("https://oauth2.googleapis.com/token".to_owned(), form.to_owned());
    assert_eq!(asked(home).await.unwrap(), wanted);
    let named = TestHost::new([("GOOGLE_APPLICATION_CREDENTIALS", "/k.json"), ("HOME", "/home/u")]);
    let (url, body) = asked(named.clone().with_file("/k.json", &account.to_string())).await.unwrap();
    assert_eq!(url, "https://tokens.test/token");
    let start = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    let assertion = body.strip_prefix(start).expect("an assertion");
    assert_eq!(assertion, include_str!("clouds/assertion.txt").trim(), "as another program signs it");
    let kinds = [
        (named.clone(), AuthenticationKind::Missing),
        (named.clone().with_file("/k.json", "no JSON"), AuthenticationKind::Invalid),
        (named.clone().with_file("/k.json", r#"{"type":"external_account"}"#), AuthenticationKind::Invalid),
        (TestHost::default(), AuthenticationKind::Missing),
    ];
    for (host, wanted) in kinds {
        let error = asked(host).await.unwrap_err();
        assert_eq!(error.kind(), &AIErrorKind::Authentication { kind: wanted }, "{error:?}");
    }
}
