//! One call from compile to end: options, endpoint, auth, middleware, timers, cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide_ai::route::auth::{Auth, Secret};
use abide_ai::route::endpoint::{Endpoint, EndpointPatch, Path};
use abide_ai::route::executor::{HttpExecutor, HttpMiddleware, HttpNext, HttpRequest, HttpResponse, middleware_error};
use abide_ai::route::headers::Headers;
use abide_ai::route::{ModelSelection, Route, RoutePatch};
use abide_ai::schema::errors::{TransportOperation, is_sensitive_name, redact_url};
use abide_ai::schema::model::Defaults;
use abide_ai::schema::options::{GenerationOptions, HttpOptions, Timeout};
use abide_ai::testing::scripted::{End, ScriptedBody, ScriptedExecutor, ScriptedResponse, sse_events};
use abide_ai::testing::{TestHost, test_client};
use abide_ai::{
    AIError, AIErrorKind, LLMRequest, LanguageModel, LlmClient, ModelEntry, RequestInput, RequestPatch, RetryClass,
    StreamOptions,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::support::route;

fn answer() -> String {
    sse_events([json!({ "choices": [{ "index": 0, "delta": { "content": "ok" }, "finish_reason": "stop" }] })])
}

fn request(model: LanguageModel) -> LLMRequest {
    LLMRequest::make(model, RequestInput { prompt: Some("hi".to_owned()), ..RequestInput::default() })
}

fn chat() -> Route {
    route("openai-chat")
}

async fn sent(request: &LLMRequest, host: TestHost) -> Result<HttpRequest, AIError> {
    let executor = ScriptedExecutor::fixed(answer());
    let client = LlmClient::new(Arc::new(executor.clone())).with_host(Arc::new(host));
    client.generate(request, StreamOptions::default()).await?;
    Ok(executor.requests().remove(0))
}

#[test]
fn urls() {
    #[track_caller]
    fn check(endpoint: &Endpoint, query: &[(&str, &str)], wanted: &str) {
        let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let model = chat().model(ModelSelection::new("m")).unwrap();
        let url = endpoint.render(&request(model), || json!({ "modelId": "a:0" }), Some(&query)).unwrap();
        assert_eq!(url.as_str(), wanted);
    }
    check(&Endpoint::new("https://a.test/v1//", "/chat"), &[], "https://a.test/v1/chat");
    check(&Endpoint::new("https://a.test", "/x?alt=sse&k=1"), &[("k", "2")], "https://a.test/x?alt=sse&k=2");
    let computed = Path::Computed(Arc::new(|_, body| {
        let id: String = url::form_urlencoded::byte_serialize(body["modelId"].as_str().unwrap().as_bytes()).collect();
        format!("/model/{id}/stream")
    }));
    let patch = EndpointPatch { path: Some(computed), ..EndpointPatch::default() };
    let model = chat().with(RoutePatch { endpoint: patch, ..RoutePatch::default() });
    check(model.endpoint(), &[], "https://api.openai.com/v1/model/a%3A0/stream");
}

#[tokio::test]
async fn a_bad_base_url_names_itself() {
    let patch = EndpointPatch::base_url("ftp://user:secret@a.test?key=1");
    let model = chat().with(RoutePatch { endpoint: patch, ..RoutePatch::default() });
    let error = sent(&request(model.model(ModelSelection::new("m")).unwrap()), TestHost::default()).await.unwrap_err();
    assert!(matches!(error.kind(), AIErrorKind::InvalidRequest { .. }));
    assert!(error.message().contains("ftp://a.test") && !error.message().contains("secret"), "{error}");
}

#[tokio::test]
async fn auth() {
    let host = || TestHost::new([("A_KEY", ""), ("B_KEY", "b")]);
    let check = async |auth: Auth, wanted: Result<&[(&str, &str)], &str>| {
        let route = chat().with(RoutePatch { auth: Some(auth), ..RoutePatch::default() });
        let http = HttpOptions {
            headers: Some([("x-own", "1"), ("authorization", "stale")].map(|(k, v)| (k.into(), v.into())).into()),
            ..HttpOptions::default()
        };
        let request = request(route.model(ModelSelection::new("m")).unwrap())
            .update(RequestPatch { http: Some(Some(http)), ..RequestPatch::default() });
        match (sent(&request, host()).await, wanted) {
            (Ok(sent), Ok(wanted)) => {
                assert_eq!(sent.headers.get("x-own"), Some("1"), "foreign headers stay");
                assert_eq!(sent.headers.get("content-type"), Some("application/json"));
                for (name, value) in wanted {
                    assert_eq!(sent.headers.get(name).unwrap_or("none"), *value, "{name}");
                }
            }
            (Err(error), Err(wanted)) => assert_eq!(error.message(), wanted),
            (found, wanted) => panic!("{found:?}, expected {wanted:?}"),
        }
    };
    check(Auth::bearer("k"), Ok(&[("authorization", "Bearer k")])).await;
    check(Auth::header("x-api-key", "k"), Ok(&[("x-api-key", "k"), ("authorization", "stale")])).await;
    check(Auth::bearer_header("x-token", "k"), Ok(&[("x-token", "Bearer k")])).await;
    check(Auth::none(), Ok(&[("authorization", "stale")])).await;
    check(Auth::remove("Authorization"), Ok(&[("authorization", "none")])).await;
    check(
        Auth::header("api-key", "k").and_then(Auth::remove("authorization")),
        Ok(&[("api-key", "k"), ("authorization", "none")]),
    )
    .await;
    check(Auth::headers(Headers::from_iter([("x-a", "1")])), Ok(&[("x-a", "1")])).await;
    check(Auth::config("A_KEY").or_else(Auth::config("B_KEY")).bearer(), Ok(&[("authorization", "Bearer b")])).await;
    check(Auth::config("A_KEY").bearer(), Err("Missing auth credential: A_KEY")).await;
    check(
        Auth::config("A_KEY").or_else(Auth::config("C_KEY")).bearer(),
        Err("Missing auth credential: A_KEY or C_KEY"),
    )
    .await;
    check(Auth::config("A_KEY").bearer().or_else(Auth::none()), Ok(&[("authorization", "stale")])).await;
    check(Auth::optional(None, "apiKey").header("x-k"), Err("Missing auth credential: apiKey")).await;
    check(Auth::value("v").or_else(Auth::config("B_KEY")).bearer(), Ok(&[("authorization", "Bearer v")])).await;
    let load = Auth::lazy(Arc::new(|| Box::pin(async { Ok(Some(Secret::from("late"))) })), "store");
    check(load.bearer(), Ok(&[("authorization", "Bearer late")])).await;
    assert_eq!(format!("{:?} {:?}", Secret::from("k"), Auth::bearer("k")), "<redacted> Auth(<redacted>)");
}

#[test]
fn a_route_is_changed_by_copy() {
    let base = chat();
    let changed = base.with(RoutePatch {
        id: Some("other".into()),
        headers: Some(Headers::from_iter([("x-a", "1")])),
        endpoint: EndpointPatch { query: [("v".to_owned(), "2".to_owned())].into(), ..EndpointPatch::default() },
        ..RoutePatch::default()
    });
    assert_eq!((base.id().as_str(), changed.id().as_str()), ("openai-chat", "other"));
    assert_eq!(changed.defaults().http.as_ref().unwrap().headers.as_ref().unwrap()["x-a"], "1");
    assert!(base.defaults().http.is_none());
    let compatible = abide_ai::protocols::openai_compatible_chat::route();
    let error = compatible.model(ModelSelection::new("m")).unwrap_err();
    assert_eq!(error.to_string(), "openai-compatible-chat: no provider is known for model \"m\"; name one");
    let selection = ModelSelection { provider: Some("p".into()), ..ModelSelection::new("m") };
    assert_eq!(
        compatible.model(selection).unwrap_err().to_string(),
        "p: no base URL is set for model \"m\"; set baseURL"
    );
}

#[tokio::test]
async fn options_merge_from_route_to_model_to_request() {
    let layer = |temperature, key: &str, timeout| Defaults {
        generation: Some(GenerationOptions { temperature, ..GenerationOptions::default() }),
        provider_options: json!({ "reasoningEffort": key, "shared": { key: [1] } }).as_object().cloned(),
        http: Some(HttpOptions {
            body: json!({ "own": { key: 1 }, "list": [key] }).as_object().cloned(),
            headers: Some([(format!("X-{key}"), "1".to_owned()), ("x-last".to_owned(), key.to_owned())].into()),
            query: Some([("q".to_owned(), key.to_owned())].into()),
            header_timeout: timeout,
            ..HttpOptions::default()
        }),
        limits: None,
    };
    let route = chat().with(RoutePatch {
        defaults: layer(Some(0.5), "route", Some(Timeout::After(Duration::from_secs(1)))),
        ..RoutePatch::default()
    });
    let selection =
        ModelSelection { defaults: layer(Some(0.0), "model", Some(Timeout::Off)), ..ModelSelection::new("m") };
    let own = layer(None, "call", None);
    let request = request(route.model(selection).unwrap()).update(RequestPatch {
        generation: Some(own.generation),
        provider_options: Some(own.provider_options),
        http: Some(own.http),
        ..RequestPatch::default()
    });
    let sent = sent(&request, TestHost::default()).await.unwrap();
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body["temperature"].to_string(), "0", "a lower layer fills in, and whole numbers stay whole");
    assert_eq!(body["reasoning_effort"], "call");
    assert_eq!((&body["own"], &body["list"]), (&json!({ "route": 1, "model": 1, "call": 1 }), &json!(["call"])));
    assert_eq!(sent.url.query(), Some("q=call"));
    for (name, value) in [("x-route", "1"), ("x-model", "1"), ("x-call", "1"), ("x-last", "call")] {
        assert_eq!(sent.headers.get(name), Some(value));
    }
}

#[test]
fn an_empty_patch_gives_the_same_request() {
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    assert!(request.is_same(&request.update(RequestPatch::default())));
    let changed = request.update(RequestPatch { id: Some(Some("r".to_owned())), ..RequestPatch::default() });
    assert!(!request.is_same(&changed));
    assert_eq!((changed.id.as_deref(), changed.messages.len()), (Some("r"), 1));
}

#[test]
fn prepare_sends_nothing() {
    let executor = ScriptedExecutor::fixed(answer());
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let prepared = test_client(executor.clone()).prepare(&request).unwrap();
    assert_eq!((prepared.id.as_str(), prepared.route.as_str()), ("request", "openai-chat"));
    assert_eq!((prepared.protocol.as_str(), prepared.transport), ("openai-chat", "http"));
    assert_eq!(prepared.body["model"], "m");
    assert!(executor.requests().is_empty());
}

/// Changes the URL, or refuses.
struct Middleware(bool);

impl HttpMiddleware for Middleware {
    fn handle(&self, mut request: HttpRequest, next: HttpNext) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        if self.0 {
            let error = std::io::Error::other("the plugin said no");
            return Box::pin(std::future::ready(Err(middleware_error(&request.url, error))));
        }
        request.url.set_path("/rewritten");
        next(request)
    }
}

#[tokio::test]
async fn middleware() {
    let executor = ScriptedExecutor::fixed(ScriptedResponse::json(500, &json!({})));
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let client = test_client(executor.clone());
    let options = StreamOptions::with_http(Arc::new(Middleware(false)));
    let error = client.generate(&request, options).await.unwrap_err();
    assert_eq!(executor.requests()[0].url.path(), "/rewritten");
    assert_eq!(error.http().unwrap().status, 500);
    let options = StreamOptions::with_http(Arc::new(Middleware(true)));
    let error = client.generate(&request, options).await.unwrap_err();
    assert!(matches!(error.kind(), AIErrorKind::Transport(_)));
    assert_eq!((error.message(), executor.requests().len()), ("the plugin said no", 1));
}

/// Never answers.
struct Silent;

impl HttpExecutor for Silent {
    fn execute(&self, _: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        Box::pin(std::future::pending())
    }
}

async fn timed(request: &LLMRequest, client: LlmClient) -> (Duration, AIError) {
    let started = tokio::time::Instant::now();
    let error = client.generate(request, StreamOptions::default()).await.unwrap_err();
    (started.elapsed(), error)
}

#[tokio::test(start_paused = true)]
async fn headers_are_waited_for_so_long() {
    let check = async |base_url: &str, timeout: Option<u64>, seconds: u64| {
        let patch = EndpointPatch::base_url(base_url);
        let route = chat().with(RoutePatch { endpoint: patch, ..RoutePatch::default() });
        let header_timeout = timeout.map(|ms| Timeout::After(Duration::from_millis(ms)));
        let http = HttpOptions { header_timeout, ..HttpOptions::default() };
        let request = request(route.model(ModelSelection::new("m")).unwrap())
            .update(RequestPatch { http: Some(Some(http)), ..RequestPatch::default() });
        let (waited, error) = timed(&request, test_client(Silent)).await;
        assert_eq!(waited.as_secs(), seconds, "{base_url}");
        let AIErrorKind::Transport(details) = error.kind() else { panic!("{error:?}") };
        assert_eq!((details.operation, error.is_timeout()), (TransportOperation::Request, true));
        assert!(error.http().is_none(), "nothing was observed");
    };
    check("https://api.test/v1", None, 300).await;
    check("https://api.test/v1", Some(2000), 2).await;
    // A local server may have to load its model first.
    check("http://127.0.0.1:1234/v1", None, 1800).await;
    check("http://localhost:1234/v1", Some(2000), 2).await;
}

#[tokio::test(start_paused = true)]
async fn each_piece_of_the_body_restarts_the_timer() {
    let piece = |seconds, text: &str| (Duration::from_secs(seconds), Bytes::from(text.to_owned()));
    let comments = vec![piece(200, ": wait\n\n"), piece(200, ": wait\n\n"), piece(200, ": wait\n\n")];
    let body = ScriptedBody { pieces: comments, end: End::Hang };
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let client = test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)));
    let (waited, error) = timed(&request, client).await;
    assert_eq!(waited.as_secs(), 900);
    let AIErrorKind::Transport(details) = error.kind() else { panic!("{error:?}") };
    assert_eq!((details.operation, error.http().unwrap().status), (TransportOperation::Read, 200));
}

/// Keep-alives in any form end the wait for bytes, not the wait for content.
#[tokio::test(start_paused = true)]
async fn content_is_waited_for_so_long() {
    let minute = |text: &str| (Duration::from_mins(1), Bytes::from(text.to_owned()));
    let check = async |alive: &str, content_timeout: Option<Timeout>, minutes: u64, message: &str| {
        let delta = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
        let mut pieces = vec![minute(delta)];
        pieces.extend((0..100).map(|_| minute(alive)));
        let body = ScriptedBody { pieces, end: End::Hang };
        let http = HttpOptions { content_timeout, ..HttpOptions::default() };
        let request = request(chat().model(ModelSelection::new("m")).unwrap())
            .update(RequestPatch { http: Some(Some(http)), ..RequestPatch::default() });
        let (waited, error) = timed(&request, test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)))).await;
        assert_eq!((waited.as_secs() / 60, error.message()), (minutes, message), "{alive:?}");
        assert!(error.is_timeout());
        assert_eq!((error.http().unwrap().status, error.retry_class()), (200, RetryClass::IfNoOutput));
    };
    let no_content = "The provider sent no content for 1800s";
    for alive in
        [": keep-alive\n\n", "data: : OPENROUTER PROCESSING\n\n", "event: ping\n\n", "data: {\"choices\":[]}\n\n"]
    {
        check(alive, None, 31, no_content).await;
    }
    let short = Some(Timeout::After(Duration::from_mins(5)));
    check(": wait\n\n", short, 6, "The provider sent no content for 300s").await;
    check(": wait\n\n", Some(Timeout::Off), 106, "The provider sent nothing for 300s").await;
}

/// The time in which nobody asks for events is not the provider's.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_no_silent_provider() {
    let delta = Bytes::from_static(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n");
    let body = ScriptedBody { pieces: vec![(Duration::from_secs(1), delta.clone()); 3], end: End::Close };
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let client = test_client(ScriptedExecutor::fixed(ScriptedResponse::sse(body)));
    let mut events = client.stream(&request, StreamOptions::default());
    let mut n_deltas = 0;
    while let Some(Ok(event)) = events.next().await {
        n_deltas += usize::from(event.as_text_delta().is_some());
        tokio::time::sleep(Duration::from_hours(2)).await;
    }
    assert_eq!(n_deltas, 3);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_body() {
    /// Counts the bodies that were dropped.
    struct Endless(Arc<AtomicUsize>);
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl HttpExecutor for Endless {
        fn execute(&self, _: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
            let guard = OnDrop(Arc::clone(&self.0));
            let chunk = Bytes::from_static(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n");
            let body = stream::repeat(chunk).map(move |chunk| {
                let _held = &guard;
                Ok(chunk)
            });
            let headers = Headers::from_iter([("content-type", "text/event-stream")]);
            Box::pin(std::future::ready(Ok(HttpResponse { status: 200, headers, body: Box::pin(body) })))
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let mut events = test_client(Endless(Arc::clone(&dropped))).stream(&request, StreamOptions::default());
    for _ in 0..5 {
        events.next().await.unwrap().unwrap();
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(events);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn errors_keep_the_body_and_show_little_of_it() {
    let text = format!("{{\"message\":\"  \",\"pad\":\"{}\"}}", "x".repeat(20_000));
    let mut response = ScriptedResponse::sse(ScriptedBody::bytes(text.clone()));
    response.status = 400;
    response.headers.set("x-api-key", "hidden-1");
    response.headers.set("x-request-id", "shown");
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let client = test_client(ScriptedExecutor::fixed(response));
    let error = client.generate(&request, StreamOptions::default()).await.unwrap_err();
    assert_eq!(error.body(), Some(text.as_str()));
    assert_eq!(error.to_string(), "Provider request failed with HTTP 400");
    let debug = format!("{error:?}");
    assert!(debug.len() < 4096 && !debug.contains("hidden-1") && debug.contains("shown"), "{debug}");
    assert!(is_sensitive_name("X-Api-Key") && !is_sensitive_name("x-request-id"));
    assert_eq!(redact_url("https://u:p@a.test/x?api_key=1&b=2"), "https://a.test/x?api_key=%3Credacted%3E&b=2");
}

#[tokio::test]
async fn a_broken_error_body_still_gives_the_status() {
    let mut response = ScriptedResponse::sse(ScriptedBody::truncated(["{\"mess"]));
    response.status = 503;
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let client = test_client(ScriptedExecutor::fixed(response));
    let error = client.generate(&request, StreamOptions::default()).await.unwrap_err();
    assert!(matches!(error.kind(), AIErrorKind::ProviderInternal { .. }));
    assert_eq!((error.body(), error.http().unwrap().status), (None, 503));
    assert!(error.reason().cause.is_some());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut response = ScriptedResponse::json(307, &json!({}));
    response.headers.set("location", "https://elsewhere.test/v1");
    let executor = ScriptedExecutor::fixed(response);
    let request = request(chat().model(ModelSelection::new("m")).unwrap());
    let error = test_client(executor.clone()).generate(&request, StreamOptions::default()).await.unwrap_err();
    assert!(error.message().contains("https://elsewhere.test/v1"), "{error}");
    assert_eq!(executor.requests().len(), 1);
}

#[test]
fn packages() {
    #[track_caller]
    fn check(entry: Value, wanted: Result<(&str, &str, &str), &str>) {
        let entry: ModelEntry = serde_json::from_value(entry).unwrap();
        let found = entry.resolve();
        match (&found, wanted) {
            (Ok(model), Ok((provider, route, base_url))) => {
                let found = (model.provider.as_str(), model.route.id().as_str(), model.route.endpoint().base_url());
                assert_eq!(found, (provider, route, Some(base_url)));
            }
            (Err(error), Err(wanted)) => assert_eq!(error.to_string(), wanted),
            (found, wanted) => panic!("{found:?}, expected {wanted:?}"),
        }
    }
    let local = "http://127.0.0.1:9/v1";
    check(
        json!({ "package": "@ai-sdk/openai", "provider": "openai", "model": "m" }),
        Ok(("openai", "openai-responses", "https://api.openai.com/v1")),
    );
    check(
        json!({ "package": "aisdk:@ai-sdk/anthropic", "provider": "mine", "model": "m" }),
        Ok(("mine", "anthropic-messages", "https://api.anthropic.com/v1")),
    );
    check(
        json!({ "provider": "mock", "model": "m", "settings": { "baseURL": local } }),
        Ok(("mock", "openai-compatible-chat", local)),
    );
    check(
        json!({ "provider": "ollama", "model": "m" }),
        Ok(("ollama", "openai-compatible-chat", "http://127.0.0.1:11434/v1")),
    );
    check(
        json!({ "package": "anthropic-compatible", "provider": "mock", "model": "m", "settings": { "baseURL": local } }),
        Ok(("mock", "anthropic-compatible-messages", local)),
    );
    check(
        json!({ "package": "openai-compatible", "provider": "p", "model": "m" }),
        Err("p: no base URL is set for model \"m\"; set baseURL"),
    );
    check(
        json!({ "package": "anthropic-compatible", "provider": "p", "model": "m" }),
        Err("p: no base URL is set; set baseURL"),
    );
    check(
        json!({ "provider": "p", "model": "m", "settings": { "baseURL": local, "apiKey": ["k"] } }),
        Err("p: setting apiKey must be a string, got a list"),
    );
    check(
        json!({ "package": "constructor", "provider": "p", "model": "m" }),
        Err("p: package \"constructor\" is not supported; use openai-compatible, anthropic-compatible or a provider \
             this version knows"),
    );
}

#[tokio::test]
async fn a_package_gives_its_settings_to_the_call() {
    let entry: ModelEntry = serde_json::from_value(json!({
        "package": "openai-compatible", "provider": "mock", "model": "m",
        "settings": {
            "baseURL": "http://127.0.0.1:9/v1", "apiKey": "from settings", "headers": { "x-a": "1", "x-b": "1" },
            "queryParams": { "v": "2" }, "timeout": false, "reasoningEffort": "low", "body": { "top": { "a": 1 } },
        },
        "headers": { "X-B": "2" }, "body": { "top": { "b": 2 } }, "generation": { "maxTokens": 7 },
    }))
    .unwrap();
    assert!(!format!("{entry:?}").contains("from settings"));
    let sent = sent(&request(entry.resolve().unwrap()), TestHost::default()).await.unwrap();
    assert_eq!(sent.url.as_str(), "http://127.0.0.1:9/v1/chat/completions?v=2");
    assert_eq!(sent.headers.get("authorization"), Some("Bearer from settings"));
    assert_eq!((sent.headers.get("x-a"), sent.headers.get("x-b")), (Some("1"), Some("2")));
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!((&body["top"], &body["max_tokens"]), (&json!({ "a": 1, "b": 2 }), &json!(7)));
    assert_eq!(body["reasoning_effort"], "low");
    assert!(body.get("apiKey").is_none() && body.get("timeout").is_none());
}

#[tokio::test]
async fn keys_come_from_the_variables_of_the_provider() {
    let check =
        async |package: &str, env: &[(&'static str, &'static str)], header: &str, wanted: Result<&str, &str>| {
            let entry = ModelEntry {
                package: Some(package.to_owned()),
                provider: package.into(),
                model: "m".into(),
                ..ModelEntry::default()
            };
            let host = TestHost::new(env.iter().copied());
            match (sent(&request(entry.resolve().unwrap()), host).await, wanted) {
                (Ok(sent), Ok(wanted)) => assert_eq!(sent.headers.get(header).unwrap_or("none"), wanted, "{package}"),
                // The answer is one of Chat; other protocols find no end in it, but the key was sent.
                (Err(error), Err(wanted)) => assert_eq!(error.message(), wanted),
                (found, wanted) => panic!("{package}: {found:?}, expected {wanted:?}"),
            }
        };
    check("openai/chat", &[("OPENAI_API_KEY", "k")], "authorization", Ok("Bearer k")).await;
    check("openai/chat", &[], "authorization", Err("Missing auth credential: OPENAI_API_KEY")).await;
    check("anthropic", &[], "x-api-key", Err("Missing auth credential: ANTHROPIC_API_KEY")).await;
    check("togetherai", &[("TOGETHER_AI_API_KEY", "k")], "authorization", Ok("Bearer k")).await;
    check("togetherai", &[], "", Err("Missing auth credential: TOGETHER_API_KEY or TOGETHER_AI_API_KEY")).await;
    check("ollama", &[], "authorization", Ok("none")).await;
    check("vllm", &[("VLLM_API_KEY", "k")], "authorization", Ok("Bearer k")).await;
}
