//! Access tokens of Google Cloud from application default credentials.
//!
//! Wire formats: the credentials files of the gcloud tools; OAuth 2.0 token endpoint with a refresh
//! token (RFC 6749 section 6) or a signed assertion (RFC 7523).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;
use url::form_urlencoded;

use super::{AuthFn, AuthInput, Secret};
use crate::protocols::shared::json_text;
use crate::route::executor::HttpRequest;
use crate::route::headers::Headers;
use crate::route::host::Host;
use crate::schema::errors::{AIError, AIErrorKind, AuthenticationKind};

/// What a token allows.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Where tokens come from, unless the credentials say otherwise.
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// How long an assertion is valid, and a token whose answer does not say.
const LIFETIME_SECONDS: i64 = 3600;
/// A token is used no longer than this long before its end.
const MARGIN_SECONDS: i64 = 60;
/// How long the token endpoint may take.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer of the token endpoint.
const MAX_ANSWER: usize = 64 * 1024;

/// Bearer tokens from the credentials that the gcloud tools leave, or of a service account. A token is
/// kept until shortly before its end.
#[derive(Clone, Debug, Default)]
pub struct GoogleDefault {
    token: Arc<Mutex<Option<Token>>>,
}

#[derive(Clone, Debug)]
struct Token {
    secret: Secret,
    until: DateTime<Utc>,
}

impl AuthFn for GoogleDefault {
    fn apply<'a>(&'a self, input: AuthInput<'a>, mut headers: Headers) -> BoxFuture<'a, Result<Headers, AIError>> {
        Box::pin(async move {
            let now = input.host.now();
            let kept = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let token = match kept.filter(|token| now < token.until) {
                Some(token) => token,
                None => {
                    let token = fetch(input).await?;
                    *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                    token
                }
            };
            headers.set("authorization", format!("Bearer {}", token.secret.expose()));
            Ok(headers)
        })
    }
}

/// A credentials file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Stored {
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
    },
    ServiceAccount {
        client_email: String,
        private_key: String,
        #[serde(default)]
        private_key_id: Option<String>,
        #[serde(default)]
        token_uri: Option<String>,
    },
    #[serde(other)]
    Other,
}

/// The answer of the token endpoint.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    expires_in: Option<i64>,
}

async fn fetch(input: AuthInput<'_>) -> Result<Token, AIError> {
    let (path, text) = find(input.host).await?;
    let stored: Stored = serde_json::from_str(&text)
        .map_err(|error| unusable(&format!("{} is no credentials file: {error}", path.display())))?;
    let now = input.host.now();
    let (url, form) = match stored {
        Stored::AuthorizedUser { client_id, client_secret, refresh_token } => {
            let form = [
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", client_id),
                ("client_secret", client_secret),
                ("refresh_token", refresh_token),
            ];
            (TOKEN_URL.to_owned(), form.to_vec())
        }
        Stored::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
            let url = token_uri.unwrap_or_else(|| TOKEN_URL.to_owned());
            let assertion = assertion(&client_email, &private_key, private_key_id.as_deref(), &url, now)
                .map_err(|problem| unusable(&format!("{}: {problem}", path.display())))?;
            let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
            (url, vec![("grant_type", grant), ("assertion", assertion)])
        }
        Stored::Other => {
            return Err(unusable(&format!(
                "{} holds credentials of a kind that abide cannot use; run gcloud auth application-default login, \
                 or set accessToken",
                path.display()
            )));
        }
    };
    let granted = grant(input, &url, &form).await?;
    let seconds = granted.expires_in.unwrap_or(LIFETIME_SECONDS).clamp(0, LIFETIME_SECONDS);
    let until = now + TimeDelta::seconds(seconds.saturating_sub(MARGIN_SECONDS));
    Ok(Token { secret: granted.access_token.into(), until })
}

/// The first credentials file that there is, with its text.
async fn find(host: &dyn Host) -> Result<(PathBuf, String), AIError> {
    let variable = |name: &str| host.env(name).filter(|value| !value.trim().is_empty()).map(PathBuf::from);
    let name = "application_default_credentials.json";
    if let Some(path) = variable("GOOGLE_APPLICATION_CREDENTIALS") {
        return match host.read(&path).await {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(missing(&format!("GOOGLE_APPLICATION_CREDENTIALS names {}: {error}", path.display()))),
        };
    }
    let gcloud = variable("CLOUDSDK_CONFIG")
        .or_else(|| variable("HOME").map(|home| home.join(".config").join("gcloud")))
        .or_else(|| variable("APPDATA").map(|data| data.join("gcloud")));
    if let Some(path) = gcloud.map(|folder| folder.join(name))
        && let Ok(text) = host.read(&path).await
    {
        return Ok((path, text));
    }
    Err(missing(
        "Missing auth credential: accessToken or application default credentials \
         (GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login)",
    ))
}

/// A signed statement of who asks, for whom and until when.
fn assertion(
    email: &str,
    private_key: &str,
    key_id: Option<&str>,
    audience: &str,
    now: DateTime<Utc>,
) -> Result<String, String> {
    let mut header = json!({ "alg": "RS256", "typ": "JWT" });
    if let (Some(id), Some(header)) = (key_id, header.as_object_mut()) {
        header.insert("kid".to_owned(), id.into());
    }
    let issued = now.timestamp();
    let claims = json!({
        "iss": email,
        "scope": SCOPE,
        "aud": audience,
        "iat": issued,
        "exp": issued.saturating_add(LIFETIME_SECONDS),
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(json_text(value));
    let signed = format!("{}.{}", part(&header), part(&claims));
    let pem: String = private_key.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(pem).map_err(|_| "the private key is not PEM".to_owned())?;
    let key = RsaKeyPair::from_pkcs8(&der).map_err(|error| format!("the private key cannot be used: {error}"))?;
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| "the private key cannot sign".to_owned())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

async fn grant(input: AuthInput<'_>, url: &str, form: &[(&str, String)]) -> Result<Granted, AIError> {
    let url = Url::parse(url).map_err(|error| unusable(&format!("the token address {url:?}: {error}")))?;
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = HttpRequest {
        method: "POST".to_owned(),
        url,
        headers: Headers::from_iter([("content-type", "application/x-www-form-urlencoded")]),
        body: body.into(),
    };
    let exchange = async {
        let mut response = input.http.execute(request).await?;
        let mut answer = Vec::new();
        while let Some(chunk) = response.body.next().await {
            let chunk = chunk?;
            if answer.len().saturating_add(chunk.len()) > MAX_ANSWER {
                return Err(unusable("the token endpoint sent too much"));
            }
            answer.extend_from_slice(&chunk);
        }
        Ok((response.status, answer))
    };
    let Ok(done) = timeout(TOKEN_TIMEOUT, exchange).await else {
        return Err(unusable("the token endpoint did not answer in time"));
    };
    let (status, answer) = done?;
    if status >= 400 {
        let said: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let reason = ["error_description", "error"].iter().find_map(|name| said.get(*name)?.as_str());
        return Err(AIError::new(
            AIErrorKind::Authentication { kind: AuthenticationKind::Expired },
            format!("Google refuses the stored credentials (HTTP {status}): {}", reason.unwrap_or("no reason given")),
        ));
    }
    serde_json::from_slice(&answer).map_err(|error| unusable(&format!("the token endpoint sent no token: {error}")))
}

fn missing(message: &str) -> AIError {
    AIError::new(AIErrorKind::Authentication { kind: AuthenticationKind::Missing }, message)
}

fn unusable(message: &str) -> AIError {
    AIError::new(AIErrorKind::Authentication { kind: AuthenticationKind::Invalid }, message)
}
