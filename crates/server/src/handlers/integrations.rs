//! Integrations and credentials.

use std::sync::Arc;

use abide_protocol::error::ApiError;
use abide_protocol::routes::{
    CredentialUpdate, IntegrationAttemptComplete, IntegrationConnectKey, IntegrationConnectOauth, IntegrationGet,
    IntegrationList,
};
use abide_protocol::wire::{IntegrationInfo, Located};
use abide_schema::event::names;
use abide_schema::live::{LiveData, LiveEvent};
use abide_schema::{CredentialId, IntegrationId, JsonObject};
use axum::response::Response;

use crate::backend::{Directory, Failure};
use crate::context::{Context, Refusal};
use crate::reply;

pub(super) async fn list(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.integrations().await?;
    Ok(reply::ok::<IntegrationList>(&Located { location: directory.info().clone(), data })?)
}

/// Finds the integration of the path.
async fn find(context: &Context, directory: &Arc<dyn Directory>) -> Result<IntegrationInfo, Failure> {
    let id = context.param("integrationID");
    let found = directory.integrations().await?.into_iter().find(|integration| integration.id.as_str() == id);
    found.ok_or_else(|| {
        let message = format!("Integration not found: {id}");
        ApiError::IntegrationNotFound { message, integration_id: id.to_owned() }.into()
    })
}

pub(super) async fn get(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = find(context, &directory).await?;
    Ok(reply::ok::<IntegrationGet>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn connect_key(mut context: Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let body = context.body::<IntegrationConnectKey>().await?;
    let integration = find(&context, &directory).await?.id;
    directory.add_key(integration.clone(), body.key, body.label).await?;
    announce(&context, &directory, Some(&integration));
    Ok(reply::done())
}

/// No integration of this version offers an authorization flow.
pub(super) async fn connect_oauth(mut context: Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let body = context.body::<IntegrationConnectOauth>().await?;
    let integration_id = find(&context, &directory).await?.id.to_string();
    let message = format!("{integration_id} has no method {}", body.method_id);
    Err(ApiError::IntegrationMethodNotFound { message, integration_id, method_id: body.method_id }.into())
}

fn no_attempt(context: &Context) -> Refusal {
    let attempt_id = context.param("attemptID").to_owned();
    let message = format!("Authorization attempt not found: {attempt_id}");
    ApiError::IntegrationAttemptNotFound { message, attempt_id, integration_id: None }.into()
}

pub(super) async fn attempt(context: &Context) -> Result<Response, Refusal> {
    context.directory().await?;
    Err(no_attempt(context))
}

pub(super) async fn complete_attempt(mut context: Context) -> Result<Response, Refusal> {
    context.directory().await?;
    context.body::<IntegrationAttemptComplete>().await?;
    Err(no_attempt(&context))
}

pub(super) async fn cancel_attempt(context: &Context) -> Result<Response, Refusal> {
    context.directory().await?;
    Ok(reply::done())
}

pub(super) async fn relabel(mut context: Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let label = context.body::<CredentialUpdate>().await?.label;
    // An unknown credential is no error, whatever its form.
    if let Ok(id) = CredentialId::parse(context.param("credentialID")) {
        directory.relabel_credential(id, label).await?;
        announce(&context, &directory, None);
    }
    Ok(reply::done())
}

pub(super) async fn remove(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    if let Ok(id) = CredentialId::parse(context.param("credentialID")) {
        directory.remove_credential(id).await?;
        announce(context, &directory, None);
    }
    Ok(reply::done())
}

/// Tells the other clients that connections changed.
fn announce(context: &Context, directory: &Arc<dyn Directory>, integration: Option<&IntegrationId>) {
    let (name, data) = match integration {
        Some(id) => {
            let data = JsonObject::from_iter([("integrationID".to_owned(), id.as_str().into())]);
            (names::INTEGRATION_CONNECTION_UPDATED, data)
        }
        None => (names::INTEGRATION_UPDATED, JsonObject::new()),
    };
    let location = Some(directory.info().to_ref());
    let id = context.backend().world().event_id();
    context.backend().store().publish_live(LiveEvent { id, location, data: LiveData::Other { name, data } });
}
