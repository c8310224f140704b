//! What the model may call: layers of registrations, and the snapshot of one model request (spec/tools.md section 4).
//!
//! The registry stores tools and nothing else: no policy, no executor of its own, no permissions.

mod draft;
mod layer;
mod names;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use abide_schema::SessionId;

pub use draft::{Editor, Entry, RegistrationError};
pub use layer::{Layer, Registration};
pub use snapshot::Snapshot;

use abide_schema::permission::Rule;

use super::boundary::Boundary;
use super::info::ToolInfo;

/// The layers that are effective in one location: the application's, the location's, and one for each session.
#[derive(Clone)]
pub struct ToolRegistry {
    inner: Arc<Inner>,
}

struct Inner {
    application: Layer,
    location: Layer,
    sessions: Mutex<HashMap<SessionId, Layer>>,
}

impl std::fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToolRegistry")
    }
}

impl ToolRegistry {
    /// Makes the registry of a location over the process-wide layer.
    pub fn new(application: Layer) -> Self {
        Self { inner: Arc::new(Inner { application, location: Layer::new(), sessions: Mutex::default() }) }
    }

    /// Returns the location's layer: built-in tools, then MCP, then plugins.
    pub fn location(&self) -> &Layer {
        &self.inner.location
    }

    /// Returns the layer of one session, for tools of an attached client; made when it is needed.
    pub fn session(&self, session: &SessionId) -> Layer {
        let mut sessions = self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.entry(session.clone()).or_default().clone()
    }

    /// Drops the layer of a session that ended.
    pub fn forget(&self, session: &SessionId) {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    /// Takes the tools that `rules` leave visible, for one model request of a session. Hiding a tool grants and denies
    /// nothing: a call runs its own permission checks.
    pub fn snapshot(&self, session: Option<&SessionId>, rules: &[Rule], boundary: &Arc<Boundary>) -> Snapshot {
        Snapshot::take(self.clone(), session.cloned(), rules, Arc::clone(boundary))
    }

    /// Lists the tools of all sessions of the location by effective name.
    pub fn tools(&self) -> Vec<(String, Arc<ToolInfo>)> {
        self.effective(None).into_iter().map(|(name, entry)| (name, Arc::clone(&entry.tool))).collect()
    }

    /// Returns the effective tools by effective name: a later layer hides an earlier one.
    fn effective(&self, session: Option<&SessionId>) -> BTreeMap<String, Arc<Entry>> {
        let mut tools = BTreeMap::new();
        for layer in self.layers(session) {
            tools.extend(layer.current().tools.iter().map(|(name, entry)| (name.clone(), Arc::clone(entry))));
        }
        tools
    }

    /// Returns the effective tool of a name.
    fn find(&self, session: Option<&SessionId>, name: &str) -> Option<Arc<Entry>> {
        let mut layers = self.layers(session);
        layers.reverse();
        layers.iter().find_map(|layer| layer.current().tools.get(name).map(Arc::clone))
    }

    fn layers(&self, session: Option<&SessionId>) -> Vec<Layer> {
        let own = session.and_then(|session| {
            self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(session).cloned()
        });
        [self.inner.application.clone(), self.inner.location.clone()].into_iter().chain(own).collect()
    }
}
