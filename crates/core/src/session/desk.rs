//! A session over real files for tests: the real tools, journal and snapshots, a memory store, and a model that does
//! what the newest prompt says, one call a line: `write PATH TEXT`, `shell COMMAND`, `read PATH`.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use abide_ai::schema::events as ev;
use abide_ai::schema::messages::{Part, Role};
use abide_ai::{AIError, LLMEvent, LLMRequest, LlmClient, LlmStream};
use abide_schema::location::LocationRef;
use abide_schema::message::Message;
use abide_schema::session::SessionInfo;
use abide_schema::{MessageId, SessionId};
use serde_json::json;

use super::{CreateSession, EngineOptions, PromptSession, Sessions, SessionsParts};
use crate::app::Journals;
use crate::config::testing::Tree;
use crate::fs::journal::{Journal, JournalOptions};
use crate::location::{Locations, LocationsOptions};
use crate::session::children::SessionsLink;
use crate::session::place::ModelClient;
use crate::store::{EventStore as _, MemoryStore, MessageQuery, Order, ProjectionStore as _};

/// The model that does as it is told, and keeps what it was asked.
#[derive(Default)]
pub(crate) struct Obedient {
    requests: Mutex<Vec<LLMRequest>>,
}

impl ModelClient for Obedient {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        let events = answer(&request);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Box::pin(futures_util::stream::iter(events))
    }
}

fn answer(request: &LLMRequest) -> Vec<Result<LLMEvent, AIError>> {
    let mut events = vec![LLMEvent::StepStart(ev::StepStart { index: 0 })];
    let last = request.messages.last();
    let text = last.filter(|message| message.role == Role::User).and_then(|message| {
        message.content.iter().find_map(|part| match part {
            Part::Text(part) => Some(part.text.clone()),
            _ => None,
        })
    });
    let calls: Vec<LLMEvent> = text.as_deref().unwrap_or_default().lines().enumerate().filter_map(call).collect();
    let kind = if calls.is_empty() { ev::FinishKind::Stop } else { ev::FinishKind::ToolCalls };
    if calls.is_empty() {
        events.push(LLMEvent::TextStart(ev::BlockStart { id: "text-0".into(), provider_metadata: None }));
        let text = "done".to_owned();
        events.push(LLMEvent::TextDelta(ev::BlockDelta { id: "text-0".into(), text, provider_metadata: None }));
        events.push(LLMEvent::TextEnd(ev::TextEnd { id: "text-0".into(), provider_metadata: None }));
    }
    events.extend(calls);
    let reason = ev::FinishReason::new(kind, None);
    events.push(LLMEvent::StepFinish(ev::StepFinish {
        index: 0,
        reason: reason.clone(),
        usage: None,
        provider_metadata: None,
    }));
    events.push(LLMEvent::Finish(ev::Finish { reason, usage: None, provider_metadata: None }));
    events.into_iter().map(Ok).collect()
}

fn call((index, line): (usize, &str)) -> Option<LLMEvent> {
    let (name, rest) = line.split_once(' ')?;
    let input = match name {
        "write" => {
            let (path, text) = rest.split_once(' ')?;
            json!({ "path": path, "content": format!("{text}\n") })
        }
        "shell" => json!({ "command": rest }),
        "read" => json!({ "path": rest }),
        _ => return None,
    };
    Some(LLMEvent::ToolCall(ev::ToolCall {
        id: format!("call_{index}").as_str().into(),
        name: name.to_owned(),
        input,
        provider_executed: None,
        provider_metadata: None,
    }))
}

/// A session in `project/` of a throwaway tree.
pub(crate) struct Desk {
    pub(crate) tree: Tree,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) models: Arc<Obedient>,
    pub(crate) sessions: Sessions,
    pub(crate) id: SessionId,
}

impl Desk {
    /// Makes a session in a directory with these files; with `git`, they are committed.
    pub(crate) async fn new(git: bool, files: &[(&str, &str)]) -> Self {
        let tree = Tree::new(&[]);
        let config = json!({
            "model": "test/model",
            "permissions": [{ "action": "*", "resource": "*", "effect": "allow" }],
            "providers": { "test": {
                "api": {
                    "type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://127.0.0.1:9/v1",
                    "settings": { "apiKey": "key" },
                },
                "models": { "model": {}, "other": {} },
            } },
        });
        tree.write("project/abide.json", config.to_string());
        for (path, text) in files {
            tree.write(&format!("project/{path}"), text);
        }
        if git {
            tree.git("project", &["init", "-q"]);
            tree.git("project", &["add", "-A"]);
            tree.git("project", &["commit", "-q", "-m", "start"]);
        }
        let store = Arc::new(MemoryStore::new(tree.world()));
        let models = Arc::new(Obedient::default());
        let sessions = sessions(&tree, &store, &models);
        let create =
            CreateSession { location: Some(LocationRef::new(real(&tree, "project"))), ..CreateSession::default() };
        let id = sessions.create(create).await.unwrap().id;
        Self { tree, store, models, sessions, id }
    }

    /// Ends the process hard and starts another one on what is stored.
    pub(crate) async fn restart(&mut self) {
        self.store = Arc::new(self.store.reopen());
        self.sessions = sessions(&self.tree, &self.store, &self.models);
        self.sessions.recover(None).await.unwrap();
    }

    /// Sends a prompt and waits until it is done.
    pub(crate) async fn prompt(&self, text: &str) -> MessageId {
        let input = PromptSession { text: text.to_owned(), ..PromptSession::default() };
        let id = self.sessions.prompt(&self.id, input).await.unwrap().id;
        self.sessions.wait(&self.id).await.unwrap();
        id
    }

    pub(crate) async fn info(&self) -> SessionInfo {
        self.sessions.get(&self.id).await.unwrap()
    }

    pub(crate) async fn messages(&self) -> Vec<Message> {
        let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
        let rows = self.store.messages(&self.id, query).await.unwrap();
        rows.into_iter().map(|row| row.message).filter(|message| !matches!(message, Message::Idle(_))).collect()
    }

    /// Returns the texts of the messages that the newest request of this session held.
    pub(crate) fn last_request(&self) -> String {
        let requests = self.models.requests.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{:?}", requests.last().unwrap().messages)
    }

    /// Counts events of a kind.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.store.log(&self.id).iter().filter(|event| event.data.def().name.ends_with(name)).count()
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.tree.path(&format!("project/{path}"))).ok()
    }

    /// Compares projections with a rebuild.
    pub(crate) async fn verify(&self) {
        for session in self.store.logs().await.unwrap() {
            assert_eq!(self.store.verify(&session).await.unwrap(), Vec::<String>::new());
        }
    }
}

fn real(tree: &Tree, path: &str) -> String {
    tree.path(path).canonicalize().unwrap().display().to_string()
}

fn sessions(tree: &Tree, store: &Arc<MemoryStore>, models: &Arc<Obedient>) -> Sessions {
    let journal = Journal::new(JournalOptions {
        store: store.clone(),
        world: tree.world(),
        blobs: tree.path("blobs"),
        sync: false,
        on_edited: Arc::new(|_| {}),
    });
    let client = LlmClient::live().unwrap();
    let mut options = LocationsOptions::new(
        tree.world(),
        tree.directories(),
        tree.path("project"),
        store.clone(),
        client,
        journal.clone(),
    );
    let link = SessionsLink::default();
    options.sessions = link.clone();
    let sessions = Sessions::new(SessionsParts {
        store: store.clone(),
        world: tree.world(),
        places: Arc::new(Locations::new(options)),
        models: models.clone(),
        effects: Arc::new(Journals::new(journal, tree.world(), store.clone())),
        options: EngineOptions::default(),
    });
    link.set(&sessions);
    sessions
}
