//! Bodies of requests: limits, media type, decoding with the place of what does not fit.

use std::time::Duration;

use abide_protocol::error::{ApiError, InvalidKind};
use abide_protocol::route::{Body, BodyUse};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

/// Why a body was not taken.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is of another type than JSON.
    MediaType,
    /// It does not fit.
    Api(ApiError),
}

impl From<ApiError> for BodyError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn read(body: axum::body::Body, max: usize, timeout: Duration) -> Result<Bytes, ApiError> {
    let collect = async {
        let mut out = BytesMut::new();
        let mut stream = body.into_data_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| {
                ApiError::invalid(InvalidKind::Payload, format!("the body did not arrive whole: {error}"))
            })?;
            if out.len().saturating_add(chunk.len()) > max {
                return Err(ApiError::PayloadTooLarge { message: format!("the body is larger than {max} bytes") });
            }
            out.extend_from_slice(&chunk);
        }
        Ok(out.freeze())
    };
    match tokio::time::timeout(timeout, collect).await {
        Ok(read) => read,
        Err(_) => Err(ApiError::invalid(
            InvalidKind::Payload,
            format!("the body did not arrive within {} seconds", timeout.as_secs()),
        )),
    }
}

/// Decodes a body.
pub(crate) fn decode<B: Body + DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<B, BodyError> {
    if bytes.is_empty() {
        return match B::USE {
            BodyUse::Required => Err(ApiError::expected(InvalidKind::Payload, "object", "undefined", &[]).into()),
            BodyUse::Optional | BodyUse::None => Ok(parse(b"{}")?),
        };
    }
    if !is_json(headers) {
        return Err(BodyError::MediaType);
    }
    Ok(parse(bytes)?)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut decoder = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut decoder).map_err(|error| {
        let names: Vec<String> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Map { key } => Some(key.clone()),
                Segment::Enum { variant } => Some(variant.clone()),
                Segment::Unknown => None,
            })
            .collect();
        misfit(&without_place(&error.inner().to_string()), &names)
    })?;
    decoder.end().map_err(|error| misfit(&error.to_string(), &[]))?;
    Ok(value)
}

fn misfit(message: &str, path: &[String]) -> ApiError {
    let place: String =
        path.iter().flat_map(|name| ["[".to_owned(), serde_json::json!(name).to_string(), "]".to_owned()]).collect();
    let text = if place.is_empty() { message.to_owned() } else { format!("{message}\n  at {place}") };
    ApiError::InvalidRequest {
        message: abide_protocol::error::cut(&text),
        kind: Some(InvalidKind::Payload.as_str().to_owned()),
        field: path.first().cloned(),
    }
}

/// Leaves out the line and column, which mean nothing once the path is told.
fn without_place(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(at) => message.get(..at).unwrap_or(message).to_owned(),
        None => message.to_owned(),
    }
}
