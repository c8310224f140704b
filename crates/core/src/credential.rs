//! Stored credentials of this user, in one file that only the user can read (spec/config.md 18.2).
//!
//! Every change is made under a lock that other processes honour, on what the file holds at that moment. Values
//! never leave this module except as [`Secret`]s on the way to a provider.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use abide_ai::route::auth::Secret;
use abide_schema::catalog::ConnectionInfo;
use abide_schema::{CredentialId, IntegrationId, JsonObject};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::config::directories::create_private;
use crate::config::{Directories, flags};
use crate::world::World;

/// The version of the file's format.
const VERSION: u32 = 1;
/// How long to wait for another process.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// How often the lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Why credentials cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The key is empty.
    #[error("the key is empty")]
    Empty,
    /// The file cannot be read or written.
    #[error("the credentials file {path} cannot be {what}")]
    Io {
        /// The file.
        path: PathBuf,
        /// `read`, `written` or `locked`.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not what abide wrote.
    #[error("the credentials file {path} cannot be understood: {reason}; move it away and connect again")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another process holds the lock.
    #[error("the credentials file {path} is locked by another process")]
    Busy {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(default)]
    credentials: Vec<Stored>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    id: CredentialId,
    #[serde(rename = "integrationID")]
    integration: IntegrationId,
    label: String,
    value: Value,
    active: bool,
    #[serde(rename = "timeCreated")]
    created: i64,
    #[serde(rename = "timeUpdated")]
    updated: i64,
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored").field("id", &self.id).field("integration", &self.integration).finish_non_exhaustive()
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Value {
    Key {
        key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<JsonObject>,
    },
    /// Kept for versions that can refresh it.
    #[serde(untagged)]
    Other(JsonObject),
}

/// The credentials at one moment.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Active first, then newest first.
    stored: Arc<[Stored]>,
    /// Given by the environment for this process, never stored.
    given: Arc<[(IntegrationId, Secret)]>,
}

impl Credentials {
    /// Returns the key of an integration: the given one, else the active stored one.
    pub fn key(&self, integration: &IntegrationId) -> Option<Secret> {
        let given = self.given.iter().find(|(id, _)| id == integration).map(|(_, key)| key.clone());
        given.or_else(|| {
            self.stored.iter().filter(|stored| stored.integration == *integration).find_map(|stored| {
                match &stored.value {
                    Value::Key { key, .. } => Some(Secret::new(key.as_str())),
                    Value::Other(_) => None,
                }
            })
        })
    }

    /// Returns the value of every key and token.
    pub(crate) fn values(&self) -> Vec<String> {
        let stored = self.stored.iter().flat_map(|stored| match &stored.value {
            Value::Key { key, .. } => vec![key.clone()],
            Value::Other(fields) => {
                let is_token =
                    |name: &str| matches!(name, "access" | "refresh") || crate::config::effective::is_secret(name);
                let tokens = fields.iter().filter(|(name, _)| is_token(name)).filter_map(|(_, value)| value.as_str());
                tokens.map(ToOwned::to_owned).collect()
            }
        });
        stored.chain(self.given.iter().map(|(_, key)| key.expose().to_owned())).collect()
    }

    /// Lists the stored credentials of an integration: the active one first, then newest first.
    pub fn connections(&self, integration: &IntegrationId) -> Vec<ConnectionInfo> {
        self.stored
            .iter()
            .filter(|stored| stored.integration == *integration)
            .map(|stored| ConnectionInfo::Credential { id: stored.id.clone(), label: stored.label.clone() })
            .collect()
    }
}

/// The file of credentials. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CredentialStore {
    path: PathBuf,
    world: World,
    given: Arc<[(IntegrationId, Secret)]>,
}

impl CredentialStore {
    /// Names the file; nothing is read or created.
    pub fn new(world: &World, directories: &Directories) -> Self {
        Self { path: directories.data.join("credentials.json"), world: world.clone(), given: given(world).into() }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the credentials.
    ///
    /// # Errors
    /// [`CredentialError`] when the file cannot be read or understood.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read(&self) -> Result<Credentials, CredentialError> {
        let store = self.clone();
        joined(&self.path, spawn_blocking(move || store.read_blocking())).await
    }

    /// Reads the credentials. Blocks.
    ///
    /// # Errors
    /// [`CredentialError`] when the file cannot be read or understood.
    pub fn read_blocking(&self) -> Result<Credentials, CredentialError> {
        let mut stored = read(&self.path)?.credentials;
        stored.sort_by(|a, b| b.active.cmp(&a.active).then(b.created.cmp(&a.created)));
        Ok(Credentials { stored: stored.into(), given: Arc::clone(&self.given) })
    }

    /// Stores a key, which becomes the active one of its integration. Without label it is called `Default`, with a
    /// number when that is taken.
    ///
    /// # Errors
    /// [`CredentialError`].
    ///
    /// # Cancel safety
    /// Dropping the future may leave the key stored.
    pub async fn add_key(
        &self,
        integration: IntegrationId,
        key: &Secret,
        label: Option<String>,
    ) -> Result<CredentialId, CredentialError> {
        let key = key.expose().trim().to_owned();
        if key.is_empty() {
            return Err(CredentialError::Empty);
        }
        let (id, now) = (self.world.credential_id(), self.world.now().as_millis());
        let made = id.clone();
        self.change(move |all| {
            let label = label.filter(|label| !label.trim().is_empty()).unwrap_or_else(|| free_label(all, &integration));
            for stored in all.iter_mut().filter(|stored| stored.integration == integration) {
                stored.active = false;
            }
            all.push(Stored {
                id: made,
                integration,
                label,
                value: Value::Key { key, metadata: None },
                active: true,
                created: now,
                updated: now,
            });
        })
        .await?;
        Ok(id)
    }

    /// Gives a credential another label; an unknown one is no error.
    ///
    /// # Errors
    /// [`CredentialError`].
    ///
    /// # Cancel safety
    /// Dropping the future may leave the change made.
    pub async fn relabel(&self, id: CredentialId, label: String) -> Result<(), CredentialError> {
        let now = self.world.now().as_millis();
        self.change(move |all| {
            for stored in all.iter_mut().filter(|stored| stored.id == id) {
                stored.label.clone_from(&label);
                stored.updated = now;
            }
        })
        .await
    }

    /// Makes a credential the active one of its integration; an unknown one is no error.
    ///
    /// # Errors
    /// [`CredentialError`].
    ///
    /// # Cancel safety
    /// Dropping the future may leave the change made.
    pub async fn activate(&self, id: CredentialId) -> Result<(), CredentialError> {
        self.change(move |all| {
            let Some(integration) = all.iter().find(|stored| stored.id == id).map(|stored| stored.integration.clone())
            else {
                return;
            };
            for stored in all.iter_mut().filter(|stored| stored.integration == integration) {
                stored.active = stored.id == id;
            }
        })
        .await
    }

    /// Removes a credential; an unknown one is no error. When it was the active one, the newest of the others becomes
    /// active.
    ///
    /// # Errors
    /// [`CredentialError`].
    ///
    /// # Cancel safety
    /// Dropping the future may leave the change made.
    pub async fn remove(&self, id: CredentialId) -> Result<(), CredentialError> {
        self.change(move |all| {
            let Some(at) = all.iter().position(|stored| stored.id == id) else { return };
            let removed = all.remove(at);
            if removed.active
                && let Some(newest) = all
                    .iter_mut()
                    .filter(|stored| stored.integration == removed.integration)
                    .max_by_key(|stored| stored.created)
            {
                newest.active = true;
            }
        })
        .await
    }

    async fn change(&self, change: impl FnOnce(&mut Vec<Stored>) + Send + 'static) -> Result<(), CredentialError> {
        let path = self.path.clone();
        let work = spawn_blocking(move || {
            let _lock = lock(&path)?;
            let mut document = read(&path)?;
            change(&mut document.credentials);
            document.version = VERSION;
            write(&path, &document)
        });
        joined(&self.path, work).await
    }
}

async fn joined<T>(
    path: &Path,
    work: tokio::task::JoinHandle<Result<T, CredentialError>>,
) -> Result<T, CredentialError> {
    work.await.unwrap_or_else(|error| Err(failed(path, "read", io::Error::other(error))))
}

fn failed(path: &Path, what: &'static str, source: io::Error) -> CredentialError {
    CredentialError::Io { path: path.to_owned(), what, source }
}

fn read(path: &Path) -> Result<Document, CredentialError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Document::default()),
        Err(error) => return Err(failed(path, "read", error)),
    };
    let corrupt = |reason: String| CredentialError::Corrupt { path: path.to_owned(), reason };
    let document: Document = serde_json::from_slice(&bytes)
        // The text of the error may quote the file, so only the place is said.
        .map_err(|error| corrupt(format!("not the expected JSON in line {}", error.line())))?;
    if document.version > VERSION {
        return Err(corrupt(format!("version {} is newer than this program", document.version)));
    }
    Ok(document)
}

/// Writes the file anew: readable by the user alone from the start, whole or not at all.
fn write(path: &Path, document: &Document) -> Result<(), CredentialError> {
    let fail = |error: io::Error| failed(path, "written", error);
    let folder = path.parent().unwrap_or(Path::new("/"));
    create_private(folder).map_err(fail)?;
    // Temporary files are made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    serde_json::to_writer_pretty(&mut file, document).map_err(|error| fail(error.into()))?;
    file.write_all(b"\n").and_then(|()| file.as_file().sync_all()).map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)
}

fn lock(path: &Path) -> Result<File, CredentialError> {
    let fail = |error: io::Error| failed(path, "locked", error);
    create_private(path.parent().unwrap_or(Path::new("/"))).map_err(fail)?;
    let file =
        File::options().create(true).truncate(false).write(true).open(path.with_extension("lock")).map_err(fail)?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if waited < LOCK_LIMIT => {
                std::thread::sleep(LOCK_PAUSE);
                waited += LOCK_PAUSE;
            }
            Err(std::fs::TryLockError::WouldBlock) => return Err(CredentialError::Busy { path: path.to_owned() }),
            Err(std::fs::TryLockError::Error(error)) => return Err(fail(error)),
        }
    }
}

fn free_label(all: &[Stored], integration: &IntegrationId) -> String {
    let taken = |label: &str| all.iter().any(|stored| stored.integration == *integration && stored.label == label);
    let mut label = "Default".to_owned();
    let mut number = 1;
    while taken(&label) {
        number += 1;
        label = format!("Default {number}");
    }
    label
}

/// Keys of `ABIDE_AUTH_CONTENT`: `{provider: {type: "api", key}}`.
fn given(world: &World) -> Vec<(IntegrationId, Secret)> {
    let Some(text) = flags::variable(world, "AUTH_CONTENT") else { return Vec::new() };
    let Ok(entries) = serde_json::from_str::<JsonObject>(text) else {
        tracing::warn!("ABIDE_AUTH_CONTENT is not a JSON object; it is not used");
        return Vec::new();
    };
    entries
        .iter()
        .filter_map(|(id, entry)| {
            let key = entry.get("key").and_then(serde_json::Value::as_str)?;
            Some((IntegrationId::from(id.as_str()), Secret::new(key)))
        })
        .collect()
}

#[cfg(test)]
mod tests;
