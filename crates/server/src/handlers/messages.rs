//! Messages: pages, one, the active history.

use abide_core::store::{self, MessageQuery};
use abide_protocol::cursor::{Direction, MessageCursor};
use abide_protocol::error::ApiError;
use abide_protocol::query::MessagesQuery;
use abide_protocol::routes::{MessageGet, MessageList, SessionContext};
use abide_protocol::view::{Shown, ViewKind, is_contract_message};
use abide_protocol::wire::{Data, ListPage, PageCursor};
use abide_schema::MessageId;
use abide_schema::message::Message;
use axum::response::Response;

use super::sessions::{is_backwards, store_order};
use crate::context::{Context, Refusal};
use crate::reply;

/// The length of a page when none is asked for.
const DEFAULT_LIMIT: u32 = 50;

pub(super) async fn list(context: &Context) -> Result<Response, Refusal> {
    let query: MessagesQuery = context.query::<MessageList>()?;
    let session = context.session_id()?;
    let store = context.backend().store();
    let mut order = query.order.unwrap_or_default();
    let mut anchor = None;
    if let Some(text) = &query.cursor {
        if query.order.is_some() {
            let message = "a cursor carries its order: leave the order out".to_owned();
            return Err(ApiError::InvalidCursor { message }.into());
        }
        let cursor = MessageCursor::decode(text)?;
        order = cursor.order;
        let row = store.message(&cursor.id).await?.filter(|row| row.session_id == *session);
        let Some(row) = row else {
            let empty = ListPage { data: Vec::new(), cursor: PageCursor::default() };
            return Ok(reply::ok::<MessageList>(&empty)?);
        };
        anchor = Some(store::MessageAnchor { position: row.position, backwards: is_backwards(cursor.direction) });
    }
    let wanted = MessageQuery {
        order: store_order(order),
        limit: Some(query.limit.unwrap_or(DEFAULT_LIMIT)),
        from: None,
        anchor,
        contract_only: query.view == ViewKind::Contract,
    };
    let rows = store.messages(session, wanted).await?;
    let place = |message: Option<&Message>, direction| {
        message.map(|message| MessageCursor { id: message.id().clone(), order, direction }.encode())
    };
    let messages: Vec<Message> = rows.into_iter().map(|row| row.message).collect();
    let cursor = PageCursor {
        previous: place(messages.first(), Direction::Previous),
        next: place(messages.last(), Direction::Next),
    };
    let data = messages.into_iter().map(|message| Shown::with(message, query.view)).collect();
    Ok(reply::ok::<MessageList>(&ListPage { data, cursor })?)
}

pub(super) async fn get(context: &Context) -> Result<Response, Refusal> {
    let id = context.id("messageID", MessageId::parse)?;
    let view = context.query::<MessageGet>()?.view;
    let session = context.session_id()?;
    // A message of another session is as unknown as one that does not exist.
    let row = context.backend().store().message(&id).await?.filter(|row| row.session_id == *session);
    let message = row.map(|row| row.message).filter(|message| view == ViewKind::Full || is_contract_message(message));
    let message = message.ok_or_else(|| ApiError::message_not_found(session.clone(), id))?;
    Ok(reply::ok::<MessageGet>(&Data { data: Shown::with(message, view) })?)
}

pub(super) async fn context(context: &Context) -> Result<Response, Refusal> {
    let view = context.query::<SessionContext>()?.view;
    let messages = context.backend().context(context.session_id()?).await?;
    let data = messages
        .into_iter()
        .filter(|message| view == ViewKind::Full || is_contract_message(message))
        .map(|message| Shown::with(message, view))
        .collect();
    Ok(reply::ok::<SessionContext>(&Data { data })?)
}
