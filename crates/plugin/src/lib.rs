//! What an extension of abide may use: the [`Plugin`] trait, the [`Context`] that it is handed, and the hooks.
//!
//! These are types alone. The engine does not host plugins yet: discovery, setup, supervision and the transform
//! state come with a later issue, as do the hooks of sessions, permissions, shells and providers, and every domain
//! but tools, agents, configuration, events and storage (that is: catalog, command, credential, integration, mcp,
//! generate, permission, reference, rpc, session, skill, vcs, websearch, worktree). The engine's own tool hooks
//! have the shape of [`hook::ToolHook`].
//!
//! This crate must not know the engine, a database or an async runtime.

pub mod context;
pub mod hook;
pub mod storage;
pub mod tool;

pub use context::{
    AgentDomain, AppInfo, ConfigDomain, Context, EventDomain, Plugin, PluginError, PublicEvent, ToolDomain,
};
pub use futures_util::future::BoxFuture;
pub use futures_util::stream::BoxStream;
