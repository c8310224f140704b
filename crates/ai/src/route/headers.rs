//! Header maps with lower-case names.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::schema::errors::is_sensitive_name;

/// Headers by lower-case name, in the order they were set. `Debug` masks sensitive values.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(IndexMap<String, String>);

impl Headers {
    /// Empty headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a header; the name in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).or_else(|| self.0.get(&name.to_ascii_lowercase())).map(String::as_str)
    }

    /// Sets a header, replacing an old value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_ascii_lowercase(), value.into());
    }

    /// Adds a value to a header, as HTTP joins repeated fields.
    pub fn append(&mut self, name: &str, value: &str) {
        let entry = self.0.entry(name.to_ascii_lowercase()).or_default();
        if !entry.is_empty() {
            entry.push_str(", ");
        }
        entry.push_str(value);
    }

    /// Drops a header.
    pub fn remove(&mut self, name: &str) {
        self.0.shift_remove(&name.to_ascii_lowercase());
    }

    /// Sets each of `over`.
    pub fn merge<'a>(&mut self, over: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (name, value) in over {
            self.set(name, value);
        }
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The map.
    pub fn into_map(self) -> IndexMap<String, String> {
        self.0
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let mut map = Self::new();
        for (name, value) in headers {
            map.set(name.as_ref(), value);
        }
        map
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(
                self.iter().map(|(name, value)| (name, if is_sensitive_name(name) { "<redacted>" } else { value })),
            )
            .finish()
    }
}
