//! Configuration documents in their present form. Older forms are turned into this one before they are
//! decoded; how several documents become one setting is the business of the engine.
//!
//! Every field is optional: a document says only what it changes.

mod diagnostic;
mod provider;
mod values;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use diagnostic::{Diagnostic, DiagnosticKind, Severity};
pub use provider::{
    CapabilitiesConfig, HeaderMap, LimitConfig, ModelConfig, ProviderConfig, VariantConfig, deserialize_costs,
};
pub use values::{Millis, ModelSelection, TokenCount};

use crate::agent::AgentMode;
use crate::model::ProviderRequest;
use crate::permission::Rule;
use crate::{AgentId, JsonObject, ProviderId};

/// One document. Keys that hold a record are merged by name, lists are joined, everything else is replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigDocument {
    /// The shell that runs commands: a path, or a name on `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The model that is used when nothing else names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSelection>,
    /// The agent of new sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<AgentId>,
    /// What to do about newer versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdatePolicy>,
    /// Whether sessions are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<SharePolicy>,
    /// The share server of an organisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<EnterpriseConfig>,
    /// The user's name in the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Rules of every agent; the last that matches decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Rule>,
    /// Agents by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub agents: IndexMap<AgentId, AgentConfig>,
    /// Whether steps record snapshots of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<bool>,
    /// File watching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watcher: Option<WatcherConfig>,
    /// Formatters: off, on, or a record of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formatter: Option<Value>,
    /// Language servers: off, on, or a record of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsp: Option<Value>,
    /// Treatment of attached media.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaConfig>,
    /// Bounds of tool output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_output: Option<ToolOutputConfig>,
    /// Servers of the Model Context Protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpConfig>,
    /// Compaction of long histories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionConfig>,
    /// Directories and URLs of skills.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Slash commands by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub commands: IndexMap<String, CommandConfig>,
    /// Files, patterns and URLs with instructions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
    /// Named extra material by name.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub references: JsonObject,
    /// Plugins: package names, paths, or `{package, options}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<Value>,
    /// Providers by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub providers: IndexMap<ProviderId, ProviderConfig>,
    /// Web search: off, or its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub websearch: Option<Value>,
    /// Keeping of prompt caches: off, on, or its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warming: Option<Value>,
    /// Settings that may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<ExperimentalConfig>,
    /// Settings of abide alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abide: Option<AbideConfig>,
}

/// What to do about newer versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdatePolicy {
    /// Nothing.
    Disable,
    /// Say so.
    #[default]
    Notify,
    /// Install them.
    Auto,
}

/// Whether sessions are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharePolicy {
    /// When asked.
    #[default]
    Manual,
    /// Always.
    Auto,
    /// Never.
    Disabled,
}

/// The share server of an organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnterpriseConfig {
    /// Its address.
    pub url: Option<String>,
}

/// An agent; every field changes what earlier documents or the built-in agent of the name say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentConfig {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSelection>,
    /// What is merged into its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<ProviderRequest>,
    /// Its system prompt, instead of the base prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What it is for; shown to people and to models that may call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
    /// Whether lists for people leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// `#rrggbb`, or a name of the theme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// The most steps of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Whether it is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Its rules, after all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Rule>,
    /// Accepted and ignored.
    #[serde(skip_serializing)]
    pub cache: Option<Value>,
}

/// A slash command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandConfig {
    /// The prompt with its placeholders. Needed, unless an earlier document has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The model that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSelection>,
    /// Whether it runs in a child session.
    #[serde(alias = "subagent", skip_serializing_if = "Option::is_none")]
    pub subtask: Option<bool>,
    /// Whether it is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// File watching.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatcherConfig {
    /// Patterns of files that are not watched.
    pub ignore: Vec<String>,
}

/// Treatment of attached media.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MediaConfig {
    /// Images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageConfig>,
}

/// Treatment of attached images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// Whether large images are made smaller (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_resize: Option<bool>,
    /// Largest width in pixels (default 2000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u32>,
    /// Largest height in pixels (default 2000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_height: Option<u32>,
    /// Largest size in base64 characters (default 5242880).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_base64_bytes: Option<u64>,
}

/// Bounds of tool output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolOutputConfig {
    /// Most lines (default 2000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<u64>,
    /// Most bytes (default 51200).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Servers of the Model Context Protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct McpConfig {
    /// Limits of every server, in milliseconds: `startup`, `catalog`, `execution`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Value>,
    /// Servers by name.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub servers: JsonObject,
}

/// Compaction of long histories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionConfig {
    /// Whether it happens by itself (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    /// Whether old tool outputs are pruned (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// What stays word for word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepConfig>,
    /// Tokens that stay free (default 20000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<TokenCount>,
}

/// What compaction keeps word for word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeepConfig {
    /// Tokens of the recent tail (default 15000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCount>,
}

/// Settings that may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExperimentalConfig {
    /// Which providers may be used; the last that matches decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyStatement>,
    /// How deep agents may call agents (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_depth: Option<u32>,
    /// Whether children may inherit the parent's history (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_fork: Option<bool>,
    /// Whether the built-in scanner of commands is used (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portable_shell_scanner: Option<bool>,
    /// Whether tools are offered through scripts (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_mode: Option<bool>,
}

/// One statement about who may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatement {
    /// What it says: `allow` or `deny`.
    pub effect: PolicyEffect,
    /// What it is about: `provider.use`.
    pub action: String,
    /// Pattern of the provider's name.
    pub resource: String,
}

/// What a policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEffect {
    /// It may be used.
    Allow,
    /// It is hidden.
    Deny,
}

/// Settings of abide alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbideConfig {
    /// Permissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<AbidePermissionConfig>,
    /// Streams of providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamConfig>,
    /// Tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsConfig>,
    /// Commands of the shell tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<AbideShellConfig>,
    /// How long things are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Value>,
    /// The JavaScript runtime of plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub js: Option<Value>,
    /// Logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogConfig>,
    /// The HTTP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerConfig>,
    /// Import of credentials: `ask`, `auto` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_opencode: Option<String>,
}

/// What happens to a permission request when nobody can answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NonInteractive {
    /// It is refused.
    #[default]
    Reject,
    /// It is granted.
    Allow,
    /// It waits.
    Wait,
}

/// Permission settings of abide alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbidePermissionConfig {
    /// What happens when nobody can answer (default `reject`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noninteractive: Option<NonInteractive>,
    /// Whether a child of a read-only agent cannot edit (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherit_readonly: Option<bool>,
}

/// Which models change files by patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchChoice {
    /// Those that were trained on them.
    #[default]
    Auto,
    /// All.
    Always,
    /// None.
    Never,
}

/// Settings of tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolsConfig {
    /// Which models get `patch` in the place of `edit` and `write` (default `auto`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchChoice>,
    /// More patterns of files that usually hold secrets, compared with the end of a path; one that begins with `!` is of
    /// files that hold none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_files: Vec<String>,
}

/// Settings of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbideShellConfig {
    /// The most that a command may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<CommandLimits>,
}

/// The most that each process of a command may take, as the kernel counts it; what is absent has no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandLimits {
    /// Address space, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processor time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// The largest file that it may write, in bytes; its output counts too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
    /// Open files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Processes of the user, all programs counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// Settings of provider streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamConfig {
    /// The longest silence, 0 for no limit (default 300 seconds).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Millis>,
}

/// Settings of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogConfig {
    /// `debug`, `info`, `warn` or `error` (default `info`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// Settings of the HTTP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerConfig {
    /// The address it listens on (default 127.0.0.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The port; 0 picks a free one (default 4096).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Origins that browsers may call from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cors: Vec<String>,
    /// Whether it announces itself in the local network (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mdns: Option<bool>,
    /// The name it announces.
    #[serde(alias = "mdnsDomain", skip_serializing_if = "Option::is_none")]
    pub mdns_domain: Option<String>,
    /// The environment variable that holds its password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
}
