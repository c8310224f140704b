//! Errors: classification, headers, bodies, causes.

use std::fmt::Write as _;

use abide_ai::provider_error::{Failure, HttpFailure, classify, classify_http_failure, is_overflow_text};
use abide_ai::schema::errors::{
    AIErrorReason, AuthenticationKind, HttpContext, RequestClassification, TransportDetails, TransportOperation,
};
use abide_ai::schema::model::Compatibility;
use abide_ai::testing::scripted::{ScriptedBody, sse_events, sse_named};
use abide_ai::{AIError, AIErrorKind, RetryClass, is_context_overflow};
use chrono::DateTime;
use serde_json::{Value, json};

use crate::support::{ask, model, run};

fn http(status: u16, body: &str) -> AIError {
    let failure = HttpFailure {
        status: Some(status),
        url: Some("https://a.test/v1".to_owned()),
        body: Some(body.to_owned()),
        ..HttpFailure::default()
    };
    classify_http_failure(failure, DateTime::UNIX_EPOCH)
}

/// A kind in one word.
fn word(error: &AIError) -> &'static str {
    match error.kind() {
        AIErrorKind::InvalidRequest { classification: Some(RequestClassification::ContextOverflow), .. } => "overflow",
        AIErrorKind::InvalidRequest { classification: Some(RequestClassification::PayloadTooLarge), .. } => "too-large",
        AIErrorKind::InvalidRequest { classification: None, .. } => "invalid",
        AIErrorKind::Authentication { kind: AuthenticationKind::Invalid } => "key",
        AIErrorKind::Authentication { kind: AuthenticationKind::InsufficientPermissions } => "permission",
        AIErrorKind::RateLimit { .. } => "rate",
        AIErrorKind::QuotaExceeded => "quota",
        AIErrorKind::ContentPolicy => "policy",
        AIErrorKind::ProviderInternal { .. } => "internal",
        AIErrorKind::UnknownProvider => "unknown",
        AIErrorKind::Transport(_) => "transport",
        other => panic!("{other:?}"),
    }
}

#[test]
fn s36_to_s45_statuses_codes_and_words() {
    #[track_caller]
    fn check(status: u16, body: &str, wanted: &str) {
        let error = http(status, body);
        assert_eq!(word(&error), wanted, "{status} {body}");
        assert_eq!((error.body(), error.http().map(|http| http.status)), (Some(body), Some(status)));
    }
    check(400, r#"{"error":{"code":"context_length_exceeded","message":"no"}}"#, "overflow"); // 36
    check(413, "Payload Too Large", "too-large"); // 37
    check(413, r#"{"error":{"type":"request_too_large","message":"big"}}"#, "overflow"); // 38
    check(400, r#"{"error":{"message":"unknown field x"}}"#, "invalid"); // 39
    check(400, r#"{"message":"rate increased too quickly"}"#, "rate"); // 41
    check(400, r#"{"error":{"code":"too_many_requests"}}"#, "rate");
    check(400, r#"{"error":{"code":"rate_limit_exceeded"}}"#, "rate");
    check(400, r#"{"error":{"code":"resource_exhausted"}}"#, "internal"); // 42
    check(400, r#"{"error":{"code":"service_unavailable"}}"#, "internal");
    check(401, "{}", "key"); // 43
    check(403, "{}", "permission");
    check(400, r#"{"error":{"type":"authentication_error"}}"#, "key");
    check(400, r#"{"error":{"type":"permission_error"}}"#, "permission");
    check(429, r#"{"error":{"code":"insufficient_quota"}}"#, "quota"); // 44
    check(429, r#"{"error":{"message":"Quota exceeded for this key"}}"#, "quota");
    check(429, "slow down", "rate");
    check(400, r#"{"error":{"code":"billing_error"}}"#, "quota");
    for status in [409, 500, 502, 503, 504, 529] {
        check(status, "", "internal"); // 45
    }
    check(400, r#"{"error":{"message":"blocked by our content policy"}}"#, "policy");
    check(400, r#"{"error":{"code":"content_filter"}}"#, "policy");
    check(404, "", "invalid");
    check(422, "", "invalid");
    check(418, "", "unknown");
    check(418, r#"{"error":{"type":"invalid_request_error"}}"#, "invalid");
    check(418, r#"{"error":{"code":"overloaded_error"}}"#, "internal");
    // A rate limit wins over the server's own trouble, and a code over the status.
    check(500, r#"{"error":{"code":"rate_limit_error"}}"#, "rate");
}

#[test]
fn s40_every_phrase_of_an_overflow() {
    let phrases = [
        "prompt is too long",
        "Input is too long for requested model.",
        "this exceeds the context window of m",
        "exceeds the model's maximum context length of 8,192 tokens",
        "exceeds maximum context length (8192)",
        "The input token count (9) exceeds the maximum number",
        "tokens in request more than max tokens allowed",
        "maximum prompt length is 8192",
        "please reduce the length of the messages",
        "This model's maximum context length is 8192 tokens",
        "exceeds the maximum allowed input length of 8192 tokens",
        "input (9000 tokens) is longer than the model's context length (8192 tokens)",
        "your request exceeds the limit of 8192",
        "exceeds the available context size",
        "greater than the context length",
        "context window exceeds limit",
        "exceeded model token limit",
        "context length exceeded",
        "context_length_exceeded",
        "the context length is only 8192 tokens",
        "input length 9 exceeds the model context length",
        "prompt too long; exceeded max context length",
        "prompt too long; exceeded context length by 5",
        "too large for model with 8192 maximum context length",
        "prompt has 9,000 tokens, but the configured context size is 8,192 tokens",
        "model_context_window_exceeded",
        "too many tokens",
        "token limit exceeded",
        "400 (no body)",
        "400 status code (no body)",
    ];
    for phrase in phrases {
        assert!(is_overflow_text(phrase) && is_overflow_text(&phrase.to_uppercase()), "{phrase}");
        let error = http(400, &json!({ "error": { "message": phrase } }).to_string());
        assert!(is_context_overflow(&error), "{phrase}: {error:?}");
        let throttled = format!("rate limit: {phrase}");
        let error = http(400, &json!({ "error": { "message": throttled } }).to_string());
        assert!(!is_overflow_text(&throttled) && !is_context_overflow(&error), "{throttled}");
    }
    for text in [
        "throttling error: too many tokens",
        "Service unavailable: too many tokens",
        "too many requests; too many tokens",
    ] {
        assert!(!is_overflow_text(text), "{text}");
    }
    for text in ["the length of the message", "maximum context length", "tokens", "400"] {
        assert!(!is_overflow_text(text), "{text}");
    }
}

#[test]
fn s48_the_message_of_a_long_body_is_the_providers() {
    let pad = "x".repeat(40_000);
    let error = http(400, &json!({ "pad": pad, "error": { "message": "the fault is yours" } }).to_string());
    assert_eq!(error.message(), "the fault is yours");
    assert_eq!(http(400, r#"{"error":{"message":" "},"message":"the other"}"#).message(), "the other");
    assert_eq!(http(418, r#"{"message":""}"#).message(), "Provider request failed with HTTP 418");
    assert_eq!(http(500, "<html>").message(), "Provider request failed with HTTP 500");
}

#[test]
fn s49_the_body_is_kept_byte_for_byte() {
    let mut body = String::from("{ \"message\" : \"m\",\r\n\t\"pad\":\"");
    for index in 0..5_000 {
        write!(body, "ü{index} ").unwrap();
    }
    body += "\"}";
    assert!(body.len() > 20_000);
    assert_eq!(http(400, &body).body(), Some(body.as_str()));
}

#[test]
fn s51_no_context_is_made_up() {
    for failure in [
        HttpFailure { status: Some(429), ..HttpFailure::default() },
        HttpFailure { url: Some("https://a.test".to_owned()), ..HttpFailure::default() },
    ] {
        let error = classify_http_failure(failure.clone(), DateTime::UNIX_EPOCH);
        assert!(error.http().is_none(), "{failure:?}");
    }
}

/// The three protocols with an error event in the middle of an answer.
fn broken_streams() -> Vec<(&'static str, String, String)> {
    let chat = r#"{"id":"outer","error":{"message":"overloaded","code":503},"more":[1]}"#;
    let messages =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"overloaded"},"request_id":"outer"}"#;
    let responses = r#"{"type":"response.failed","sequence_number":7,"response":{"id":"outer","error":{"code":"server_error","message":"overloaded"}}}"#;
    let begin = json!({ "choices": [{ "index": 0, "delta": { "content": "half" } }] });
    let begin = sse_events([begin]).replace("data: [DONE]\n\n", "");
    let block =
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "half" } });
    vec![
        ("openai-chat", format!("{begin}data: {chat}\n\n"), chat.to_owned()),
        (
            "anthropic-messages",
            format!("{}event: error\ndata: {messages}\n\n", sse_named([block])),
            messages.to_owned(),
        ),
        ("openai-responses", format!("event: response.failed\ndata: {responses}\n\n"), responses.to_owned()),
    ]
}

#[test]
fn s53_a_failure_inside_a_stream_keeps_the_whole_event() {
    for (protocol, body, event) in broken_streams() {
        let (_, error) = run(&ask(model(protocol, "m", Compatibility::default())), ScriptedBody::bytes(body));
        let error = error.expect(protocol);
        assert_eq!(word(&error), "internal", "{protocol}: {error:?}");
        assert_eq!(error.body(), Some(event.as_str()), "{protocol}: outer fields stay");
        assert_eq!(error.http().map(|http| http.status), Some(200));
        assert_eq!(error.retry_class(), RetryClass::IfNoOutput, "something may have been used");
        assert!(error.reason().cause.is_none());
    }
}

#[test]
fn s54_a_known_event_of_the_wrong_form_is_refused_with_its_frame() {
    for (protocol, event) in [
        ("openai-chat", json!({ "choices": [{ "delta": { "content": { "not": "text" } } }] })),
        ("anthropic-messages", json!({ "type": "content_block_stop", "index": "one" })),
        ("openai-responses", json!({ "type": "response.output_text.delta", "item_id": 5, "delta": [] })),
    ] {
        let frame = event.to_string();
        let body = ScriptedBody::bytes(format!("data: {frame}\n\n"));
        let (_, error) = run(&ask(model(protocol, "m", Compatibility::default())), body);
        let error = error.expect(protocol);
        assert!(matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }), "{protocol}: {error:?}");
        assert_eq!(error.retry_class(), RetryClass::Never, "{protocol}");
        assert!(error.message().starts_with("Invalid ") && error.message().ends_with(" stream event"), "{error}");
        assert_eq!((error.body(), error.http().map(|http| http.status)), (Some(frame.as_str()), Some(200)));
        assert!(error.reason().cause.is_some(), "{protocol}: the decode error");
    }
}

#[test]
fn s55_another_kind_keeps_what_is_known() {
    let context = HttpContext { url: "https://a.test".to_owned(), status: 500, headers: [].into() };
    let error = AIError::invalid_output("first")
        .with_body("body")
        .with_http(Some(&context))
        .with_cause(std::io::Error::other("below"));
    let rebuilt: AIError =
        error.into_reason().rebuild_as(AIErrorKind::ProviderInternal { retry_after_ms: Some(5) }).into();
    assert_eq!((rebuilt.message(), rebuilt.body(), rebuilt.http()), ("first", Some("body"), Some(&context)));
    assert_eq!(rebuilt.reason().cause.as_ref().map(ToString::to_string).as_deref(), Some("below"));
    assert_eq!(rebuilt.retry_after_ms(), Some(5));
    let changed: AIError =
        rebuilt.into_reason().with(|reason: &mut AIErrorReason| reason.message = "second".to_owned()).into();
    assert_eq!((changed.message(), changed.body(), changed.http()), ("second", Some("body"), Some(&context)));
    // What is there is not replaced.
    assert_eq!(changed.with_body("other").body(), Some("body"));
}

#[test]
fn s57_secrets_do_not_print() {
    let headers = ["authorization", "x-api-key", "set-cookie", "x-goog-signature", "x-secret-thing", "client-token"];
    let context = HttpContext {
        url: "https://user:pass@a.test/v1?api_key=hidden&sig=hidden&alt=sse".to_owned(),
        status: 400,
        headers: headers.iter().map(|name| ((*name).to_owned(), "hidden".to_owned())).collect(),
    };
    let error = AIError::invalid_request("no").with_http(Some(&context)).with_body("b".repeat(50_000));
    for shown in [format!("{error:?}"), format!("{error:#?}"), error.to_string()] {
        assert!(!shown.contains("hidden") && !shown.contains("pass") && shown.len() < 8_000, "{shown}");
    }
    assert_eq!(error.to_string(), "no");
    assert_eq!(error.body().map(str::len), Some(50_000), "nothing is lost");
}

/// Whether to try again, for each kind and each place it came from.
#[test]
fn retry_classes() {
    #[track_caller]
    fn check(error: &AIError, wanted: RetryClass) {
        assert_eq!(error.retry_class(), wanted, "{error:?}");
    }
    for (status, wanted) in [
        (400, RetryClass::Never),
        (401, RetryClass::Never),
        (402, RetryClass::Never),
        (403, RetryClass::Never),
        (404, RetryClass::Never),
        (408, RetryClass::Safe),
        (409, RetryClass::Safe),
        (413, RetryClass::Never),
        (418, RetryClass::Never),
        (429, RetryClass::Safe),
        (500, RetryClass::Safe),
        (529, RetryClass::Safe),
    ] {
        check(&http(status, ""), wanted);
    }
    let streamed =
        |code: &str| classify(Failure { message: "m".to_owned(), code: Some(code.to_owned()), ..Failure::default() });
    check(&streamed("rate_limit_error"), RetryClass::IfNoOutput);
    check(&streamed("overloaded_error"), RetryClass::IfNoOutput);
    check(&streamed("authentication_error"), RetryClass::Never);
    let transport = |operation| AIError::transport(TransportDetails::http(operation), "broken");
    check(&transport(TransportOperation::Request), RetryClass::Safe);
    check(&transport(TransportOperation::Read), RetryClass::IfNoOutput);
    check(&AIError::incomplete_stream("cut"), RetryClass::IfNoOutput);
    check(&AIError::invalid_output("odd"), RetryClass::Never);
}

/// Events that carry one failure in several wordings give one kind.
#[test]
fn s93_and_s107_and_s128_error_events() {
    #[track_caller]
    fn check(protocol: &str, event: &Value, wanted: &str, message: &str) {
        let name = event.get("type").and_then(Value::as_str).unwrap_or("message");
        let body = format!("event: {name}\ndata: {event}\n\n");
        let (_, error) = run(&ask(model(protocol, "m", Compatibility::default())), ScriptedBody::bytes(body));
        let error = error.expect("a failure");
        assert_eq!((word(&error), error.message()), (wanted, message), "{protocol}: {event}");
    }
    check("openai-chat", &json!({ "error": { "message": "m", "code": 429 } }), "rate", "m");
    check("openai-chat", &json!({ "error": { "message": "m", "code": "429" } }), "rate", "m");
    let messages = |error: Value| json!({ "type": "error", "error": error });
    check(
        "anthropic-messages",
        &messages(json!({ "type": "overloaded_error", "message": "m" })),
        "internal",
        "overloaded_error: m",
    );
    check("anthropic-messages", &messages(json!({ "type": "rate_limit_error" })), "rate", "rate_limit_error");
    check("anthropic-messages", &messages(json!({ "message": "m" })), "unknown", "m");
    check("anthropic-messages", &json!({ "type": "error" }), "unknown", "Anthropic Messages stream error");
    let failed = |error: Value| json!({ "type": "response.failed", "response": { "error": error } });
    check(
        "openai-responses",
        &failed(json!({ "code": "server_error", "message": "m" })),
        "internal",
        "server_error: m",
    );
    check(
        "openai-responses",
        &json!({ "type": "error", "code": "rate_limit_exceeded", "message": "m" }),
        "rate",
        "rate_limit_exceeded: m",
    );
    check("openai-responses", &json!({ "type": "error", "error": { "message": "m" }, "status": 401 }), "key", "m");
}
