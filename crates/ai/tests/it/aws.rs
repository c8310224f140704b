//! AWS: frames of event streams, and signatures.

use std::collections::VecDeque;
use std::sync::Arc;

use abide_ai::providers::amazon_bedrock;
use abide_ai::route::auth::{Auth, AwsCredentials, AwsSignature};
use abide_ai::route::executor::HttpRequest;
use abide_ai::route::framing::{Frame, Framing, MAX_FRAME_BYTES};
use abide_ai::route::{ModelSelection, RoutePatch};
use abide_ai::testing::TestHost;
use abide_ai::testing::scripted::{ScriptedBody, ScriptedExecutor, ScriptedResponse, aws_message, event_frame};
use abide_ai::{AIError, AIErrorKind, LanguageModel, LlmClient, StreamOptions};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{ask, aws_body, route};

fn frames(pieces: &[&[u8]]) -> Result<Vec<Frame>, AIError> {
    let mut decoder = Framing::AwsEventStream.decoder();
    let mut out = VecDeque::new();
    for piece in pieces {
        decoder.push(&Bytes::copy_from_slice(piece), &mut out)?;
    }
    decoder.finish(&mut out)?;
    Ok(out.into())
}

#[test]
fn frames_are_the_same_byte_by_byte_and_all_in_one_piece() {
    let body = aws_body(
        "event messageStart {\"role\":\"assistant\"}\nexception throttlingException {\"message\":\"wait\"}\n\
         event messageStart \nother {}\nevent messageStop {\"stopReason\":\"é\"}",
    );
    let whole = frames(&[&body]).unwrap();
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(frames(&bytes).unwrap(), whole);
    let odd: Vec<&[u8]> = body.chunks(7).collect();
    assert_eq!(frames(&odd).unwrap(), whole);
    let found: Vec<(&[u8], &[u8])> = whole.iter().map(|frame| (&*frame.name, &*frame.data)).collect();
    let exception = br#"{"exception":{"type":"throttlingException","details":{"message":"wait"}}}"#;
    assert_eq!(
        found,
        [
            (b"messageStart".as_slice(), br#"{"role":"assistant"}"#.as_slice()),
            (b"exception", exception),
            (b"messageStop", "{\"stopReason\":\"é\"}".as_bytes()),
        ],
        "empty payloads and messages without a type are passed over"
    );
    let text: Value = serde_json::from_str(&whole[0].text()).unwrap();
    let headers = json!({ ":message-type": "event", ":event-type": "messageStart" });
    assert_eq!(text, json!({ "headers": headers, "body": "{\"role\":\"assistant\"}" }));
}

#[test]
fn damaged_frames_fail_with_their_bytes() {
    #[track_caller]
    fn check(bytes: &[u8]) {
        let error = frames(&[bytes]).unwrap_err();
        assert!(matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }), "{error:?}");
        let kept = STANDARD.decode(error.body().expect("the frame is kept")).unwrap();
        assert!(!kept.is_empty() && bytes.starts_with(&kept), "{error:?}");
    }
    let good = event_frame("messageStop", &json!({ "stopReason": "end_turn" }));
    let with = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] ^= byte;
        bytes
    };
    let len = good.len();
    check(&with(9, 1)); // checksum of the lengths
    check(&with(3, 1)); // length
    check(&with(0, 0x40)); // a length beyond all bounds
    check(&with(7, 1)); // length of the headers
    check(&with(len - 1, 1)); // checksum of the message
    check(&with(len - 6, 1)); // payload
    check(&with(14, 1)); // headers
    // A prelude that is right and asks for too much.
    let prelude = |len: u32, headers: u32| {
        let mut bytes = [len.to_be_bytes(), headers.to_be_bytes()].concat();
        let mut checksum = !0_u32;
        for byte in &bytes {
            checksum ^= u32::from(*byte);
            for _ in 0..8 {
                checksum = if checksum & 1 == 1 { (checksum >> 1) ^ 0xedb8_8320 } else { checksum >> 1 };
            }
        }
        bytes.extend((!checksum).to_be_bytes());
        bytes
    };
    check(&prelude(u32::try_from(MAX_FRAME_BYTES).unwrap() + 1, 0));
    check(&prelude(15, 0));
    check(&prelude(1024 * 1024, 128 * 1024 + 1));
}

#[test]
fn left_over_bytes_are_an_incomplete_stream() {
    let good = event_frame("messageStop", &json!({}));
    for end in [1, 11, 12, good.len() - 1] {
        let error = frames(&[&good, &good[..end]]).unwrap_err();
        assert!(error.is_incomplete_stream(), "{end}: {error:?}");
    }
}

#[test]
fn a_message_of_type_error_fails_the_stream() {
    let check = |headers: &[(&str, &str)], wanted: &str| {
        let error = frames(&[&aws_message(headers, b"{}")]).unwrap_err();
        assert_eq!(error.message(), wanted);
        assert!(matches!(error.kind(), AIErrorKind::InvalidProviderOutput { .. }));
        let body: Value = serde_json::from_str(error.body().unwrap()).unwrap();
        assert_eq!((&body["headers"][":message-type"], &body["body"]), (&json!("error"), &json!("{}")));
    };
    let kind = (":message-type", "error");
    check(&[kind, (":error-code", "Gone"), (":error-message", "it broke")], "Gone: it broke");
    check(&[kind], "Bedrock Converse event-stream error");
}

fn credentials(token: Option<&str>) -> AwsCredentials {
    AwsCredentials {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        session_token: token.map(Into::into),
    }
}

async fn sent(model: LanguageModel, host: TestHost) -> Result<HttpRequest, AIError> {
    let body = [event_frame("messageStop", &json!({ "stopReason": "end_turn" })).to_vec()].concat();
    let executor = ScriptedExecutor::fixed(ScriptedResponse::sse(ScriptedBody::bytes(body)));
    let host = host.at("2031-03-01T12:00:00Z".parse().unwrap());
    let client = LlmClient::new(Arc::new(executor.clone())).with_host(Arc::new(host));
    client.generate(&ask(model), StreamOptions::default()).await?;
    Ok(executor.requests().remove(0))
}

fn signed_model(credentials: Option<AwsCredentials>, profile: Option<&str>) -> LanguageModel {
    let auth = AwsSignature {
        service: "bedrock",
        region: "eu-west-1".to_owned(),
        credentials,
        profile: profile.map(str::to_owned),
    };
    let route = route("bedrock-converse").with(RoutePatch { auth: Some(Auth::custom(auth)), ..RoutePatch::default() });
    route.model(ModelSelection::new("us.amazon.nova-micro-v1:0")).unwrap()
}

#[tokio::test]
async fn signature_of_fixed_clock_and_keys() {
    // Computed apart from this program: canonical request, string to sign and key of the documentation,
    // the path with each segment encoded once more (`%3A` becomes `%253A`).
    let request = sent(signed_model(Some(credentials(None)), None), TestHost::default()).await.unwrap();
    assert!(request.url.path().ends_with("/us.amazon.nova-micro-v1%3A0/converse-stream"));
    assert_eq!(request.headers.get("x-amz-date"), Some("20310301T120000Z"));
    assert_eq!(
        request.headers.get("authorization").unwrap(),
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20310301/eu-west-1/bedrock/aws4_request, \
         SignedHeaders=host;x-amz-date, Signature=2fd3f4626909dafc94fd8412067a3d4495630d82564c877ea068c81c3030c7f9"
    );
    let request = sent(signed_model(Some(credentials(Some("token+/="))), None), TestHost::default()).await.unwrap();
    assert_eq!(request.headers.get("x-amz-security-token"), Some("token+/="));
    assert_eq!(
        request.headers.get("authorization").unwrap(),
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20310301/eu-west-1/bedrock/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=0d79b2e70872e0edbbc51ec49e5415ebe56cb9bae53a817a3b2c495439cc334d"
    );
}

#[tokio::test]
async fn credentials_are_looked_up_in_order() {
    let who = async |profile: Option<&str>, host: TestHost| {
        let request = sent(signed_model(None, profile), host).await.map_err(|error| error.message().to_owned())?;
        let authorization = request.headers.get("authorization").unwrap();
        Ok::<_, String>(authorization.split(['=', '/']).nth(1).unwrap().to_owned())
    };
    let file = "[default]\naws_access_key_id = FILE\naws_secret_access_key=s\n\n[work]\naws_access_key_id=WORK\n\
                aws_secret_access_key = s\naws_session_token = t\n[half]\naws_access_key_id=HALF\n";
    let config = "[profile made]\nregion = eu-west-1\ncredential_process = /opt/give --now\n\
                  [profile bad]\ncredential_process = /opt/fail\n[profile conf]\naws_access_key_id=CONF\n\
                  aws_secret_access_key=s\n";
    let host = |env: &[(&str, &str)]| {
        let home = [("HOME", "/home/u")];
        TestHost::new(home.into_iter().chain(env.iter().copied()))
            .with_file("/home/u/.aws/credentials", file)
            .with_file("/home/u/.aws/config", config)
            .with_file("/other", "[default]\naws_access_key_id=OTHER\naws_secret_access_key=s\n")
            .with_program("/opt/give --now", r#"{"Version":1,"AccessKeyId":"MADE","SecretAccessKey":"s"}"#)
    };
    let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_PROFILE", "work")];
    assert_eq!(who(None, host(&keys)).await.as_deref(), Ok("ENV"));
    assert_eq!(who(Some("conf"), host(&keys)).await.as_deref(), Ok("CONF"), "a named profile comes first");
    assert_eq!(who(None, host(&[])).await.as_deref(), Ok("FILE"));
    assert_eq!(who(None, host(&[("AWS_PROFILE", "work")])).await.as_deref(), Ok("WORK"));
    assert_eq!(who(None, host(&[("AWS_PROFILE", "made")])).await.as_deref(), Ok("MADE"));
    assert_eq!(who(None, host(&[("AWS_SHARED_CREDENTIALS_FILE", "/other")])).await.as_deref(), Ok("OTHER"));
    let failed = who(Some("bad"), host(&[])).await.unwrap_err();
    assert!(failed.starts_with("the AWS credential_process \"fail\" gave no credentials"), "{failed}");
    for (profile, host) in [(Some("half"), host(&[])), (Some("gone"), host(&[])), (None, TestHost::default())] {
        let failed = who(profile, host).await.unwrap_err();
        assert!(failed.contains("AWS_BEARER_TOKEN_BEDROCK") && failed.contains("AWS_ACCESS_KEY_ID"), "{failed}");
    }
}

#[tokio::test]
async fn a_bearer_token_comes_before_a_signature() {
    let model = |options: amazon_bedrock::Options, host: &TestHost| {
        amazon_bedrock::configure_in(options, host).model("amazon.nova-micro-v1:0").unwrap()
    };
    let keys = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let both = TestHost::new(keys.into_iter().chain([("AWS_BEARER_TOKEN_BEDROCK", "tok")]));
    let request = sent(model(amazon_bedrock::Options::default(), &both), both.clone()).await.unwrap();
    assert_eq!(request.headers.get("authorization"), Some("Bearer tok"));
    let host = TestHost::new(keys);
    let request = sent(model(amazon_bedrock::Options::default(), &host), host).await.unwrap();
    assert!(request.headers.get("authorization").unwrap().starts_with("AWS4-HMAC-SHA256 Credential=ENV/"));
    let own = abide_ai::providers::ProviderOptions::key("own");
    let options = amazon_bedrock::Options { common: own, ..amazon_bedrock::Options::default() };
    let request = sent(model(options, &both), both).await.unwrap();
    assert_eq!(request.headers.get("authorization"), Some("Bearer own"));
    let host = TestHost::default();
    let error = sent(model(amazon_bedrock::Options::default(), &host), host).await.unwrap_err();
    assert!(matches!(error.kind(), AIErrorKind::Authentication { .. }), "{error:?}");
}
