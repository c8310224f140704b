//! The rows that the reducer works on.

use abide_schema::message::{AssistantContent, ItemKind, Message};
use abide_schema::project::{ContextRow, InputRow, MessageRow, Position, Rows};
use abide_schema::session::SessionInfo;
use abide_schema::{AgentId, CallId, MessageId, SessionId, WorkspaceId};
use rusqlite::params;

use super::codec::{self, Result, int, message_json, message_state, select, to_json, to_json_opt, word};
use super::tx::SqliteTx;
use crate::store::StoreError;
use crate::store::transact::is_open_item;

impl SqliteTx<'_> {
    fn insert_content(&self, message: i64, ordinal: i64, item: &AssistantContent) -> Result<()> {
        self.run(
            "INSERT INTO session_content (message, ordinal, kind, item_id, open, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![message, ordinal, item.kind().as_str(), item.id(), is_open_item(item), to_json(item)?],
        )?;
        Ok(())
    }

    /// Reads the newest message of a session that `sql` finds in the session's range of keys.
    fn newest_message(&mut self, session: &SessionId, sql: &str, call: Option<&str>) -> Result<Option<MessageRow>> {
        let Some(key) = self.key(session)? else { return Ok(None) };
        let (first, last) = codec::message_range(key)?.into_inner();
        let row = match call {
            Some(call) => self.first(sql, params![first, last, call], codec::message),
            None => self.first(sql, params![first, last], codec::message),
        };
        Ok(row?.map(|(_, row)| row))
    }

    /// Updates what changes often, so that no index is written; says whether that was all.
    fn update_session(&self, key: i64, session: &SessionInfo) -> Result<bool> {
        let changed = self.run(
            "UPDATE session SET fork = ?2, subpath = ?3, title = ?4, agent = ?5, model = ?6, metadata = ?7, \
             permissions = ?8, revert = ?9, outcome = ?10, cost = ?11, tokens_input = ?12, tokens_output = ?13, \
             tokens_reasoning = ?14, tokens_cache_read = ?15, tokens_cache_write = ?16, time_updated = ?17, \
             time_idle = ?18, time_viewed = ?19, time_archived = ?20 \
             WHERE key = ?1 AND project_id = ?21 AND directory = ?22 AND workspace_id IS ?23 AND parent_id IS ?24 \
             AND time_created = ?25 AND slug = ?26 AND version = ?27",
            params![
                key,
                to_json_opt(session.fork.as_ref())?,
                session.subpath,
                session.title,
                session.agent.as_ref().map(AgentId::as_str),
                to_json_opt(session.model.as_ref())?,
                to_json_opt(session.metadata.as_ref())?,
                to_json_opt(session.permissions.as_ref())?,
                to_json_opt(session.revert.as_ref())?,
                session.outcome.map(word).transpose()?,
                session.cost,
                int(session.tokens.input),
                int(session.tokens.output),
                int(session.tokens.reasoning),
                int(session.tokens.cache.read),
                int(session.tokens.cache.write),
                session.time.updated.0,
                session.time.idle.map(|time| time.0),
                session.time.viewed.map(|time| time.0),
                session.time.archived.map(|time| time.0),
                session.project_id.as_str(),
                session.location.directory,
                session.location.workspace_id.as_ref().map(WorkspaceId::as_str),
                session.parent_id.as_ref().map(SessionId::as_str),
                session.time.created.0,
                session.slug,
                session.version
            ],
        )?;
        Ok(changed > 0)
    }

    /// Deletes the messages of a session from a place on.
    fn delete_messages(&self, first: i64, last: i64) -> Result<()> {
        self.run("DELETE FROM session_content WHERE message BETWEEN ?1 AND ?2", [first, last])?;
        self.run("DELETE FROM session_message WHERE key BETWEEN ?1 AND ?2", [first, last])?;
        Ok(())
    }
}

impl Rows for SqliteTx<'_> {
    type Error = StoreError;

    fn session(&mut self, id: &SessionId) -> Result<Option<SessionInfo>> {
        self.first(select!(session "FROM session WHERE id = ?1"), [id.as_str()], codec::session)
    }

    fn put_session(&mut self, session: &SessionInfo) -> Result<()> {
        let key = self.make_key(&session.id)?;
        if self.update_session(key, session)? {
            return Ok(());
        }
        self.run(
            "INSERT INTO session (key, id, project_id, workspace_id, parent_id, fork, slug, directory, subpath, title, \
             agent, model, version, metadata, permissions, revert, outcome, cost, tokens_input, tokens_output, \
             tokens_reasoning, tokens_cache_read, tokens_cache_write, time_created, time_updated, time_idle, \
             time_viewed, time_archived) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
             ?22, ?23, ?24, ?25, ?26, ?27, ?28) \
             ON CONFLICT (key) DO UPDATE SET project_id = ?3, workspace_id = ?4, parent_id = ?5, fork = ?6, slug = ?7, \
             directory = ?8, subpath = ?9, title = ?10, agent = ?11, model = ?12, version = ?13, metadata = ?14, \
             permissions = ?15, revert = ?16, outcome = ?17, cost = ?18, tokens_input = ?19, tokens_output = ?20, \
             tokens_reasoning = ?21, tokens_cache_read = ?22, tokens_cache_write = ?23, time_created = ?24, \
             time_updated = ?25, time_idle = ?26, time_viewed = ?27, time_archived = ?28",
            params![
                key,
                session.id.as_str(),
                session.project_id.as_str(),
                session.location.workspace_id.as_ref().map(WorkspaceId::as_str),
                session.parent_id.as_ref().map(SessionId::as_str),
                to_json_opt(session.fork.as_ref())?,
                session.slug,
                session.location.directory,
                session.subpath,
                session.title,
                session.agent.as_ref().map(AgentId::as_str),
                to_json_opt(session.model.as_ref())?,
                session.version,
                to_json_opt(session.metadata.as_ref())?,
                to_json_opt(session.permissions.as_ref())?,
                to_json_opt(session.revert.as_ref())?,
                session.outcome.map(word).transpose()?,
                session.cost,
                int(session.tokens.input),
                int(session.tokens.output),
                int(session.tokens.reasoning),
                int(session.tokens.cache.read),
                int(session.tokens.cache.write),
                session.time.created.0,
                session.time.updated.0,
                session.time.idle.map(|time| time.0),
                session.time.viewed.map(|time| time.0),
                session.time.archived.map(|time| time.0)
            ],
        )?;
        Ok(())
    }

    fn delete_session(&mut self, id: &SessionId) -> Result<()> {
        let Some(key) = self.key(id)? else { return Ok(()) };
        let (first, last) = codec::message_range(key)?.into_inner();
        self.delete_messages(first, last)?;
        // Inputs and context hang on this row.
        self.run("DELETE FROM session WHERE key = ?1", [key])?;
        Ok(())
    }

    fn message(&mut self, id: &MessageId) -> Result<Option<MessageRow>> {
        let sql = select!(message "FROM session_message m JOIN session s ON s.key = m.key >> 40 WHERE m.id = ?1");
        Ok(self.first(sql, [id.as_str()], codec::message)?.map(|(_, row)| row))
    }

    fn insert_message(&mut self, row: &MessageRow) -> Result<()> {
        let message = codec::message_key(self.make_key(&row.session_id)?, row.position)?;
        let call = match &row.message {
            Message::Shell(shell) => Some(shell.call_id.as_str()),
            Message::User(_)
            | Message::Assistant(_)
            | Message::Synthetic(_)
            | Message::System(_)
            | Message::Compaction(_)
            | Message::AgentSwitched(_)
            | Message::ModelSwitched(_)
            | Message::Skill(_)
            | Message::LocationSwitched(_)
            | Message::Idle(_) => None,
        };
        self.run(
            "INSERT INTO session_message (key, id, type, state, call_id, time_created, data) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                message,
                row.message.id().as_str(),
                row.message.kind(),
                message_state(&row.message),
                call,
                row.message.created().0,
                message_json(&row.message)?
            ],
        )?;
        if let Message::Assistant(assistant) = &row.message {
            for (ordinal, item) in (0..).zip(&assistant.content) {
                self.insert_content(message, ordinal, item)?;
            }
        }
        Ok(())
    }

    fn update_message(&mut self, row: &MessageRow) -> Result<()> {
        let (id, state, data) = (row.message.id().as_str(), message_state(&row.message), message_json(&row.message)?);
        // An index is written only when the state changes.
        let sql = "UPDATE session_message SET data = ?3 WHERE id = ?1 AND state = ?2";
        if self.run(sql, params![id, state, data])? == 0 {
            self.run("UPDATE session_message SET state = ?2, data = ?3 WHERE id = ?1", params![id, state, data])?;
        }
        Ok(())
    }

    fn newest_assistant(&mut self, session: &SessionId) -> Result<Option<MessageRow>> {
        let sql = select!(message "FROM session_message m JOIN session s ON s.key = m.key >> 40 \
                          WHERE m.type = 'assistant' AND m.key BETWEEN ?1 AND ?2 ORDER BY m.key DESC LIMIT 1");
        self.newest_message(session, sql, None)
    }

    fn shell_message(&mut self, session: &SessionId, call: &CallId) -> Result<Option<MessageRow>> {
        let sql = select!(message "FROM session_message m JOIN session s ON s.key = m.key >> 40 \
                          WHERE m.call_id = ?3 AND m.key BETWEEN ?1 AND ?2 ORDER BY m.key DESC LIMIT 1");
        self.newest_message(session, sql, Some(call.as_str()))
    }

    fn push_content(&mut self, message: &MessageId, item: &AssistantContent) -> Result<()> {
        let place = self.first(
            "SELECT m.key, (SELECT ifnull(max(ordinal) + 1, 0) FROM session_content WHERE message = m.key) \
             FROM session_message m WHERE m.id = ?1",
            [message.as_str()],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )?;
        match place {
            Some((key, ordinal)) => self.insert_content(key, ordinal, item),
            None => Ok(()),
        }
    }

    fn content(
        &mut self,
        session: &SessionId,
        message: &MessageId,
        kind: ItemKind,
        item_id: &str,
    ) -> Result<Option<(u32, AssistantContent)>> {
        let Some(key) = self.key(session)? else { return Ok(None) };
        self.first(
            "SELECT c.ordinal, c.data FROM session_message m JOIN session_content c ON c.message = m.key \
             WHERE m.id = ?1 AND m.key >> 40 = ?2 AND c.item_id = ?4 AND c.kind = ?3 ORDER BY c.ordinal DESC LIMIT 1",
            params![message.as_str(), key, kind.as_str(), item_id],
            |row| Ok((row.get(0)?, codec::content(row, 1)?)),
        )
    }

    fn set_content(&mut self, message: &MessageId, index: u32, item: &AssistantContent) -> Result<()> {
        let params = params![message.as_str(), index, is_open_item(item), to_json(item)?];
        // An index is written only when the item ends.
        let same = "UPDATE session_content SET data = ?4 \
                    WHERE message = (SELECT key FROM session_message WHERE id = ?1) AND ordinal = ?2 AND open = ?3";
        if self.run(same, params)? == 0 {
            let changed = "UPDATE session_content SET open = ?3, data = ?4 \
                           WHERE message = (SELECT key FROM session_message WHERE id = ?1) AND ordinal = ?2";
            self.run(changed, params)?;
        }
        Ok(())
    }

    fn input(&mut self, id: &MessageId) -> Result<Option<InputRow>> {
        let sql = select!(input "FROM session_input i JOIN session s ON s.key = i.session WHERE i.id = ?1");
        self.first(sql, [id.as_str()], codec::input)
    }

    fn insert_input(&mut self, row: &InputRow) -> Result<()> {
        let key = self.make_key(&row.session_id)?;
        self.run(
            "INSERT INTO session_input (id, session, kind, payload, delivery, admitted_seq, admitted_contract_seq, \
             promoted_seq, promoted_contract_seq, cancelled_seq, input_hash, metadata, time_created) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            params![
                row.id.as_str(),
                key,
                word(row.kind)?,
                to_json(&row.payload)?,
                word(row.delivery)?,
                int(row.admitted_seq.0),
                row.admitted_contract_seq.map(|seq| int(seq.0)),
                row.promoted_seq.map(|seq| int(seq.0)),
                row.promoted_contract_seq.map(|seq| int(seq.0)),
                row.cancelled_seq.map(|seq| int(seq.0)),
                row.input_hash,
                to_json_opt(row.metadata.as_ref())?,
                row.time_created.0
            ],
        )?;
        Ok(())
    }

    fn update_input(&mut self, row: &InputRow) -> Result<()> {
        // The admission stays as it was.
        self.run(
            "UPDATE session_input SET delivery = ?2, promoted_seq = ?3, promoted_contract_seq = ?4, cancelled_seq = ?5 \
             WHERE id = ?1",
            params![
                row.id.as_str(),
                word(row.delivery)?,
                row.promoted_seq.map(|seq| int(seq.0)),
                row.promoted_contract_seq.map(|seq| int(seq.0)),
                row.cancelled_seq.map(|seq| int(seq.0))
            ],
        )?;
        Ok(())
    }

    fn context(&mut self, session: &SessionId) -> Result<Option<ContextRow>> {
        let Some(key) = self.key(session)? else { return Ok(None) };
        self.first(select!(context "FROM session_context c WHERE c.session = ?1"), [key], codec::context)
    }

    fn put_context(&mut self, session: &SessionId, row: Option<&ContextRow>) -> Result<()> {
        let key = self.make_key(session)?;
        match row {
            Some(row) => self.run(
                "INSERT OR REPLACE INTO session_context (session, baseline_hash, baseline_seq, epoch_values, \
                 current_values) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    key,
                    row.baseline_hash,
                    int(row.baseline_seq.0),
                    to_json(&row.epoch_values)?,
                    to_json(&row.current_values)?
                ],
            )?,
            None => self.run("DELETE FROM session_context WHERE session = ?1", [key])?,
        };
        Ok(())
    }

    fn delete_from(&mut self, session: &SessionId, from: Position) -> Result<()> {
        let Some(key) = self.key(session)? else { return Ok(()) };
        self.delete_messages(codec::message_key(key, from)?, *codec::message_range(key)?.end())?;
        let at = int(from.first_event().0);
        self.run("DELETE FROM session_input WHERE session = ?1 AND admitted_seq >= ?2", params![key, at])?;
        self.run("DELETE FROM session_input WHERE session = ?1 AND promoted_seq >= ?2", params![key, at])?;
        Ok(())
    }
}
