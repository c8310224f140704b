//! The convention of provider options: either `apiKey` or an explicit `auth`, never both.

use super::auth::{Auth, Credential, Secret};

/// How a provider is authenticated.
#[derive(Clone, Debug, Default)]
pub enum ProviderAuthOption {
    /// From the provider's environment variables.
    #[default]
    Environment,
    /// From this key, else the environment.
    ApiKey(Secret),
    /// Exactly so.
    Auth(Auth),
}

impl ProviderAuthOption {
    /// From a key that may be absent or empty.
    pub fn from_key(key: Option<String>) -> Self {
        match key {
            Some(key) if !key.trim().is_empty() => Self::ApiKey(key.into()),
            Some(_) | None => Self::Environment,
        }
    }
}

/// The common ways to render a [`ProviderAuthOption`].
#[derive(Clone, Copy, Debug)]
pub struct AuthOptions;

impl AuthOptions {
    /// `authorization: Bearer …`, from the option, else the variables in order.
    pub fn bearer(option: ProviderAuthOption, env: &[&str]) -> Auth {
        Self::render(option, env, Credential::bearer)
    }

    /// `<name>: …`, from the option, else the variables in order.
    pub fn header(option: ProviderAuthOption, env: &[&str], name: &str) -> Auth {
        Self::render(option, env, |credential| credential.header(name))
    }

    fn render(option: ProviderAuthOption, env: &[&str], place: impl FnOnce(Credential) -> Auth) -> Auth {
        match option {
            ProviderAuthOption::Auth(auth) => auth,
            ProviderAuthOption::ApiKey(key) => place(Credential::Value(key)),
            ProviderAuthOption::Environment if env.is_empty() => place(Credential::Optional(None, "apiKey".into())),
            ProviderAuthOption::Environment => {
                place(Credential::FirstOf(env.iter().map(|name| Credential::Env((*name).into())).collect()))
            }
        }
    }
}
