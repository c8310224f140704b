use std::time::Duration;

use abide_ai::schema::events as ev;
use abide_ai::{LLMEvent, LLMRequest, LlmClient, LlmStream};
use abide_schema::event::EventData;
use abide_schema::location::LocationRef;
use abide_schema::message::{AssistantContent, Message, ToolState};
use abide_schema::session::SessionInfo;
use abide_schema::tool::Verdict;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::*;
use crate::config::testing::Tree;
use crate::fs::journal::{Journal, JournalOptions};
use crate::location::{Locations, LocationsOptions};
use crate::session::place::ModelClient;
use crate::session::recovery::{EffectRecovery, NoJournals};
use crate::session::{CreateSession, DrainEnd, EngineOptions, PromptSession, SessionsParts};
use crate::store::{JournalStore, MemoryStore, ProjectionStore as _, Store};

/// What the model does in one step.
#[derive(Clone, Debug)]
enum Act {
    Say(&'static str),
    Call(Value),
    /// Never answers.
    Hang,
}

/// Decides by the text of the first message whether a child asks, and by the number of answers how far it is.
type Script = Arc<dyn Fn(bool, usize) -> Act + Send + Sync>;

struct Scripted(Script);

impl ModelClient for Scripted {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        let text = serde_json::to_string(&*request.messages[0]).unwrap();
        let is_child = text.contains("Another session (");
        let n_answers =
            request.messages.iter().filter(|message| message.role == abide_ai::schema::messages::Role::Assistant);
        let (mut events, mut kind) = (vec![LLMEvent::StepStart(ev::StepStart { index: 0 })], ev::FinishKind::Stop);
        match (self.0)(is_child, n_answers.count()) {
            Act::Hang => return futures_util::stream::pending().boxed(),
            Act::Say(text) => {
                let (id, provider_metadata) = ("text-0".into(), None);
                events.push(LLMEvent::TextStart(ev::BlockStart { id: "text-0".into(), provider_metadata: None }));
                events.push(LLMEvent::TextDelta(ev::BlockDelta { id, text: text.to_owned(), provider_metadata }));
                events.push(LLMEvent::TextEnd(ev::TextEnd { id: "text-0".into(), provider_metadata: None }));
            }
            Act::Call(input) => {
                kind = ev::FinishKind::ToolCalls;
                events.push(LLMEvent::ToolCall(ev::ToolCall {
                    id: "call_1".into(),
                    name: ACTION.to_owned(),
                    input,
                    provider_executed: None,
                    provider_metadata: None,
                }));
            }
        }
        events.push(LLMEvent::Finish(ev::Finish {
            reason: ev::FinishReason::new(kind, None),
            usage: None,
            provider_metadata: None,
        }));
        futures_util::stream::iter(events.into_iter().map(Ok)).boxed()
    }
}

struct Room {
    tree: Tree,
    store: Arc<MemoryStore>,
    sessions: Sessions,
    parent: SessionId,
}

fn config(more: Value) -> Value {
    let mut config = json!({
        "model": "test/model",
        "snapshots": false,
        "providers": { "test": {
            "name": "Test",
            "api": { "type": "aisdk", "package": "@ai-sdk/openai-compatible", "url": "http://127.0.0.1:9/v1",
                     "settings": { "apiKey": "k" } },
            "models": { "model": { "name": "Model", "limit": { "context": 200_000, "output": 8000 },
                                   "capabilities": { "tools": true, "input": ["text"], "output": ["text"] } } },
        } },
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

impl Room {
    async fn new(more: Value, script: impl Fn(bool, usize) -> Act + Send + Sync + 'static) -> Self {
        let tree = Tree::new(&[("project/abide.json", &config(more).to_string())]);
        let store = Arc::new(MemoryStore::new(tree.world()));
        let sessions = engine(&tree, &store, Arc::new(script));
        let location = Some(LocationRef::new(tree.path("project").display().to_string()));
        let parent = sessions.create(CreateSession { location, ..CreateSession::default() }).await.unwrap().id;
        Self { tree, store, sessions, parent }
    }

    async fn prompt(&self, text: &str) {
        let input = PromptSession { text: text.to_owned(), ..PromptSession::default() };
        self.sessions.prompt(&self.parent, input).await.unwrap();
    }

    async fn run(&self, text: &str) -> Option<DrainEnd> {
        self.prompt(text).await;
        tokio::time::timeout(Duration::from_secs(60), self.sessions.wait(&self.parent)).await.unwrap().unwrap()
    }

    async fn children(&self) -> Vec<SessionInfo> {
        let mut children = Vec::new();
        for id in self.store.children(&self.parent).await.unwrap() {
            children.push(self.sessions.get(&id).await.unwrap());
        }
        children
    }

    /// Waits until the children are so many.
    async fn until_children(&self, n: usize) -> Vec<SessionInfo> {
        for _ in 0..600 {
            let children = self.children().await;
            if children.len() == n && children.iter().all(|child| self.sessions.is_active(&child.id)) {
                return children;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("there are never {n} running children");
    }

    /// The states of the parent's calls, one line each, with the child's id replaced.
    async fn calls(&self) -> Vec<String> {
        let children = self.children().await;
        let mut lines = Vec::new();
        for row in self
            .store
            .messages(
                &self.parent,
                crate::store::MessageQuery { order: crate::store::Order::Asc, ..Default::default() },
            )
            .await
            .unwrap()
        {
            let Message::Assistant(assistant) = row.message else { continue };
            for item in assistant.content {
                let AssistantContent::Tool(tool) = item else { continue };
                let mut line = match &tool.state {
                    ToolState::Completed { content, .. } => format!("done: {}", joined_text(content)),
                    ToolState::Error { error, .. } => format!("failed: {}", error.message),
                    other => format!("{other:?}"),
                };
                for child in &children {
                    line = line.replace(child.id.as_str(), "CHILD");
                }
                lines.push(line);
            }
        }
        lines
    }

    /// The notices of the parent.
    fn notices(&self) -> Vec<String> {
        let log = self.store.log(&self.parent);
        let of = |data: &EventData| match data {
            EventData::InboxEnqueued(data) => data.item.payload.get("text")?.as_str().map(ToOwned::to_owned),
            _ => None,
        };
        log.iter().filter_map(|event| of(&event.data)).collect()
    }
}

fn engine(tree: &Tree, store: &Arc<MemoryStore>, script: Script) -> Sessions {
    let journal = Journal::new(JournalOptions {
        store: Arc::clone(store) as Arc<dyn JournalStore>,
        world: tree.world(),
        blobs: tree.path("blobs"),
        sync: false,
        on_edited: Arc::new(|_| {}),
    });
    let client = LlmClient::live().unwrap();
    let link = SessionsLink::default();
    let mut options = LocationsOptions::new(
        tree.world(),
        tree.directories(),
        tree.path("project"),
        Arc::clone(store) as Arc<dyn Store>,
        client,
        journal,
    );
    options.sessions = link.clone();
    let sessions = Sessions::new(SessionsParts {
        store: store.clone(),
        world: tree.world(),
        places: Arc::new(Locations::new(options)),
        models: Arc::new(Scripted(script)),
        effects: Arc::new(NoJournals) as Arc<dyn EffectRecovery>,
        options: EngineOptions::default(),
    });
    link.set(&sessions);
    sessions
}

fn task(agent: &str) -> Value {
    json!({ "agent": agent, "description": "look around", "prompt": "Find it." })
}

fn with(mut task: Value, more: Value) -> Value {
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// The parent calls once, then says that it is done; the child says what it found.
fn one(call: Value) -> impl Fn(bool, usize) -> Act + Send + Sync + 'static {
    move |is_child, n_answers| match (is_child, n_answers) {
        (true, _) => Act::Say("It is in a.rs."),
        (false, 0) => Act::Call(call.clone()),
        (false, _) => Act::Say("done"),
    }
}

#[tokio::test]
async fn sa1_what_cannot_be_a_subagent_is_refused_with_the_reason() {
    let more = || {
        json!({
            "agents": { "hand": { "description": "x", "permissions": [] } },
            "permissions": [{ "action": "subagent", "resource": "hand", "effect": "deny" }],
        })
    };
    let foreign = with(task("explore"), json!({ "sessionID": "ses_other" }));
    let model = with(task("explore"), json!({ "model": "test/none" }));
    let variant = with(task("explore"), json!({ "model": "test/model#none" }));
    for (call, expected) in [
        (task("nobody"), "failed: No agent named nobody; available:"),
        (task("build"), "failed: build is a primary agent, not a subagent"),
        (task("hand"), "failed: Not allowed to start subagent hand"),
        (foreign, "failed: session ses_other is no child of this session"),
        (model, "failed: the model test/none cannot be used:"),
        (variant, "failed: the model test/model#none cannot be used:"),
        (with(task("explore"), json!({ "model": "none" })), "failed: \"none\" names no model"),
        (with(task("explore"), json!({ "prompt": " " })), "failed: The prompt is empty"),
    ] {
        let room = Room::new(more(), one(call)).await;
        assert_eq!(room.run("go").await, Some(DrainEnd::Complete));
        let calls = room.calls().await;
        assert!(calls.len() == 1 && calls[0].starts_with(expected), "{calls:?}, expected {expected}");
        assert_eq!(room.children().await.len(), 0);
    }
}

#[tokio::test]
async fn sa1_the_depth_limit_names_its_setting() {
    // Children call too; the one at the limit is refused and ends.
    let nested = |_: bool, n_answers| if n_answers == 0 { Act::Call(task("general")) } else { Act::Say("ended") };
    for (depth, n_refused) in [(json!({}), 1), (json!({ "experimental": { "subagent_depth": 0 } }), 0)] {
        let room = Room::new(depth, nested).await;
        room.run("go").await;
        let children = room.children().await;
        assert_eq!(children.len(), n_refused);
        let refused = match children.first() {
            Some(child) => child.id.clone(),
            None => room.parent.clone(),
        };
        let log = room.store.log(&refused);
        let failure = log.iter().find_map(|event| match &event.data {
            EventData::ToolFailed(failed) => Some(failed.error.message.clone()),
            _ => None,
        });
        assert!(failure.is_some_and(|text| text.contains("experimental.subagent_depth")), "{log:?}");
    }
}

#[tokio::test]
async fn sa2_a_foreground_child_returns_its_last_words() {
    let room = Room::new(json!({}), one(task("explore"))).await;
    assert_eq!(room.run("go").await, Some(DrainEnd::Complete));
    assert_eq!(
        room.calls().await,
        ["done: <subagent sessionID=\"CHILD\" state=\"completed\">\nIt is in a.rs.\n</subagent>"]
    );
    let children = room.children().await;
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].title, "look around");
    assert_eq!(children[0].agent, Some(AgentId::new("explore")));
    assert_eq!(children[0].location, room.sessions.get(&room.parent).await.unwrap().location);
    assert_eq!(room.notices(), Vec::<String>::new());
    // Usage is each session's own.
    assert_eq!(room.store.jobs().await.unwrap(), []);
}

#[tokio::test]
async fn sa2_an_interrupt_reaches_the_child_and_the_id_stays() {
    let script = |is_child: bool, n_answers| match (is_child, n_answers) {
        (true, _) => Act::Hang,
        (false, 0) => Act::Call(task("general")),
        (false, _) => Act::Say("done"),
    };
    let room = Room::new(json!({}), script).await;
    room.prompt("go").await;
    let child = room.until_children(1).await.remove(0);
    assert!(room.sessions.interrupt(&room.parent).await.unwrap());
    room.sessions.wait(&child.id).await.unwrap();
    for id in [&room.parent, &child.id] {
        let interrupted = |data: &EventData| matches!(data, EventData::ExecutionInterrupted(_));
        // The child's end may come a moment after its parent's.
        let mut n = 0;
        for _ in 0..500 {
            n = room.store.log(id).iter().filter(|event| interrupted(&event.data)).count();
            if n > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(n, 1, "{id}");
    }
    // The user stops a child alone: its parent goes on, and knows which one it was.
    let room = Room::new(json!({}), script).await;
    room.prompt("go").await;
    let child = room.until_children(1).await.remove(0);
    room.sessions.interrupt(&child.id).await.unwrap();
    room.sessions.wait(&room.parent).await.unwrap();
    assert_eq!(room.calls().await, ["failed: Subagent session CHILD was cancelled"]);
}

#[tokio::test]
async fn sa3_a_background_child_gives_one_notice() {
    let background = with(task("general"), json!({ "background": true }));
    let room = Room::new(json!({}), one(background)).await;
    room.run("go").await;
    let child = room.children().await.remove(0).id;
    for _ in 0..500 {
        if room.notices().len() == 1 && room.store.jobs().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    room.sessions.wait(&room.parent).await.unwrap();
    assert!(room.calls().await[0].starts_with("done: <subagent sessionID=\"CHILD\" state=\"running\">"));
    let notice = format!(
        "<subagent sessionID=\"{child}\" state=\"completed\" description=\"look around\">\nIt is in a.rs.\n</subagent>"
    );
    assert_eq!(room.notices(), [notice]);
    // The notice woke the parent, which saw it.
    let pending = room.store.pending_inputs(&room.parent).await.unwrap();
    assert_eq!(pending, []);
}

#[tokio::test]
async fn sa3_a_later_call_goes_on_with_the_child() {
    let known: Arc<std::sync::OnceLock<String>> = Arc::default();
    let named = known.clone();
    let script = move |is_child: bool, n_answers| match (is_child, n_answers) {
        (true, 0) => Act::Say("first"),
        (true, _) => Act::Say("second"),
        (false, 0) => Act::Call(task("general")),
        (false, 2) => Act::Call(with(task("explore"), json!({ "sessionID": named.get() }))),
        (false, _) => Act::Say("done"),
    };
    let room = Room::new(json!({}), script).await;
    room.run("go").await;
    known.set(room.children().await[0].id.to_string()).unwrap();
    room.run("go on").await;
    let children = room.children().await;
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].agent, Some(AgentId::new("explore")));
    let words: Vec<String> = room.calls().await;
    assert!(words[0].contains("\nfirst\n") && words[1].contains("\nsecond\n"), "{words:?}");
}

#[tokio::test]
async fn plan_mode_stays_read_only_in_its_children() {
    let room = Room::new(json!({ "default_agent": "plan" }), one(task("general"))).await;
    room.run("go").await;
    let child = room.children().await.remove(0);
    assert_eq!(child.permissions, Some(vec![Rule::new("edit", "*", Effect::Deny)]));
    let off = json!({ "default_agent": "plan", "abide": { "permission": { "inherit_readonly": false } } });
    let room = Room::new(off, one(task("general"))).await;
    room.run("go").await;
    assert_eq!(room.children().await.remove(0).permissions, None);
}

#[tokio::test]
async fn c21_after_a_crash_the_parent_is_told_its_child() {
    let script = |is_child: bool, n_answers| match (is_child, n_answers) {
        (true, _) => Act::Hang,
        (false, 0) => Act::Call(task("general")),
        (false, _) => Act::Say("done"),
    };
    let room = Room::new(json!({}), script).await;
    room.prompt("go").await;
    let child = room.until_children(1).await.remove(0).id;
    let Room { tree, store, sessions, parent } = room;
    let store = Arc::new(store.reopen());
    // The dead process can append nothing any more.
    let next = engine(&tree, &store, Arc::new(script));
    let recovered = next.recover(None).await.unwrap();
    let order: Vec<&SessionId> = recovered.iter().map(|one| &one.session).collect();
    assert_eq!(order, [&child, &parent], "children come first");
    next.wait(&parent).await.unwrap();
    let room = Room { tree, store, sessions: next, parent };
    let verdicts: Vec<Option<Verdict>> = room
        .store
        .log(&room.parent)
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolFailed(failed) => Some(failed.verdict),
            _ => None,
        })
        .collect();
    assert_eq!(verdicts, [Some(Verdict::ChildInterrupted)]);
    let calls = room.calls().await;
    assert!(calls[0].contains("Its session is CHILD"), "{calls:?}");
    // X11: a second recovery has nothing to do.
    let logs = |room: &Room| [&child, &room.parent].map(|id| room.store.log(id).len());
    let before = logs(&room);
    assert_eq!(room.sessions.recover(None).await.unwrap().len(), 0);
    room.sessions.wait(&room.parent).await.unwrap();
    assert_eq!(logs(&room), before);
    // The child waits for its parent to go on with it.
    assert!(!room.sessions.is_active(&child));
    drop(sessions);
}

#[tokio::test]
async fn s131_a_background_child_goes_on_after_a_crash_and_is_told_of_once() {
    let lives = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let background = with(task("general"), json!({ "background": true }));
    let (life, call) = (lives.clone(), background);
    let script: Script = Arc::new(move |is_child: bool, n_answers| match (is_child, n_answers) {
        (true, _) if life.load(std::sync::atomic::Ordering::Relaxed) == 0 => Act::Hang,
        (true, _) => Act::Say("found after all"),
        (false, 0) => Act::Call(call.clone()),
        (false, _) => Act::Say("done"),
    });
    let of_room = script.clone();
    let room = Room::new(json!({}), move |is_child, n| of_room(is_child, n)).await;
    room.run("go").await;
    let child = room.until_children(1).await.remove(0).id;
    lives.store(1, std::sync::atomic::Ordering::Relaxed);
    let Room { tree, store, sessions, parent } = room;
    let store = Arc::new(store.reopen());
    let next = engine(&tree, &store, script);
    next.recover(None).await.unwrap();
    let room = Room { tree, store, sessions: next, parent };
    for _ in 0..500 {
        if room.store.jobs().await.unwrap().is_empty() && !room.sessions.is_active(&room.parent) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A third life finds nothing to tell.
    room.sessions.recover(None).await.unwrap();
    let notices = room.notices();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("found after all") && notices[0].contains(child.as_str()), "{notices:?}");
    drop(sessions);
}

#[test]
fn the_description_lists_who_may_be_called() {
    let tree = Tree::new(&[(
        "project/abide.json",
        &json!({ "agents": { "zed": { "description": "last" }, "hid": { "hidden": true } } }).to_string(),
    )]);
    let state = tree.state("project", None);
    let all = available(state.agents.list(), &[]);
    let names: Vec<&str> = all.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["- explore", "- general", "- zed"]);
    let none = available(state.agents.list(), &[Rule::new("subagent", "*", Effect::Deny)]);
    assert_eq!(none, "No subagents are available now.");
}

#[tokio::test]
async fn x10_a_record_that_outlived_its_notice_brings_no_second_one() {
    let background = with(task("general"), json!({ "background": true }));
    let room = Room::new(json!({}), one(background)).await;
    room.run("go").await;
    let told = |room: &Room| {
        room.store.log(&room.parent).iter().find_map(|event| match &event.data {
            EventData::InboxEnqueued(data) => Some(data.inbox_id.clone()),
            _ => None,
        })
    };
    for _ in 0..500 {
        if told(&room).is_some() && room.store.jobs().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    room.sessions.wait(&room.parent).await.unwrap();
    let child = room.children().await.remove(0).id;
    let record = crate::store::JobRecord {
        notification: told(&room).unwrap(),
        id: job_of(&child),
        session: room.parent.clone(),
        owner: abide_schema::OwnerId::from_trusted("own_dead"),
        work: crate::store::JobWork::Subagent {
            child,
            agent: AgentId::new("general"),
            description: "look around".to_owned(),
        },
        started: abide_schema::Timestamp::from_millis(0),
    };
    let Room { tree, store, parent, .. } = room;
    let store = Arc::new(store.reopen());
    store.put_job(record).await.unwrap();
    let next = engine(&tree, &store, Arc::new(one(task("general"))));
    next.recover(None).await.unwrap();
    let room = Room { tree, store, sessions: next, parent };
    for _ in 0..500 {
        if room.store.jobs().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(room.store.jobs().await.unwrap(), []);
    assert_eq!(room.notices().len(), 1);
}
