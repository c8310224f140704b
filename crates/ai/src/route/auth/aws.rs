//! Signatures of requests to AWS, version 4, and where credentials come from.
//!
//! The signature itself is Amazon's own code; ours is the choice of what is signed and the lookup.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::{AuthFn, AuthInput, Secret};
use crate::route::headers::Headers;
use crate::route::host::Host;
use crate::schema::errors::{AIError, AIErrorKind, AuthenticationKind};

/// Headers that change on the way or are set after signing.
const UNSIGNED: [&str; 14] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-amzn-trace-id",
];

/// Keys of an AWS account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsCredentials {
    /// The id of the key.
    pub access_key_id: Secret,
    /// The key.
    pub secret_access_key: Secret,
    /// The token of temporary keys.
    pub session_token: Option<Secret>,
}

/// Signs requests to one service in one region.
#[derive(Clone, Debug)]
pub struct AwsSignature {
    /// `bedrock`, for example.
    pub service: &'static str,
    /// The region.
    pub region: String,
    /// Known keys; without them the environment and the files of the AWS tools are asked.
    pub credentials: Option<AwsCredentials>,
    /// The profile in those files; `AWS_PROFILE`, else `default`, when absent.
    pub profile: Option<String>,
}

impl AuthFn for AwsSignature {
    fn apply<'a>(&'a self, input: AuthInput<'a>, headers: Headers) -> BoxFuture<'a, Result<Headers, AIError>> {
        Box::pin(async move {
            let credentials = match &self.credentials {
                Some(credentials) => credentials.clone(),
                None => self.find(input.host).await?.ok_or_else(missing)?,
            };
            self.sign(input, headers, &credentials)
        })
    }
}

impl AwsSignature {
    fn sign(
        &self,
        input: AuthInput<'_>,
        mut headers: Headers,
        credentials: &AwsCredentials,
    ) -> Result<Headers, AIError> {
        let identity = Credentials::new(
            credentials.access_key_id.expose(),
            credentials.secret_access_key.expose(),
            credentials.session_token.as_ref().map(|token| token.expose().to_owned()),
            None,
            "abide",
        )
        .into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(SystemTime::from(input.host.now()))
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(&error))?
            .into();
        let signed = headers.iter().filter(|(name, _)| !UNSIGNED.contains(name));
        let request = SignableRequest::new(input.method, input.url.as_str(), signed, SignableBody::Bytes(input.body))
            .map_err(|error| unsigned(&error))?;
        let (instructions, _) = sign(request, &params).map_err(|error| unsigned(&error))?.into_parts();
        headers.merge(instructions.headers());
        Ok(headers)
    }

    /// The keys of the environment, of a profile, or of the program a profile names.
    async fn find(&self, host: &dyn Host) -> Result<Option<AwsCredentials>, AIError> {
        if self.profile.is_none()
            && let Some(found) = from_environment(host)
        {
            return Ok(Some(found));
        }
        let profile = self.profile.clone().or_else(|| variable(host, "AWS_PROFILE"));
        let name = profile.unwrap_or_else(|| "default".to_owned());
        for (path, section) in files(host, &name) {
            let Ok(text) = host.read(&path).await else { continue };
            let Some(found) = section_of(&text, &section) else { continue };
            if let Some(credentials) = found.credentials() {
                return Ok(Some(credentials));
            }
            if let Some(command) = found.process {
                return from_process(host, &command).await.map(Some);
            }
        }
        Ok(None)
    }
}

fn variable(host: &dyn Host, name: &str) -> Option<String> {
    host.env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn from_environment(host: &dyn Host) -> Option<AwsCredentials> {
    Some(AwsCredentials {
        access_key_id: variable(host, "AWS_ACCESS_KEY_ID")?.into(),
        secret_access_key: variable(host, "AWS_SECRET_ACCESS_KEY")?.into(),
        session_token: variable(host, "AWS_SESSION_TOKEN").map(Secret::from),
    })
}

/// The files of the AWS tools and the section of a profile in each.
fn files(host: &dyn Host, profile: &str) -> Vec<(PathBuf, String)> {
    let home = variable(host, "HOME").or_else(|| variable(host, "USERPROFILE")).map(PathBuf::from);
    let path = |name: &str, file: &str| {
        let own = variable(host, name).map(PathBuf::from);
        own.or_else(|| home.as_ref().map(|home| home.join(".aws").join(file)))
    };
    let section = if profile == "default" { "default".to_owned() } else { format!("profile {profile}") };
    [
        path("AWS_SHARED_CREDENTIALS_FILE", "credentials").map(|path| (path, profile.to_owned())),
        path("AWS_CONFIG_FILE", "config").map(|path| (path, section)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a profile says about credentials.
#[derive(Debug, Default)]
struct Section {
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    session_token: Option<String>,
    process: Option<String>,
}

impl Section {
    fn credentials(&self) -> Option<AwsCredentials> {
        Some(AwsCredentials {
            access_key_id: self.access_key_id.as_deref()?.into(),
            secret_access_key: self.secret_access_key.as_deref()?.into(),
            session_token: self.session_token.as_deref().map(Secret::from),
        })
    }
}

/// A section of a file of `[name]` lines and `key = value` lines.
fn section_of(text: &str, wanted: &str) -> Option<Section> {
    let mut found: Option<Section> = None;
    let mut is_wanted = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')).map(|(name, _)| name) {
            is_wanted = name.split_whitespace().eq(wanted.split_whitespace());
            if is_wanted {
                found.get_or_insert_default();
            }
            continue;
        }
        let (Some(section), Some((key, value))) = (found.as_mut().filter(|_| is_wanted), line.split_once('=')) else {
            continue;
        };
        let field = match key.trim() {
            "aws_access_key_id" => &mut section.access_key_id,
            "aws_secret_access_key" => &mut section.secret_access_key,
            "aws_session_token" => &mut section.session_token,
            "credential_process" => &mut section.process,
            _ => continue,
        };
        let value = value.trim();
        *field = (!value.is_empty()).then(|| value.to_owned());
    }
    found
}

/// What a `credential_process` prints, version 1.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    access_key_id: String,
    secret_access_key: String,
    #[serde(default)]
    session_token: Option<String>,
}

async fn from_process(host: &dyn Host, command: &str) -> Result<AwsCredentials, AIError> {
    let failed = |problem: String| {
        // The command line may hold secrets, so only its program is named.
        let program = command.split_whitespace().next().map(Path::new).and_then(Path::file_name).unwrap_or_default();
        AIError::new(
            AIErrorKind::Authentication { kind: AuthenticationKind::Missing },
            format!("the AWS credential_process \"{}\" gave no credentials: {problem}", program.display()),
        )
    };
    let output = host.run(command).await.map_err(|error| failed(error.to_string()))?;
    let printed: Printed = serde_json::from_str(&output).map_err(|error| failed(error.to_string()))?;
    Ok(AwsCredentials {
        access_key_id: printed.access_key_id.into(),
        secret_access_key: printed.secret_access_key.into(),
        session_token: printed.session_token.map(Secret::from),
    })
}

fn missing() -> AIError {
    AIError::new(
        AIErrorKind::Authentication { kind: AuthenticationKind::Missing },
        "Missing auth credential: a bearer token (AWS_BEARER_TOKEN_BEDROCK) or AWS credentials \
         (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)",
    )
}

fn unsigned(error: &dyn std::error::Error) -> AIError {
    AIError::invalid_request(format!("the request to AWS cannot be signed: {error}"))
}
