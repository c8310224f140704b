//! Comparing projections with what the log says.

use std::collections::{BTreeMap, HashMap};

use abide_schema::event::EventData;
use abide_schema::{Seq, SessionId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::codec::{self, Result, select};
use super::migrate::open_scratch;
use super::tx::{Outbox, SqliteTx};
use crate::store::Head;
use crate::store::transact::{EventIds, Tx as _, next_contract_seq};
use crate::world::World;

/// The projections: what a row is called, and the rows of a session.
const TABLES: &[(&str, &str)] = &[
    ("session", "SELECT s.id AS name, s.* FROM session s WHERE s.id = ?1"),
    (
        "message",
        "SELECT m.id AS name, m.* FROM session_message m JOIN session s ON s.key = m.key >> 40 WHERE s.id = ?1",
    ),
    (
        "item",
        "SELECT m.id || ' ' || c.ordinal AS name, c.* FROM session_content c JOIN session_message m ON m.key = c.message \
         JOIN session s ON s.key = m.key >> 40 WHERE s.id = ?1",
    ),
    ("input", "SELECT i.id AS name, i.* FROM session_input i JOIN session s ON s.key = i.session WHERE s.id = ?1"),
    ("context", "SELECT s.id AS name, c.* FROM session_context c JOIN session s ON s.key = c.session WHERE s.id = ?1"),
];

type Dump = BTreeMap<String, Vec<(String, Value)>>;

fn dump(conn: &Connection, sql: &str, session: &SessionId) -> Result<Dump> {
    let mut statement = conn.prepare_cached(sql)?;
    let columns: Vec<String> = statement.column_names().map(ToOwned::to_owned).collect();
    let mut rows = statement.query([session.as_str()])?;
    let mut out = Dump::new();
    while let Some(row) = rows.next()? {
        let mut cells = Vec::new();
        for (index, column) in columns.iter().enumerate().skip(1) {
            cells.push((column.clone(), row.get::<_, Value>(index)?));
        }
        out.insert(row.get(0)?, cells);
    }
    Ok(out)
}

/// Shortens a value for a report.
fn brief(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(value) => value.clone(),
        Value::Blob(value) => format!("{} bytes", value.len()),
    };
    if text.chars().count() <= 120 { text } else { text.chars().take(120).chain(['…']).collect() }
}

fn compare(table: &str, stored: &Dump, rebuilt: &Dump, found: &mut Vec<String>) {
    for (name, cells) in stored {
        let Some(wanted) = rebuilt.get(name) else {
            found.push(format!("{table} {name}: is stored, but the log does not make it"));
            continue;
        };
        for ((column, have), (_, want)) in cells.iter().zip(wanted) {
            if have != want {
                found.push(format!("{table} {name}: {column} is {}, the log says {}", brief(have), brief(want)));
            }
        }
    }
    for name in rebuilt.keys().filter(|name| !stored.contains_key(*name)) {
        found.push(format!("{table} {name}: is missing"));
    }
}

/// Compares the projections of a session, as one moment shows them, with rebuilt ones.
pub(super) fn verify(conn: &Connection, world: &World, session: &SessionId) -> Result<Vec<String>> {
    let snapshot = conn.unchecked_transaction()?;
    let mut found = Vec::new();
    let key = "SELECT key FROM event_sequence WHERE aggregate_id = ?1";
    let Some(key) = snapshot.query_row(key, [session.as_str()], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(found);
    };
    let scratch = open_scratch()?;
    let (mut keys, mut ids) = (HashMap::new(), EventIds::default());
    scratch.execute_batch("BEGIN")?;
    let named = "INSERT INTO event_sequence (key, aggregate_id) VALUES (?1, ?2)";
    scratch.prepare(named)?.execute(params![key, session.as_str()])?;
    let mut tx = SqliteTx { conn: &scratch, keys: &mut keys, world, ids: &mut ids, outbox: Outbox::default() };
    let (begin, end) = codec::log_range(key)?.into_inner();
    // Of a deleted session the deletion alone may be left.
    let last = "SELECT type FROM event WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC LIMIT 1";
    let last: Option<String> = snapshot.query_row(last, [begin, end], |row| row.get(0)).optional()?;
    let deleted = last.is_some_and(|kind| codec::is_deletion(&kind));
    let mut head: Option<Head> = None;
    let sql = select!(event "FROM event e WHERE e.pos BETWEEN ?1 AND ?2 ORDER BY e.pos");
    let mut statement = snapshot.prepare_cached(sql)?;
    let mut rows = statement.query([begin, end])?;
    while !deleted && let Some(row) = rows.next()? {
        let at = codec::log_seq(row.get(1)?);
        let expected = crate::store::next_seq(head.map(|head| head.seq));
        if at != expected {
            found.push(format!("event {at}: expected position {expected}"));
        }
        let event = match codec::event(row) {
            Ok(Some(event)) => event,
            Ok(None) => {
                found.push(format!("event {at}: its type {} is unknown here", row.get::<_, String>(3)?));
                head = Some(Head { seq: at, contract_seq: head.and_then(|head| head.contract_seq) });
                continue;
            }
            Err(error) => {
                found.push(format!("event {at}: {error}"));
                head = Some(Head { seq: at, contract_seq: head.and_then(|head| head.contract_seq) });
                continue;
            }
        };
        if event.session_id() != session {
            found.push(format!("event {at}: its data belongs to session {}", event.session_id()));
        }
        let contract = next_contract_seq(head, event.data.def().visibility);
        if event.contract_seq != contract {
            let show = |seq: Option<Seq>| seq.map_or_else(|| "none".to_owned(), |seq| seq.to_string());
            found.push(format!(
                "event {at}: contract position {}, expected {}",
                show(event.contract_seq),
                show(contract)
            ));
        }
        head = Some(Head { seq: at, contract_seq: contract.or_else(|| head.and_then(|head| head.contract_seq)) });
        check_blobs(&snapshot, &event.data, at, &mut found)?;
        if let Err(error) = tx.project(&event) {
            found.push(format!("event {at} ({}): cannot be projected: {error}", event.data.def().name));
        }
    }
    for (table, sql) in TABLES {
        compare(table, &dump(&snapshot, sql, session)?, &dump(&scratch, sql, session)?, &mut found);
    }
    Ok(found)
}

/// Checks that the values that an event names are there.
fn check_blobs(conn: &Connection, data: &EventData, at: Seq, found: &mut Vec<String>) -> Result<()> {
    let named: Vec<&String> = if let EventData::ContextBaselined(data) = data {
        data.values.values().chain([&data.baseline]).collect()
    } else if let EventData::ContextUpdated(data) = data {
        data.delta.iter().flat_map(|delta| delta.values()).filter(|hash| *hash != "removed").collect()
    } else {
        Vec::new()
    };
    for hash in named {
        let sql = "SELECT 1 FROM blob WHERE hash = ?1";
        if conn.prepare_cached(sql)?.query_row([hash], |_| Ok(())).optional()?.is_none() {
            found.push(format!("event {at}: the value {hash} that it names is missing"));
        }
    }
    Ok(())
}

/// Lets SQLite check the file.
pub(super) fn check_file(conn: &Connection) -> Result<Vec<String>> {
    let mut statement = conn.prepare("PRAGMA quick_check")?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}
