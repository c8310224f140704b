//! Sessions: list, create, read, prompt, run.

use abide_core::store::{self, SessionQuery};
use abide_protocol::cursor::{Direction, SessionAnchor, SessionCursor};
use abide_protocol::error::{ApiError, InvalidKind};
use abide_protocol::query::{ListOrder, NO_PARENT, SessionsQuery};
use abide_protocol::routes::{
    RevertStage, SessionActiveList, SessionCreate, SessionFork, SessionGet, SessionList, SessionMove, SessionPrompt,
    SessionSwitchAgent, SessionSwitchModel,
};
use abide_protocol::view::Shown;
use abide_protocol::wire::{ActiveSessions, Data, ListPage, PageCursor, SessionActive};
use abide_schema::SessionId;
use abide_schema::session::SessionInfo;
use axum::response::Response;

use crate::backend::Failure;
use crate::context::{Context, Refusal, absolute};
use crate::reply;

/// The length of a page when none is asked for.
const DEFAULT_LIMIT: u32 = 50;
/// The longest page; a larger limit is cut.
const MAX_LIMIT: u32 = 200;

pub(super) const fn store_order(order: ListOrder) -> store::Order {
    match order {
        ListOrder::Asc => store::Order::Asc,
        ListOrder::Desc => store::Order::Desc,
    }
}

pub(super) const fn is_backwards(direction: Direction) -> bool {
    match direction {
        Direction::Previous => true,
        Direction::Next => false,
    }
}

pub(super) async fn list(context: &Context) -> Result<Response, Refusal> {
    let query: SessionsQuery = context.query::<SessionList>()?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    // A cursor carries the filters: the others of the query are ignored.
    let (filters, anchor) = match &query.cursor {
        Some(text) => {
            let cursor = SessionCursor::decode(text)?;
            let anchor = store::SessionAnchor {
                time: cursor.anchor.time,
                id: cursor.anchor.id.clone(),
                backwards: is_backwards(cursor.anchor.direction),
            };
            (cursor, Some(anchor))
        }
        None => (cursor_of(query), None),
    };
    let wanted = SessionQuery {
        directory: filters.directory.clone(),
        project: filters.project.clone(),
        subpath: filters.subpath.clone(),
        workspace: filters.workspace.as_ref().map(ToString::to_string),
        search: filters.search.clone(),
        parent: filters.parent_id.as_deref().map(parent),
        order: store_order(filters.order),
        limit,
        anchor,
    };
    let sessions = context.backend().store().sessions(wanted).await?;
    let place = |session: Option<&SessionInfo>, direction| {
        session.map(|session| {
            let anchor = SessionAnchor { id: session.id.clone(), time: session.time.created, direction };
            SessionCursor { anchor, ..filters.clone() }.encode()
        })
    };
    let cursor = PageCursor {
        previous: place(sessions.first(), Direction::Previous),
        next: place(sessions.last(), Direction::Next),
    };
    let data = sessions.into_iter().map(Shown::new).collect();
    Ok(reply::ok::<SessionList>(&ListPage { data, cursor })?)
}

/// The parent that a filter means; none: sessions without parent.
fn parent(text: &str) -> Option<SessionId> {
    (text != NO_PARENT).then(|| SessionId::from_trusted(text))
}

/// The filters of a query, as a cursor whose place is not set yet.
fn cursor_of(query: SessionsQuery) -> SessionCursor {
    SessionCursor {
        workspace: query.workspace,
        search: query.search,
        directory: query.directory,
        project: query.project,
        subpath: query.subpath,
        parent_id: query.parent_id,
        order: query.order.unwrap_or_default(),
        anchor: SessionAnchor {
            id: SessionId::from_trusted("ses_"),
            time: abide_schema::Timestamp::default(),
            direction: Direction::Next,
        },
    }
}

pub(super) async fn create(mut context: Context) -> Result<Response, Refusal> {
    let mut input = context.body::<SessionCreate>().await?;
    input.location = Some(match input.location.take() {
        Some(location) => {
            absolute(location.directory, location.workspace_id).map_err(|error| ApiError::InvalidRequest {
                message: error.message().to_owned(),
                kind: Some(InvalidKind::Payload.as_str().to_owned()),
                field: Some("location".to_owned()),
            })?
        }
        None => context.location()?,
    });
    let session = context.backend().create(input).await?;
    Ok(reply::ok::<SessionCreate>(&Data { data: Shown::new(session) })?)
}

pub(super) fn active(context: &Context) -> Result<Response, Refusal> {
    let sessions = context.backend().active().into_iter().map(|id| (id, SessionActive::Running)).collect();
    Ok(reply::ok::<SessionActiveList>(&Data { data: ActiveSessions(sessions) })?)
}

pub(super) fn get(context: &Context) -> Result<Response, Refusal> {
    let view = context.query::<SessionGet>()?.view;
    let session = context.session()?.clone();
    Ok(reply::ok::<SessionGet>(&Data { data: Shown::with(session, view) })?)
}

pub(super) async fn switch_agent(mut context: Context) -> Result<Response, Refusal> {
    let agent = context.body::<SessionSwitchAgent>().await?.agent;
    context.backend().switch_agent(context.session_id()?, agent).await?;
    Ok(reply::done())
}

pub(super) async fn switch_model(mut context: Context) -> Result<Response, Refusal> {
    let model = context.body::<SessionSwitchModel>().await?.model;
    context.backend().switch_model(context.session_id()?, model).await?;
    Ok(reply::done())
}

pub(super) async fn prompt(mut context: Context) -> Result<Response, Refusal> {
    let input = context.body::<SessionPrompt>().await?;
    let receipt = context.backend().prompt(context.session_id()?, input).await?;
    Ok(reply::ok::<SessionPrompt>(&Data { data: Shown::new(receipt) })?)
}

pub(super) async fn compact(context: &Context) -> Result<Response, Refusal> {
    context.backend().compact(context.session_id()?).await?;
    Ok(reply::done())
}

pub(super) async fn wait(context: &Context) -> Result<Response, Refusal> {
    let session = context.session_id()?;
    tokio::select! {
        done = context.backend().wait(session) => done?,
        () = context.app.shutdown.cancelled() => {
            return Err(Failure::from(ApiError::unavailable("session.wait")).into());
        }
    }
    Ok(reply::done())
}

pub(super) async fn background(context: &Context) -> Result<Response, Refusal> {
    context.backend().background(context.session_id()?).await?;
    Ok(reply::done())
}

pub(super) async fn interrupt(context: &Context) -> Result<Response, Refusal> {
    context.backend().interrupt(context.session_id()?).await?;
    Ok(reply::done())
}

pub(super) async fn stage_revert(mut context: Context) -> Result<Response, Refusal> {
    let view = context.query::<RevertStage>()?.view;
    let input = context.body::<RevertStage>().await?;
    let revert = context.backend().stage_revert(context.session_id()?, input).await?;
    Ok(reply::ok::<RevertStage>(&Data { data: Shown::with(revert, view) })?)
}

pub(super) async fn clear_revert(context: &Context) -> Result<Response, Refusal> {
    context.backend().clear_revert(context.session_id()?).await?;
    Ok(reply::done())
}

pub(super) async fn commit_revert(context: &Context) -> Result<Response, Refusal> {
    context.backend().commit_revert(context.session_id()?).await?;
    Ok(reply::done())
}

pub(super) async fn fork(mut context: Context) -> Result<Response, Refusal> {
    let view = context.query::<SessionFork>()?.view;
    let input = context.body::<SessionFork>().await?;
    let session = context.backend().fork(context.session_id()?, input).await?;
    Ok(reply::ok::<SessionFork>(&Data { data: Shown::with(session, view) })?)
}

pub(super) async fn move_to(mut context: Context) -> Result<Response, Refusal> {
    let mut input = context.body::<SessionMove>().await?;
    input.location = absolute(input.location.directory, input.location.workspace_id)?;
    context.backend().move_to(context.session_id()?, input).await?;
    Ok(reply::done())
}

pub(super) async fn delete(context: &Context) -> Result<Response, Refusal> {
    context.backend().delete(context.session_id()?).await?;
    Ok(reply::done())
}
