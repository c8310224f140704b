//! Whatever is appended, in whatever order: projections equal the rebuilt ones (I1), positions are dense (I2), both
//! stores agree, and the log survives its encoding (scenario S26).

use std::collections::{BTreeMap, BTreeSet};

use abide_schema::error::{ErrorCode, RetryError, SessionError};
use abide_schema::event::{
    self, BaselineReason, CompactionReason, EVENTS, EventData, InboxItem, InboxKind, InterruptReason, PrunedItem,
    RecoveredTool, StartReason, UsageSource,
};
use abide_schema::location::LocationRef;
use abide_schema::message::{CallProvider, Message, Revert};
use abide_schema::model::{ModelRef, Tokens};
use abide_schema::permission::{Effect, Rule};
use abide_schema::prompt::{Delivery, Prompt};
use abide_schema::session::{ForkBoundary, ForkBoundaryKind};
use abide_schema::tool::{Content, Verdict};
use abide_schema::{CallId, JsonObject, MessageId, OwnerId, SessionId, Timestamp};
use proptest::prelude::*;

use super::build::{log, msg, ses, step_started};
use super::{SqliteDisk, world};
use crate::store::{
    Batch, Durability, DurabilityLevel, EventStore as _, Item, MemoryStore, MessageQuery, Order, Store, ValueStore as _,
};

/// Four small numbers choose an event.
type Choice = (u8, u8, u8, u8);

fn object(number: u8) -> JsonObject {
    let value =
        serde_json::json!({ "z": f64::from(number) / 7.0, "a": [null, "\u{0}ü\"", { "n": -1 }], "big": u64::MAX });
    value.as_object().cloned().unwrap_or_default()
}

fn maybe<T>(number: u8, value: T) -> Option<T> {
    (number.is_multiple_of(2)).then_some(value)
}

fn tokens(number: u8) -> Tokens {
    Tokens { input: number.into(), output: u64::from(number) * 3, ..Tokens::default() }
}

fn make((kind, a, b, c): Choice) -> EventData {
    let session_id = ses(if a & 8 == 0 { "one" } else { "two" });
    let timestamp = Timestamp(i64::from(b) * 1000);
    let name = ["a", "b", "c", "d"][usize::from(a % 4)];
    let message_id = msg(name);
    let am = || msg(["s", "t", "a"][usize::from(b % 3)]);
    let call = || CallId::new(["c1", "c2"][usize::from(c % 2)]);
    let item = || ["i1", "i2"][usize::from(c % 2)].to_owned();
    let delivery = if c.is_multiple_of(2) { Delivery::Steer } else { Delivery::Queue };
    let words = || format!("words {a} {b} {c}");
    let cost = f64::from(c) * 0.1 + 0.2;
    let error = || SessionError::new(ErrorCode::Unknown, words()).with_status(maybe(c, 500));
    let content = || vec![Content::text(words())];
    let provider = || CallProvider { executed: c.is_multiple_of(3), metadata: None };
    let hash = || abide_schema::json::sha256_hex(&[c]);
    let values = || BTreeMap::from([(item(), hash())]);
    let model = || ModelRef::parse(if c.is_multiple_of(2) { "p/m" } else { "p/n" }).unwrap();
    match usize::from(kind) % EVENTS.len() {
        0 => {
            let mut data = super::build::created(&session_id);
            data.metadata = maybe(c, object(b));
            data.model = maybe(b, model());
            data.into()
        }
        // Rare, since nothing comes after it.
        1 if c == 0 => event::SessionDeleted { timestamp, session_id }.into(),
        1 | 2 => event::Renamed { timestamp, session_id, title: words() }.into(),
        3 => event::Updated {
            timestamp,
            session_id,
            metadata: maybe(a, object(c)),
            permissions: maybe(b, vec![Rule::new("edit", words(), Effect::Ask)]),
            archived: [None, Some(None), Some(Some(timestamp))][usize::from(c % 3)],
        }
        .into(),
        4 => event::Viewed { timestamp, session_id, idle: timestamp }.into(),
        5 => event::Moved {
            timestamp,
            session_id,
            location: LocationRef::new(words()),
            subdirectory: maybe(b, words()),
            project_id: maybe(c, "p".into()),
        }
        .into(),
        6 => {
            let kind = if c.is_multiple_of(2) { ForkBoundaryKind::Before } else { ForkBoundaryKind::Through };
            let boundary = ForkBoundary { kind, message_id };
            event::Forked { timestamp, session_id, from: ses("other"), boundary, title: maybe(c, words()) }.into()
        }
        7 => event::HistoryImported { timestamp, session_id, messages: imported(b, c) }.into(),
        8 => event::AgentSwitched { timestamp, session_id, message_id, agent: "plan".into(), previous: None }.into(),
        9 => event::ModelSwitched { timestamp, session_id, message_id, model: model(), previous: maybe(b, model()) }
            .into(),
        10 => event::PromptAdmitted {
            timestamp,
            session_id,
            message_id,
            prompt: Prompt::text(words()),
            delivery,
            metadata: maybe(c, object(b)),
        }
        .into(),
        11 => event::Prompted {
            timestamp,
            session_id,
            message_id,
            prompt: Prompt::text(words()),
            delivery,
            metadata: maybe(c, object(b)),
        }
        .into(),
        12 => {
            let kind = [InboxKind::Synthetic, InboxKind::Compaction, InboxKind::Move][usize::from(b % 3)];
            let item = InboxItem { kind, payload: object(c), delivery };
            event::InboxEnqueued { timestamp, session_id, inbox_id: message_id, item }.into()
        }
        13 => event::InboxDelivered { timestamp, session_id, inbox_id: message_id }.into(),
        14 => event::InboxCancelled { timestamp, session_id, inbox_id: message_id }.into(),
        15 => event::InboxDeliveryChanged { timestamp, session_id, inbox_id: message_id, delivery }.into(),
        16 => event::ExecutionStarted {
            timestamp,
            session_id,
            owner: OwnerId::from_trusted("own_x"),
            fence: c.into(),
            reason: StartReason::Wake,
            attempt: 0,
        }
        .into(),
        17 => event::ExecutionSucceeded { timestamp, session_id }.into(),
        18 => event::ExecutionFailed { timestamp, session_id, error: error() }.into(),
        19 => {
            let reason = [InterruptReason::User, InterruptReason::Shutdown, InterruptReason::Superseded];
            event::ExecutionInterrupted { timestamp, session_id, reason: reason[usize::from(c % 3)] }.into()
        }
        20 => event::Recovered {
            timestamp,
            session_id,
            attempt: 1,
            tools: vec![RecoveredTool { assistant_message_id: am(), call_id: call(), verdict: Verdict::Unknown }],
            steps: vec![am()],
            compactions: Vec::new(),
            revert: maybe(c, words()),
        }
        .into(),
        21 => {
            let reason = BaselineReason::Initial;
            event::ContextBaselined { timestamp, session_id, baseline: hash(), values: values(), reason }.into()
        }
        22 => {
            let delta = if c.is_multiple_of(3) { BTreeMap::from([(item(), "removed".to_owned())]) } else { values() };
            let (delta, description) = (maybe(b, delta), maybe(c, words()));
            event::ContextUpdated { timestamp, session_id, message_id, text: words(), delta, description }.into()
        }
        23 => {
            let items = vec![PrunedItem { assistant_message_id: am(), call_id: call() }];
            event::ContextPruned { timestamp, session_id, items }.into()
        }
        24 => event::Synthetic {
            timestamp,
            session_id,
            message_id,
            text: words(),
            description: maybe(c, words()),
            metadata: maybe(b, object(c)),
        }
        .into(),
        25 => event::SkillActivated { timestamp, session_id, message_id, skill: words(), name: words(), text: words() }
            .into(),
        26 => {
            let (call_id, command, shell) = (call(), words(), maybe(c, words()));
            event::ShellStarted { timestamp, session_id, message_id, call_id, command, shell }.into()
        }
        27 => event::ShellEnded {
            timestamp,
            session_id,
            call_id: call(),
            output: words(),
            exit: maybe(c, -1),
            status: maybe(b, words()),
            truncated: None,
        }
        .into(),
        28 => {
            let mut data = step_started(&session_id, "x");
            (data.assistant_message_id, data.snapshot) = (am(), maybe(c, words()));
            data.into()
        }
        29 => event::StepStreamed { timestamp, session_id, assistant_message_id: am() }.into(),
        30 => {
            let mut data = super::build::step_ended(&session_id, "x", cost);
            (data.assistant_message_id, data.files) = (am(), maybe(c, vec![words()]));
            (data.snapshot, data.raw_finish) = (maybe(a, words()), maybe(b, words()));
            data.into()
        }
        31 => event::StepFailed {
            timestamp,
            session_id,
            assistant_message_id: am(),
            error: error(),
            cost: maybe(c, cost),
            tokens: maybe(c, tokens(c)),
            snapshot: None,
            files: None,
        }
        .into(),
        32 => {
            let text_id = item();
            event::TextStarted { timestamp, session_id, assistant_message_id: am(), text_id, ordinal: None }.into()
        }
        33 => event::TextEnded {
            timestamp,
            session_id,
            assistant_message_id: am(),
            text_id: item(),
            text: words(),
            ordinal: Some(1),
            metadata: None,
        }
        .into(),
        34 => event::ReasoningStarted {
            timestamp,
            session_id,
            assistant_message_id: am(),
            reasoning_id: item(),
            ordinal: None,
            provider_metadata: None,
        }
        .into(),
        35 => event::ReasoningEnded {
            timestamp,
            session_id,
            assistant_message_id: am(),
            reasoning_id: item(),
            text: words(),
            ordinal: None,
            provider_metadata: None,
        }
        .into(),
        36 => event::ToolInputStarted {
            timestamp,
            session_id,
            assistant_message_id: am(),
            call_id: call(),
            name: words(),
            ordinal: None,
        }
        .into(),
        37 => {
            let (assistant_message_id, call_id) = (am(), call());
            event::ToolInputEnded { timestamp, session_id, assistant_message_id, call_id, text: words() }.into()
        }
        38 => event::ToolCalled {
            timestamp,
            session_id,
            assistant_message_id: am(),
            call_id: call(),
            tool: words(),
            input: object(b),
            provider: provider(),
            effects: None,
        }
        .into(),
        39 => event::ToolProgress {
            timestamp,
            session_id,
            assistant_message_id: am(),
            call_id: call(),
            structured: object(b),
            content: content(),
        }
        .into(),
        40 => event::ToolSuccess {
            timestamp,
            session_id,
            assistant_message_id: am(),
            call_id: call(),
            structured: object(b),
            content: content(),
            provider: provider(),
            output_paths: maybe(c, vec![words()]),
            result: maybe(b, serde_json::json!([1.5, null])),
        }
        .into(),
        41 => event::ToolFailed {
            timestamp,
            session_id,
            assistant_message_id: am(),
            call_id: call(),
            error: error(),
            provider: provider(),
            result: None,
            structured: maybe(b, object(c)),
            content: maybe(c, content()),
            verdict: maybe(b, Verdict::Killed),
        }
        .into(),
        42 => {
            let error = RetryError {
                message: words(),
                status_code: maybe(c, 529),
                is_retryable: true,
                response_headers: None,
                response_body: None,
                metadata: None,
                code: None,
            };
            let (assistant_message_id, at) = (maybe(b, am()), maybe(c, timestamp));
            event::Retried { timestamp, session_id, attempt: c.into(), error, assistant_message_id, at }.into()
        }
        43 => {
            let (reason, recent) = (CompactionReason::Auto, maybe(c, words()));
            event::CompactionStarted { timestamp, session_id, message_id, reason, recent }.into()
        }
        44 => event::CompactionEnded {
            timestamp,
            session_id,
            message_id,
            reason: CompactionReason::Manual,
            text: words(),
            recent: words(),
            model: maybe(b, model()),
            cost: maybe(c, cost),
            tokens: maybe(b, tokens(c)),
        }
        .into(),
        45 => event::CompactionFailed {
            timestamp,
            session_id,
            message_id,
            reason: CompactionReason::Manual,
            error: error(),
            cost: None,
            tokens: maybe(c, tokens(c)),
        }
        .into(),
        46 => {
            let (source, tokens) = (UsageSource::Title, tokens(c));
            event::UsageRecorded { timestamp, session_id, source, cost, tokens }.into()
        }
        47 => {
            let revert = Revert {
                message_id,
                inclusive: maybe(c, true),
                snapshot: None,
                diff: None,
                files: None,
                coverage: None,
                skipped: maybe(c, vec![words()]),
            };
            event::RevertStaged { timestamp, session_id, revert }.into()
        }
        48 => event::RevertCleared { timestamp, session_id }.into(),
        49 => event::RevertCommitted { timestamp, session_id, message_id, inclusive: maybe(c, b.is_multiple_of(3)) }
            .into(),
        other => panic!("event {other} of the registry is not generated: add it here"),
    }
}

/// Messages with content, as a copy of another session's history has.
fn imported(b: u8, c: u8) -> Vec<Message> {
    use abide_schema::message::{
        AssistantContent, AssistantMessage, CreatedTime, SpanTime, TextItem, ToolItem, ToolState, ToolTime, UserMessage,
    };
    let time = CreatedTime { created: Timestamp(b.into()) };
    let id = |tag: &str| MessageId::from_trusted(format!("msg_import_{b}_{tag}"));
    let user = UserMessage { id: id("u"), time, metadata: None, text: "hi".to_owned(), files: None, agents: None };
    let tool = ToolItem {
        id: "c1".into(),
        name: "read".to_owned(),
        provider: None,
        state: if c.is_multiple_of(2) {
            ToolState::Pending { input: "{".to_owned() }
        } else {
            ToolState::Completed {
                input: object(c),
                structured: JsonObject::new(),
                content: Vec::new(),
                output_paths: None,
                result: None,
            }
        },
        time: ToolTime { created: Timestamp(1), ran: None, completed: None, pruned: None },
    };
    let text = TextItem { id: "i1".to_owned(), text: "words".to_owned(), metadata: None, open: false };
    let assistant = AssistantMessage {
        id: id("a"),
        time: SpanTime::starting(Timestamp(2)),
        metadata: None,
        agent: "build".into(),
        model: ModelRef::parse("p/m").unwrap(),
        content: vec![AssistantContent::Text(text), AssistantContent::Tool(tool)],
        snapshot: None,
        finish: None,
        raw_finish: None,
        cost: maybe(c, f64::from(c) / 3.0),
        tokens: None,
        error: None,
        retry: None,
    };
    vec![Message::User(user), Message::Assistant(assistant)]
}

/// Every event of the registry is generated (or, for the deletion, can be).
#[test]
fn all_events_are_generated() {
    let made: BTreeSet<String> = (0..u8::try_from(EVENTS.len()).unwrap())
        .flat_map(|kind| [make((kind, 0, 0, 0)), make((kind, 0, 0, 1))])
        .map(|data| data.def().stored_type())
        .collect();
    let known: BTreeSet<String> = EVENTS.iter().map(event::EventDef::stored_type).collect();
    assert_eq!(made, known);
}

async fn state(store: &dyn Store, session: &SessionId) -> impl PartialEq + std::fmt::Debug + use<> {
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    let (info, messages) = (store.session(session).await.unwrap(), store.messages(session, query).await.unwrap());
    let (inputs, context) = (store.pending_inputs(session).await.unwrap(), store.context(session).await.unwrap());
    let (open, start) = (store.open_messages(session).await.unwrap(), store.history_start(session).await.unwrap());
    // The events of a deleted session are removed sooner or later.
    let events = if info.is_some() { log(store, session).await } else { Vec::new() };
    (info, messages, inputs, context, open, start, events)
}

async fn run(batches: Vec<Vec<Choice>>) {
    let memory = MemoryStore::new(world());
    let disk = SqliteDisk::new(DurabilityLevel::Process);
    let sqlite = disk.open_sqlite();
    // The values that generated contexts name.
    for value in 0..=u8::MAX {
        sqlite.put_blob(vec![value]).await.unwrap();
    }
    let sessions = [ses("one"), ses("two")];
    for session in &sessions {
        super::build::put(&memory, super::build::created(session)).await.unwrap();
        super::build::put(&sqlite, super::build::created(session)).await.unwrap();
    }
    let batch = |choices: &[Choice]| {
        let items: Vec<Item> = choices.iter().map(|choice| Item::from(make(*choice))).collect();
        let session = items[0].data.session_id().clone();
        let items = items.into_iter().filter(|item| *item.data.session_id() == session).collect();
        Batch { durability: Durability::Committed, ..Batch::new(session, items) }
    };
    for choices in batches.iter().filter(|choices| !choices.is_empty()) {
        let (one, two) = (memory.append(batch(choices)).await, sqlite.append(batch(choices)).await);
        match (one, two) {
            (Ok(one), Ok(two)) => assert_eq!(one, two),
            (Err(one), Err(two)) => assert_eq!(one.to_string(), two.to_string()),
            (one, two) => panic!("the stores disagree on {:?}: {one:?} and {two:?}", batch(choices)),
        }
    }
    for session in &sessions {
        assert_eq!(memory.verify(session).await.unwrap(), Vec::<String>::new());
        assert_eq!(sqlite.verify(session).await.unwrap(), Vec::<String>::new());
        assert_eq!(format!("{:?}", state(&memory, session).await), format!("{:?}", state(&sqlite, session).await));
        let before = format!("{:?}", state(&sqlite, session).await);
        sqlite.rebuild(session).await.unwrap();
        assert_eq!(sqlite.verify(session).await.unwrap(), Vec::<String>::new());
        assert_eq!(format!("{:?}", state(&sqlite, session).await), before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]
    #[test]
    fn projections_follow_the_log(batches in prop::collection::vec(prop::collection::vec(any::<Choice>(), 1..6), 1..80)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(batches));
    }
}
