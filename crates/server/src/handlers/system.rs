//! Health, location, document.

use abide_protocol::routes::{HealthGet, LocationGet, OpenApiGet};
use abide_protocol::wire::{AnyJson, Health};
use axum::response::Response;

use crate::context::{Context, Refusal};
use crate::reply;

pub(super) fn health() -> Result<Response, Refusal> {
    Ok(reply::ok::<HealthGet>(&Health { healthy: true })?)
}

pub(super) async fn location(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    Ok(reply::ok::<LocationGet>(directory.info())?)
}

pub(super) fn openapi() -> Result<Response, Refusal> {
    Ok(reply::ok::<OpenApiGet>(&AnyJson(abide_protocol::openapi::document()))?)
}
