//! Writes what happens into a cassette.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;

use super::cassette::{BodyEncoding, Cassette, CassetteError, Interaction, RecordedResponse};
use super::redact::{Redaction, redact_body, response_headers};
use super::scripted::{ScriptedBody, response};
use crate::route::executor::{HttpExecutor, HttpRequest, HttpResponse};
use crate::schema::JsonObject;
use crate::schema::errors::AIError;

/// Passes requests to another executor and remembers the exchanges, in call order.
#[derive(Clone)]
pub struct RecordExecutor {
    inner: Arc<dyn HttpExecutor>,
    redaction: Redaction,
    interactions: Arc<Mutex<Vec<Option<Interaction>>>>,
}

impl RecordExecutor {
    /// Records what `inner` does.
    pub fn new(inner: Arc<dyn HttpExecutor>, redaction: Redaction) -> Self {
        Self { inner, redaction, interactions: Arc::default() }
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
        let cassette =
            Cassette { version: 1, metadata, interactions: interactions.iter().flatten().cloned().collect() };
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
            list.push(None);
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
                *place = Some(interaction);
            }
            Ok(response(answer.status, answer.headers, ScriptedBody::bytes(bytes)))
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
        )
}
