//! A client of the API: one call for each operation, and event streams that come back after a broken connection.

mod events;
mod sse;

use std::time::Duration;

use abide_schema::agent::AgentInfo;
use abide_schema::location::LocationInfo;
use abide_schema::message::Message;
use abide_schema::model::ModelRef;
use abide_schema::permission::{PermissionRequest, Reply as PermissionReply};
use abide_schema::question::{Answer, QuestionRequest};
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{AgentId, MessageId, PermissionId, QuestionId, SessionId};
use base64::Engine as _;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::body::{CreateSession, NoBody, ReplyPermission, ReplyQuestion, SendPrompt, SwitchAgent, SwitchModel};
use crate::error::ErrorTag;
use crate::query::{MessagesQuery, NoQuery, SessionsQuery, ViewQuery};
use crate::route::{BodyUse, Endpoint, Method, Query as _, Route, encode};
use crate::routes;
use crate::view::{Shown, ViewKind};
use crate::wire::{ListPage, ModelInfo, ProviderInfo};

pub use events::{EventEnvelope, EventStream, LogItem, LogStream};

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 256 << 20;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server's address is none.
    #[error("{url:?} is no address of a server: give a URL such as http://127.0.0.1:4096")]
    Url {
        /// What was given.
        url: String,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("the server at {url} does not answer: {source}")]
    Transport {
        /// The server.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("{message} ({tag}, status {status})")]
    Api {
        /// The HTTP status.
        status: u16,
        /// The `_tag` of the body; the status in words when the body has none.
        tag: String,
        /// Text for people.
        message: String,
        /// The body.
        body: Value,
    },
    /// The answer is none of this API.
    #[error("the server at {url} does not speak this API: {reason}")]
    Decode {
        /// The server.
        url: String,
        /// What does not fit.
        reason: String,
    },
}

impl ClientError {
    /// Says whether the server refused with this tag.
    pub fn is(&self, wanted: ErrorTag) -> bool {
        matches!(self, Self::Api { tag, .. } if tag == wanted.as_str())
    }
}

/// Where a server is, and who asks.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// The server, for example `http://127.0.0.1:4096`.
    pub url: String,
    /// The user name; the server's default when there is only a password.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The location of calls that need one, and of new sessions; the server's own by default.
    pub directory: Option<String>,
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions")
            .field("url", &self.url)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// A client. Cheap to clone.
///
/// # Cancel safety
/// Every call may be dropped: what it asked for may or may not have happened. Creating a session or sending a prompt
/// again with the same id is harmless.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    authorization: Option<reqwest::header::HeaderValue>,
    directory: Option<String>,
}

impl Client {
    /// Makes a client. Nothing is sent yet. Installs the `ring` provider of rustls for the process unless one is.
    ///
    /// # Errors
    /// [`ClientError::Url`] when the address is none, [`ClientError::Transport`] when TLS cannot be set up.
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Losing the race to another installer is fine: one is there.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let url = options.url.trim_end_matches('/').to_owned();
        let parsed = reqwest::Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none() {
            return Err(ClientError::Url { url: options.url.clone() });
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .build()
            .map_err(|source| ClientError::Transport { url: url.clone(), source })?;
        let authorization = options.password.as_ref().filter(|password| !password.is_empty()).and_then(|password| {
            let user = options.username.as_deref().unwrap_or("opencode");
            let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            let mut value = reqwest::header::HeaderValue::from_str(&format!("Basic {text}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Ok(Self { http, url, authorization, directory: options.directory.clone() })
    }

    /// Returns the server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn call<E: Endpoint>(
        &self,
        params: &[&str],
        query: &E::Query,
        body: &E::Body,
    ) -> Result<E::Reply, ClientError>
    where
        E::Body: Serialize,
        E::Reply: DeserializeOwned,
    {
        let route = E::OP.route();
        let mut request = self.request(route, params, &query.pairs());
        if route.body != BodyUse::None {
            let text = serde_json::to_vec(body).map_err(|error| self.misfit(&error))?;
            request = request.header(reqwest::header::CONTENT_TYPE, "application/json").body(text);
        }
        let response = request.send().await.map_err(|source| self.transport(source))?;
        let bytes = self.checked_bytes(response).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(bytes).map_err(|error| self.misfit(&error))
    }

    fn request(&self, route: &Route, params: &[&str], pairs: &[(&'static str, String)]) -> reqwest::RequestBuilder {
        let mut query: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        if let (true, Some(directory)) = (route.located, &self.directory) {
            query.push(format!("{}={}", encode("location[directory]"), encode(directory)));
        }
        let mut url = format!("{}{}", self.url, route.path_with(params));
        if !query.is_empty() {
            url.push('?');
            url.push_str(&query.join("&"));
        }
        let method = match route.method {
            Method::GET => reqwest::Method::GET,
            Method::POST => reqwest::Method::POST,
            Method::PUT => reqwest::Method::PUT,
            Method::PATCH => reqwest::Method::PATCH,
            Method::DELETE => reqwest::Method::DELETE,
        };
        let mut request = self.http.request(method, url);
        if let Some(authorization) = &self.authorization {
            request = request.header(reqwest::header::AUTHORIZATION, authorization.clone());
        }
        if let Some(directory) = &self.directory {
            request = request.header("x-opencode-directory", encode(directory));
        }
        request
    }

    async fn checked_bytes(&self, response: reqwest::Response) -> Result<Vec<u8>, ClientError> {
        let status = response.status();
        let mut out = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|source| self.transport(source))?;
            if out.len().saturating_add(chunk.len()) > MAX_ANSWER {
                let reason = format!("the answer is larger than {MAX_ANSWER} bytes");
                return Err(ClientError::Decode { url: self.url.clone(), reason });
            }
            out.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(out);
        }
        let body: Value = serde_json::from_slice(&out).unwrap_or(Value::Null);
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        Err(ClientError::Api {
            status: status.as_u16(),
            tag: text("_tag").unwrap_or_else(|| status.canonical_reason().unwrap_or("error").to_owned()),
            message: text("message").unwrap_or_else(|| String::from_utf8_lossy(&out).chars().take(200).collect()),
            body,
        })
    }

    fn transport(&self, source: reqwest::Error) -> ClientError {
        // The URL of the error may hold a token.
        ClientError::Transport { url: self.url.clone(), source: source.without_url() }
    }

    fn misfit(&self, error: &serde_json::Error) -> ClientError {
        ClientError::Decode { url: self.url.clone(), reason: error.to_string() }
    }

    /// Asks whether the server answers.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.call::<routes::HealthGet>(&[], &NoQuery, &NoBody).await.map(|_| ())
    }

    /// Describes the client's location.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn location(&self) -> Result<LocationInfo, ClientError> {
        self.call::<routes::LocationGet>(&[], &NoQuery, &NoBody).await
    }

    /// Creates a session, or returns the one that has the id.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn create_session(&self, input: &CreateSession) -> Result<SessionInfo, ClientError> {
        Ok(self.call::<routes::SessionCreate>(&[], &NoQuery, input).await?.data.value)
    }

    /// Describes a session, additions included.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn session(&self, id: &SessionId) -> Result<SessionInfo, ClientError> {
        let query = ViewQuery { view: ViewKind::Full };
        Ok(self.call::<routes::SessionGet>(&[id.as_str()], &query, &NoBody).await?.data.value)
    }

    /// Lists sessions.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn sessions(&self, query: &SessionsQuery) -> Result<ListPage<Shown<SessionInfo>>, ClientError> {
        self.call::<routes::SessionList>(&[], query, &NoBody).await
    }

    /// Lists the sessions that run in the server.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn active(&self) -> Result<Vec<SessionId>, ClientError> {
        Ok(self.call::<routes::SessionActiveList>(&[], &NoQuery, &NoBody).await?.data.0.into_keys().collect())
    }

    /// Admits a prompt, and wakes the session.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn prompt(&self, session: &SessionId, input: &SendPrompt) -> Result<Admitted, ClientError> {
        Ok(self.call::<routes::SessionPrompt>(&[session.as_str()], &NoQuery, input).await?.data.value)
    }

    /// Waits until a session is idle, however long.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Transport`] when the server goes away meanwhile.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self, session: &SessionId) -> Result<(), ClientError> {
        self.call::<routes::SessionWait>(&[session.as_str()], &NoQuery, &NoBody).await.map(|_| ())
    }

    /// Interrupts what a session does; returns when it is settled.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn interrupt(&self, session: &SessionId) -> Result<(), ClientError> {
        self.call::<routes::SessionInterrupt>(&[session.as_str()], &NoQuery, &NoBody).await.map(|_| ())
    }

    /// Asks for a compaction.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn compact(&self, session: &SessionId) -> Result<(), ClientError> {
        self.call::<routes::SessionCompact>(&[session.as_str()], &NoQuery, &NoBody).await.map(|_| ())
    }

    /// Chooses the agent of the next steps.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn switch_agent(&self, session: &SessionId, agent: AgentId) -> Result<(), ClientError> {
        let body = SwitchAgent { agent };
        self.call::<routes::SessionSwitchAgent>(&[session.as_str()], &NoQuery, &body).await.map(|_| ())
    }

    /// Chooses the model of the next steps.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn switch_model(&self, session: &SessionId, model: ModelRef) -> Result<(), ClientError> {
        let body = SwitchModel { model };
        self.call::<routes::SessionSwitchModel>(&[session.as_str()], &NoQuery, &body).await.map(|_| ())
    }

    /// Lists messages; ask for [`ViewKind::Full`] to get additions too.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn messages(
        &self,
        session: &SessionId,
        query: &MessagesQuery,
    ) -> Result<ListPage<Shown<Message>>, ClientError> {
        // Decoding needs the additions.
        let query = MessagesQuery { view: ViewKind::Full, ..query.clone() };
        self.call::<routes::MessageList>(&[session.as_str()], &query, &NoBody).await
    }

    /// Reads a message, additions included.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn message(&self, session: &SessionId, message: &MessageId) -> Result<Message, ClientError> {
        let (params, query) = ([session.as_str(), message.as_str()], ViewQuery { view: ViewKind::Full });
        Ok(self.call::<routes::MessageGet>(&params, &query, &NoBody).await?.data.value)
    }

    /// Lists the pending permission requests of a session.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn permissions(&self, session: &SessionId) -> Result<Vec<PermissionRequest>, ClientError> {
        let answer = self.call::<routes::PermissionList>(&[session.as_str()], &NoQuery, &NoBody).await?;
        Ok(answer.data.into_iter().map(|request| request.value).collect())
    }

    /// Answers a permission request; words go to the model, with `reject`.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn reply_permission(
        &self,
        session: &SessionId,
        request: &PermissionId,
        reply: PermissionReply,
        message: Option<String>,
    ) -> Result<(), ClientError> {
        let (params, body) = ([session.as_str(), request.as_str()], ReplyPermission { reply, message });
        self.call::<routes::PermissionReply>(&params, &NoQuery, &body).await.map(|_| ())
    }

    /// Lists the pending questions of a session.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn questions(&self, session: &SessionId) -> Result<Vec<QuestionRequest>, ClientError> {
        let answer = self.call::<routes::QuestionList>(&[session.as_str()], &NoQuery, &NoBody).await?;
        Ok(answer.data.into_iter().map(|request| request.value).collect())
    }

    /// Answers a question request: one list of labels for each question.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn reply_question(
        &self,
        session: &SessionId,
        request: &QuestionId,
        answers: Vec<Answer>,
    ) -> Result<(), ClientError> {
        let (params, body) = ([session.as_str(), request.as_str()], ReplyQuestion { answers });
        self.call::<routes::QuestionReply>(&params, &NoQuery, &body).await.map(|_| ())
    }

    /// Dismisses a question request.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// See [`Client`].
    pub async fn reject_question(&self, session: &SessionId, request: &QuestionId) -> Result<(), ClientError> {
        let params = [session.as_str(), request.as_str()];
        self.call::<routes::QuestionReject>(&params, &NoQuery, &NoBody).await.map(|_| ())
    }

    /// Lists the agents of the client's location.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn agents(&self) -> Result<Vec<AgentInfo>, ClientError> {
        let answer = self.call::<routes::AgentList>(&[], &NoQuery, &NoBody).await?;
        Ok(answer.data.into_iter().map(|agent| agent.value).collect())
    }

    /// Lists the models of the client's location.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn models(&self) -> Result<Vec<ModelInfo>, ClientError> {
        Ok(self.call::<routes::ModelList>(&[], &NoQuery, &NoBody).await?.data)
    }

    /// Lists the providers of the client's location.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn providers(&self) -> Result<Vec<ProviderInfo>, ClientError> {
        Ok(self.call::<routes::ProviderList>(&[], &NoQuery, &NoBody).await?.data)
    }
}
