//! Files of a location.

use abide_protocol::query::{FindFilesQuery, ListFilesQuery};
use abide_protocol::routes::{FileFind, FileList};
use abide_protocol::wire::Located;
use axum::response::Response;

use crate::context::{Context, Refusal};
use crate::reply;

/// The most entries that are found when no limit is given, and at all.
const DEFAULT_FOUND: u32 = 100;
const MAX_FOUND: u32 = 10_000;

pub(super) async fn read(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    Ok(reply::file(directory.read_file(context.param("path")).await?))
}

pub(super) async fn list(context: &Context) -> Result<Response, Refusal> {
    let query: ListFilesQuery = context.query::<FileList>()?;
    let directory = context.directory().await?;
    let data = directory.list_files(query.path.as_deref()).await?;
    Ok(reply::ok::<FileList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn find(context: &Context) -> Result<Response, Refusal> {
    let query: FindFilesQuery = context.query::<FileFind>()?;
    let limit = query.limit.unwrap_or(DEFAULT_FOUND).min(MAX_FOUND);
    let directory = context.directory().await?;
    let data = directory.find_files(&query.query, query.kind, usize::try_from(limit).unwrap_or(usize::MAX)).await?;
    Ok(reply::ok::<FileFind>(&Located { location: directory.info().clone(), data })?)
}
