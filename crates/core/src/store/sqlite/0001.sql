-- Log. `key` names a session in all tables below and is never used again.
CREATE TABLE event_sequence (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  aggregate_id TEXT NOT NULL UNIQUE,
  replay_owner TEXT
) STRICT;
-- A log is one run of rows: pos = session key << 32 | position in the log. One index is written with each event.
CREATE TABLE event (
  pos INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  contract_head INTEGER,           -- the last contract position so far; this event's own when `counted`
  counted INTEGER NOT NULL,
  type TEXT NOT NULL,              -- name.version
  created INTEGER NOT NULL,
  location TEXT,
  metadata TEXT,
  data TEXT NOT NULL
) STRICT;

-- Projections: functions of the log.
CREATE TABLE session (
  key INTEGER PRIMARY KEY REFERENCES event_sequence(key) ON DELETE CASCADE,
  id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL,
  workspace_id TEXT,
  parent_id TEXT,
  fork TEXT,
  slug TEXT NOT NULL,
  directory TEXT NOT NULL,
  subpath TEXT,
  title TEXT NOT NULL,
  agent TEXT,
  model TEXT,
  version TEXT NOT NULL,
  metadata TEXT,
  permissions TEXT,
  revert TEXT,
  outcome TEXT,
  cost REAL NOT NULL,
  tokens_input INTEGER NOT NULL,
  tokens_output INTEGER NOT NULL,
  tokens_reasoning INTEGER NOT NULL,
  tokens_cache_read INTEGER NOT NULL,
  tokens_cache_write INTEGER NOT NULL,
  time_created INTEGER NOT NULL,
  time_updated INTEGER NOT NULL,
  time_idle INTEGER,
  time_viewed INTEGER,
  time_archived INTEGER
) STRICT;
CREATE INDEX session_time ON session (time_created, id);
CREATE INDEX session_project ON session (project_id, time_created, id);
CREATE INDEX session_directory ON session (directory, time_created, id);
CREATE INDEX session_parent ON session (parent_id) WHERE parent_id IS NOT NULL;

-- A transcript is one run of rows: key = session key << 40 | position in the log << 10 | index.
CREATE TABLE session_message (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  state INTEGER NOT NULL,          -- 0 settled, 1 open, 2 failed compaction
  call_id TEXT,                    -- of a shell message
  time_created INTEGER NOT NULL,
  data TEXT NOT NULL               -- without content
) STRICT;
CREATE INDEX message_found ON session_message (type, key) WHERE type IN ('assistant', 'compaction');
CREATE INDEX message_open ON session_message (key) WHERE state = 1;
CREATE INDEX message_call ON session_message (call_id, key) WHERE call_id IS NOT NULL;

CREATE TABLE session_content (
  message INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL,
  item_id TEXT NOT NULL,
  open INTEGER NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (message, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX content_item ON session_content (message, item_id, ordinal);
CREATE INDEX content_open ON session_content (message) WHERE open = 1;

CREATE TABLE session_input (
  id TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES session(key) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  delivery TEXT NOT NULL,
  admitted_seq INTEGER NOT NULL,
  admitted_contract_seq INTEGER,
  promoted_seq INTEGER,
  promoted_contract_seq INTEGER,
  cancelled_seq INTEGER,
  input_hash TEXT,
  metadata TEXT,
  time_created INTEGER NOT NULL,
  UNIQUE (session, admitted_seq)
) STRICT;
CREATE INDEX input_promoted ON session_input (session, promoted_seq) WHERE promoted_seq IS NOT NULL;
CREATE INDEX input_pending ON session_input (session, admitted_seq)
  WHERE promoted_seq IS NULL AND cancelled_seq IS NULL;
CREATE UNIQUE INDEX input_compaction ON session_input (session)
  WHERE kind = 'compaction' AND promoted_seq IS NULL AND cancelled_seq IS NULL;

CREATE TABLE session_context (
  session INTEGER PRIMARY KEY REFERENCES session(key) ON DELETE CASCADE,
  baseline_hash TEXT NOT NULL,
  baseline_seq INTEGER NOT NULL,
  epoch_values TEXT NOT NULL,
  current_values TEXT NOT NULL
) STRICT;

-- Operational rows: not in the log, not rebuilt; they make recovery smarter.
CREATE TABLE session_lease (
  session INTEGER PRIMARY KEY REFERENCES event_sequence(key) ON DELETE CASCADE,
  owner_id TEXT,
  fence INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  wake_seq INTEGER,
  done_seq INTEGER,
  interrupt_seq INTEGER
) STRICT;
CREATE INDEX lease_owner ON session_lease (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX lease_owed ON session_lease (session) WHERE wake_seq > ifnull(done_seq, -1);

CREATE TABLE step_attempt (
  message TEXT PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES event_sequence(key) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  state TEXT NOT NULL,
  updated INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_session ON step_attempt (session);

CREATE TABLE draft (
  message TEXT NOT NULL,
  kind TEXT NOT NULL,
  item_id TEXT NOT NULL,
  session INTEGER NOT NULL REFERENCES event_sequence(key) ON DELETE CASCADE,
  text TEXT NOT NULL,
  updated INTEGER NOT NULL,
  PRIMARY KEY (message, kind, item_id)
) STRICT;
CREATE INDEX draft_session ON draft (session);

CREATE TABLE mutation (
  id TEXT PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES event_sequence(key) ON DELETE CASCADE,
  message TEXT,
  call_id TEXT,
  tool TEXT NOT NULL,
  state TEXT NOT NULL,
  output TEXT NOT NULL,
  files TEXT NOT NULL,
  created INTEGER NOT NULL,
  UNIQUE (session, message, call_id)
) STRICT;
CREATE INDEX mutation_unsettled ON mutation (session, created) WHERE state <> 'settled';

CREATE TABLE tool_process (
  session INTEGER NOT NULL REFERENCES event_sequence(key) ON DELETE CASCADE,
  message TEXT NOT NULL,
  call_id TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pgid INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  command TEXT NOT NULL,
  cwd TEXT NOT NULL,
  spool_path TEXT NOT NULL,
  background INTEGER NOT NULL,
  PRIMARY KEY (session, message, call_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE todo (
  session INTEGER PRIMARY KEY REFERENCES event_sequence(key) ON DELETE CASCADE,
  items TEXT NOT NULL
) STRICT;

-- Deleted sessions whose events are still to be removed.
CREATE TABLE purge (session INTEGER PRIMARY KEY REFERENCES event_sequence(key) ON DELETE CASCADE) STRICT;

-- Small values.
CREATE TABLE blob (hash TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE permission (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  UNIQUE (project_id, action, resource)
) STRICT;

-- For people who look.
CREATE VIEW log AS
  SELECT q.aggregate_id AS session, e.pos & 0xffffffff AS seq, iif(e.counted, e.contract_head, NULL) AS contract_seq,
    e.id, e.type, e.created, e.data FROM event e JOIN event_sequence q ON q.key = e.pos >> 32;
CREATE VIEW transcript AS
  SELECT s.id AS session, (m.key >> 10) & 0x3fffffff AS seq, m.key & 0x3ff AS sub, m.id, m.type, m.state, m.data
  FROM session_message m JOIN session s ON s.key = m.key >> 40;
