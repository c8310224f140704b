//! Permission requests and questions.

use std::sync::Arc;

use abide_core::permission::{Create, CreateError, ReplyError, RulesError};
use abide_core::question::QuestionReplyError;
use abide_protocol::error::{ApiError, InvalidKind};
use abide_protocol::routes::{
    PermissionCreate, PermissionGet, PermissionList, PermissionReply, PermissionRequestList, PermissionSavedList,
    QuestionList, QuestionReply, QuestionRequestList,
};
use abide_protocol::view::Shown;
use abide_protocol::wire::{Data, Located, PermissionOutcome};
use abide_schema::{PermissionId, QuestionId, SavedPermissionId};
use axum::response::Response;

use crate::backend::{Directory, Failure};
use crate::context::{Context, Refusal};
use crate::reply;

/// The directory of the session. Nothing is pending in one that cannot be opened any more.
async fn open(context: &Context) -> Result<Option<Arc<dyn Directory>>, Failure> {
    match context.backend().directory(&context.session()?.location).await {
        Ok(directory) => Ok(Some(directory)),
        Err(Failure::Api(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub(super) async fn permissions_of_location(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.permissions().list(None).into_iter().map(Shown::new).collect();
    Ok(reply::ok::<PermissionRequestList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn saved_permissions(context: &Context) -> Result<Response, Refusal> {
    let project = match context.query::<PermissionSavedList>()?.project_id {
        Some(project) => project,
        None => context.directory().await?.info().project.id.clone(),
    };
    let data = context.backend().store().saved_permissions(Some(&project)).await?;
    Ok(reply::ok::<PermissionSavedList>(&Data { data })?)
}

pub(super) async fn remove_saved_permission(context: &Context) -> Result<Response, Refusal> {
    // An unknown one is gone already, whatever its form.
    if let Ok(id) = SavedPermissionId::parse(context.param("id")) {
        context.backend().store().remove_permission(&id).await?;
    }
    Ok(reply::done())
}

pub(super) async fn permissions(context: &Context) -> Result<Response, Refusal> {
    let session = context.session_id()?;
    let pending = open(context).await?.map(|directory| directory.permissions().list(Some(session))).unwrap_or_default();
    let data = pending.into_iter().map(Shown::new).collect();
    Ok(reply::ok::<PermissionList>(&Data { data })?)
}

pub(super) async fn create_permission(mut context: Context) -> Result<Response, Refusal> {
    let body = context.body::<PermissionCreate>().await?;
    let session = context.session()?;
    let directory = context.backend().directory(&session.location).await?;
    if let Some(agent) = &body.agent
        && !directory.agents().iter().any(|known| known.id == *agent)
    {
        let message = format!("Agent not found: {agent}");
        return Err(ApiError::AgentNotFound { message, agent_id: agent.clone() }.into());
    }
    let input = Create {
        id: body.id,
        session_id: session.id.clone(),
        action: body.action,
        resources: body.resources,
        save: body.save,
        metadata: body.metadata,
        source: body.source,
        agent: body.agent,
    };
    let created = directory.permissions().create(input).await.map_err(create_failure)?;
    let data = PermissionOutcome { id: created.id, effect: created.effect };
    Ok(reply::ok::<PermissionCreate>(&Data { data })?)
}

fn create_failure(error: CreateError) -> Failure {
    match error {
        CreateError::NoResource => {
            ApiError::expected(InvalidKind::Payload, "at least one resource", "none", &["resources"]).into()
        }
        CreateError::Rules(RulesError::SessionNotFound(id)) => ApiError::session_not_found(id).into(),
        CreateError::IdTaken(id) => ApiError::Conflict {
            message: error_text(&CreateError::IdTaken(id.clone())),
            resource: Some(id.to_string()),
        }
        .into(),
        CreateError::TooMany(_) => {
            ApiError::ServiceUnavailable { message: error_text(&error), service: Some("permission".to_owned()) }.into()
        }
        other @ (CreateError::Rules(_) | _) => Failure::internal(other),
    }
}

fn error_text(error: &CreateError) -> String {
    error.to_string()
}

fn permission_not_found(request_id: PermissionId) -> ApiError {
    ApiError::PermissionNotFound { message: format!("Permission request not found: {request_id}"), request_id }
}

pub(super) async fn permission(context: &Context) -> Result<Response, Refusal> {
    let id = context.id("requestID", PermissionId::parse)?;
    let session = context.session_id()?;
    let request = open(context).await?.and_then(|directory| directory.permissions().get(session, &id));
    let request = request.ok_or_else(|| permission_not_found(id))?;
    Ok(reply::ok::<PermissionGet>(&Data { data: Shown::new(request) })?)
}

pub(super) async fn reply_permission(mut context: Context) -> Result<Response, Refusal> {
    let id = context.id("requestID", PermissionId::parse)?;
    let body = context.body::<PermissionReply>().await?;
    let session = context.session_id()?;
    let Some(directory) = open(&context).await? else { return Err(permission_not_found(id).into()) };
    let message = body.message.filter(|message| !message.trim().is_empty());
    let done = directory.permissions().reply(session, &id, body.reply, message).await;
    done.map_err(|error| match error {
        ReplyError::NotFound(id) => permission_not_found(id).into(),
        other @ (ReplyError::Storage(_) | _) => Failure::internal(other),
    })?;
    Ok(reply::done())
}

pub(super) async fn questions_of_location(context: &Context) -> Result<Response, Refusal> {
    let directory = context.directory().await?;
    let data = directory.questions().list(None).into_iter().map(Shown::new).collect();
    Ok(reply::ok::<QuestionRequestList>(&Located { location: directory.info().clone(), data })?)
}

pub(super) async fn questions(context: &Context) -> Result<Response, Refusal> {
    let session = context.session_id()?;
    let pending = open(context).await?.map(|directory| directory.questions().list(Some(session))).unwrap_or_default();
    let data = pending.into_iter().map(Shown::new).collect();
    Ok(reply::ok::<QuestionList>(&Data { data })?)
}

fn question_failure(error: QuestionReplyError) -> Failure {
    match error {
        QuestionReplyError::NotFound(request_id) => {
            let message = format!("Question request not found: {request_id}");
            ApiError::QuestionNotFound { message, request_id }.into()
        }
        QuestionReplyError::Invalid(message) => ApiError::invalid(InvalidKind::Payload, message).into(),
        other => Failure::internal(other),
    }
}

pub(super) async fn reply_question(mut context: Context) -> Result<Response, Refusal> {
    let id = context.id("requestID", QuestionId::parse)?;
    let answers = context.body::<QuestionReply>().await?.answers;
    let session = context.session_id()?;
    let Some(directory) = open(&context).await? else {
        return Err(question_failure(QuestionReplyError::NotFound(id)).into());
    };
    directory.questions().reply(session, &id, answers).map_err(question_failure)?;
    Ok(reply::done())
}

pub(super) async fn reject_question(context: &Context) -> Result<Response, Refusal> {
    let id = context.id("requestID", QuestionId::parse)?;
    let session = context.session_id()?;
    let Some(directory) = open(context).await? else {
        return Err(question_failure(QuestionReplyError::NotFound(id)).into());
    };
    directory.questions().reject(session, &id).map_err(question_failure)?;
    Ok(reply::done())
}
