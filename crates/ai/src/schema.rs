//! The canonical data model: requests, messages, events, usage and errors.
//!
//! These structs are the only request and response model of the crate. Every protocol lowers from
//! them and parses into them; nothing here does I/O.

pub mod errors;
pub mod events;
pub mod ids;
pub mod messages;
pub mod model;
pub mod options;
pub mod request;
pub mod response;
pub mod usage;

use std::collections::BTreeMap;

/// A JSON object with its keys in wire order.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;

/// Provider-owned data by metadata key: `{"anthropic": {"signature": "…"}}`.
pub type ProviderMetadata = BTreeMap<String, JsonObject>;

/// Makes a [`ProviderMetadata`] with one namespace; `None` when the object is empty.
pub fn provider_metadata(key: &str, values: JsonObject) -> Option<ProviderMetadata> {
    (!values.is_empty()).then(|| ProviderMetadata::from([(key.to_owned(), values)]))
}
