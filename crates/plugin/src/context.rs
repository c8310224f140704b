//! Plugins and what they are handed.

use std::sync::Arc;

use abide_schema::agent::AgentInfo;
use abide_schema::config::ConfigDocument;
use abide_schema::event::StoredEvent;
use abide_schema::live::LiveData;
use abide_schema::location::LocationInfo;
use abide_schema::{AgentId, JsonObject};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::hook::ToolHook;
use crate::storage::StorageDomain;
use crate::tool::{Tool, ToolInfo};

/// An extension that is compiled in.
pub trait Plugin: Send + Sync + 'static {
    /// Returns the id: not empty, unique among the active plugins. Built-in ones start with `abide.`.
    fn id(&self) -> &str;

    /// Registers what the plugin offers. Returns promptly: it waits for nothing that lasts.
    ///
    /// # Errors
    /// [`PluginError`]: this generation of the plugin is not loaded, and nothing that it registered stays.
    ///
    /// # Cancel safety
    /// Dropping the future counts as a failure to load.
    fn setup(&self, context: Context) -> BoxFuture<'_, Result<(), PluginError>>;
}

/// Why a plugin cannot be loaded, or a domain refuses a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The options of the configuration do not suit the plugin.
    #[error("option {option:?} of the plugin: {reason}")]
    Options {
        /// The option.
        option: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A registration was refused.
    #[error("{what} cannot be registered: {reason}")]
    Registration {
        /// What was registered.
        what: String,
        /// Why not.
        reason: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// The running program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its release channel.
    pub channel: String,
}

/// What a plugin is handed: facts, and the domains. Bound to one location and one plugin; cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The running program.
    pub app: Arc<AppInfo>,
    /// The location.
    pub location: Arc<LocationInfo>,
    /// The options of the plugin's entry in the configuration, as they stand there; the plugin checks them.
    pub options: Arc<JsonObject>,
    /// Agents.
    pub agent: Arc<dyn AgentDomain>,
    /// Configuration, to read.
    pub config: Arc<dyn ConfigDomain>,
    /// Events.
    pub event: Arc<dyn EventDomain>,
    /// The plugin's own values.
    pub storage: Arc<dyn StorageDomain>,
    /// Tools and the hooks around their calls.
    pub tool: Arc<dyn ToolDomain>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("app", &self.app).field("location", &self.location).finish_non_exhaustive()
    }
}

/// The agents of the location.
pub trait AgentDomain: Send + Sync {
    /// Lists them.
    fn list(&self) -> Vec<Arc<AgentInfo>>;
    /// Finds one.
    fn get(&self, id: &AgentId) -> Option<Arc<AgentInfo>>;
}

/// The configuration of the location, after all files were merged. It cannot be changed from here.
pub trait ConfigDomain: Send + Sync {
    /// Returns it.
    fn get(&self) -> Arc<ConfigDocument>;
}

/// A public event.
#[derive(Clone, Debug)]
pub enum PublicEvent {
    /// One that is in a session's log.
    Durable(Arc<StoredEvent>),
    /// One that is only live.
    Live(Arc<LiveData>),
}

/// The public events of the location.
pub trait EventDomain: Send + Sync {
    /// Follows the events from now on. Publishers never wait: a subscriber that falls too far behind sees its
    /// stream end, as it does when the plugin is unloaded.
    fn subscribe(&self) -> BoxStream<'static, PublicEvent>;
}

/// The tools of the location.
pub trait ToolDomain: Send + Sync {
    /// Lists the tools that are there after all plugins.
    fn list(&self) -> Vec<ToolInfo>;

    /// Adds a tool under its effective name.
    ///
    /// # Errors
    /// [`PluginError::Registration`] when its name or a schema is not usable.
    fn add(&self, tool: Arc<dyn Tool>) -> Result<(), PluginError>;

    /// Removes a tool by its effective name; an unknown one is no error.
    fn remove(&self, name: &str);

    /// Adds a hook around calls. Hooks run one after another, in the order in which they were added.
    fn hook(&self, hook: Arc<dyn ToolHook>);
}
