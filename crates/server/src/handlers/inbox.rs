//! The inbox of a session: what is admitted and has not taken effect.

use abide_protocol::routes::{InboxList, InboxUpdate};
use abide_protocol::wire::{Data, InboxEntry};
use abide_schema::MessageId;
use axum::response::Response;

use crate::context::{Context, Refusal};
use crate::reply;

pub(super) async fn list(context: &Context) -> Result<Response, Refusal> {
    let rows = context.backend().store().pending_inputs(context.session_id()?).await?;
    let data = rows.into_iter().map(InboxEntry::from).collect();
    Ok(reply::ok::<InboxList>(&Data { data })?)
}

pub(super) async fn update(mut context: Context) -> Result<Response, Refusal> {
    let delivery = context.body::<InboxUpdate>().await?.delivery;
    let input = context.id("inboxID", MessageId::parse)?;
    context.backend().change_delivery(context.session_id()?, &input, delivery).await?;
    Ok(reply::done())
}

pub(super) async fn cancel(context: &Context) -> Result<Response, Refusal> {
    let input = context.id("inboxID", MessageId::parse)?;
    context.backend().cancel_input(context.session_id()?, &input).await?;
    Ok(reply::done())
}
