//! The scripted world of the simulator: clock, randomness, directories, tools.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_ai::{LanguageModel, ToolDefinition};
use abide_schema::agent::{AgentInfo, AgentMode};
use abide_schema::location::{LocationInfo, LocationRef, ProjectRef};
use abide_schema::model::{ModelRef, ProviderRequest};
use abide_schema::permission::Rule;
use abide_schema::tool::{Content, Effects};
use abide_schema::{AgentId, CallId, MessageId, OwnerId, SessionId, Timestamp};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::session::place::{
    Attachment, EngineSettings, ObservedSource, Place, PlaceError, Places, PriceTier, ResolvedModel, SourceState,
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
    /// The processes that have a stream open.
    streams: Mutex<Vec<OwnerId>>,
    /// The baseline texts and the system updates that requests held.
    seen: Mutex<(BTreeSet<String>, BTreeSet<String>)>,
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

    /// Notes a request.
    pub(super) fn request(&self, complaint: Option<String>) {
        lock(&self.requests).push(complaint.unwrap_or_default());
    }

    /// Notes the system texts of a step's request.
    pub(super) fn saw(&self, baseline: Option<&str>, updates: impl Iterator<Item = String>) {
        let mut seen = lock(&self.seen);
        seen.0.extend(baseline.map(ToOwned::to_owned));
        seen.1.extend(updates);
    }

    pub(super) fn baselines(&self) -> BTreeSet<String> {
        lock(&self.seen).0.clone()
    }

    pub(super) fn updates(&self) -> BTreeSet<String> {
        lock(&self.seen).1.clone()
    }

    /// Notes a stream of a process; those that a crash cut are none. Says whether another one is open (I11).
    pub(super) fn open_stream(&self, owner: &OwnerId, is_alive: impl Fn(&OwnerId) -> bool) -> bool {
        let mut streams = lock(&self.streams);
        streams.retain(|other| is_alive(other));
        streams.push(owner.clone());
        streams.len() > 1
    }

    pub(super) fn close_stream(&self, owner: &OwnerId) {
        let mut streams = lock(&self.streams);
        if let Some(at) = streams.iter().position(|other| other == owner) {
            streams.swap_remove(at);
        }
    }

    /// Returns the complaints about requests.
    pub(super) fn complaints(&self) -> Vec<String> {
        lock(&self.requests).iter().filter(|text| !text.is_empty()).cloned().collect()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (base, context, output) = ("base".to_owned(), 100_000, 1000);
        Self { place: Arc::new(SimPlace { info, random, ledger, store, base, context, output }) }
    }

    /// Makes the directory with a system text and with limits of its model.
    #[cfg(test)]
    pub(super) fn with(
        random: Random,
        ledger: Arc<Ledger>,
        store: Arc<MemoryStore>,
        base: &str,
        (context, output): (u64, u64),
    ) -> Self {
        let made = Self::new(random, ledger, store);
        let place = SimPlace { base: base.to_owned(), context, output, ..(*made.place).clone() };
        Self { place: Arc::new(place) }
    }
}

impl Places for SimPlaces {
    fn open<'a>(&'a self, _location: &'a LocationRef) -> BoxFuture<'a, Result<Arc<dyn Place>, PlaceError>> {
        Box::pin(async { Ok(self.place.clone() as Arc<dyn Place>) })
    }
}

#[derive(Clone)]
struct SimPlace {
    info: LocationInfo,
    random: Random,
    ledger: Arc<Ledger>,
    store: Arc<MemoryStore>,
    base: String,
    context: u64,
    output: u64,
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
                context_limit: Some(self.context),
                input_limit: None,
                output_limit: Some(self.output),
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
        // The environment changes now and then; a source may be gone, or not readable.
        let day = self.random.below(20) / 18;
        let available = |name: &str| SourceState::Available {
            value: serde_json::json!(day),
            baseline: format!("{name} {day}"),
            update: format!("{name} is {day} now"),
        };
        let rules = match self.random.below(30) {
            0 => SourceState::Unavailable,
            1 => SourceState::Removed { text: Some("There are no rules any more".to_owned()) },
            2 => SourceState::Removed { text: None },
            _ => available("Rule"),
        };
        let date = available("Day");
        Box::pin(async move {
            let source = |key: &str, state| ObservedSource { key: key.to_owned(), state };
            vec![source("core/date", date), source("core/rules", rules)]
        })
    }

    fn base_prompt(&self, _model: &ResolvedModel) -> String {
        self.base.clone()
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
