//! Steps and compactions with scripted models.

use std::sync::atomic::{AtomicUsize, Ordering};

use abide_ai::schema::messages::Part;
use abide_ai::{AIError, AIErrorKind, Usage};
use abide_schema::error::ErrorCode;
use abide_schema::message::{Finish, Message};

use super::*;
use crate::session::compaction;

pub(super) type Events = Vec<Result<LLMEvent, AIError>>;

/// Answers each request as a function of its place and content; keeps the requests.
pub(super) struct Scripted<F> {
    answer: F,
    n: AtomicUsize,
    requests: Mutex<Vec<LLMRequest>>,
}

impl<F: Fn(usize, &LLMRequest) -> Events + Send + Sync> Scripted<F> {
    pub(super) fn new(answer: F) -> Arc<Self> {
        Arc::new(Self { answer, n: AtomicUsize::new(0), requests: Mutex::default() })
    }

    pub(super) fn requests(&self) -> Vec<LLMRequest> {
        lock(&self.requests).clone()
    }
}

impl<F: Fn(usize, &LLMRequest) -> Events + Send + Sync> ModelClient for Scripted<F> {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        let n = self.n.fetch_add(1, Ordering::Relaxed);
        assert_eq!(invariants::complain(&request), None);
        let events = (self.answer)(n, &request);
        lock(&self.requests).push(request);
        // A moment before each event: others get their turn, and an answer takes its time.
        Box::pin(futures_util::stream::iter(events).then(|event| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            event
        }))
    }
}

/// One session in the simulated directory.
pub(super) struct Scene<F> {
    pub(super) sessions: Sessions,
    pub(super) store: Arc<MemoryStore>,
    models: Arc<Scripted<F>>,
    pub(super) id: SessionId,
}

impl<F: Fn(usize, &LLMRequest) -> Events + Send + Sync + 'static> Scene<F> {
    pub(super) async fn new(answer: F) -> Self {
        Self::with("base", (100_000, 1000), answer).await
    }

    /// `limits`: tokens of the context and of an answer.
    async fn with(base: &str, limits: (u64, u64), answer: F) -> Self {
        let random = Random::new(3);
        let ledger = Arc::new(Ledger::default());
        let store = Arc::new(MemoryStore::new(sim_world(&random)));
        let models = Scripted::new(answer);
        let sessions = Sessions::new(SessionsParts {
            store: store.clone(),
            world: sim_world(&random),
            places: Arc::new(SimPlaces::with(random.clone(), ledger, store.clone(), base, limits)),
            models: models.clone(),
            effects: Arc::new(NoJournals),
            options: EngineOptions::default(),
        });
        let id = SessionId::from_trusted("ses_steps");
        let create = CreateSession {
            id: Some(id.clone()),
            location: Some(LocationRef::new("/sim")),
            model: ModelRef::parse("sim/model"),
            ..CreateSession::default()
        };
        sessions.create(create).await.unwrap();
        Self { sessions, store, models, id }
    }

    pub(super) async fn prompt(&self, text: &str) {
        let input = PromptSession { text: text.to_owned(), ..PromptSession::default() };
        self.sessions.prompt(&self.id, input).await.unwrap();
        self.sessions.wait(&self.id).await.unwrap();
    }

    /// The events that `pick` takes, as it names them.
    pub(super) fn picked<T>(&self, pick: impl Fn(&EventData) -> Option<T>) -> Vec<T> {
        self.store.log(&self.id).iter().filter_map(|event| pick(&event.data)).collect()
    }

    pub(super) fn count(&self, wanted: impl Fn(&EventData) -> bool) -> usize {
        self.picked(|data| wanted(data).then_some(())).len()
    }

    pub(super) fn requests(&self) -> Vec<LLMRequest> {
        self.models.requests()
    }
}

pub(super) fn finished(kind: ev::FinishKind, usage: Option<Usage>) -> [Result<LLMEvent, AIError>; 2] {
    let reason = ev::FinishReason::new(kind, None);
    let step = ev::StepFinish { index: 0, reason: reason.clone(), usage: usage.clone(), provider_metadata: None };
    [Ok(LLMEvent::StepFinish(step)), Ok(LLMEvent::Finish(ev::Finish { reason, usage, provider_metadata: None }))]
}

pub(super) fn said(text: &str) -> Events {
    said_with(text, 10)
}

/// An answer to a prompt of so many tokens.
fn said_with(text: &str, input: u64) -> Events {
    let delta = ev::BlockDelta { id: "t".into(), text: text.to_owned(), provider_metadata: None };
    let mut events = vec![
        Ok(LLMEvent::StepStart(ev::StepStart { index: 0 })),
        Ok(LLMEvent::TextStart(ev::BlockStart { id: "t".into(), provider_metadata: None })),
        Ok(LLMEvent::TextDelta(delta)),
        Ok(LLMEvent::TextEnd(ev::TextEnd { id: "t".into(), provider_metadata: None })),
    ];
    let usage = Usage { input_tokens: Some(input), output_tokens: Some(5), ..Usage::default() };
    events.extend(finished(ev::FinishKind::Stop, Some(usage)));
    events
}

pub(super) fn too_long() -> Events {
    let words = "prompt is too long: 99000 tokens > 90000 maximum";
    let kind = AIErrorKind::InvalidRequest {
        parameter: None,
        classification: Some(abide_ai::schema::errors::RequestClassification::ContextOverflow),
    };
    vec![Err(AIError::new(kind, words))]
}

pub(super) fn busy() -> AIError {
    AIError::new(AIErrorKind::RateLimit { retry_after_ms: None, rate_limit: None }, "slow down")
}

fn is_summary(request: &LLMRequest) -> bool {
    request.system.iter().any(|part| part.text == compaction::SYSTEM)
}

pub(super) fn texts(request: &LLMRequest) -> String {
    let parts = request.messages.iter().flat_map(|message| &message.content);
    let text = |part: &Part| if let Part::Text(part) = part { part.text.clone() } else { String::new() };
    parts.map(text).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_retry_forgets_what_the_failed_attempt_said() {
    let scene = Scene::new(|n, _| {
        if n > 0 {
            return said("done");
        }
        let usage = Usage { input_tokens: Some(1000), output_tokens: Some(500), ..Usage::default() };
        let mut events = vec![Ok(LLMEvent::StepStart(ev::StepStart { index: 0 }))];
        events.extend(finished(ev::FinishKind::Length, Some(usage)));
        events.truncate(2);
        events.push(Err(busy()));
        events
    })
    .await;
    scene.prompt("go").await;
    let ended = scene.picked(|data| match data {
        EventData::StepEnded(data) => Some((data.finish, data.tokens.input, data.tokens.output)),
        EventData::StepFailed(data) => panic!("{:?}", data.error),
        _ => None,
    });
    assert_eq!(ended, [(Finish::Stop, 10, 5)]);
    assert_eq!(scene.count(|data| matches!(data, EventData::Retried(_))), 1);
}

#[tokio::test(start_paused = true)]
async fn an_overflow_after_a_retried_attempt_is_compacted() {
    let scene = Scene::new(|n, request| match n {
        _ if is_summary(request) => said("## Objective\nx"),
        0 => said("first"),
        1 => vec![Err(busy())],
        2 => too_long(),
        _ => said("second"),
    })
    .await;
    scene.prompt("one").await;
    scene.prompt("two").await;
    assert_eq!(scene.count(|data| matches!(data, EventData::CompactionEnded(_))), 1);
    assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionSucceeded(_))), 2);
    let failures = scene.picked(|data| match data {
        EventData::StepFailed(data) => data.error.code,
        _ => None,
    });
    assert_eq!(failures, [ErrorCode::ProviderContextOverflow]);
    invariants::check(&scene.store, &scene.id, &scene.store.log(&scene.id), &Ledger::default(), true).unwrap();
}

/// Case C071: the provider refuses every request for size, whatever was summarised.
#[tokio::test(start_paused = true)]
async fn a_compaction_that_does_not_help_ends_the_turn() {
    let scene =
        Scene::new(|_, request| if is_summary(request) { said("## Objective\nshort") } else { too_long() }).await;
    for turn in 1..=2 {
        scene.prompt("go").await;
        let compactions = scene.count(|data| matches!(data, EventData::CompactionEnded(_)));
        assert!(compactions <= 3 * turn, "{compactions} compactions in {turn} turns");
        let failures = scene.picked(|data| match data {
            EventData::ExecutionFailed(data) => Some(data.error.clone()),
            _ => None,
        });
        assert_eq!(failures.len(), turn);
        let last = failures.last().unwrap();
        assert_eq!(last.code, Some(ErrorCode::ProviderContextOverflow));
        assert!(last.message.contains("99000 tokens > 90000"), "{last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_limited_to_the_room_beside_system_text_and_tools() {
    // 60,000 tokens of system text in a context of 100,000.
    let scene = Scene::with(&"word".repeat(60_000), (100_000, 64_000), |_, _| said("done")).await;
    scene.prompt("go").await;
    let limit = scene.requests()[0].generation.as_ref().and_then(|generation| generation.max_tokens).unwrap();
    assert!((35_000..40_000).contains(&limit), "{limit} tokens for the answer");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_for_its_summary_is_shortened() {
    let question = "the newest question, word for word";
    let scene = Scene::new(move |_, request| {
        let size = texts(request).len();
        if is_summary(request) {
            // Less fits than the model says.
            return if size > 60_000 { too_long() } else { said("## Objective\nx") };
        }
        if size > 200_000 { too_long() } else { said(&"long answer ".repeat(10_000)) }
    })
    .await;
    scene.prompt(&"begin ".repeat(10)).await;
    scene.prompt("go on").await;
    scene.prompt(question).await;
    assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionSucceeded(_))), 3);
    assert_eq!(scene.count(|data| matches!(data, EventData::CompactionFailed(_))), 0);
    assert!(scene.count(|data| matches!(data, EventData::CompactionEnded(_))) >= 1);
    let last = scene.requests().pop().unwrap();
    assert_eq!(texts(&last).matches(question).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_cannot_be_made_fails_the_step_and_loses_nothing() {
    let question = "the newest question, word for word";
    let works = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = works.clone();
    let scene = Scene::new(move |n, request| match n {
        _ if is_summary(request) && !flag.load(Ordering::Relaxed) => vec![Err(AIError::invalid_request("no"))],
        _ if is_summary(request) => said("## Objective\nx"),
        0 => said_with(&"long answer ".repeat(30_000), 90_000),
        _ => said("done"),
    })
    .await;
    scene.prompt("begin").await;
    scene.prompt(question).await;
    // One summary was asked for, and no step made.
    assert_eq!(scene.requests().len(), 2);
    let failures = scene.picked(|data| match data {
        EventData::CompactionFailed(data) => Some(data.error.clone()),
        EventData::StepFailed(data) => Some(data.error.clone()),
        EventData::ExecutionFailed(data) => Some(data.error.clone()),
        _ => None,
    });
    assert_eq!(failures.len(), 3, "{failures:?}");
    assert!(failures.iter().all(|error| error.code == Some(ErrorCode::CompactionFailed)), "{failures:?}");
    works.store(true, Ordering::Relaxed);
    scene.sessions.run(&scene.id).await.unwrap();
    scene.sessions.wait(&scene.id).await.unwrap();
    let last = scene.requests().pop().unwrap();
    assert_eq!(texts(&last).matches(question).count(), 1, "{}", texts(&last));
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    let rows = scene.sessions.store().messages(&scene.id, query).await.unwrap();
    assert!(rows.iter().any(|row| matches!(&row.message, Message::User(user) if user.text == question)));
}
