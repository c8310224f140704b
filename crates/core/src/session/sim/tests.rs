use abide_ai::schema::events as ev;
use abide_ai::{LLMEvent, LLMRequest, LlmStream};
use abide_schema::event::EventData;
use futures_util::StreamExt as _;

use super::*;
use crate::session::place::ModelClient;
use crate::store::LeaseStore as _;

mod coordinator;
mod recovery;
mod scenarios;
mod steps;

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

/// Counts requests; answers each with a call of `work`, or never.
struct Counting {
    n_requests: Arc<std::sync::atomic::AtomicU32>,
    silent: bool,
}

impl ModelClient for Counting {
    fn stream(&self, _request: LLMRequest) -> LlmStream {
        let n = self.n_requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if self.silent {
            return Box::pin(futures_util::stream::pending());
        }
        let call = ev::ToolCall {
            id: format!("call_{n}").into(),
            name: "work".to_owned(),
            input: serde_json::json!({ "n": n }),
            provider_executed: None,
            provider_metadata: None,
        };
        let reason = ev::FinishReason::new(ev::FinishKind::ToolCalls, None);
        let finish = ev::Finish { reason, usage: None, provider_metadata: None };
        let script =
            [LLMEvent::StepStart(ev::StepStart { index: 0 }), LLMEvent::ToolCall(call), LLMEvent::Finish(finish)];
        Box::pin(futures_util::stream::iter(script.map(Ok)))
    }
}

#[test]
fn only_resumes_without_a_completed_step_are_counted() {
    // A process that dies while the model is silent, and one that dies after a step or two: lives, requests at least,
    // and whether the execution is given up.
    for (silent, n_crashes, given_up) in [(true, 11, true), (false, 15, false)] {
        let random = Random::new(7);
        let ledger = Arc::new(Ledger::default());
        let n_requests = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let id = SessionId::from_trusted("ses_counted");
        let mut store = Arc::new(MemoryStore::new(sim_world(&random)));
        for life in 0..=n_crashes {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let sessions = Sessions::new(SessionsParts {
                store: store.clone(),
                world: sim_world(&random),
                places: Arc::new(SimPlaces::new(random.clone(), ledger.clone(), store.clone())),
                models: Arc::new(Counting { n_requests: n_requests.clone(), silent }),
                effects: Arc::new(NoJournals),
                options: EngineOptions::default(),
            });
            let before = n_requests.load(std::sync::atomic::Ordering::Relaxed);
            runtime.block_on(async {
                sessions.recover(None).await.unwrap();
                if life == 0 {
                    let create = CreateSession {
                        id: Some(id.clone()),
                        location: Some(LocationRef::new("/sim")),
                        model: ModelRef::parse("sim/model"),
                        ..CreateSession::default()
                    };
                    sessions.create(create).await.unwrap();
                    let input = PromptSession { text: "go".to_owned(), ..PromptSession::default() };
                    sessions.prompt(&id, input).await.unwrap();
                }
                // The second request says that a step was completed.
                let wanted = before + if silent { 1 } else { 2 };
                for _ in 0..1000 {
                    if n_requests.load(std::sync::atomic::Ordering::Relaxed) >= wanted {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            drop(runtime);
            store = Arc::new(store.reopen());
        }
        let log = store.log(&id);
        let exhausted = log.iter().any(|event| {
            matches!(&event.data, EventData::ExecutionFailed(failed)
                if failed.error.code == Some(abide_schema::error::ErrorCode::RecoveryExhausted))
        });
        assert_eq!(exhausted, given_up, "silent: {silent}");
        let n_requests = n_requests.load(std::sync::atomic::Ordering::Relaxed);
        if silent {
            assert_eq!(n_requests, 11);
        } else {
            assert!(n_requests >= 2 * (n_crashes + 1), "{n_requests} requests");
        }
    }
}
