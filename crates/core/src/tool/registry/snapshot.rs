//! The tools of one model request, captured.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_ai::ToolDefinition;
use abide_schema::SessionId;
use abide_schema::permission::Rule;
use abide_schema::tool::Effects;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::ToolRegistry;
use super::draft::Entry;
use crate::permission::wholly_disabled;
use crate::tool::boundary::Boundary;
use crate::tool::outcome::{FailureKind, ProgressSink, Settled, ToolCall, ToolSnapshot};
use crate::tool::runtime::definition;

/// The captured tools: whatever changes in the registry, a call runs what was advertised, or is refused as stale.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

struct Inner {
    registry: ToolRegistry,
    session: Option<SessionId>,
    /// By effective name.
    tools: BTreeMap<String, Arc<Entry>>,
    definitions: Vec<Arc<ToolDefinition>>,
    /// Advertised name to effective name, when hooks of the request changed the list.
    renamed: Option<BTreeMap<String, String>>,
    boundary: Arc<Boundary>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.inner.tools.keys()).finish()
    }
}

impl Snapshot {
    pub(super) fn take(
        registry: ToolRegistry,
        session: Option<SessionId>,
        rules: &[Rule],
        boundary: Arc<Boundary>,
    ) -> Self {
        let mut tools = registry.effective(session.as_ref());
        tools.retain(|name, entry| {
            let action = entry.tool.options.permission.as_deref().unwrap_or(name);
            // Tools of Code Mode are not offered directly.
            !entry.tool.options.codemode && !wholly_disabled(action, rules)
        });
        // The map is sorted by name, in byte order.
        let definitions = tools.values().map(|entry| Arc::clone(&entry.definition)).collect();
        Self { inner: Arc::new(Inner { registry, session, tools, definitions, renamed: None, boundary }) }
    }

    /// Returns a snapshot that advertises only these names, for the tools that they stand for: what the hooks of a
    /// request left. Tools that are not among them cannot be called.
    #[must_use]
    pub fn advertising(&self, names: BTreeMap<String, String>) -> Self {
        let inner = &self.inner;
        let advertised = names.iter().filter_map(|(name, real)| {
            let entry = inner.tools.get(real)?;
            let is_same = name == real;
            Some(if is_same { Arc::clone(&entry.definition) } else { Arc::new(definition(name, &entry.tool)) })
        });
        Self {
            inner: Arc::new(Inner {
                registry: inner.registry.clone(),
                session: inner.session.clone(),
                tools: inner.tools.clone(),
                definitions: advertised.collect(),
                renamed: Some(names),
                boundary: Arc::clone(&inner.boundary),
            }),
        }
    }

    /// Returns a snapshot without some tools.
    #[must_use]
    pub fn without(&self, left_out: &[&str]) -> Self {
        let inner = &self.inner;
        let advertised: BTreeMap<String, String> = match &inner.renamed {
            None => inner.tools.keys().map(|name| (name.clone(), name.clone())).collect(),
            Some(renamed) => renamed.clone(),
        };
        let left = advertised.into_iter().filter(|(_, real)| !left_out.contains(&real.as_str()));
        self.advertising(left.collect())
    }

    /// Returns the advertised tool that goes by a name where tools take plain text. Models use that name also where
    /// they were told the other one.
    fn by_freeform(&self, name: &str) -> Option<&str> {
        let inner = &self.inner;
        let (real, _) = inner.tools.iter().find(|(real, entry)| {
            let is_named = entry.tool.freeform.as_ref().is_some_and(|freeform| freeform.name == name);
            let is_advertised = inner.renamed.as_ref().is_none_or(|names| names.values().any(|known| known == *real));
            is_named && is_advertised
        })?;
        Some(real)
    }

    /// Returns a snapshot that says more about one tool: what only the moment of the request knows.
    #[must_use]
    pub fn describing(&self, name: &str, more: &str) -> Self {
        let inner = &self.inner;
        let mut definitions = inner.definitions.clone();
        for definition in definitions.iter_mut().filter(|definition| definition.name == name).map(Arc::make_mut) {
            definition.description = format!("{}\n{more}", definition.description);
        }
        Self {
            inner: Arc::new(Inner {
                registry: inner.registry.clone(),
                session: inner.session.clone(),
                tools: inner.tools.clone(),
                definitions,
                renamed: inner.renamed.clone(),
                boundary: Arc::clone(&inner.boundary),
            }),
        }
    }

    /// Finds the tool of a call: what was advertised under the name and is still effective.
    pub(crate) fn look_up(&self, name: &str) -> Result<Arc<Entry>, LookupError> {
        let inner = &self.inner;
        let real = match &inner.renamed {
            None if inner.tools.contains_key(name) => name,
            None => self.by_freeform(name).unwrap_or(name),
            Some(renamed) => match renamed.get(name) {
                Some(real) => real,
                None if inner.tools.contains_key(name) => return Err(LookupError::Unavailable(name.to_owned())),
                None => self.by_freeform(name).ok_or_else(|| LookupError::Unknown(name.to_owned()))?,
            },
        };
        let captured = inner.tools.get(real).ok_or_else(|| LookupError::Unknown(name.to_owned()))?;
        match inner.registry.find(inner.session.as_ref(), real) {
            Some(now) if now.identity == captured.identity => Ok(Arc::clone(captured)),
            Some(_) | None => Err(LookupError::Stale(real.to_owned())),
        }
    }
}

impl ToolSnapshot for Snapshot {
    fn definitions(&self) -> &[Arc<ToolDefinition>] {
        &self.inner.definitions
    }

    fn effects(&self, name: &str) -> Effects {
        let inner = &self.inner;
        let renamed = inner.renamed.as_ref().and_then(|renamed| renamed.get(name)).map(String::as_str);
        let real = renamed.or_else(|| self.by_freeform(name)).unwrap_or(name);
        inner.tools.get(real).map_or(Effects::None, |entry| entry.tool.effects)
    }

    fn execute(
        &self,
        call: ToolCall,
        progress: Arc<dyn ProgressSink>,
        interrupt: CancellationToken,
    ) -> BoxFuture<'static, Settled> {
        let snapshot = self.clone();
        let boundary = Arc::clone(&self.inner.boundary);
        Box::pin(async move { boundary.execute(&snapshot, call, progress, interrupt).await })
    }
}

/// Why a call has no tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    /// Nothing of that name was advertised.
    #[error("Unknown tool: {0}")]
    Unknown(String),
    /// A hook of the request left the tool out.
    #[error("{0} cannot be used in this request")]
    Unavailable(String),
    /// The tool is not the one that was advertised any more.
    #[error("Stale tool call: {0}")]
    Stale(String),
}

impl LookupError {
    /// Returns the kind for the event, and the word for `metadata.kind`.
    pub(crate) const fn kind(&self) -> (FailureKind, &'static str) {
        match self {
            Self::Unknown(_) => (FailureKind::Unknown, "unknown-tool"),
            Self::Unavailable(_) => (FailureKind::Unknown, "unavailable"),
            Self::Stale(_) => (FailureKind::Stale, "stale-call"),
        }
    }
}
