//! Answers.

use abide_protocol::ApiError;
use abide_protocol::route::{Endpoint, Reply as _};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use crate::backend::Failure;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Answers with the body that the operation promises.
pub(crate) fn ok<E: Endpoint>(body: &E::Reply) -> Result<Response, Failure>
where
    E::Reply: Serialize,
{
    let status = StatusCode::from_u16(E::Reply::STATUS).unwrap_or(StatusCode::OK);
    let text = serde_json::to_vec(body).map_err(Failure::internal)?;
    Ok((status, [(header::CONTENT_TYPE, JSON)], text).into_response())
}

/// Answers an operation that promises no body.
pub(crate) fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// Answers with an error body.
pub(crate) fn error(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, JSON)], error.body().to_string()).into_response()
}

/// Answers a body of another type than JSON.
pub(crate) fn unsupported_media() -> Response {
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON: send content-type: application/json\n").into_response()
}

/// Answers with the bytes of a file.
pub(crate) fn file(content: crate::backend::FileContent) -> Response {
    let mut response = Response::new(Body::from_stream(content.bytes));
    let headers = response.headers_mut();
    let mime = HeaderValue::from_str(&content.mime).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, mime);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(content.length));
    // A file of the project must not run as a page of this server.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    response
}
