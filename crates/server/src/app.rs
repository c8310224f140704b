//! The router: one axum route for each row of the route table, and what all of them share.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use abide_protocol::error::ApiError;
use abide_protocol::query::RawQuery;
use abide_protocol::route::{Method, Route};
use abide_protocol::{Op, ROUTES};
use abide_schema::SessionId;
use axum::Router;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::backend::{Backend, Failure};
use crate::context::{Context, Refusal};
use crate::options::ServeOptions;
use crate::{guard, handlers, reply};

/// What every request sees.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) options: Arc<ServeOptions>,
    /// Whether the listener is on loopback, and `Host` must therefore name this machine.
    pub(crate) loopback: bool,
    /// Cancelled when the server stops.
    pub(crate) shutdown: CancellationToken,
}

/// Builds the router. `loopback` says whether the listener is on loopback; `shutdown` ends streams and waits.
pub fn router(options: ServeOptions, backend: Arc<dyn Backend>, loopback: bool, shutdown: CancellationToken) -> Router {
    let app = App { backend, options: Arc::new(options), loopback, shutdown };
    let mut router = Router::new();
    for route in ROUTES {
        let own = app.clone();
        let handler = move |params: RawPathParams, request: Request| {
            let app = own.clone();
            async move { answer(app, route, &params, request).await }
        };
        let path =
            route.path.strip_suffix('*').map_or_else(|| route.path.to_owned(), |head| format!("{head}{{*path}}"));
        router = router.route(&path, on(filter(route.method), handler));
    }
    router
        .fallback(async |request: Request| {
            let message = format!("no route has the path {}", request.uri().path());
            reply::error(&ApiError::RouteNotFound { message: abide_protocol::error::cut(&message) })
        })
        .method_not_allowed_fallback(async |request: Request| {
            let message = format!("{} is no method of {}", request.method(), request.uri().path());
            reply::error(&ApiError::MethodNotAllowed { message: abide_protocol::error::cut(&message) })
        })
        .layer(axum::middleware::from_fn_with_state(app, guard::guard))
}

const fn filter(method: Method) -> MethodFilter {
    match method {
        Method::GET => MethodFilter::GET,
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::PATCH => MethodFilter::PATCH,
        Method::DELETE => MethodFilter::DELETE,
    }
}

/// Takes a trailing slash away: `/api/session/` is `/api/session`.
pub(crate) fn without_trailing_slash<B>(mut request: axum::http::Request<B>) -> axum::http::Request<B> {
    let path = request.uri().path();
    let Some(bare) = path.strip_suffix('/').filter(|bare| !bare.is_empty()) else { return request };
    let target = match request.uri().query() {
        Some(query) => format!("{bare}?{query}"),
        None => bare.to_owned(),
    };
    let mut parts = request.uri().clone().into_parts();
    if let Ok(target) = target.parse() {
        parts.path_and_query = Some(target);
        if let Ok(uri) = axum::http::Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

async fn answer(app: App, route: &'static Route, params: &RawPathParams, request: Request) -> Response {
    let world = app.backend.world().clone();
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (parts, body) = request.into_parts();
    let query = RawQuery::parse(parts.uri.query().unwrap_or_default());
    let context = Context { app, route, params, query, headers: parts.headers, session: None, body: Mutex::new(body) };
    let span = tracing::debug_span!("request", operation = route.id);
    let failure = match AssertUnwindSafe(handle(context)).catch_unwind().instrument(span).await {
        Ok(Ok(response)) => return response,
        Ok(Err(Refusal::MediaType)) => return reply::unsupported_media(),
        Ok(Err(Refusal::Failure(failure))) => failure,
        Err(panic) => Failure::Internal(format!("the handler panicked: {}", panic_text(&*panic))),
    };
    match failure {
        Failure::Api(error) => reply::error(&error),
        Failure::Internal(details) => {
            let [a, b, c, d, ..] = world.random().to_be_bytes();
            let reference = format!("err_{a:02x}{b:02x}{c:02x}{d:02x}");
            tracing::error!(operation = route.id, reference, details, "request failed");
            let message = format!("Unexpected server error; the server's log says more under {reference}");
            reply::error(&ApiError::Unknown { message, reference: Some(reference) })
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?")
}

/// The session's id, then whether it exists, then the operation (contract section 4, "order of checks").
async fn handle(mut context: Context) -> Result<Response, Refusal> {
    if context.route.has_session() {
        let id =
            SessionId::parse(context.param("sessionID")).map_err(|error| ApiError::session_id(error.to_string()))?;
        let session = context.backend().store().session(&id).await?;
        context.session = Some(session.ok_or_else(|| ApiError::session_not_found(id))?);
    }
    handlers::dispatch(context).await
}

/// Says that this version does not do an operation.
pub(crate) fn not_served(op: Op) -> Failure {
    let route = op.route();
    let service = route.id.strip_prefix("v2.").unwrap_or(route.id);
    ApiError::unavailable(service).into()
}
