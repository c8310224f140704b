//! Runs, wakes, interruptions, promotion and retries, by the scenarios of spec/session.md section 13.

use abide_ai::{AIError, AIErrorKind};
use abide_schema::error::ErrorCode;

use super::steps::{Events, Scene, busy, finished, said, texts};
use super::*;
use crate::session::drain::DrainEnd;

fn calls(name: &str) -> Events {
    let call = ev::ToolCall {
        id: "c".into(),
        name: name.to_owned(),
        input: serde_json::json!({}),
        provider_executed: None,
        provider_metadata: None,
    };
    let mut events = vec![Ok(LLMEvent::StepStart(ev::StepStart { index: 0 })), Ok(LLMEvent::ToolCall(call))];
    events.extend(finished(ev::FinishKind::ToolCalls, None));
    events
}

impl<F: Fn(usize, &LLMRequest) -> Events + Send + Sync + 'static> Scene<F> {
    async fn admit(&self, text: &str, delivery: Delivery, resume: bool) {
        let input = PromptSession { text: text.to_owned(), delivery, resume: Some(resume), ..PromptSession::default() };
        self.sessions.prompt(&self.id, input).await.unwrap();
    }

    async fn rest(&self) -> Option<DrainEnd> {
        self.sessions.wait(&self.id).await.unwrap()
    }

    fn n_executions(&self) -> usize {
        self.count(|data| matches!(data, EventData::ExecutionStarted(_)))
    }

    fn promoted(&self) -> Vec<String> {
        self.picked(|data| if let EventData::Prompted(data) = data { Some(data.prompt.text.clone()) } else { None })
    }

    fn sound(&self) {
        invariants::check_log_of(&self.store, &self.id);
    }
}

async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(150)).await;
}

#[tokio::test(start_paused = true)]
async fn s52_concurrent_resumes_join_one_run() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("go", Delivery::Steer, false).await;
    let (one, two) = tokio::join!(scene.sessions.run(&scene.id), scene.sessions.run(&scene.id));
    assert_eq!((one.unwrap(), two.unwrap()), (Some(DrainEnd::Complete), Some(DrainEnd::Complete)));
    assert_eq!((scene.requests().len(), scene.n_executions()), (1, 1));
    // A later run works, and is forced.
    scene.sessions.run(&scene.id).await.unwrap();
    assert_eq!((scene.requests().len(), scene.n_executions()), (2, 2));
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s53_joining_a_run_that_a_wake_started_forces_no_other() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    scene.sessions.run(&scene.id).await.unwrap();
    assert_eq!(scene.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn s54_wakes_while_active_are_one_follow_up() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    for _ in 0..5 {
        scene.sessions.wake(&scene.id);
    }
    scene.rest().await;
    assert_eq!((scene.requests().len(), scene.n_executions()), (1, 1));
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s55_an_interrupt_of_an_idle_session_does_nothing_and_of_a_running_one_ends_it() {
    let scene = Scene::new(|_, _| said("done")).await;
    assert!(!scene.sessions.interrupt(&scene.id).await.unwrap());
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    assert!(scene.sessions.interrupt(&scene.id).await.unwrap());
    assert!(!scene.sessions.interrupt(&scene.id).await.unwrap());
    assert_eq!(scene.rest().await, None);
    assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionInterrupted(_))), 1);
    // What comes afterwards runs.
    scene.prompt("again").await;
    assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionSucceeded(_))), 1);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s57_a_waiter_that_leaves_does_not_end_the_run() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("go", Delivery::Steer, true).await;
    let left = tokio::time::timeout(Duration::from_millis(50), scene.sessions.wait(&scene.id)).await;
    assert!(left.is_err());
    scene.rest().await;
    assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionSucceeded(_))), 1);
}

#[tokio::test(start_paused = true)]
async fn s59_very_many_wakes_do_not_grow_anything() {
    let scene = Scene::new(|_, _| said("done")).await;
    for _ in 0..100_000 {
        scene.sessions.wake(&scene.id);
    }
    scene.rest().await;
    assert_eq!((scene.requests().len(), scene.n_executions()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn s60_waiting_starts_nothing() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("later", Delivery::Steer, false).await;
    assert_eq!(scene.rest().await, None);
    assert_eq!(scene.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn s61_s62_steers_before_the_start_are_one_request() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("one", Delivery::Steer, false).await;
    scene.admit("two", Delivery::Steer, true).await;
    scene.rest().await;
    let requests = scene.requests();
    assert_eq!(requests.len(), 1);
    assert!(texts(&requests[0]).contains("one") && texts(&requests[0]).contains("two"));
    let system: Vec<&str> = requests[0].system.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(system.first(), Some(&"base"));
    assert_eq!(system.len(), 2, "the base prompt, then the baseline");
}

#[tokio::test(start_paused = true)]
async fn s66_steers_during_a_step_are_one_continuation() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    for text in ["a", "b", "c"] {
        scene.admit(text, Delivery::Steer, true).await;
    }
    scene.rest().await;
    assert_eq!((scene.requests().len(), scene.n_executions()), (2, 1));
    assert_eq!(scene.promoted(), ["go", "a", "b", "c"]);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s67_queued_prompts_run_one_at_a_time_and_after_steers() {
    let scene = Scene::new(|n, _| if n == 0 { calls("slow") } else { said("done") }).await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    for text in ["first", "second"] {
        scene.admit(text, Delivery::Queue, true).await;
    }
    scene.admit("steer", Delivery::Steer, true).await;
    scene.rest().await;
    assert_eq!(scene.promoted(), ["go", "steer", "first", "second"]);
    // One step for the call, one for its result and the steer, one for each of the queued.
    assert_eq!(scene.requests().len(), 4);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s69_an_interrupt_parks_what_waits() {
    let scene = Scene::new(|_, _| said("done")).await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    scene.admit("queued", Delivery::Queue, true).await;
    scene.admit("steer", Delivery::Steer, true).await;
    scene.sessions.interrupt(&scene.id).await.unwrap();
    scene.rest().await;
    assert_eq!(scene.promoted(), ["go"]);
    assert_eq!(scene.requests().len(), 1);
    scene.sessions.run(&scene.id).await.unwrap();
    scene.rest().await;
    assert_eq!(scene.promoted(), ["go", "steer", "queued"]);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s70_a_steer_during_a_failing_step_runs_after_it() {
    let scene = Scene::new(|n, _| {
        if n > 0 {
            return said("done");
        }
        let mut events = said("half");
        events.truncate(3);
        events.push(Err(AIError::invalid_request("no")));
        events
    })
    .await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    scene.admit("steer", Delivery::Steer, true).await;
    scene.rest().await;
    assert_eq!(scene.promoted(), ["go", "steer"]);
    let ends = |wanted: fn(&EventData) -> bool| scene.count(wanted);
    assert_eq!(ends(|data| matches!(data, EventData::ExecutionFailed(_))), 1);
    assert_eq!(ends(|data| matches!(data, EventData::ExecutionSucceeded(_))), 1);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s71_a_model_switched_during_a_tool_answers_the_continuation() {
    let scene = Scene::new(|n, _| if n == 0 { calls("slow") } else { said("done") }).await;
    scene.admit("go", Delivery::Steer, true).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    scene.sessions.switch_model(&scene.id, ModelRef::parse("sim/other").unwrap()).await.unwrap();
    scene.rest().await;
    let models = scene.picked(|data| match data {
        EventData::StepStarted(data) => Some(data.model.id.as_str().to_owned()),
        _ => None,
    });
    assert_eq!(models, ["model", "other"]);
}

#[tokio::test(start_paused = true)]
async fn s72_the_last_step_is_text_only() {
    // The simulated agent has six steps.
    let scene = Scene::new(|_, _| calls("work")).await;
    scene.prompt("go").await;
    assert_eq!(scene.requests().len(), 6);
    let disabled = scene.picked(|data| match data {
        EventData::ToolFailed(data) => data.error.code,
        _ => None,
    });
    assert_eq!(disabled, [ErrorCode::ToolDisabled]);
    let last = scene.requests().pop().unwrap();
    assert!(texts(&last).contains("MAXIMUM STEPS REACHED"));
    assert_eq!(scene.count(|data| matches!(data, EventData::ToolSuccess(_))), 5);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s73_a_steer_gives_all_steps_again() {
    let scene = Scene::new(|_, _| calls("work")).await;
    scene.admit("go", Delivery::Steer, true).await;
    a_moment().await;
    scene.admit("steer", Delivery::Steer, true).await;
    scene.rest().await;
    assert_eq!(scene.requests().len(), 7, "one step, then six more");
}

#[tokio::test(start_paused = true)]
async fn s74_s75_a_failure_is_one_failed_step() {
    for begun in [false, true] {
        let scene = Scene::new(move |_, _| {
            let mut events = Vec::new();
            if begun {
                events.push(Ok(LLMEvent::StepStart(ev::StepStart { index: 0 })));
            }
            events.push(Err(AIError::invalid_request("no")));
            events
        })
        .await;
        scene.prompt("go").await;
        assert_eq!(scene.count(|data| matches!(data, EventData::StepStarted(_))), 1);
        assert_eq!(scene.count(|data| matches!(data, EventData::StepFailed(_))), 1);
        assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionFailed(_))), 1);
        scene.sound();
    }
}

#[tokio::test(start_paused = true)]
async fn s76_s77_a_tool_that_runs_is_awaited_and_nothing_follows_a_failure() {
    let scene = Scene::new(|_, _| {
        let mut events = calls("slow");
        events.truncate(2);
        events.push(Err(AIError::invalid_request("no")));
        events
    })
    .await;
    scene.prompt("go").await;
    assert_eq!(scene.count(|data| matches!(data, EventData::ToolSuccess(_))), 1);
    assert_eq!(scene.count(|data| matches!(data, EventData::StepFailed(_))), 1);
    assert_eq!(scene.requests().len(), 1);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s86_a_panic_or_defect_of_a_tool_goes_to_the_model() {
    let scene = Scene::new(|n, _| if n == 0 { calls("broken") } else { said("done") }).await;
    scene.prompt("go").await;
    assert_eq!(scene.requests().len(), 2);
    assert_eq!(scene.count(|data| matches!(data, EventData::ToolFailed(_))), 1);
}

#[tokio::test(start_paused = true)]
async fn s87_a_decline_ends_the_execution_as_interrupted() {
    let scene = Scene::new(|_, _| calls("ask")).await;
    scene.prompt("go").await;
    assert_eq!(scene.requests().len(), 1);
    let codes = scene.picked(|data| match data {
        EventData::ToolFailed(data) => data.error.code,
        _ => None,
    });
    assert_eq!(codes, [ErrorCode::ToolDeclined]);
    assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionInterrupted(_))), 1);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s89_an_interrupt_while_streaming_and_while_a_tool_runs() {
    for wait in [150u64, 900] {
        let scene = Scene::new(|_, _| calls("slow")).await;
        scene.admit("go", Delivery::Steer, true).await;
        tokio::time::sleep(Duration::from_millis(wait)).await;
        assert!(scene.sessions.interrupt(&scene.id).await.unwrap());
        scene.rest().await;
        assert_eq!(scene.count(|data| matches!(data, EventData::ExecutionInterrupted(_))), 1, "after {wait} ms");
        assert_eq!(scene.requests().len(), 1);
        scene.sound();
    }
}

#[tokio::test(start_paused = true)]
async fn s96_retries_keep_the_message_and_are_four_at_most() {
    let scene = Scene::new(|_, _| vec![Err(busy())]).await;
    scene.prompt("go").await;
    assert_eq!(scene.requests().len(), 5);
    let attempts = scene.picked(|data| match data {
        EventData::Retried(data) => Some((data.attempt, data.assistant_message_id.clone())),
        _ => None,
    });
    assert_eq!(attempts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert!(attempts.windows(2).all(|pair| pair[0].1 == pair[1].1));
    assert_eq!(scene.count(|data| matches!(data, EventData::StepStarted(_))), 1);
    scene.sound();
}

#[tokio::test(start_paused = true)]
async fn s98_what_waiting_does_not_mend_is_not_tried_again() {
    let kinds = [AIErrorKind::QuotaExceeded, AIErrorKind::ContentPolicy, AIErrorKind::INVALID_REQUEST];
    for kind in kinds {
        let failure = kind.clone();
        let scene = Scene::new(move |_, _| vec![Err(AIError::new(failure.clone(), "no"))]).await;
        scene.prompt("go").await;
        assert_eq!(scene.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s99_an_interrupt_ends_the_wait_for_a_retry_at_once() {
    let scene = Scene::new(|_, _| {
        let kind = AIErrorKind::RateLimit { retry_after_ms: Some(600_000), rate_limit: None };
        vec![Err(AIError::new(kind, "slow down"))]
    })
    .await;
    scene.admit("go", Delivery::Steer, true).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begun = tokio::time::Instant::now();
    scene.sessions.interrupt(&scene.id).await.unwrap();
    scene.rest().await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(scene.requests().len(), 1);
    scene.sound();
}
