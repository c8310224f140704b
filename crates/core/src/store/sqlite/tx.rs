//! One write transaction: the log, the leases, the journals.

use std::collections::HashMap;
use std::sync::Arc;

use abide_schema::event::StoredEvent;
use abide_schema::message::ItemKind;
use abide_schema::project::{MemoryRows, ProjectError, Rows as _, apply};
use abide_schema::session::SessionInfo;
use abide_schema::{EventId, MessageId, MutationId, Seq, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::codec::{self, Result, int, select, to_json, to_json_opt};
use super::read;
use crate::store::transact::{self, EventIds, Tx};
use crate::store::{
    AppendError, Batch, BusEvent, CallKey, Draft, Head, JobRecord, Lease, Mutation, MutationState, Replay, ReplayError,
    ReplayOutcome, StepAttempt, StoreError, ToolProcess,
};
use crate::world::World;

/// What subscribers and watchers learn after the commit.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) events: Vec<BusEvent>,
    pub(super) heads: Vec<(SessionId, Head)>,
    /// Whether a session was deleted.
    pub(super) has_deletion: bool,
}

/// A session's key never changes; this many are remembered.
const MAX_KEYS: usize = 10_000;

/// A write transaction.
pub(super) struct SqliteTx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) keys: &'a mut HashMap<SessionId, i64>,
    pub(super) world: &'a World,
    pub(super) ids: &'a mut EventIds,
    pub(super) outbox: Outbox,
}

impl SqliteTx<'_> {
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// Reads the first row, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        rows.next()?.map(read).transpose()
    }

    /// Returns the key of a session that has a row in `event_sequence`.
    pub(super) fn key(&mut self, session: &SessionId) -> Result<Option<i64>> {
        if let Some(key) = self.keys.get(session) {
            return Ok(Some(*key));
        }
        let mut statement = self.conn.prepare_cached("SELECT key FROM event_sequence WHERE aggregate_id = ?1")?;
        let key: Option<i64> = statement.query_row([session.as_str()], |row| row.get(0)).optional()?;
        if let Some(key) = key {
            self.remember(session, key);
        }
        Ok(key)
    }

    fn remember(&mut self, session: &SessionId, key: i64) {
        if self.keys.len() >= MAX_KEYS {
            self.keys.clear();
        }
        self.keys.insert(session.clone(), key);
    }

    /// Returns the key of a session, making its row in `event_sequence` when there is none.
    pub(super) fn make_key(&mut self, session: &SessionId) -> Result<i64> {
        if let Some(key) = self.key(session)? {
            return Ok(key);
        }
        self.run("INSERT INTO event_sequence (aggregate_id) VALUES (?1)", [session.as_str()])?;
        let key = self.conn.last_insert_rowid();
        self.remember(session, key);
        Ok(key)
    }

    pub(super) fn append(&mut self, batch: Batch) -> std::result::Result<Vec<Arc<StoredEvent>>, AppendError> {
        let session = batch.session.clone();
        let mut ids = std::mem::take(self.ids);
        let world = self.world;
        let appended = transact::append(self, batch, world, &mut ids);
        *self.ids = ids;
        let appended = appended?;
        self.outbox.events.extend(appended.fresh);
        self.outbox.heads.extend(appended.head.map(|head| (session, head)));
        Ok(appended.events)
    }

    pub(super) fn replay(&mut self, replay: Replay) -> std::result::Result<ReplayOutcome, ReplayError> {
        let session = replay.record.durable.aggregate_id.clone();
        let publish = replay.publish;
        let (outcome, appended) = transact::replay(self, replay)?;
        if publish {
            self.outbox.events.extend(appended.fresh);
        }
        self.outbox.heads.extend(appended.head.map(|head| (session, head)));
        Ok(outcome)
    }

    /// Deletes everything of a session.
    pub(super) fn remove(&mut self, session: &SessionId) -> Result<()> {
        let Some(key) = self.key(session)? else { return Ok(()) };
        self.delete_session(session)?;
        let (first, last) = codec::log_range(key)?.into_inner();
        self.run("DELETE FROM event WHERE pos BETWEEN ?1 AND ?2", [first, last])?;
        // The operational rows hang on this one.
        self.run("DELETE FROM event_sequence WHERE key = ?1", [key])?;
        self.keys.remove(session);
        Ok(())
    }

    /// Deletes at most `limit` events of one deleted session that is not `watched`, except the deletion; says whether
    /// more may be left.
    pub(super) fn purge(&mut self, limit: u32, watched: &[SessionId]) -> Result<bool> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT q.key, q.aggregate_id FROM purge p JOIN event_sequence q ON q.key = p.session")?;
        let mut rows = statement.query([])?;
        let mut chosen = None;
        while let (None, Some(row)) = (chosen, rows.next()?) {
            let id = SessionId::from_trusted(row.get::<_, String>(1)?);
            if !watched.contains(&id) {
                chosen = Some(row.get::<_, i64>(0)?);
            }
        }
        drop(rows);
        let Some(key) = chosen else { return Ok(false) };
        let (first, last) = codec::log_range(key)?.into_inner();
        let gone = self.run(
            "DELETE FROM event WHERE pos IN (SELECT pos FROM event WHERE pos BETWEEN ?1 AND ?2 \
             AND pos < (SELECT max(pos) FROM event WHERE pos BETWEEN ?1 AND ?2) LIMIT ?3)",
            params![first, last, limit],
        )?;
        if gone == 0 {
            self.run("DELETE FROM purge WHERE session = ?1", [key])?;
        }
        Ok(true)
    }

    /// Says whether the log of the session with this key ends with its deletion.
    fn is_deleted(&self, key: i64) -> Result<bool> {
        let (first, last) = codec::log_range(key)?.into_inner();
        let sql = "SELECT type FROM event WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC LIMIT 1";
        let kind = self.first(sql, [first, last], |row| Ok(row.get::<_, String>(0)?))?;
        Ok(kind.is_some_and(|kind| codec::is_deletion(&kind)))
    }

    /// Deletes and rebuilds the projections of a session.
    ///
    /// The log is folded apart from other sessions' rows, of which it is no function: a message that a revert removed
    /// here may have lent its id to another session since.
    pub(super) fn rebuild(&mut self, session: &SessionId) -> Result<()> {
        let Some(key) = self.key(session)? else { return Ok(()) };
        if self.is_deleted(key)? {
            return self.delete_session(session);
        }
        let mut folded = MemoryRows::default();
        let sql = select!(event "FROM event e WHERE e.pos BETWEEN ?1 AND ?2 ORDER BY e.pos");
        let mut statement = self.conn.prepare_cached(sql)?;
        let (first, last) = codec::log_range(key)?.into_inner();
        let mut rows = statement.query([first, last])?;
        while let Some(row) = rows.next()? {
            let Some(event) = codec::event(row)? else { continue };
            apply(&mut folded, &event).map_err(|error| {
                let name = event.data.def().name;
                StoreError::Corrupt(format!(
                    "event {} ({name}) of session {session} cannot be projected: {error}",
                    event.seq
                ))
            })?;
        }
        self.delete_session(session)?;
        let Some(info) = folded.get_session(session) else { return Ok(()) };
        self.put_session(info)?;
        for message in folded.messages(session) {
            self.insert_message(message)?;
        }
        for input in folded.inputs(session) {
            self.insert_input(input)?;
        }
        self.put_context(session, folded.get_context(session))
    }

    pub(super) fn put_attempt(&mut self, attempt: &StepAttempt) -> Result<()> {
        let key = self.make_key(&attempt.session)?;
        self.run(
            "INSERT OR REPLACE INTO step_attempt (message, session, attempt, state, updated) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                attempt.message.as_str(),
                key,
                attempt.attempt,
                codec::attempt_state(attempt.state),
                attempt.updated.0
            ],
        )?;
        Ok(())
    }

    pub(super) fn put_draft(&mut self, draft: &Draft) -> Result<()> {
        let key = self.make_key(&draft.session)?;
        self.run(
            "INSERT OR REPLACE INTO draft (message, kind, item_id, session, text, updated) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![draft.message.as_str(), draft.kind.as_str(), draft.item_id, key, draft.text, draft.updated.0],
        )?;
        Ok(())
    }

    pub(super) fn put_process(&mut self, process: &ToolProcess) -> Result<()> {
        let key = self.make_key(&process.key.session)?;
        self.run(
            "INSERT OR REPLACE INTO tool_process (session, message, call_id, pid, pgid, start_time, boot_id, command, \
             cwd, spool_path, background) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                key,
                process.key.message.as_str(),
                process.key.call.as_str(),
                process.pid,
                process.pgid,
                int(process.start_time),
                process.boot_id,
                process.command,
                process.cwd,
                process.spool_path,
                process.background
            ],
        )?;
        Ok(())
    }
}

impl SqliteTx<'_> {
    pub(super) fn put_job(&mut self, job: &JobRecord) -> Result<()> {
        let key = self.make_key(&job.session)?;
        self.run(
            "INSERT OR REPLACE INTO job (notification, session, data) VALUES (?1, ?2, ?3)",
            params![job.notification.as_str(), key, to_json(job)?],
        )?;
        Ok(())
    }
}

impl Tx for SqliteTx<'_> {
    fn head(&mut self, session: &SessionId) -> Result<Option<Head>> {
        match self.key(session)? {
            Some(key) => read::head_of(self.conn, key),
            None => Ok(None),
        }
    }

    fn replay_owner(&mut self, session: &SessionId) -> Result<Option<String>> {
        let owner =
            self.first("SELECT replay_owner FROM event_sequence WHERE aggregate_id = ?1", [session.as_str()], |row| {
                Ok(row.get::<_, Option<String>>(0)?)
            })?;
        Ok(owner.flatten())
    }

    fn set_replay_owner(&mut self, session: &SessionId, owner: &str) -> Result<()> {
        let key = self.make_key(session)?;
        self.run("UPDATE event_sequence SET replay_owner = ?2 WHERE key = ?1", params![key, owner])?;
        Ok(())
    }

    fn event_by_id(&mut self, id: &EventId) -> Result<Option<StoredEvent>> {
        let sql = select!(event "FROM event e WHERE e.id = ?1");
        Ok(self.first(sql, [id.as_str()], codec::event)?.flatten())
    }

    fn event_at(&mut self, session: &SessionId, at: Seq) -> Result<Option<StoredEvent>> {
        let Some(key) = self.key(session)? else { return Ok(None) };
        let sql = select!(event "FROM event e WHERE e.pos = ?1");
        Ok(self.first(sql, [codec::log_pos(key, at)?], codec::event)?.flatten())
    }

    fn insert_event(&mut self, event: &StoredEvent, head: Head, data: &str) -> Result<()> {
        let key = self.make_key(event.session_id())?;
        self.run(
            "INSERT INTO event (pos, id, contract_head, counted, type, created, location, metadata, data) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                codec::log_pos(key, event.seq)?,
                event.id.as_str(),
                head.contract_seq.map(|seq| int(seq.0)),
                event.contract_seq.is_some(),
                event.data.def().stored_type(),
                event.created.0,
                to_json_opt(event.location.as_ref())?,
                to_json_opt(event.metadata.as_ref())?,
                data
            ],
        )?;
        Ok(())
    }

    fn project(&mut self, event: &StoredEvent) -> std::result::Result<(), ProjectError<StoreError>> {
        apply(self, event)
    }

    fn session_info(&mut self, session: &SessionId) -> Result<Option<SessionInfo>> {
        self.session(session)
    }

    fn has_session(&mut self, session: &SessionId) -> Result<bool> {
        let Some(key) = self.key(session)? else { return Ok(false) };
        Ok(self.first("SELECT 1 FROM session WHERE key = ?1", [key], |_| Ok(()))?.is_some())
    }

    fn has_pending_compaction(&mut self, session: &SessionId) -> Result<bool> {
        let Some(key) = self.key(session)? else { return Ok(false) };
        let sql = "SELECT 1 FROM session_input WHERE session = ?1 AND kind = 'compaction' AND promoted_seq IS NULL \
                   AND cancelled_seq IS NULL";
        Ok(self.first(sql, [key], |_| Ok(()))?.is_some())
    }

    fn lease(&mut self, session: &SessionId) -> Result<Option<Lease>> {
        let sql =
            select!(lease "FROM session_lease l JOIN event_sequence q ON q.key = l.session WHERE q.aggregate_id = ?1");
        self.first(sql, [session.as_str()], codec::lease)
    }

    fn put_lease(&mut self, lease: &Lease) -> Result<()> {
        let key = self.make_key(&lease.session)?;
        self.run(
            "INSERT OR REPLACE INTO session_lease (session, owner_id, fence, attempts, wake_seq, done_seq, interrupt_seq) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                key,
                lease.owner.as_ref().map(abide_schema::OwnerId::as_str),
                int(lease.fence),
                lease.attempts,
                lease.wake_seq.map(|seq| int(seq.0)),
                lease.done_seq.map(|seq| int(seq.0)),
                lease.interrupt_seq.map(|seq| int(seq.0))
            ],
        )?;
        Ok(())
    }

    fn put_blob(&mut self, hash: &str, data: &[u8]) -> Result<()> {
        let size = i64::try_from(data.len()).unwrap_or(i64::MAX);
        self.run("INSERT OR IGNORE INTO blob (hash, size, data) VALUES (?1, ?2, ?3)", params![hash, size, data])?;
        Ok(())
    }

    fn drop_draft(&mut self, message: &MessageId, kind: ItemKind, item_id: &str) -> Result<()> {
        self.run(
            "DELETE FROM draft WHERE message = ?1 AND kind = ?2 AND item_id = ?3",
            params![message.as_str(), kind.as_str(), item_id],
        )?;
        Ok(())
    }

    fn drop_step(&mut self, message: &MessageId) -> Result<()> {
        self.run("DELETE FROM draft WHERE message = ?1", [message.as_str()])?;
        self.run("DELETE FROM step_attempt WHERE message = ?1", [message.as_str()])?;
        Ok(())
    }

    fn mutation_by_call(&mut self, call: &CallKey) -> Result<Option<MutationId>> {
        let Some(key) = self.key(&call.session)? else { return Ok(None) };
        self.first(
            "SELECT id FROM mutation WHERE session = ?1 AND message = ?2 AND call_id = ?3",
            params![key, call.message.as_str(), call.call.as_str()],
            |row| Ok(MutationId::from_trusted(row.get::<_, String>(0)?)),
        )
    }

    fn mutation_session(&mut self, id: &MutationId) -> Result<Option<SessionId>> {
        self.first(
            "SELECT q.aggregate_id FROM mutation m JOIN event_sequence q ON q.key = m.session WHERE m.id = ?1",
            [id.as_str()],
            |row| Ok(SessionId::from_trusted(row.get::<_, String>(0)?)),
        )
    }

    fn mutation_state(&mut self, id: &MutationId) -> Result<Option<MutationState>> {
        self.first("SELECT state FROM mutation WHERE id = ?1", [id.as_str()], codec::state)
    }

    fn insert_mutation(&mut self, mutation: &Mutation) -> Result<()> {
        let key = self.make_key(&mutation.session)?;
        self.run(
            "INSERT INTO mutation (id, session, message, call_id, tool, state, output, files, created) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                mutation.id.as_str(),
                key,
                mutation.call.as_ref().map(|call| call.message.as_str()),
                mutation.call.as_ref().map(|call| call.call.as_str()),
                mutation.tool,
                codec::mutation_state(mutation.state)?,
                to_json(&mutation.output)?,
                to_json(&mutation.files)?,
                mutation.created.0
            ],
        )?;
        Ok(())
    }

    fn set_mutation_state(&mut self, id: &MutationId, state: MutationState) -> Result<()> {
        let word = codec::mutation_state(state)?;
        if state == MutationState::Settled {
            // The output is in the log now.
            self.run("UPDATE mutation SET state = ?2, output = 'null' WHERE id = ?1", params![id.as_str(), word])?;
        } else {
            self.run("UPDATE mutation SET state = ?2 WHERE id = ?1", params![id.as_str(), word])?;
        }
        Ok(())
    }

    fn drop_process(&mut self, call: &CallKey) -> Result<()> {
        let Some(key) = self.key(&call.session)? else { return Ok(()) };
        self.run(
            "DELETE FROM tool_process WHERE session = ?1 AND message = ?2 AND call_id = ?3",
            params![key, call.message.as_str(), call.call.as_str()],
        )?;
        Ok(())
    }

    fn drop_job(&mut self, notification: &MessageId) -> Result<()> {
        self.run("DELETE FROM job WHERE notification = ?1", [notification.as_str()])?;
        Ok(())
    }

    fn forget_mutations(&mut self, before: Timestamp) -> Result<()> {
        let sql = "DELETE FROM mutation WHERE state = 'settled' AND call_id IS NOT NULL AND created < ?1";
        self.run(sql, [before.0])?;
        Ok(())
    }

    fn drop_reverts(&mut self, session: &SessionId) -> Result<()> {
        let Some(key) = self.key(session)? else { return Ok(()) };
        self.run("DELETE FROM mutation WHERE session = ?1 AND call_id IS NULL AND state = 'settled'", [key])?;
        Ok(())
    }

    fn drop_operational(&mut self, session: &SessionId) -> Result<()> {
        let Some(key) = self.key(session)? else { return Ok(()) };
        self.run("DELETE FROM draft WHERE session = ?1", [key])?;
        self.run("DELETE FROM step_attempt WHERE session = ?1", [key])?;
        Ok(())
    }

    fn forget_session(&mut self, session: &SessionId) -> Result<()> {
        let Some(key) = self.key(session)? else { return Ok(()) };
        self.run("DELETE FROM draft WHERE session = ?1", [key])?;
        self.run("DELETE FROM step_attempt WHERE session = ?1", [key])?;
        self.run("DELETE FROM mutation WHERE session = ?1", [key])?;
        self.run("DELETE FROM tool_process WHERE session = ?1", [key])?;
        self.run("DELETE FROM job WHERE session = ?1", [key])?;
        self.run("DELETE FROM session_lease WHERE session = ?1", [key])?;
        self.run("DELETE FROM todo WHERE session = ?1", [key])?;
        self.run("INSERT OR IGNORE INTO purge (session) VALUES (?1)", [key])?;
        self.outbox.has_deletion = true;
        Ok(())
    }
}
