//! Writes what happens into a cassette.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;

use super::cassette::{
    BodyEncoding, Cassette, CassetteError, Interaction, RecordedFrame, RecordedOpen, RecordedResponse,
};
use super::redact::{Redaction, redact_body, response_headers};
use super::scripted::{ScriptedBody, response};
use super::sockets::recorded;
use crate::route::executor::{HttpExecutor, HttpRequest, HttpResponse};
use crate::route::transport::websocket::{Socket, SocketRequest, WebSocketConnector, socket_details};
use crate::schema::JsonObject;
use crate::schema::errors::{AIError, TransportOperation};

/// Passes requests to another executor and remembers the exchanges, in call order.
#[derive(Clone)]
pub struct RecordExecutor {
    inner: Arc<dyn HttpExecutor>,
    redaction: Redaction,
    interactions: Arc<Mutex<Vec<Slot>>>,
    connector: Option<Arc<dyn WebSocketConnector>>,
}

/// One interaction, as far as it came.
#[derive(Clone)]
enum Slot {
    Http(Option<Interaction>),
    Socket(RecordedOpen, Arc<Mutex<Vec<RecordedFrame>>>),
}

impl Slot {
    fn interaction(&self) -> Option<Interaction> {
        match self {
            Self::Http(interaction) => interaction.clone(),
            Self::Socket(open, frames) => {
                let events = frames.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Some(Interaction::Websocket { open: open.clone(), events })
            }
        }
    }
}

impl RecordExecutor {
    /// Records what `inner` does.
    pub fn new(inner: Arc<dyn HttpExecutor>, redaction: Redaction) -> Self {
        Self { inner, redaction, interactions: Arc::default(), connector: None }
    }

    /// Records sockets too.
    pub fn with_connector(self, connector: Arc<dyn WebSocketConnector>) -> Self {
        Self { connector: Some(connector), ..self }
    }

    /// Writes the cassette; `env` are variables whose values must not be in it.
    ///
    /// # Errors
    /// See [`Cassette::save`].
    pub fn save(
        &self,
        dir: &Path,
        name: &str,
        metadata: JsonObject,
        env: &[(String, String)],
    ) -> Result<PathBuf, CassetteError> {
        let interactions = self.interactions.lock().unwrap_or_else(PoisonError::into_inner);
        let cassette = Cassette {
            version: 1,
            metadata,
            interactions: interactions.iter().filter_map(Slot::interaction).collect(),
        };
        drop(interactions);
        cassette.save(dir, name, env)
    }
}

impl HttpExecutor for RecordExecutor {
    fn execute(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, AIError>> {
        let recorded = self.redaction.request(&request);
        let interactions = Arc::clone(&self.interactions);
        let slot = {
            let mut list = interactions.lock().unwrap_or_else(PoisonError::into_inner);
            list.push(Slot::Http(None));
            list.len() - 1
        };
        let sent = self.inner.execute(request);
        Box::pin(async move {
            let mut answer = sent.await?;
            let mut bytes = BytesMut::new();
            while let Some(chunk) = answer.body.next().await {
                bytes.extend_from_slice(&chunk?);
            }
            let bytes = bytes.freeze();
            let kind = answer.headers.get("content-type").unwrap_or_default();
            let text = if is_textual(kind) { std::str::from_utf8(&bytes).ok() } else { None };
            let (body, body_encoding) = match text {
                Some(text) => (redact_body(text), None),
                None => (STANDARD.encode(&bytes), Some(BodyEncoding::Base64)),
            };
            let interaction = Interaction::Http {
                request: recorded,
                response: RecordedResponse {
                    status: answer.status,
                    headers: response_headers(&answer.headers),
                    body,
                    body_encoding,
                },
            };
            if let Some(place) = interactions.lock().unwrap_or_else(PoisonError::into_inner).get_mut(slot) {
                *place = Slot::Http(Some(interaction));
            }
            Ok(response(answer.status, answer.headers, ScriptedBody::bytes(bytes)))
        })
    }
}

impl WebSocketConnector for RecordExecutor {
    fn connect(&self, request: SocketRequest) -> BoxFuture<'static, Result<Socket, AIError>> {
        let Some(connector) = &self.connector else {
            let details = socket_details(TransportOperation::Request, Some(&request.url));
            let error = AIError::transport(details, "this recorder has no connector for sockets");
            return Box::pin(std::future::ready(Err(error)));
        };
        let opening = connector.connect(request.clone());
        let (open, interactions) = (self.redaction.open(&request), Arc::clone(&self.interactions));
        Box::pin(async move {
            let socket = opening.await?;
            let frames = Arc::default();
            let slot = Slot::Socket(open, Arc::clone(&frames));
            interactions.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
            Ok(recorded(socket, frames))
        })
    }
}

/// Whether a media type is written as text.
pub fn is_textual(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind.as_str(),
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/yaml"
                | "application/graphql"
                | "application/sql"
                | "application/x-www-form-urlencoded"
                | "image/svg+xml"
        )
}
