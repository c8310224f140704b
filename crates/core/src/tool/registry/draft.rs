//! The draft that transforms edit.

use std::sync::Arc;

use abide_ai::ToolDefinition;
use abide_schema::tool::ToolOptions;
use indexmap::IndexMap;

use super::names;
use crate::tool::info::ToolInfo;
use crate::tool::runtime::definition;

/// Why a registration was ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The name cannot be used.
    #[error("the tool name {0:?} is empty or longer than 64 characters")]
    Name(String),
    /// The effective name is too long for several providers.
    #[error("the tool name {0:?} is longer than 64 characters")]
    TooLong(String),
    /// The namespace cannot be used.
    #[error("the namespace {0:?} has an empty, too long or malformed segment")]
    Namespace(String),
    /// The name belongs to abide.
    #[error("the tool name {0:?} is reserved")]
    Reserved(String),
    /// The model would not know what the tool is for.
    #[error("the tool has no description")]
    NoDescription,
    /// The options contradict each other.
    #[error("only a tool of Code Mode can be pinned")]
    Pinned,
    /// The transform panicked.
    #[error("the transform panicked: {0}")]
    Panicked(String),
}

/// A tool in the registry, with its identity.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its effective name.
    pub id: String,
    /// The tool.
    pub tool: Arc<ToolInfo>,
    /// What the model is told of it.
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) identity: Identity,
}

/// What a call must find again: the registration, and everything that the model saw of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) layer: u64,
    pub(super) registration: u64,
    fingerprint: String,
}

/// The result of a rebuild.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) tools: IndexMap<String, Arc<Entry>>,
    pub(super) namespaces: IndexMap<String, Option<String>>,
    /// Name, namespace, reason.
    pub(super) errors: Vec<(String, Option<String>, RegistrationError)>,
}

/// Edits the tools of a layer, inside a transform.
pub struct Editor<'d> {
    pub(super) draft: &'d mut Draft,
    pub(super) layer: u64,
    pub(super) registration: u64,
}

impl Editor<'_> {
    /// Lists the tools so far, in the order in which they were added.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.draft.tools.values().map(Arc::as_ref)
    }

    /// Returns the tool with an effective name.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.draft.tools.get(id).map(Arc::as_ref)
    }

    /// Describes a namespace. An invalid name is noted and skipped.
    pub fn namespace(&mut self, name: &str, description: Option<String>) {
        match names::check_namespace(name) {
            Ok(()) => drop(self.draft.namespaces.insert(name.to_owned(), description)),
            Err(error) => self.draft.errors.push((String::new(), Some(name.to_owned()), error)),
        }
    }

    /// Adds a tool, in the place of an earlier one with the same effective name. An invalid one is noted and skipped.
    pub fn add(&mut self, tool: ToolInfo) {
        match check(&tool) {
            Ok(id) => self.put(id, tool),
            Err(error) => self.note(&tool, error),
        }
    }

    /// Changes a tool; without such a tool `change` is not called. Name and namespace stay as they were; when the
    /// result is invalid, the whole tool does.
    pub fn update(&mut self, id: &str, change: impl FnOnce(&mut ToolInfo)) {
        let Some(entry) = self.draft.tools.get(id).cloned() else { return };
        let mut tool = ToolInfo::clone(&entry.tool);
        change(&mut tool);
        tool.name.clone_from(&entry.tool.name);
        tool.options.namespace.clone_from(&entry.tool.options.namespace);
        match check(&tool) {
            Ok(_same) => self.put(id.to_owned(), tool),
            Err(error) => self.note(&tool, error),
        }
    }

    /// Removes a tool, if there is one.
    pub fn remove(&mut self, id: &str) {
        self.draft.tools.shift_remove(id);
    }

    fn put(&mut self, id: String, tool: ToolInfo) {
        let fingerprint = tool.fingerprint();
        let identity = Identity { layer: self.layer, registration: self.registration, fingerprint };
        let definition = Arc::new(definition(&id, &tool));
        let entry = Entry { id: id.clone(), tool: Arc::new(tool), definition, identity };
        self.draft.tools.insert(id, Arc::new(entry));
    }

    fn note(&mut self, tool: &ToolInfo, error: RegistrationError) {
        self.draft.errors.push((tool.name.clone(), tool.options.namespace.clone(), error));
    }
}

/// Checks a tool and returns its effective name.
fn check(tool: &ToolInfo) -> Result<String, RegistrationError> {
    let ToolOptions { codemode, pinned, .. } = tool.options;
    if pinned && !codemode {
        return Err(RegistrationError::Pinned);
    }
    if tool.description.trim().is_empty() {
        return Err(RegistrationError::NoDescription);
    }
    names::effective(&tool.name, &tool.options)
}
