-- Background jobs whose notices are not admitted yet.
CREATE TABLE job (
  notification TEXT PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES event_sequence(key) ON DELETE CASCADE,
  data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX job_session ON job (session);
