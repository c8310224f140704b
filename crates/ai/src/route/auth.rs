//! Per-request authentication.

mod aws;
mod google;

pub use aws::{AwsCredentials, AwsSignature};
pub use google::GoogleDefault;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use url::Url;

use super::executor::HttpExecutor;
use super::headers::Headers;
use super::host::Host;
use crate::schema::errors::{AIError, AIErrorKind, AuthenticationKind};
use crate::schema::request::LLMRequest;

/// A secret text; prints as `<redacted>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// What auth sees of a request.
#[derive(Clone, Copy)]
pub struct AuthInput<'a> {
    /// The canonical request.
    pub request: &'a LLMRequest,
    /// `POST`.
    pub method: &'a str,
    /// The final URL.
    pub url: &'a Url,
    /// The exact bytes of the body.
    pub body: &'a [u8],
    /// Environment and clock.
    pub host: &'a dyn Host,
    /// The network, for credentials that must be fetched.
    pub http: &'a dyn HttpExecutor,
}

/// A loader of a credential.
pub type LazySecret = Arc<dyn Fn() -> BoxFuture<'static, Result<Option<Secret>, AIError>> + Send + Sync>;

/// Full control over the headers.
pub trait AuthFn: Send + Sync {
    /// Changes the headers of one request.
    ///
    /// # Errors
    /// Normally `Authentication`.
    ///
    /// # Cancel safety
    /// May be dropped at any await.
    fn apply<'a>(&'a self, input: AuthInput<'a>, headers: Headers) -> BoxFuture<'a, Result<Headers, AIError>>;
}

/// Where a secret comes from. An empty secret counts as missing.
#[derive(Clone)]
pub enum Credential {
    /// A known value.
    Value(Secret),
    /// A value that may be absent, with a name for error messages.
    Optional(Option<Secret>, Arc<str>),
    /// An environment variable.
    Env(Arc<str>),
    /// Loaded when needed, with a name for error messages.
    Lazy(LazySecret, Arc<str>),
    /// The first that is there.
    FirstOf(Arc<[Credential]>),
}

impl Credential {
    /// The second one if this is missing.
    pub fn or_else(self, other: Self) -> Self {
        Self::FirstOf(Arc::from([self, other]))
    }

    /// As `authorization: Bearer …`.
    pub fn bearer(self) -> Auth {
        Auth(Arc::new(AuthKind::Credential(self, Place::Bearer("authorization".into()))))
    }

    /// As `<name>: …`.
    pub fn header(self, name: &str) -> Auth {
        Auth(Arc::new(AuthKind::Credential(self, Place::Plain(name.into()))))
    }

    /// As `<name>: Bearer …`.
    pub fn bearer_header(self, name: &str) -> Auth {
        Auth(Arc::new(AuthKind::Credential(self, Place::Bearer(name.into()))))
    }

    /// Names the places that were looked at.
    fn source(&self) -> String {
        match self {
            Self::Value(_) => "apiKey".to_owned(),
            Self::Optional(_, name) | Self::Env(name) | Self::Lazy(_, name) => name.to_string(),
            Self::FirstOf(all) => all.iter().map(Self::source).collect::<Vec<_>>().join(" or "),
        }
    }

    fn load<'a>(&'a self, host: &'a dyn Host) -> BoxFuture<'a, Result<Option<Secret>, AIError>> {
        Box::pin(async move {
            let found = match self {
                Self::Value(secret) => Some(secret.clone()),
                Self::Optional(secret, _) => secret.clone(),
                Self::Env(name) => host.env(name).map(Secret::from),
                Self::Lazy(load, _) => load().await?,
                Self::FirstOf(all) => {
                    for credential in all.iter() {
                        if let Some(secret) = credential.load(host).await? {
                            return Ok(Some(secret));
                        }
                    }
                    None
                }
            };
            Ok(found.filter(|secret| !secret.expose().trim().is_empty()))
        })
    }
}

#[derive(Clone)]
enum Place {
    Plain(Arc<str>),
    Bearer(Arc<str>),
}

enum AuthKind {
    None,
    Credential(Credential, Place),
    Headers(Headers),
    Remove(String),
    Custom(Arc<dyn AuthFn>),
    AndThen(Auth, Auth),
    OrElse(Auth, Auth),
}

/// How a request proves who asks. Cheap to clone; `Debug` shows no secret.
#[derive(Clone)]
pub struct Auth(Arc<AuthKind>);

impl Auth {
    /// Leaves the headers alone.
    pub fn none() -> Self {
        Self(Arc::new(AuthKind::None))
    }

    /// `authorization: Bearer …`.
    pub fn bearer(secret: impl Into<Secret>) -> Self {
        Credential::Value(secret.into()).bearer()
    }

    /// `<name>: …`.
    pub fn header(name: &str, secret: impl Into<Secret>) -> Self {
        Credential::Value(secret.into()).header(name)
    }

    /// `<name>: Bearer …`.
    pub fn bearer_header(name: &str, secret: impl Into<Secret>) -> Self {
        Credential::Value(secret.into()).bearer_header(name)
    }

    /// Sets headers.
    pub fn headers(headers: Headers) -> Self {
        Self(Arc::new(AuthKind::Headers(headers)))
    }

    /// Drops a header.
    pub fn remove(name: &str) -> Self {
        Self(Arc::new(AuthKind::Remove(name.to_owned())))
    }

    /// Full control.
    pub fn custom(auth: impl AuthFn + 'static) -> Self {
        Self(Arc::new(AuthKind::Custom(Arc::new(auth))))
    }

    /// A credential from an environment variable.
    pub fn config(env: &str) -> Credential {
        Credential::Env(env.into())
    }

    /// A credential that may be absent.
    pub fn optional(value: Option<Secret>, name: &str) -> Credential {
        Credential::Optional(value, name.into())
    }

    /// A credential.
    pub fn value(secret: impl Into<Secret>) -> Credential {
        Credential::Value(secret.into())
    }

    /// A credential loaded when needed.
    pub fn lazy(load: LazySecret, name: &str) -> Credential {
        Credential::Lazy(load, name.into())
    }

    /// Applies `other` to the headers of this one.
    pub fn and_then(self, other: Self) -> Self {
        Self(Arc::new(AuthKind::AndThen(self, other)))
    }

    /// Applies `other` when the credential of this one is missing.
    pub fn or_else(self, other: Self) -> Self {
        Self(Arc::new(AuthKind::OrElse(self, other)))
    }

    /// Adds authentication to the headers of one request.
    ///
    /// # Errors
    /// `Authentication(missing)` naming the source when a credential is not there.
    ///
    /// # Cancel safety
    /// May be dropped at any await.
    pub fn apply<'a>(&'a self, input: AuthInput<'a>, mut headers: Headers) -> BoxFuture<'a, Result<Headers, AIError>> {
        Box::pin(async move {
            match &*self.0 {
                AuthKind::None => {}
                AuthKind::Credential(credential, place) => {
                    let Some(secret) = credential.load(input.host).await? else {
                        return Err(missing(&credential.source()));
                    };
                    let secret = secret.expose().trim();
                    match place {
                        Place::Plain(name) => headers.set(name, secret),
                        Place::Bearer(name) => headers.set(name, format!("Bearer {secret}")),
                    }
                }
                AuthKind::Headers(set) => headers.merge(set.iter()),
                AuthKind::Remove(name) => headers.remove(name),
                AuthKind::Custom(auth) => return auth.apply(input, headers).await,
                AuthKind::AndThen(first, second) => {
                    let headers = first.apply(input, headers).await?;
                    return second.apply(input, headers).await;
                }
                AuthKind::OrElse(first, second) => {
                    return match first.apply(input, headers.clone()).await {
                        Err(error) if is_missing(&error) => second.apply(input, headers).await,
                        done => done,
                    };
                }
            }
            Ok(headers)
        })
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth(<redacted>)")
    }
}

fn missing(source: &str) -> AIError {
    AIError::new(
        AIErrorKind::Authentication { kind: AuthenticationKind::Missing },
        format!("Missing auth credential: {source}"),
    )
}

fn is_missing(error: &AIError) -> bool {
    matches!(error.kind(), AIErrorKind::Authentication { kind: AuthenticationKind::Missing })
}
