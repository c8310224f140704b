//! Schemas of inputs and outputs: documents, their validation, and what the model is told about issues.
//!
//! The JSON Schema validator is used in `validate` only.

mod cache;
mod issue;
mod simplify;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::{Arc, OnceLock};

use abide_schema::JsonObject;
use futures_util::future::BoxFuture;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

pub use cache::SchemaCache;
pub use issue::{Issue, invalid_input};
use simplify::{advertised, close_objects, simplify};
use validate::Validator;

/// The schema of an input or an output.
#[derive(Clone)]
pub enum ValueSchema {
    /// Of a Rust type.
    Typed(Arc<TypedSchema>),
    /// A JSON Schema that came from outside.
    Json(Arc<JsonObject>),
    /// A validator that came from outside, with the JSON Schema that describes it.
    External(Arc<dyn ExternalSchema>),
}

/// A validator of a plugin.
pub trait ExternalSchema: Send + Sync {
    /// Returns the JSON Schema that is advertised.
    fn document(&self) -> &JsonObject;
    /// Validates a value; the result replaces it.
    fn validate(&self, value: Value) -> BoxFuture<'_, Result<Value, Vec<Issue>>>;
}

/// The schema of a Rust type, made once.
pub struct TypedSchema {
    /// What values are validated against.
    document: JsonObject,
    /// What the provider is told.
    advertised: JsonObject,
    validator: OnceLock<Option<Validator>>,
}

impl TypedSchema {
    /// Makes the schema of an input: objects are closed, optional properties are only absent from `required`.
    pub fn input<T: JsonSchema>() -> Self {
        let mut document = simplify(generate::<T>(SchemaSettings::draft2020_12()));
        close_objects(&mut document);
        Self::of(document)
    }

    /// Makes the schema of an output.
    pub fn output<T: JsonSchema>() -> Self {
        Self::of(simplify(generate::<T>(SchemaSettings::draft2020_12().for_serialize())))
    }

    fn of(document: JsonObject) -> Self {
        let advertised = advertised(&document);
        Self { document, advertised, validator: OnceLock::new() }
    }

    fn validator(&self) -> Option<&Validator> {
        self.validator.get_or_init(|| Validator::compile(&self.document)).as_ref()
    }
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.as_object().cloned().unwrap_or_default()
}

impl ValueSchema {
    /// Makes the schema of a typed input.
    pub fn input<T: JsonSchema>() -> Self {
        Self::Typed(Arc::new(TypedSchema::input::<T>()))
    }

    /// Makes the schema of a typed output.
    pub fn output<T: JsonSchema>() -> Self {
        Self::Typed(Arc::new(TypedSchema::output::<T>()))
    }

    /// Returns the document that the provider is told.
    pub fn advertised(&self) -> &JsonObject {
        match self {
            Self::Typed(typed) => &typed.advertised,
            Self::Json(document) => document,
            Self::External(external) => external.document(),
        }
    }

    /// Validates an input and returns it without surplus properties. A JSON Schema that cannot be compiled accepts
    /// everything unchanged.
    ///
    /// # Errors
    /// All issues, in the order of the schema.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn validate_input(&self, value: Value, cache: &SchemaCache) -> Result<Value, Vec<Issue>> {
        match self {
            Self::Typed(typed) => match typed.validator() {
                Some(validator) => validator.strip_and_check(value, &typed.document),
                None => Ok(value),
            },
            Self::Json(document) => match cache.get(document) {
                Some(validator) => validator.strip_and_check(value, document),
                None => Ok(value),
            },
            Self::External(external) => external.validate(value).await,
        }
    }

    /// Validates an output.
    ///
    /// # Errors
    /// All issues, in the order of the schema.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn validate_output(&self, value: Value, cache: &SchemaCache) -> Result<Value, Vec<Issue>> {
        let issues = match self {
            Self::Typed(typed) => typed.validator().map(|validator| validator.check(&value, &typed.document)),
            Self::Json(document) => cache.get(document).map(|validator| validator.check(&value, document)),
            Self::External(external) => return external.validate(value).await,
        };
        let issues = issues.unwrap_or_default();
        if issues.is_empty() { Ok(value) } else { Err(issues) }
    }
}

impl std::fmt::Debug for ValueSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Typed(_) => "Typed",
            Self::Json(_) => "Json",
            Self::External(_) => "External",
        };
        f.debug_tuple(kind).field(self.advertised()).finish()
    }
}
