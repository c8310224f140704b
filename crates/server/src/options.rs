//! How the API is served.

use std::path::PathBuf;
use std::time::Duration;

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password; not empty.
    pub password: String,
}

impl Credentials {
    /// The name that is meant when none is configured.
    pub const DEFAULT_USERNAME: &'static str = "opencode";

    /// Makes credentials; an empty password means none are wanted.
    pub fn new(username: Option<String>, password: Option<String>) -> Option<Self> {
        let password = password.filter(|password| !password.is_empty())?;
        let username = username.filter(|name| !name.is_empty()).unwrap_or_else(|| Self::DEFAULT_USERNAME.to_owned());
        Some(Self { username, password })
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// How the API is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The location of requests that select none: an absolute path.
    pub directory: PathBuf,
    /// What a client must know; absent: nothing. Required when the listener is not on loopback.
    pub credentials: Option<Credentials>,
    /// Origins of web pages that may use the API, beyond those of this machine; exact, for example
    /// `https://app.example`.
    pub origins: Vec<String>,
    /// How often a quiet event stream sends a comment.
    pub heartbeat: Duration,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// How long a request body may take to arrive.
    pub body_timeout: Duration,
    /// The most connections at a time; more wait to be accepted.
    pub max_connections: usize,
    /// How long running requests may go on after the server was told to stop.
    pub grace: Duration,
}

impl ServeOptions {
    /// The defaults, for a directory: no credentials, a comment every 15 seconds, bodies of at most 64 MiB.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            credentials: None,
            origins: Vec::new(),
            heartbeat: Duration::from_secs(15),
            // A prompt with a few pictures of some megabytes each, in base64.
            max_body: 64 << 20,
            body_timeout: Duration::from_mins(1),
            max_connections: 1024,
            grace: Duration::from_secs(5),
        }
    }
}
