//! Compiled validators of schemas from outside.

use std::sync::{Arc, Mutex, PoisonError};

use abide_schema::JsonObject;
use abide_schema::json::hash;
use indexmap::IndexMap;
use serde_json::Value;

use super::validate::Validator;

/// How many validators are kept; the one that was not used for longest goes first.
const CAPACITY: usize = 100;

/// The last validators, by the hash of their schema's canonical text. A schema that cannot be compiled is remembered
/// too, and accepts everything.
#[derive(Default)]
pub struct SchemaCache {
    /// Least recently used first.
    validators: Mutex<IndexMap<String, Option<Arc<Validator>>>>,
}

impl std::fmt::Debug for SchemaCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SchemaCache")
    }
}

impl SchemaCache {
    /// Returns the validator of a schema, compiled at most once.
    pub(crate) fn get(&self, document: &JsonObject) -> Option<Arc<Validator>> {
        let key = hash(&Value::Object(document.clone()));
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let validator = match validators.shift_remove(&key) {
            Some(known) => known,
            None => Validator::compile(document).map(Arc::new),
        };
        if validators.len() >= CAPACITY {
            validators.shift_remove_index(0);
        }
        validators.insert(key, validator.clone());
        validator
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.validators.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
