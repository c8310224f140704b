//! One request on its way through a handler.

use std::sync::{Arc, Mutex, PoisonError};

use abide_protocol::error::{ApiError, InvalidKind};
use abide_protocol::query::{self, RawQuery};
use abide_protocol::route::{Body, Endpoint, Query as _, Route};
use abide_schema::id::IdError;
use abide_schema::location::LocationRef;
use abide_schema::session::SessionInfo;
use abide_schema::{SessionId, WorkspaceId};
use axum::body::Body as HttpBody;
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::backend::{Backend, Directory, Failure};
use crate::body::{self, BodyError};

const DIRECTORY_HEADER: &str = "x-opencode-directory";
const WORKSPACE_HEADER: &str = "x-opencode-workspace";

/// A request whose session, if the path names one, exists.
pub(crate) struct Context {
    pub(crate) app: App,
    pub(crate) route: &'static Route,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) query: RawQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) session: Option<SessionInfo>,
    /// Taken once. A body cannot be shared between threads, the context can.
    pub(crate) body: Mutex<HttpBody>,
}

/// Why a handler has no answer.
pub(crate) enum Refusal {
    /// The operation failed.
    Failure(Failure),
    /// The body is of another type than JSON.
    MediaType,
}

impl<T: Into<Failure>> From<T> for Refusal {
    fn from(failure: T) -> Self {
        Self::Failure(failure.into())
    }
}

impl Context {
    /// Returns the engine.
    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.app.backend
    }

    /// Returns a path parameter.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Reads a path parameter that is an id.
    pub(crate) fn id<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, IdError>) -> Result<T, ApiError> {
        parse(self.param(name)).map_err(|error| {
            let expected = format!("a string starting with {:?}", error.prefix);
            ApiError::expected(InvalidKind::Params, &expected, &format!("{:?}", error.value), &[name])
        })
    }

    /// Returns the session of the path.
    pub(crate) fn session(&self) -> Result<&SessionInfo, Failure> {
        self.session.as_ref().ok_or_else(|| Failure::internal(format!("{} names no session", self.route.path)))
    }

    /// Returns the session's id.
    pub(crate) fn session_id(&self) -> Result<&SessionId, Failure> {
        self.session().map(|session| &session.id)
    }

    /// Reads the query.
    pub(crate) fn query<E: Endpoint>(&self) -> Result<E::Query, ApiError> {
        E::Query::parse(&self.query)
    }

    /// Reads the body.
    pub(crate) async fn body<E: Endpoint>(&mut self) -> Result<E::Body, Refusal>
    where
        E::Body: Body + DeserializeOwned,
    {
        let options = &self.app.options;
        let http = std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner));
        let bytes = body::read(http, options.max_body, options.body_timeout).await?;
        body::decode(&self.headers, &bytes).map_err(|error| match error {
            BodyError::MediaType => Refusal::MediaType,
            BodyError::Api(error) => error.into(),
        })
    }

    /// Selects a location: the query, then the headers, then the server's directory (contract section 5).
    pub(crate) fn location(&self) -> Result<LocationRef, ApiError> {
        let (directory, workspace) = query::location(&self.query)?;
        let directory = directory.or_else(|| self.header(DIRECTORY_HEADER));
        let workspace_id = match (workspace, self.header(WORKSPACE_HEADER)) {
            (Some(workspace), _) => Some(workspace),
            (None, Some(text)) => Some(WorkspaceId::parse(&text).map_err(|error| {
                ApiError::invalid(InvalidKind::Query, format!("header {WORKSPACE_HEADER}: {error}"))
            })?),
            (None, None) => None,
        };
        match directory {
            Some(directory) => absolute(directory, workspace_id),
            None => Ok(LocationRef { directory: self.app.options.directory.display().to_string(), workspace_id }),
        }
    }

    fn header(&self, name: &str) -> Option<String> {
        let raw = self.headers.get(name)?.as_bytes();
        let text = percent_encoding::percent_decode(raw).decode_utf8_lossy().into_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Opens the selected location.
    pub(crate) async fn directory(&self) -> Result<Arc<dyn Directory>, Failure> {
        self.backend().directory(&self.location()?).await
    }
}

/// Takes a directory that a client named.
pub(crate) fn absolute(directory: String, workspace_id: Option<WorkspaceId>) -> Result<LocationRef, ApiError> {
    if directory.contains('\0') || !std::path::Path::new(&directory).is_absolute() {
        return Err(ApiError::expected(
            InvalidKind::Query,
            "an absolute path",
            &format!("{directory:?}"),
            &["location", "directory"],
        ));
    }
    Ok(LocationRef { directory, workspace_id })
}
