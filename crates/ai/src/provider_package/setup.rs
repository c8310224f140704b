//! The settings of an entry, taken out one by one.

use indexmap::IndexMap;
use serde_json::Value;

use super::ModelEntry;
use crate::providers::ProviderOptions;
use crate::route::ModelSelection;
use crate::route::auth_options::ProviderAuthOption;
use crate::route::headers::Headers;
use crate::route::host::Host;
use crate::schema::JsonObject;
use crate::schema::errors::ConfigurationError;
use crate::schema::model::Defaults;
use crate::schema::options::{HttpOptions, Timeout, merge_json};

/// Keys of settings that are not request options; other layers read those this crate does not.
const NOT_OPTIONS: [&str; 8] = [
    "timeout",
    "transport",
    "modelDiscovery",
    "outputTokenBudget",
    "compaction",
    "setCacheKey",
    "includeUsage",
    "name",
];

/// The settings of one entry. A provider takes out its own connection keys; what is left when it
/// [finishes](Setup::finish) are request options.
pub struct Setup<'a> {
    entry: &'a ModelEntry,
    host: &'a dyn Host,
    common: ProviderOptions,
    http: HttpOptions,
    rest: JsonObject,
}

impl std::fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Settings may hold keys.
        f.debug_struct("Setup").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl<'a> Setup<'a> {
    /// Takes the common keys out of the settings of an entry.
    ///
    /// # Errors
    /// When one of them has the wrong form.
    pub(super) fn new(entry: &'a ModelEntry, host: &'a dyn Host) -> Result<Self, ConfigurationError> {
        let mut setup = Self {
            entry,
            host,
            common: ProviderOptions {
                provider: Some(entry.provider.clone()),
                env: entry.env.clone(),
                headers: Headers::new(),
                ..ProviderOptions::default()
            },
            http: HttpOptions::default(),
            rest: entry.settings.clone(),
        };
        setup.common.base_url = setup.text("baseURL")?;
        setup.common.auth = ProviderAuthOption::from_key(setup.text("apiKey")?);
        setup.common.query = setup.map("queryParams")?;
        setup.http = setup.http()?;
        Ok(setup)
    }

    /// Where variables are read that say where to go.
    pub fn host(&self) -> &'a dyn Host {
        self.host
    }

    /// Takes out an object and gives a setup of its members.
    pub(super) fn inner(&mut self, key: &str) -> Result<Self, ConfigurationError> {
        let rest = self.object(key)?;
        Ok(Self {
            entry: self.entry,
            host: self.host,
            common: ProviderOptions::default(),
            http: HttpOptions::default(),
            rest,
        })
    }

    /// An error about the settings of this entry.
    pub(super) fn error(&self, message: &str) -> ConfigurationError {
        ConfigurationError::new(self.entry.provider.clone(), message)
    }

    /// The id of the model on the wire.
    pub fn model(&self) -> &str {
        self.entry.model.as_str()
    }

    /// Takes out a text; a blank one counts as absent.
    ///
    /// # Errors
    /// When it is no string.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "a string", &other)),
        }
    }

    /// Takes out a switch.
    ///
    /// # Errors
    /// When it is no boolean.
    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(key, "true or false", &other)),
        }
    }

    /// Ends: what every provider can be configured with, and the model with the options that are left.
    pub fn finish(mut self) -> (ProviderOptions, ModelSelection) {
        for key in NOT_OPTIONS {
            self.rest.shift_remove(key);
        }
        let selection = ModelSelection {
            id: self.entry.model.clone(),
            provider: Some(self.entry.provider.clone()),
            defaults: Defaults {
                generation: self.entry.generation.clone(),
                provider_options: (!self.rest.is_empty()).then_some(self.rest),
                http: (!self.http.is_empty()).then_some(self.http),
                limits: self.entry.limits,
            },
            compatibility: self.entry.compatibility.clone(),
        };
        (self.common, selection)
    }

    /// A setting with a value of the wrong form. The value may be a key in the wrong place, so only its
    /// kind is named.
    pub fn wrong(&self, key: &str, wanted: &str, value: &Value) -> ConfigurationError {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        ConfigurationError::new(self.entry.provider.clone(), format!("setting {key} must be {wanted}, got {kind}"))
    }

    fn map(&mut self, key: &str) -> Result<IndexMap<String, String>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(IndexMap::new()),
            Some(value) => {
                serde_json::from_value(value.clone()).map_err(|_| self.wrong(key, "an object of strings", &value))
            }
        }
    }

    fn object(&mut self, key: &str) -> Result<JsonObject, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(JsonObject::new()),
            Some(Value::Object(object)) => Ok(object),
            Some(other) => Err(self.wrong(key, "an object", &other)),
        }
    }

    fn timeout(&mut self, key: &str) -> Result<Option<Timeout>, ConfigurationError> {
        match self.rest.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value.clone())
                .map(Some)
                .map_err(|_| self.wrong(key, "milliseconds above 0 or false", &value)),
        }
    }

    /// The common keys, with those of the entry laid over them.
    fn http(&mut self) -> Result<HttpOptions, ConfigurationError> {
        let whole = self.timeout("timeout")?;
        let mut body = self.object("body")?;
        merge_json(&mut body, &self.entry.body);
        let settings = HttpOptions {
            body: (!body.is_empty()).then_some(body),
            headers: Some(self.map("headers")?),
            header_timeout: self.timeout("headerTimeout")?.or(whole),
            chunk_timeout: self.timeout("chunkTimeout")?,
            content_timeout: self.timeout("contentTimeout")?,
            ..HttpOptions::default()
        };
        let own = HttpOptions { headers: Some(self.entry.headers.clone()), ..HttpOptions::default() };
        Ok(settings.merge(&own))
    }
}
