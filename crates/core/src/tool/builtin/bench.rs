//! What the tests of the tools on files share: a project in a temporary directory, and calls without an engine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_schema::location::{LocationInfo, ProjectRef};
use abide_schema::permission::{Effect, Reply, Rule};
use abide_schema::tool::{Content, joined_text};
use abide_schema::{CallId, ProjectId};
use serde_json::Value;
use tempfile::TempDir;

use super::files::FileTools;
use crate::fs::access::Access;
use crate::fs::journal::{Journal, JournalOptions};
use crate::secret::SecretFiles;
use crate::store::{JournalStore, MemoryStore};
use crate::tool::failure::model_text;
use crate::tool::leaf::TypedTool;
use crate::tool::testing::Bench;

/// A project at `<root>/project` with a repository; `<root>/outside` lies beside it.
pub(super) struct Project {
    pub(super) root: TempDir,
    pub(super) bench: Bench,
    pub(super) store: Arc<MemoryStore>,
    pub(super) files: FileTools,
}

/// What a call gave.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) structured: Value,
    pub(super) text: String,
    pub(super) content: Vec<Content>,
    pub(super) metadata: Value,
}

/// Allows everything.
pub(super) fn allow() -> Vec<Rule> {
    rules(&[("*", "*", Effect::Allow)])
}

pub(super) fn rules(rules: &[(&str, &str, Effect)]) -> Vec<Rule> {
    rules.iter().map(|(action, resource, effect)| Rule::new(*action, *resource, *effect)).collect()
}

impl Project {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        let root = TempDir::new().unwrap();
        let directory = root.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(directory.join(".git")).unwrap();
        fs::create_dir(root.path().join("outside")).unwrap();
        let bench = Bench::new(&directory, rules);
        let store = Arc::new(MemoryStore::new(bench.world.clone()));
        let location = LocationInfo {
            directory: directory.to_str().unwrap().into(),
            workspace_id: None,
            project: ProjectRef { id: ProjectId::new("project"), directory: directory.to_str().unwrap().into() },
        };
        let journal = Journal::new(JournalOptions {
            store: Arc::clone(&store) as Arc<dyn JournalStore>,
            world: bench.world.clone(),
            blobs: root.path().join("data/blobs"),
            sync: false,
            on_edited: Arc::new(|_| {}),
        });
        let files = FileTools {
            access: Arc::new(Access::open(&location, Some(root.path().join("home"))).unwrap()),
            permissions: bench.permissions.clone(),
            journal,
            reads: Arc::default(),
            require_read: false,
            secret_files: SecretFiles::default(),
        };
        Self { root, bench, store, files }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.files.access.directory().join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Names of all files below the project but `.git`, to see that nothing is left behind.
    pub(super) fn names(&self) -> Vec<String> {
        fn walk(directory: &Path, names: &mut BTreeSet<PathBuf>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    walk(&path, names);
                } else {
                    names.insert(path);
                }
            }
        }
        let mut names = BTreeSet::new();
        walk(&self.path(""), &mut names);
        names.into_iter().map(|path| path.strip_prefix(self.path("")).unwrap().to_str().unwrap().to_owned()).collect()
    }

    /// Replaces the places of this run.
    pub(super) fn short(&self, text: &str) -> String {
        text.replace(self.root.path().canonicalize().unwrap().to_str().unwrap(), "ROOT")
    }

    /// Runs one call, as the boundary would; `call` is its id.
    pub(super) async fn call<T: TypedTool>(&self, tool: &T, call: &str, input: Value) -> Result<Outcome, String> {
        let ctx = crate::tool::leaf::ToolContext { id: CallId::new(call), fence: 0, ..self.bench.context() };
        let input = serde_json::from_value(input).map_err(|error| format!("input: {error}"))?;
        match tool.execute(ctx, input).await {
            Ok(returned) => Ok(Outcome {
                structured: serde_json::to_value(&returned.output).unwrap(),
                text: self.short(&joined_text(&returned.content)),
                content: returned.content,
                metadata: returned.metadata.into_iter().collect::<serde_json::Map<_, _>>().into(),
            }),
            Err(failure) => Err(self.short(&model_text(&failure))),
        }
    }

    /// Runs one call whose permission is asked for; `meanwhile` runs before it is given. Returns the requests as
    /// `action: resources`, too.
    pub(super) async fn call_asked<T: TypedTool>(
        &self,
        tool: &T,
        input: Value,
        meanwhile: impl FnOnce(&Self),
    ) -> (Result<Outcome, String>, Vec<String>) {
        let mut meanwhile = Some(meanwhile);
        let mut asked = Vec::new();
        let call = self.call(tool, "call_1", input);
        tokio::pin!(call);
        let mut n_seen = 0;
        loop {
            tokio::select! {
                outcome = &mut call => return (outcome, asked),
                events = self.bench.events.wait_for(n_seen + 1) => {
                    n_seen = events.len();
                    for request in self.bench.permissions.list(None) {
                        asked.push(self.short(&format!("{}: {}", request.action, request.resources.join(", "))));
                        if request.action == "edit" && let Some(meanwhile) = meanwhile.take() {
                            meanwhile(self);
                        }
                        let (session, id) = (request.session_id.clone(), request.id.clone());
                        self.bench.permissions.reply(&session, &id, Reply::Once, None).await.unwrap();
                    }
                }
            }
        }
    }
}
