//! The scripted world of the simulator: clock, randomness, models, directories, tools.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_ai::schema::errors::{AIErrorKind, TransportDetails, TransportKind, TransportOperation};
use abide_ai::schema::events as ev;
use abide_ai::{AIError, LLMEvent, LLMRequest, LanguageModel, LlmStream, ToolDefinition, Usage};
use abide_schema::agent::{AgentInfo, AgentMode};
use abide_schema::location::{LocationInfo, LocationRef, ProjectRef};
use abide_schema::model::{ModelRef, ProviderRequest};
use abide_schema::permission::Rule;
use abide_schema::tool::{Content, Effects};
use abide_schema::{AgentId, CallId, MessageId, SessionId, Timestamp};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::session::place::{
    Attachment, EngineSettings, ModelClient, ObservedSource, Place, PlaceError, Places, PriceTier, ResolvedModel,
    SourceState,
};
use crate::store::MemoryStore;
use crate::store::{EventStore as _, SeqRange, View};
use crate::tool::outcome::{Declined, FailureKind, NormalizedResult, ProgressSink, Settled, ToolCall, ToolSnapshot};
use crate::world::{Clock, Entropy, World};

/// A seeded source of random numbers that all parts of a schedule share.
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<u64>>);

impl Random {
    /// Makes a source.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    /// Returns 64 random bits (splitmix64).
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `limit`, which is at least 1.
    pub fn below(&self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

impl Entropy for Random {
    fn next(&self) -> u64 {
        Self::next(self)
    }
}

struct SimClock;

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        // Each life starts later than the one before could end; ids never step back within a generator anyway.
        static LIVES: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
        let start = *LIVES.get_or_init(tokio::time::Instant::now);
        let elapsed = tokio::time::Instant::now().saturating_duration_since(start);
        Timestamp::from_millis(1_790_000_000_000 + i64::try_from(elapsed.as_millis()).unwrap_or(0))
    }
}

/// Makes a world with a virtual clock and seeded ids.
pub fn sim_world(random: &Random) -> World {
    World::new(Arc::new(SimClock), Arc::new(random.clone()), BTreeMap::new())
}

/// What really happened, over all lives: the simulator's own record, which no crash can touch.
#[derive(Debug, Default)]
pub struct Ledger {
    runs: Mutex<HashMap<(MessageId, CallId), u32>>,
    requests: Mutex<Vec<String>>,
}

impl Ledger {
    fn count_run(&self, message: &MessageId, call: &CallId) {
        *lock(&self.runs).entry((message.clone(), call.clone())).or_default() += 1;
    }

    /// Returns how often each call ran.
    pub(super) fn runs(&self) -> HashMap<(MessageId, CallId), u32> {
        lock(&self.runs).clone()
    }

    pub(super) fn tool_runs(&self) -> usize {
        lock(&self.runs).len()
    }

    pub(super) fn requests(&self) -> usize {
        lock(&self.requests).len()
    }

    /// Returns the complaints about requests.
    pub(super) fn complaints(&self) -> Vec<String> {
        lock(&self.requests).iter().filter(|text| !text.is_empty()).cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Models that answer at random, and check each request they get.
pub(super) struct SimModels {
    random: Random,
    ledger: Arc<Ledger>,
}

impl SimModels {
    pub(super) fn new(random: Random, ledger: Arc<Ledger>) -> Self {
        Self { random, ledger }
    }

    fn script(&self, request: &LLMRequest) -> Vec<Result<LLMEvent, AIError>> {
        let random = &self.random;
        let mut events = Vec::new();
        match random.below(16) {
            0 => {
                return vec![Err(AIError::new(
                    AIErrorKind::RateLimit { retry_after_ms: None, rate_limit: None },
                    "slow down",
                ))];
            }
            1 => return vec![Err(AIError::invalid_request("no"))],
            2 => return vec![Err(transport())],
            _ => {}
        }
        events.push(Ok(LLMEvent::StepStart(ev::StepStart { index: 0 })));
        if random.below(3) == 0 {
            events.push(Ok(LLMEvent::ReasoningStart(block("reasoning-0"))));
            events.push(Ok(LLMEvent::ReasoningDelta(delta("reasoning-0", "hm"))));
            events.push(Ok(LLMEvent::ReasoningEnd(ev::ReasoningEnd {
                id: "reasoning-0".into(),
                text: None,
                provider_metadata: None,
            })));
        }
        if random.below(3) > 0 {
            events.push(Ok(LLMEvent::TextStart(block("text-0"))));
            for _ in 0..random.below(5) {
                events.push(Ok(LLMEvent::TextDelta(delta("text-0", "word "))));
            }
            match random.below(20) {
                0 => {
                    events.push(Err(transport()));
                    return events;
                }
                1 => {
                    events.push(Err(AIError::incomplete_stream("cut")));
                    return events;
                }
                2 => events.push(Ok(LLMEvent::TextDelta(delta("text-9", "stray")))),
                _ => {}
            }
            events.push(Ok(LLMEvent::TextEnd(ev::TextEnd { id: "text-0".into(), provider_metadata: None })));
        }
        let mut called = false;
        if !request.tools.is_empty() && random.below(5) < 3 {
            for index in 0..=random.below(3) {
                called = true;
                // The provider's ids repeat from step to step.
                let id = format!("call_{index}");
                let name = ["work", "slow", "fail", "ask", "broken", "unknown"]
                    .get(usize::try_from(random.below(if random.below(4) == 0 { 6 } else { 2 })).unwrap_or(0))
                    .copied()
                    .unwrap_or("work");
                events.push(Ok(LLMEvent::ToolCall(ev::ToolCall {
                    id: id.into(),
                    name: name.to_owned(),
                    input: serde_json::json!({ "n": index }),
                    provider_executed: None,
                    provider_metadata: None,
                })));
            }
        }
        let kind = if called { ev::FinishKind::ToolCalls } else { ev::FinishKind::Stop };
        let usage = Usage { input_tokens: Some(10), output_tokens: Some(5), ..Usage::default() };
        events.push(Ok(LLMEvent::StepFinish(ev::StepFinish {
            index: 0,
            reason: ev::FinishReason::new(kind, None),
            usage: Some(usage.clone()),
            provider_metadata: None,
        })));
        events.push(Ok(LLMEvent::Finish(ev::Finish {
            reason: ev::FinishReason::new(kind, None),
            usage: Some(usage),
            provider_metadata: None,
        })));
        events
    }
}

fn block(id: &str) -> ev::BlockStart {
    ev::BlockStart { id: id.into(), provider_metadata: None }
}

fn delta(id: &str, text: &str) -> ev::BlockDelta {
    ev::BlockDelta { id: id.into(), text: text.to_owned(), provider_metadata: None }
}

fn transport() -> AIError {
    AIError::transport(
        TransportDetails {
            transport: TransportKind::Http,
            operation: TransportOperation::Read,
            code: None,
            url: None,
            phase: None,
            delivery: None,
            recovery: None,
        },
        "connection reset",
    )
}

impl ModelClient for SimModels {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        let complaint = super::invariants::complain(&request).unwrap_or_default();
        lock(&self.ledger.requests).push(complaint);
        let script = self.script(&request);
        let random = self.random.clone();
        Box::pin(futures_util::stream::iter(script).then(move |item| {
            let pause = random.below(3) * random.below(400);
            async move {
                if pause > 0 {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                item
            }
        }))
    }
}

/// Opens the one simulated directory.
pub struct SimPlaces {
    place: Arc<SimPlace>,
}

impl SimPlaces {
    /// Makes the directory.
    pub fn new(random: Random, ledger: Arc<Ledger>, store: Arc<MemoryStore>) -> Self {
        let info = LocationInfo {
            directory: "/sim".to_owned(),
            workspace_id: None,
            project: ProjectRef { id: "global".into(), directory: "/".to_owned() },
        };
        Self { place: Arc::new(SimPlace { info, random, ledger, store }) }
    }
}

impl Places for SimPlaces {
    fn open<'a>(&'a self, _location: &'a LocationRef) -> BoxFuture<'a, Result<Arc<dyn Place>, PlaceError>> {
        Box::pin(async { Ok(self.place.clone() as Arc<dyn Place>) })
    }
}

struct SimPlace {
    info: LocationInfo,
    random: Random,
    ledger: Arc<Ledger>,
    store: Arc<MemoryStore>,
}

impl Place for SimPlace {
    fn info(&self) -> &LocationInfo {
        &self.info
    }

    fn agent(&self, id: Option<&AgentId>) -> Result<Arc<AgentInfo>, PlaceError> {
        Ok(Arc::new(AgentInfo {
            id: id.cloned().unwrap_or_else(|| "build".into()),
            model: None,
            request: ProviderRequest::default(),
            system: None,
            description: None,
            mode: AgentMode::Primary,
            hidden: false,
            color: None,
            steps: Some(6),
            permissions: Vec::new(),
        }))
    }

    fn model<'a>(
        &'a self,
        session: Option<&'a ModelRef>,
        _agent: &'a AgentInfo,
    ) -> BoxFuture<'a, Result<ResolvedModel, PlaceError>> {
        Box::pin(async move {
            let model = session.cloned().unwrap_or_else(|| ModelRef::new("sim".into(), "model".into()));
            Ok(ResolvedModel {
                language: language()?,
                model,
                context_limit: Some(100_000),
                input_limit: None,
                output_limit: Some(1000),
                prices: vec![PriceTier { input: 1.0, output: 2.0, ..PriceTier::default() }],
                takes_images: false,
                takes_pdf: false,
                takes_tools: true,
            })
        })
    }

    fn tools(&self, _agent: &AgentInfo, _model: &ResolvedModel, _rules: &[Rule]) -> Arc<dyn ToolSnapshot> {
        let names = ["ask", "broken", "fail", "slow", "work"];
        let definitions = names
            .iter()
            .map(|name| ToolDefinition::make(*name, "a tool", serde_json::json!({ "type": "object" })))
            .map(Arc::new)
            .collect();
        Arc::new(SimTools {
            definitions,
            random: self.random.clone(),
            ledger: self.ledger.clone(),
            store: self.store.clone(),
        })
    }

    fn context<'a>(&'a self, _agent: &'a AgentInfo) -> BoxFuture<'a, Vec<ObservedSource>> {
        // The environment changes now and then.
        let day = self.random.below(20) / 18;
        Box::pin(async move {
            vec![ObservedSource {
                key: "core/date".to_owned(),
                state: SourceState::Available {
                    value: serde_json::json!(day),
                    baseline: format!("Day {day}"),
                    update: format!("It is day {day} now"),
                },
            }]
        })
    }

    fn base_prompt(&self, _model: &ResolvedModel) -> String {
        "base".to_owned()
    }

    fn capture(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn changed<'a>(&'a self, _from: &'a str, _to: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async { Vec::new() })
    }

    fn settings(&self) -> EngineSettings {
        EngineSettings { snapshot: false, ..EngineSettings::default() }
    }

    fn withdraw(&self, _session: &SessionId) {}

    fn attachment<'a>(&'a self, _uri: &'a str, _mime: &'a str) -> BoxFuture<'a, Option<Attachment>> {
        Box::pin(async { None })
    }
}

/// Any real route: the simulated models never use it.
fn language() -> Result<LanguageModel, PlaceError> {
    abide_ai::providers::ollama::configure(abide_ai::providers::ProviderOptions::default())
        .model("sim")
        .map_err(|error| PlaceError::Model(error.to_string()))
}

struct SimTools {
    definitions: Vec<Arc<ToolDefinition>>,
    random: Random,
    ledger: Arc<Ledger>,
    store: Arc<MemoryStore>,
}

impl ToolSnapshot for SimTools {
    fn definitions(&self) -> &[Arc<ToolDefinition>] {
        &self.definitions
    }

    fn effects(&self, name: &str) -> Effects {
        match name {
            "work" => Effects::Files,
            "slow" => Effects::External,
            _ => Effects::None,
        }
    }

    fn execute(
        &self,
        call: ToolCall,
        progress: Arc<dyn ProgressSink>,
        interrupt: CancellationToken,
    ) -> BoxFuture<'static, Settled> {
        let (random, ledger, store) = (self.random.clone(), self.ledger.clone(), self.store.clone());
        Box::pin(async move {
            announced(&store, &call, &ledger).await;
            ledger.count_run(&call.message_id, &call.call_id);
            let time = match call.name.as_str() {
                "slow" => 1000 + random.below(5000),
                _ => random.below(50),
            };
            progress.report(abide_schema::JsonObject::new(), Some(vec![Content::text("working")]));
            tokio::select! {
                biased;
                () = interrupt.cancelled() => return Settled::Interrupted,
                () = tokio::time::sleep(Duration::from_millis(time)) => {}
            }
            match call.name.as_str() {
                "work" | "slow" => Settled::Completed(NormalizedResult {
                    content: vec![Content::text("done")],
                    ..NormalizedResult::default()
                }),
                "fail" => Settled::Failed {
                    error: abide_schema::tool::ToolError::new("it failed"),
                    kind: FailureKind::Execution,
                },
                "ask" => Settled::Declined(Declined::Permission),
                "broken" => Settled::Defect { report: "a bug".to_owned() },
                other => Settled::Failed {
                    error: abide_schema::tool::ToolError::new(format!("Unknown tool: {other}")),
                    kind: FailureKind::Unknown,
                },
            }
        })
    }
}

/// I4: the call's announcement is durable before it runs.
async fn announced(store: &MemoryStore, call: &ToolCall, ledger: &Ledger) {
    let page = store.read(&call.session_id, SeqRange::default(), View::Log, 100_000).await;
    let found = page.is_ok_and(|page| {
        page.events.iter().any(|event| {
            matches!(&event.data, abide_schema::event::EventData::ToolCalled(called)
                if called.call_id == call.call_id && called.assistant_message_id == call.message_id)
        })
    });
    if !found {
        lock(&ledger.requests).push(format!("I4: call {} runs without announcement", call.call_id));
    }
}
