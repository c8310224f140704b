//! Values that a plugin keeps. They outlive its removal, and all locations share them.

use futures_util::future::BoxFuture;
use serde_json::Value;

/// Bytes of a key.
pub const MAX_KEY_BYTES: usize = 512;
/// Bytes of a value as JSON text.
pub const MAX_VALUE_BYTES: usize = 256 * 1024;
/// Entries of a page.
pub const MAX_PAGE: usize = 1000;

/// Why a value cannot be read or kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The key is too long.
    #[error("key of {bytes} bytes: at most {MAX_KEY_BYTES} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The value is too large.
    #[error("value of {bytes} bytes under key {key:?}: at most {MAX_VALUE_BYTES} are allowed")]
    ValueTooLarge {
        /// The key.
        key: String,
        /// Its size as JSON text.
        bytes: usize,
    },
    /// The store failed.
    #[error("the value store failed: {0}")]
    Store(String),
}

/// Which entries a scan gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// What keys start with.
    pub prefix: String,
    /// The key after which the page begins.
    pub after: Option<String>,
    /// Entries of the page, clamped to 1 to [`MAX_PAGE`].
    pub limit: usize,
}

impl Scan {
    /// Makes a scan of the usual page.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), after: None, limit: 100 }
    }
}

/// A page of entries, in order of their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanPage {
    /// The entries.
    pub entries: Vec<(String, Value)>,
    /// The last key, when more follow.
    pub next: Option<String>,
}

/// The plugin's own values: no other plugin sees them.
pub trait StorageDomain: Send + Sync {
    /// Reads a value.
    ///
    /// # Errors
    /// [`StorageError`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Value>, StorageError>>;

    /// Writes a value.
    ///
    /// # Errors
    /// [`StorageError`]; nothing is written then.
    ///
    /// # Cancel safety
    /// The value is written whole or not at all.
    fn set<'a>(&'a self, key: &'a str, value: Value) -> BoxFuture<'a, Result<(), StorageError>>;

    /// Removes a value; an unknown key is no error.
    ///
    /// # Errors
    /// [`StorageError::Store`].
    ///
    /// # Cancel safety
    /// The value is removed or not.
    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), StorageError>>;

    /// Lists entries by code points of their keys.
    ///
    /// # Errors
    /// [`StorageError::Store`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<ScanPage, StorageError>>;
}

/// Checks the bounds of an entry; for implementations of [`StorageDomain`].
///
/// # Errors
/// [`StorageError::KeyTooLong`], [`StorageError::ValueTooLarge`].
pub fn check_entry(key: &str, value: &Value) -> Result<(), StorageError> {
    if key.len() > MAX_KEY_BYTES {
        return Err(StorageError::KeyTooLong { bytes: key.len() });
    }
    let bytes = value.to_string().len();
    if bytes > MAX_VALUE_BYTES {
        return Err(StorageError::ValueTooLarge { key: key.to_owned(), bytes });
    }
    Ok(())
}
