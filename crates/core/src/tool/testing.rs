//! Helpers for tests of tools: a context without an engine, permissions with given rules, what was reported.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use abide_schema::live::{LiveData, OutputStream};
use abide_schema::permission::{Rule, SavedPermission};
use abide_schema::todo::Todo;
use abide_schema::tool::Content;
use abide_schema::{AgentId, CallId, JsonObject, MessageId, ProjectId, SavedPermissionId, SessionId, Timestamp};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::boundary::{Boundary, BoundaryOptions};
use super::info::ToolInfo;
use super::leaf::ToolContext;
use super::outcome::{ProgressSink, Settled, ToolCall, ToolSnapshot as _};
use super::output::{OutputFiles, OutputLimits};
use super::progress::Progress;
use super::registry::{Layer, ToolRegistry};
use super::scope::CallScope;
use crate::permission::{PermissionOptions, PermissionRules, PermissionService, Publish, RulesError};
use crate::question::{QuestionOptions, QuestionService};
use crate::store::{StoreFuture, ValueStore};
use crate::world::{Clock, Entropy, World};

/// Everything a test of a tool needs around it.
pub struct Bench {
    /// A world with a fixed clock.
    pub world: World,
    /// Permissions, with the given rules for every agent and session but `ses_gone`, which does not exist.
    pub permissions: PermissionService,
    /// Questions.
    pub questions: QuestionService,
    /// What was published.
    pub events: Events,
    /// Saved permissions and things to do.
    pub values: Arc<Values>,
    /// What calls reported.
    pub reports: Arc<Reports>,
    /// Runs calls.
    pub boundary: Arc<Boundary>,
    /// Where complete output goes: `tool-output` in it.
    pub data: tempfile::TempDir,
}

impl Bench {
    /// Makes a bench for a location at `directory` with these configured rules; no rule means ask.
    pub fn new(directory: impl AsRef<Path>, rules: Vec<Rule>) -> Self {
        let world = World::new(Arc::new(Fixed), Arc::new(Counting::default()), BTreeMap::new());
        let events = Events::default();
        let values = Arc::new(Values::default());
        let permissions = PermissionService::new(PermissionOptions {
            world: world.clone(),
            project: project(),
            directory: directory.as_ref().to_path_buf(),
            rules: given_rules(rules),
            values: Arc::clone(&values) as Arc<dyn ValueStore>,
            publish: events.publish(),
            hooks: Vec::new(),
        });
        let questions = QuestionService::new(QuestionOptions { world: world.clone(), publish: events.publish() });
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        let boundary = Arc::new(Boundary::new(BoundaryOptions {
            world: world.clone(),
            files: OutputFiles::new(world.clone(), data.path()),
            limits: OutputLimits::default(),
            hooks: Vec::new(),
            images: crate::tool::image::Images::new(crate::tool::image::ImageLimits::default()),
            secrets: crate::secret::Secrets::default(),
        }));
        Self { world, permissions, questions, events, values, reports: Arc::default(), boundary, data }
    }

    /// Runs one call of a tool through the boundary.
    ///
    /// # Cancel safety
    /// Dropping the future interrupts the call.
    pub async fn run(&self, tool: &ToolInfo, input: serde_json::Value) -> Settled {
        self.run_until(tool, input, CancellationToken::new()).await
    }

    /// Runs one call of a tool through the boundary, until `interrupt` is cancelled.
    ///
    /// # Cancel safety
    /// Dropping the future interrupts the call.
    pub async fn run_until(&self, tool: &ToolInfo, input: serde_json::Value, interrupt: CancellationToken) -> Settled {
        let registry = ToolRegistry::new(Layer::new());
        let added = tool.clone();
        let _registration = registry.location().transform(move |editor| editor.add(added.clone()));
        let snapshot = registry.snapshot(None, &[], &self.boundary);
        let call = self.call(&tool.name, input);
        snapshot.execute(call, Arc::clone(&self.reports) as Arc<dyn ProgressSink>, interrupt).await
    }

    /// Makes the context of a call `call_1` of session `ses_1`.
    pub fn context(&self) -> ToolContext {
        let call = self.call("", serde_json::Value::Null);
        ToolContext {
            session_id: call.session_id,
            agent: call.agent,
            message_id: call.message_id,
            id: call.call_id,
            fence: call.fence,
            progress: Progress::new(Arc::clone(&self.reports) as Arc<dyn ProgressSink>),
            scope: CallScope::new(),
        }
    }

    /// Makes a call `call_1` of session `ses_1`.
    pub fn call(&self, name: &str, input: serde_json::Value) -> ToolCall {
        ToolCall {
            session_id: SessionId::from_trusted("ses_1"),
            agent: AgentId::new("build"),
            message_id: MessageId::from_trusted("msg_1"),
            call_id: CallId::new("call_1"),
            name: name.to_owned(),
            input,
            fence: 1,
        }
    }
}

/// Returns the project of a bench.
pub fn project() -> ProjectId {
    ProjectId::new("project")
}

/// Live events in the order of their publication.
#[derive(Clone)]
pub struct Events {
    sender: Arc<watch::Sender<Vec<LiveData>>>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: Arc::new(watch::Sender::new(Vec::new())) }
    }
}

impl Events {
    /// Returns the callback that records.
    pub fn publish(&self) -> Publish {
        let sender = Arc::clone(&self.sender);
        Arc::new(move |event| sender.send_modify(|events| events.push(event)))
    }

    /// Returns all events so far.
    pub fn all(&self) -> Vec<LiveData> {
        self.sender.borrow().clone()
    }

    /// Waits until `n` events were published.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for(&self, n: usize) -> Vec<LiveData> {
        let mut receiver = self.sender.subscribe();
        match receiver.wait_for(|events| events.len() >= n).await {
            Ok(events) => events.clone(),
            Err(_closed) => self.all(),
        }
    }
}

/// Reports of calls, in order.
#[derive(Default)]
pub struct Reports {
    reports: Mutex<Vec<(JsonObject, Option<Vec<Content>>)>>,
    output: Mutex<String>,
}

impl Reports {
    /// Returns the reports so far.
    pub fn all(&self) -> Vec<(JsonObject, Option<Vec<Content>>)> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the live output so far.
    pub fn output(&self) -> String {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ProgressSink for Reports {
    fn report(&self, structured: JsonObject, content: Option<Vec<Content>>) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push((structured, content));
    }

    fn output(&self, _: OutputStream, text: &str) {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }
}

/// Returns a source of rules that gives these to every agent and session but `ses_gone`, which does not exist.
pub fn given_rules(rules: Vec<Rule>) -> Arc<dyn PermissionRules> {
    Arc::new(GivenRules(rules))
}

struct GivenRules(Vec<Rule>);

impl PermissionRules for GivenRules {
    fn configured<'a>(
        &'a self,
        session: &'a SessionId,
        _: Option<&'a AgentId>,
    ) -> BoxFuture<'a, Result<Vec<Rule>, RulesError>> {
        Box::pin(async move {
            if session.as_str() == "ses_gone" {
                return Err(RulesError::SessionNotFound(session.clone()));
            }
            Ok(self.0.clone())
        })
    }
}

/// Small values in memory.
#[derive(Default)]
pub struct Values {
    saved: Mutex<Vec<SavedPermission>>,
    todos: Mutex<BTreeMap<SessionId, Vec<Todo>>>,
    other: Mutex<BTreeMap<String, String>>,
    blobs: Mutex<BTreeMap<String, Vec<u8>>>,
}

fn ready<'a, T: Send + 'a>(value: T) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl ValueStore for Values {
    fn put_blob(&self, data: Vec<u8>) -> StoreFuture<'_, String> {
        let hash = abide_schema::json::sha256_hex(&data);
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.clone(), data);
        ready(hash)
    }

    fn blob<'a>(&'a self, hash: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        ready(self.blobs.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned())
    }

    fn get_value<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        ready(self.other.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn set_value<'a>(&'a self, key: &'a str, value: Option<String>) -> StoreFuture<'a, ()> {
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => drop(other.insert(key.to_owned(), value)),
            None => drop(other.remove(key)),
        }
        ready(())
    }

    fn saved_permissions<'a>(&'a self, project: Option<&'a ProjectId>) -> StoreFuture<'a, Vec<SavedPermission>> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        ready(saved.iter().filter(|one| project.is_none_or(|project| one.project_id == *project)).cloned().collect())
    }

    fn save_permissions(&self, saved: Vec<SavedPermission>) -> StoreFuture<'_, ()> {
        let mut all = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        for one in saved {
            let key =
                |saved: &SavedPermission| (saved.project_id.clone(), saved.action.clone(), saved.resource.clone());
            if !all.iter().any(|other| key(other) == key(&one)) {
                all.push(one);
            }
        }
        ready(())
    }

    fn remove_permission<'a>(&'a self, id: &'a SavedPermissionId) -> StoreFuture<'a, ()> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).retain(|saved| saved.id != *id);
        ready(())
    }

    fn todos<'a>(&'a self, session: &'a SessionId) -> StoreFuture<'a, Vec<Todo>> {
        ready(self.todos.lock().unwrap_or_else(PoisonError::into_inner).get(session).cloned().unwrap_or_default())
    }

    fn set_todos<'a>(&'a self, session: &'a SessionId, todos: Vec<Todo>) -> StoreFuture<'a, ()> {
        self.todos.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone(), todos);
        ready(())
    }
}

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000)
    }
}

#[derive(Default)]
struct Counting(std::sync::atomic::AtomicU64);

impl Entropy for Counting {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}
