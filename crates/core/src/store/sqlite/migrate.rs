//! Opening the file, and bringing it to the newest schema.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::store::StoreError;

/// Marks the file as one of abide's (`abid` in ASCII).
const APPLICATION_ID: i64 = 0x6162_6964;
/// Scripts from each version to the next.
const MIGRATIONS: &[&str] = &[include_str!("0001.sql"), include_str!("0002.sql")];
/// How long another process may take to migrate.
const LOCK_TRIES: u32 = 1500;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The newest schema version.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Opens the database for the writer, migrated.
pub(super) fn open_writer(path: &Path, lock_timeout: Duration) -> Result<Connection, StoreError> {
    if let Some(directory) = path.parent() {
        make_directory(directory)?;
    }
    let mut conn = connect(path, lock_timeout)?;
    if version(&conn, path)? == newest() {
        check_schema(&conn, path)?;
        return Ok(conn);
    }
    let _held = lock(&path.with_extension("db.lock"))?;
    // Another process may have been faster.
    if version(&conn, path)? < newest() {
        migrate(&mut conn)?;
        // The new file's name must survive the loss of power, too.
        if let Some(directory) = path.parent() {
            let synced = File::open(directory).and_then(|directory| directory.sync_all());
            synced.map_err(|error| StoreError::Disk(format!("{}: {error}", directory.display())))?;
        }
    }
    check_schema(&conn, path)?;
    Ok(conn)
}

/// Refuses a database whose version is ours and whose tables are not: builds between two releases made such ones.
fn check_schema(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = schema(conn).map_err(|error| named(path, error))?;
    let wanted = schema(&open_scratch()?)?;
    let differing = wanted.iter().find(|(name, sql)| found.get(*name) != Some(sql));
    match differing {
        None => Ok(()),
        Some((name, _)) => {
            Err(StoreError::OtherSchema { path: path.display().to_string(), version: newest(), object: name.clone() })
        }
    }
}

/// The tables and indexes by name, as the statements that made them.
fn schema(conn: &Connection) -> Result<BTreeMap<String, String>, rusqlite::Error> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Opens the database for a reader.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| named(path, error))?;
    prepare(&conn, 64)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.execute_batch("PRAGMA query_only=ON; PRAGMA cache_size=-2000; PRAGMA temp_store=MEMORY;")?;
    Ok(conn)
}

/// Makes the newest schema in a fresh database in memory, for comparison with a rebuilt session.
pub(super) fn open_scratch() -> Result<Connection, StoreError> {
    let mut conn = Connection::open_in_memory()?;
    prepare(&conn, 128)?;
    migrate(&mut conn)?;
    conn.execute_batch("PRAGMA foreign_keys=ON;")?;
    Ok(conn)
}

fn prepare(conn: &Connection, n_statements: usize) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(n_statements);
    // Plans that do not depend on bound values: otherwise statements are compiled anew for each value that is compared
    // with the condition of a partial index.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn named(path: &Path, error: rusqlite::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Disk(text) => StoreError::Disk(format!("{}: {text}", path.display())),
        StoreError::Locked(text) => StoreError::Locked(format!("{}: {text}", path.display())),
        StoreError::Corrupt(text) => StoreError::Corrupt(format!("{}: {text}", path.display())),
        StoreError::Other(text) => StoreError::Other(format!("{}: {text}", path.display())),
        other @ (StoreError::NewerVersion { .. }
        | StoreError::OtherSchema { .. }
        | StoreError::Conflict(_)
        | StoreError::Fenced { .. }
        | StoreError::Closed(_)) => other,
    }
}

pub(super) fn make_directory(path: &Path) -> Result<(), StoreError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| StoreError::Disk(format!("{}: {error}", path.display())))
}

pub(super) fn connect(path: &Path, lock_timeout: Duration) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| named(path, error))?;
    prepare(&conn, 256)?;
    conn.busy_timeout(lock_timeout)?;
    // Commits do not wait for the disk here; the writer syncs the log itself, once for all that ask (see `writer`).
    conn.execute_batch(
        "PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-8000; PRAGMA temp_store=MEMORY;",
    )
    .map_err(|error| named(path, error))?;
    Ok(conn)
}

fn version(conn: &Connection, path: &Path) -> Result<u32, StoreError> {
    let read = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| named(path, error));
    let found = read("PRAGMA user_version")?;
    if found == 0 {
        if read("SELECT count(*) FROM sqlite_schema")? > 0 {
            return Err(StoreError::Other(format!("{}: this is a database of another program", path.display())));
        }
        return Ok(0);
    }
    if read("PRAGMA application_id")? != APPLICATION_ID {
        return Err(StoreError::Other(format!("{}: this is a database of another program", path.display())));
    }
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > newest() {
        return Err(StoreError::NewerVersion { path: path.display().to_string(), found, known: newest() });
    }
    Ok(found)
}

fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    let from: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if from == 0 {
        // Persists in the file; not possible inside a transaction. A commit writes whole pages, a handful of them for a
        // few hundred bytes: small ones halve what goes to the disk.
        conn.execute_batch("PRAGMA page_size=2048")?;
        let _mode: String = conn.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    }
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for script in MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(0)) {
        tx.execute_batch(script)?;
    }
    tx.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={};", newest()))?;
    tx.commit()?;
    Ok(())
}

/// Takes an exclusive lock on a file beside the database; dropping the file releases it.
fn lock(path: &Path) -> Result<File, StoreError> {
    let fail = |error: &dyn std::fmt::Display| StoreError::Disk(format!("{}: {error}", path.display()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(|error| fail(&error))?;
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(fail(&error)),
        }
    }
    Err(StoreError::Locked(format!("{}: another process migrates the database for more than 30 s", path.display())))
}
