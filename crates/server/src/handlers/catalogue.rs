//! Agents, models, providers, commands, skills, references.

use abide_protocol::error::ApiError;
use abide_protocol::routes::{AgentList, CommandList, ModelList, ProviderGet, ProviderList, ReferenceList, SkillList};
use abide_protocol::view::Shown;
use abide_protocol::wire::Located;
use abide_schema::ProviderId;
use axum::response::Response;

use crate::context::{Context, Refusal};
use crate::reply;

pub(super) async fn agents(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.agents().into_iter().map(Shown::new).collect();
    Ok(reply::ok::<AgentList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn models(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let mut data = directory.models().await?;
    data.sort_by_key(|model| std::cmp::Reverse(model.time.released));
    Ok(reply::ok::<ModelList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn providers(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.providers().await?;
    Ok(reply::ok::<ProviderList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn provider(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let id = ProviderId::new(context.param("providerID"));
    let Some(data) = directory.provider(&id) else {
        let message = format!("Provider not found: {id}");
        return Err(ApiError::ProviderNotFound { message, provider_id: id }.into());
    };
    Ok(reply::ok::<ProviderGet>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn commands(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.commands();
    Ok(reply::ok::<CommandList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn skills(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.skills();
    Ok(reply::ok::<SkillList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn references(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.references();
    Ok(reply::ok::<ReferenceList>(&Located { location: directory.info().clone(), data })?)
}
