use abide_ai::schema::events as ev;
use abide_ai::{LLMEvent, LLMRequest, LlmStream};
use abide_schema::event::EventData;
use futures_util::StreamExt as _;

use super::*;
use crate::session::place::ModelClient;
use crate::store::LeaseStore as _;

/// Seeds that once broke something; they stay.
const PAST_SEEDS: &[u64] = &[];

#[test]
fn random_schedules_keep_the_invariants() {
    let mut total = Outcome::default();
    for seed in PAST_SEEDS.iter().copied().chain(0..300) {
        match run(seed) {
            Ok(outcome) => {
                total.n_lives += outcome.n_lives;
                total.n_events += outcome.n_events;
                total.n_requests += outcome.n_requests;
                total.n_tool_runs += outcome.n_tool_runs;
            }
            Err(report) => panic!("{report}"),
        }
    }
    // The schedules must do something.
    assert!(total.n_lives > 600 && total.n_requests > 600 && total.n_tool_runs > 300, "{total:?}");
}

/// A model whose stream panics in the middle of a call, as a bug of ours would.
struct Buggy;

impl ModelClient for Buggy {
    fn stream(&self, _request: LLMRequest) -> LlmStream {
        let call = ev::ToolCall {
            id: "call_0".into(),
            name: "slow".to_owned(),
            input: serde_json::json!({}),
            provider_executed: None,
            provider_metadata: None,
        };
        let script = [LLMEvent::StepStart(ev::StepStart { index: 0 }), LLMEvent::ToolCall(call)];
        let bug = futures_util::stream::once(async {
            // The call has begun by then, and is not done.
            tokio::time::sleep(Duration::from_millis(100)).await;
            panic!("a bug")
        });
        Box::pin(futures_util::stream::iter(script.map(Ok)).chain(bug))
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_nothing_open_and_the_session_usable() {
    let random = Random::new(1);
    let ledger = Arc::new(Ledger::default());
    let store = Arc::new(MemoryStore::new(sim_world(&random)));
    let parts = |models: Arc<dyn ModelClient>| SessionsParts {
        store: store.clone(),
        world: sim_world(&random),
        places: Arc::new(SimPlaces::new(random.clone(), ledger.clone(), store.clone())),
        models,
        effects: Arc::new(NoJournals) as Arc<dyn EffectRecovery>,
        options: EngineOptions::default(),
    };
    let sessions = Sessions::new(parts(Arc::new(Buggy)));
    let id = SessionId::from_trusted("ses_panic");
    let create = CreateSession {
        id: Some(id.clone()),
        location: Some(LocationRef::new("/sim")),
        model: ModelRef::parse("sim/model"),
        ..CreateSession::default()
    };
    sessions.create(create).await.unwrap();
    for n in 1..=2 {
        let input = PromptSession { text: "go".to_owned(), ..PromptSession::default() };
        sessions.prompt(&id, input).await.unwrap();
        sessions.wait(&id).await.unwrap();
        let log = store.log(&id);
        let ends = |wanted: fn(&EventData) -> bool| log.iter().filter(|event| wanted(&event.data)).count();
        assert_eq!(ends(|data| matches!(data, EventData::ExecutionFailed(_))), n);
        assert_eq!(ends(|data| matches!(data, EventData::ToolFailed(_))), n);
        invariants::check(&store, &id, &log, &ledger, true).unwrap();
        assert_eq!(store.lease(&id).await.unwrap().unwrap().owner, None);
    }
}
