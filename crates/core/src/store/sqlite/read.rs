//! Queries of the readers.

use abide_schema::event::Visibility;
use abide_schema::message::Message;
use abide_schema::permission::SavedPermission;
use abide_schema::project::{ContextRow, InputRow, MessageRow, Position};
use abide_schema::session::SessionInfo;
use abide_schema::todo::Todo;
use abide_schema::{MessageId, OwnerId, ProjectId, SavedPermissionId, Seq, SessionId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params_from_iter};

use super::codec::{self, Result, from_json, select, seq};
use crate::store::{
    Draft, Head, JobRecord, Lease, MessageQuery, Mutation, Order, Page, SeqRange, SessionQuery, StepAttempt,
    ToolProcess, View,
};

fn first<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(read(row)?);
    }
    Ok(out)
}

fn key(conn: &Connection, session: &SessionId) -> Result<Option<i64>> {
    let mut statement = conn.prepare_cached("SELECT key FROM event_sequence WHERE aggregate_id = ?1")?;
    Ok(statement.query_row([session.as_str()], |row| row.get(0)).optional()?)
}

/// Reads the head of a session's log.
pub(super) fn head(conn: &Connection, session: &SessionId) -> Result<Option<Head>> {
    match key(conn, session)? {
        Some(key) => head_of(conn, key),
        None => Ok(None),
    }
}

/// Reads the head of the log of the session with this key.
pub(super) fn head_of(conn: &Connection, key: i64) -> Result<Option<Head>> {
    let (begin, end) = codec::log_range(key)?.into_inner();
    let sql = "SELECT pos, contract_head FROM event WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC LIMIT 1";
    first(conn, sql, [begin, end], |row| {
        Ok(Head { seq: codec::log_seq(row.get(0)?), contract_seq: row.get::<_, Option<i64>>(1)?.map(seq) })
    })
}

/// Finds the first place in a log whose contract head is beyond `after`. Heads rise with places, so halving finds it
/// without an index of its own.
fn contract_begin(conn: &Connection, begin: i64, end: i64, after: Option<Seq>) -> Result<i64> {
    let Some(after) = after else { return Ok(begin) };
    let sql = "SELECT pos, contract_head FROM event WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT 1";
    let (mut low, mut high) = (begin, end);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = first(conn, sql, [middle, high], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))?;
        match found {
            Some((pos, head)) if head.is_none_or(|head| seq(head) <= after) => low = pos + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Reads a page of a session's log.
pub(super) fn page(conn: &Connection, session: &SessionId, range: SeqRange, view: View, limit: u32) -> Result<Page> {
    let mut page = Page { cursor: range.after, ..Page::default() };
    let Some(key) = key(conn, session)? else { return Ok(page) };
    let Some(head) = head_of(conn, key)? else { return Ok(page) };
    let (begin, end) = (*codec::log_range(key)?.start(), codec::log_pos(key, head.seq)?);
    let (begin, end) = match view {
        View::Log | View::Public => {
            let begin =
                range.after.map_or(Ok(begin), |after| codec::log_pos(key, after.min(head.seq)).map(|at| at + 1));
            let through = range.through.map_or(head.seq, |through| through.min(head.seq));
            (begin?, codec::log_pos(key, through)?)
        }
        View::Contract => (contract_begin(conn, begin, end + 1, range.after)?, end),
    };
    let sql = match view {
        View::Log | View::Public => select!(event "FROM event e WHERE e.pos BETWEEN ?1 AND ?2 ORDER BY e.pos"),
        View::Contract => {
            select!(event "FROM event e WHERE e.pos BETWEEN ?1 AND ?2 AND e.counted ORDER BY e.pos")
        }
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([begin, end])?;
    while let Some(row) = rows.next()? {
        let position = match view {
            View::Log | View::Public => codec::log_seq(row.get(1)?),
            View::Contract => seq(row.get(2)?),
        };
        if range.through.is_some_and(|through| position > through) {
            break;
        }
        if let Some(event) = codec::event(row)? {
            let visibility = event.data.def().visibility;
            let shown = match view {
                View::Log => true,
                View::Public => visibility != Visibility::Internal,
                View::Contract => visibility == Visibility::Contract,
            };
            if shown {
                if page.events.len() >= limit {
                    page.has_more = true;
                    break;
                }
                page.events.push(std::sync::Arc::new(event));
            }
        }
        page.cursor = Some(position);
    }
    Ok(page)
}

/// Reads a session.
pub(super) fn session(conn: &Connection, id: &SessionId) -> Result<Option<SessionInfo>> {
    first(conn, select!(session "FROM session WHERE id = ?1"), [id.as_str()], codec::session)
}

/// Lists sessions.
pub(super) fn sessions(conn: &Connection, query: &SessionQuery) -> Result<Vec<SessionInfo>> {
    let mut sql = select!(session "FROM session WHERE 1").to_owned();
    let mut values: Vec<Value> = Vec::new();
    let mut condition = |text: &str, value: Option<String>| {
        sql.push_str(text);
        values.extend(value.map(Value::from));
    };
    // The filters that have an index; the others are applied to the rows.
    if let Some(directory) = &query.directory {
        condition(" AND directory = ?", Some(directory.clone()));
    }
    if let Some(project) = &query.project {
        condition(" AND project_id = ?", Some(project.as_str().to_owned()));
    }
    match &query.parent {
        Some(Some(parent)) => condition(" AND parent_id = ?", Some(parent.as_str().to_owned())),
        Some(None) => condition(" AND parent_id IS NULL", None),
        None => (),
    }
    let backwards = query.anchor.as_ref().is_some_and(|anchor| anchor.backwards);
    let ascending = (query.order == Order::Asc) != backwards;
    if let Some(anchor) = &query.anchor {
        sql.push_str(if ascending { " AND (time_created, id) > (?, ?)" } else { " AND (time_created, id) < (?, ?)" });
        values.push(anchor.time.0.into());
        values.push(anchor.id.as_str().to_owned().into());
    }
    sql.push_str(if ascending { " ORDER BY time_created, id" } else { " ORDER BY time_created DESC, id DESC" });
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut out = Vec::new();
    while out.len() < limit
        && let Some(row) = rows.next()?
    {
        let info = codec::session(row)?;
        if query.matches(&info) {
            out.push(info);
        }
    }
    if backwards {
        out.reverse();
    }
    Ok(out)
}

/// Fills the content of an assistant message in.
fn with_content(conn: &Connection, (key, mut row): (i64, MessageRow)) -> Result<MessageRow> {
    if let Message::Assistant(assistant) = &mut row.message {
        let sql = "SELECT data FROM session_content WHERE message = ?1 ORDER BY ordinal";
        assistant.content = all(conn, sql, [key], |row| codec::content(row, 0))?;
    }
    Ok(row)
}

/// Reads a page of messages with content.
pub(super) fn messages(conn: &Connection, session: &SessionId, query: &MessageQuery) -> Result<Vec<MessageRow>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let mut sql =
        select!(message "FROM session_message m JOIN session s ON s.key = m.key >> 40 WHERE m.key BETWEEN ? AND ?")
            .to_owned();
    let (mut begin, mut end) = codec::message_range(key)?.into_inner();
    if let Some(from) = query.from {
        begin = begin.max(codec::message_key(key, from)?);
    }
    let backwards = query.anchor.is_some_and(|anchor| anchor.backwards);
    let ascending = (query.order == Order::Asc) != backwards;
    if let Some(anchor) = query.anchor {
        let at = codec::message_key(key, anchor.position)?;
        if ascending {
            begin = begin.max(at + 1);
        } else {
            end = end.min(at - 1);
        }
    }
    if query.contract_only {
        sql.push_str(
            " AND m.type NOT IN ('idle', 'skill', 'location-switched') AND (m.type <> 'compaction' OR m.state = 0)",
        );
    }
    sql.push_str(if ascending { " ORDER BY m.key LIMIT ?" } else { " ORDER BY m.key DESC LIMIT ?" });
    let found = all(conn, &sql, [begin, end, query.limit.map_or(-1, i64::from)], codec::message)?;
    let mut out = found.into_iter().map(|found| with_content(conn, found)).collect::<Result<Vec<_>>>()?;
    if backwards {
        out.reverse();
    }
    Ok(out)
}

/// Reads one message with content.
pub(super) fn message(conn: &Connection, id: &MessageId) -> Result<Option<MessageRow>> {
    let sql = select!(message "FROM session_message m JOIN session s ON s.key = m.key >> 40 WHERE m.id = ?1");
    first(conn, sql, [id.as_str()], codec::message)?.map(|found| with_content(conn, found)).transpose()
}

/// Reads an input.
pub(super) fn input(conn: &Connection, id: &MessageId) -> Result<Option<InputRow>> {
    let sql = select!(input "FROM session_input i JOIN session s ON s.key = i.session WHERE i.id = ?1");
    first(conn, sql, [id.as_str()], codec::input)
}

/// Reads the pending inputs of a session.
pub(super) fn pending_inputs(conn: &Connection, session: &SessionId) -> Result<Vec<InputRow>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = select!(input "FROM session_input i JOIN session s ON s.key = i.session WHERE i.session = ?1 \
                      AND i.promoted_seq IS NULL AND i.cancelled_seq IS NULL ORDER BY i.admitted_seq");
    all(conn, sql, [key], codec::input)
}

/// Reads the context epoch of a session.
pub(super) fn context(conn: &Connection, session: &SessionId) -> Result<Option<ContextRow>> {
    let Some(key) = key(conn, session)? else { return Ok(None) };
    first(conn, select!(context "FROM session_context c WHERE c.session = ?1"), [key], codec::context)
}

/// Finds the newest completed compaction.
pub(super) fn history_start(conn: &Connection, session: &SessionId) -> Result<Option<Position>> {
    let Some(key) = key(conn, session)? else { return Ok(None) };
    let (begin, end) = codec::message_range(key)?.into_inner();
    let sql = "SELECT key FROM session_message WHERE type = 'compaction' AND key BETWEEN ?1 AND ?2 AND state = 0 \
               ORDER BY key DESC LIMIT 1";
    first(conn, sql, [begin, end], |row| Ok(codec::message_position(row.get(0)?)))
}

/// Reads the messages with open state.
pub(super) fn open_messages(conn: &Connection, session: &SessionId) -> Result<Vec<MessageRow>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = select!(message "FROM session_message m JOIN session s ON s.key = m.key >> 40 WHERE m.key IN ( \
                      SELECT key FROM session_message WHERE state = 1 AND key BETWEEN ?1 AND ?2 \
                      UNION SELECT message FROM session_content WHERE open = 1 AND message BETWEEN ?1 AND ?2) \
                      ORDER BY m.key");
    let (begin, end) = codec::message_range(key)?.into_inner();
    let found = all(conn, sql, [begin, end], codec::message)?;
    found.into_iter().map(|found| with_content(conn, found)).collect()
}

/// Lists the direct children of a session.
pub(super) fn children(conn: &Connection, session: &SessionId) -> Result<Vec<SessionId>> {
    let sql = "SELECT id FROM session WHERE parent_id = ?1 ORDER BY time_created, id";
    all(conn, sql, [session.as_str()], |row| Ok(SessionId::from_trusted(row.get::<_, String>(0)?)))
}

/// Lists all sessions with a log.
pub(super) fn logs(conn: &Connection) -> Result<Vec<SessionId>> {
    let sql = "SELECT aggregate_id FROM event_sequence q WHERE EXISTS (SELECT 1 FROM event \
               WHERE pos BETWEEN q.key << 32 AND (q.key << 32) | 0xffffffff) ORDER BY key";
    all(conn, sql, [], |row| Ok(SessionId::from_trusted(row.get::<_, String>(0)?)))
}

/// Reads a lease.
pub(super) fn lease(conn: &Connection, session: &SessionId) -> Result<Option<Lease>> {
    let sql =
        select!(lease "FROM session_lease l JOIN event_sequence q ON q.key = l.session WHERE q.aggregate_id = ?1");
    first(conn, sql, [session.as_str()], codec::lease)
}

/// Lists the leases that somebody holds.
pub(super) fn held_leases(conn: &Connection) -> Result<Vec<Lease>> {
    let sql = select!(lease "FROM session_lease l JOIN event_sequence q ON q.key = l.session \
                      WHERE l.owner_id IS NOT NULL ORDER BY l.session");
    all(conn, sql, [], codec::lease)
}

/// Lists sessions with owed work, whoever holds them.
pub(super) fn owed(conn: &Connection) -> Result<Vec<(SessionId, Option<OwnerId>)>> {
    let sql = select!(lease "FROM session_lease l JOIN event_sequence q ON q.key = l.session \
                      WHERE l.wake_seq > ifnull(l.done_seq, -1) AND EXISTS (SELECT 1 FROM session_input i \
                      WHERE i.session = l.session AND i.promoted_seq IS NULL AND i.cancelled_seq IS NULL) \
                      ORDER BY l.session");
    let leases = all(conn, sql, [], codec::lease)?;
    Ok(leases.into_iter().map(|lease| (lease.session, lease.owner)).collect())
}

/// Lists the attempts of a session.
pub(super) fn attempts(conn: &Connection, session: &SessionId) -> Result<Vec<StepAttempt>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = "SELECT message, attempt, state, updated FROM step_attempt WHERE session = ?1 ORDER BY message";
    all(conn, sql, [key], |row| codec::attempt(session, row))
}

/// Lists the drafts of a session.
pub(super) fn drafts(conn: &Connection, session: &SessionId) -> Result<Vec<Draft>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = "SELECT message, kind, item_id, text, updated FROM draft WHERE session = ?1 ORDER BY message, \
               CASE kind WHEN 'text' THEN 0 WHEN 'reasoning' THEN 1 ELSE 2 END, item_id";
    all(conn, sql, [key], |row| codec::draft(session, row))
}

/// Lists the settled mutations of a session; of all sessions, those without a call.
pub(super) fn past_mutations(conn: &Connection, session: Option<&SessionId>) -> Result<Vec<Mutation>> {
    let Some(session) = session else {
        let sql = select!(mutation "FROM mutation m JOIN event_sequence q ON q.key = m.session \
                          WHERE m.state = 'settled' AND m.call_id IS NULL ORDER BY m.created, m.id");
        return all(conn, sql, [], codec::mutation);
    };
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = select!(mutation "FROM mutation m JOIN event_sequence q ON q.key = m.session \
                      WHERE m.session = ?1 AND m.state = 'settled' ORDER BY m.created, m.id");
    all(conn, sql, [key], codec::mutation)
}

/// Lists the unsettled mutations of a session, or of all.
pub(super) fn mutations(conn: &Connection, session: Option<&SessionId>) -> Result<Vec<Mutation>> {
    let Some(session) = session else {
        let sql = select!(mutation "FROM mutation m JOIN event_sequence q ON q.key = m.session \
                          WHERE m.state <> 'settled' ORDER BY m.created, m.id");
        return all(conn, sql, [], codec::mutation);
    };
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = select!(mutation "FROM mutation m JOIN event_sequence q ON q.key = m.session \
                      WHERE m.session = ?1 AND m.state <> 'settled' ORDER BY m.created, m.id");
    all(conn, sql, [key], codec::mutation)
}

/// Lists the process records of a session.
pub(super) fn processes(conn: &Connection, session: &SessionId) -> Result<Vec<ToolProcess>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let sql = "SELECT message, call_id, pid, pgid, start_time, boot_id, command, cwd, spool_path, background \
               FROM tool_process WHERE session = ?1 ORDER BY message, call_id";
    all(conn, sql, [key], |row| codec::process(session, row))
}

/// Lists the background jobs of all sessions.
pub(super) fn jobs(conn: &Connection) -> Result<Vec<JobRecord>> {
    all(conn, "SELECT data FROM job ORDER BY notification", [], |row| {
        from_json("a background job", &row.get::<_, String>(0)?)
    })
}

/// Reads a content-addressed value.
pub(super) fn blob(conn: &Connection, hash: &str) -> Result<Option<Vec<u8>>> {
    first(conn, "SELECT data FROM blob WHERE hash = ?1", [hash], |row| Ok(row.get(0)?))
}

/// Reads a value by key.
pub(super) fn value(conn: &Connection, key: &str) -> Result<Option<String>> {
    first(conn, "SELECT value FROM kv WHERE key = ?1", [key], |row| Ok(row.get(0)?))
}

/// Lists saved permissions.
pub(super) fn saved_permissions(conn: &Connection, project: Option<&ProjectId>) -> Result<Vec<SavedPermission>> {
    let sql = "SELECT id, project_id, action, resource FROM permission WHERE ?1 IS NULL OR project_id = ?1 \
               ORDER BY rowid";
    all(conn, sql, [project.map(ProjectId::as_str)], |row| {
        Ok(SavedPermission {
            id: SavedPermissionId::from_trusted(row.get::<_, String>(0)?),
            project_id: ProjectId::new(row.get::<_, String>(1)?),
            action: row.get(2)?,
            resource: row.get(3)?,
        })
    })
}

/// Reads the things to do of a session.
pub(super) fn todos(conn: &Connection, session: &SessionId) -> Result<Vec<Todo>> {
    let Some(key) = key(conn, session)? else { return Ok(Vec::new()) };
    let items = first(conn, "SELECT items FROM todo WHERE session = ?1", [key], |row| {
        from_json("the things to do", &row.get::<_, String>(0)?)
    })?;
    Ok(items.unwrap_or_default())
}
