//! What a kill can leave, by the names of spec/session.md 8.1, and what recovery makes of it.
//!
//! | state | test |
//! |---|---|
//! | C0 to C18 | `c00_…` to `c18_…` here, C6 in the tests of `settle` |
//! | C19, C20 | the operations that revert |
//! | C21, C22 | the tests of children and background jobs |
//! | C23 | `c23_a_pending_permission_goes_with_its_call` |
//! | C24 | `c24_…` in the tests of `settle` |
//! | C25 | titles make no request: docs/decisions.md |
//! | C26 | the tests of moving |
//! | C27 | `c27_a_live_owner_is_left_alone` |
//! | C28 | `crates/core/src/store/sqlite/crash.rs`: a kill inside a transaction |

use super::steps::{Scripted, finished, said};
use super::*;
use crate::session::settle::Resolution;
use crate::store::{CallKey, JournalStore as _, ProjectionStore as _, Store};
use crate::tool::outcome::NormalizedResult;
use abide_ai::AIError;
use abide_schema::tool::{Content, Effects, Verdict};
use futures_util::future::BoxFuture;

type Events = Vec<Result<LLMEvent, AIError>>;

/// What the journals say of each call.
#[derive(Clone)]
struct Journals(Resolution);

impl EffectRecovery for Journals {
    fn resolve<'a>(
        &'a self,
        _store: &'a dyn Store,
        _call: &'a CallKey,
        _tool: &'a str,
        _effects: Effects,
    ) -> BoxFuture<'a, Resolution> {
        Box::pin(async { self.0.clone() })
    }
}

/// One disk over several lives.
struct Disk {
    store: Arc<MemoryStore>,
    id: SessionId,
    ledger: Arc<Ledger>,
    random: Random,
}

impl Disk {
    fn new() -> Self {
        let random = Random::new(5);
        let store = Arc::new(MemoryStore::new(sim_world(&random)));
        Self { store, id: SessionId::from_trusted("ses_crashed"), ledger: Arc::default(), random }
    }

    /// Runs one life with a model; then the process is gone.
    fn live<F: AsyncFnOnce(&Sessions)>(
        &self,
        models: Arc<dyn ModelClient>,
        journals: Resolution,
        auto_resume: bool,
        work: F,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let sessions = Sessions::new(SessionsParts {
                store: self.store.clone(),
                world: sim_world(&self.random),
                places: Arc::new(SimPlaces::new(self.random.clone(), self.ledger.clone(), self.store.clone())),
                models,
                effects: Arc::new(Journals(journals)),
                options: EngineOptions { auto_resume, ..EngineOptions::default() },
            });
            let limit = Duration::from_secs(600);
            tokio::time::timeout(limit, work(&sessions)).await.expect("the life ends");
        });
    }

    fn log(&self) -> Vec<EventData> {
        self.store.log(&self.id).iter().map(|event| event.data.clone()).collect()
    }
}

/// A life in which the user prompts once, or twice with a queued one behind.
async fn prompts(sessions: &Sessions, id: &SessionId, inputs: &[(&str, Delivery, bool)]) {
    let create = CreateSession {
        id: Some(id.clone()),
        location: Some(LocationRef::new("/sim")),
        model: ModelRef::parse("sim/model"),
        ..CreateSession::default()
    };
    // The crash may come at any of these.
    if sessions.create(create).await.is_err() {
        return;
    }
    for (text, delivery, resume) in inputs {
        let input = PromptSession {
            text: (*text).to_owned(),
            delivery: *delivery,
            resume: Some(*resume),
            ..PromptSession::default()
        };
        let _crashed = sessions.prompt(id, input).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

const ONE: &[(&str, Delivery, bool)] = &[("go", Delivery::Steer, true)];

/// Tries commit after commit until the crash after one leaves what `wanted` describes.
fn crashed(
    answer: fn(usize, &LLMRequest) -> (Events, bool),
    inputs: &'static [(&'static str, Delivery, bool)],
    wanted: impl Fn(&Disk, &[EventData]) -> bool,
) -> Disk {
    for at in 1..200 {
        let disk = Disk::new();
        disk.store.on_commit(move |n, _| if n == at { CommitFault::CrashAfter } else { CommitFault::None });
        let id = disk.id.clone();
        disk.live(
            Arc::new(Held { answer, n: std::sync::atomic::AtomicUsize::default() }),
            Resolution::unknown(),
            true,
            async |sessions| {
                prompts(sessions, &id, inputs).await;
            },
        );
        let disk = Disk { store: Arc::new(disk.store.reopen()), ..disk };
        if wanted(&disk, &disk.log()) {
            return disk;
        }
    }
    panic!("no crash leaves the state");
}

/// Answers, and then holds the stream open when it is to.
struct Held {
    answer: fn(usize, &LLMRequest) -> (Events, bool),
    n: std::sync::atomic::AtomicUsize,
}

impl ModelClient for Held {
    fn stream(&self, request: LLMRequest) -> LlmStream {
        let n = self.n.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (events, holds) = (self.answer)(n, &request);
        // One event after another, so that each is a commit of its own.
        let slowly = futures_util::stream::iter(events).then(|event| async {
            tokio::time::sleep(Duration::from_millis(600)).await;
            event
        });
        if holds { Box::pin(slowly.chain(futures_util::stream::pending())) } else { Box::pin(slowly) }
    }
}

/// Recovers without going on; returns the new events in words.
fn settled(disk: &Disk, journals: Resolution) -> Vec<String> {
    let before = disk.log().len();
    disk.live(Scripted::new(|_, _| said("unused")), journals, false, async |sessions| {
        sessions.recover(None).await.unwrap();
    });
    let log = disk.store.log(&disk.id);
    log.iter().skip(before).map(|event| brief(&event.data)).collect()
}

/// Recovers and goes on with a model that answers; returns the requests and the whole log.
fn resumed(disk: &Disk) -> (Vec<LLMRequest>, Vec<EventData>) {
    let models = Scripted::new(|_, _| said("done"));
    let id = disk.id.clone();
    disk.live(models.clone(), Resolution::unknown(), true, async |sessions| {
        sessions.recover(None).await.unwrap();
        sessions.wait(&id).await.unwrap();
    });
    invariants::check(&disk.store, &disk.id, &disk.store.log(&disk.id), &disk.ledger, true).unwrap();
    (models.requests(), disk.log())
}

fn brief(data: &EventData) -> String {
    let name = data.def().name.trim_start_matches("session.next.");
    let code = |error: &abide_schema::error::SessionError| error.code.map_or("none", |code| code.as_str());
    match data {
        EventData::TextEnded(data) => format!("{name} {:?}", data.text),
        EventData::ReasoningEnded(data) => format!("{name} {:?}", data.text),
        EventData::ToolInputEnded(data) => format!("{name} {:?}", data.text),
        EventData::ToolFailed(data) => {
            format!("{name} {} {} {:?}", data.call_id, code(&data.error), data.verdict.unwrap_or(Verdict::Unknown))
        }
        EventData::ToolSuccess(data) => format!("{name} {}", data.call_id),
        EventData::StepFailed(data) => format!("{name} {}", code(&data.error)),
        EventData::CompactionFailed(data) => format!("{name} {}", code(&data.error)),
        EventData::ExecutionInterrupted(data) => format!("{name} {:?}", data.reason),
        EventData::Recovered(data) => {
            format!("{name} {} steps, {} compactions", data.steps.len(), data.compactions.len())
        }
        _ => name.to_owned(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an item of a stream")]
fn started() -> Result<LLMEvent, AIError> {
    Ok(LLMEvent::StepStart(ev::StepStart { index: 0 }))
}

#[expect(clippy::unnecessary_wraps, reason = "an item of a stream")]
fn call(id: &str, name: &str, hosted: bool) -> Result<LLMEvent, AIError> {
    Ok(LLMEvent::ToolCall(ev::ToolCall {
        id: id.into(),
        name: name.to_owned(),
        input: serde_json::json!({}),
        provider_executed: hosted.then_some(true),
        provider_metadata: None,
    }))
}

fn text_begun() -> Events {
    let delta = |text: &str| ev::BlockDelta { id: "t".into(), text: text.to_owned(), provider_metadata: None };
    vec![
        started(),
        Ok(LLMEvent::TextStart(ev::BlockStart { id: "t".into(), provider_metadata: None })),
        Ok(LLMEvent::TextDelta(delta("half "))),
        Ok(LLMEvent::TextDelta(delta("a sentence"))),
        Ok(LLMEvent::TextDelta(delta(" and more"))),
    ]
}

fn last_is(log: &[EventData], wanted: fn(&EventData) -> bool) -> bool {
    log.last().is_some_and(wanted)
}

const SUPERSEDED: &str = "execution.interrupted Superseded";

#[test]
fn c00_an_admitted_prompt_that_nobody_woke_runs_once() {
    let disk = crashed(
        |_, _| (said("done"), false),
        ONE,
        |_, log| last_is(log, |data| matches!(data, EventData::PromptAdmitted(_))),
    );
    let (requests, log) = resumed(&disk);
    assert_eq!(requests.len(), 1);
    assert_eq!(log.iter().filter(|data| matches!(data, EventData::Prompted(_))).count(), 1);
}

#[test]
fn c01_a_parked_prompt_stays_pending() {
    let disk = Disk::new();
    let id = disk.id.clone();
    disk.live(Scripted::new(|_, _| said("unused")), Resolution::unknown(), true, async |sessions| {
        prompts(sessions, &id, &[("later", Delivery::Steer, false)]).await;
    });
    let disk = Disk { store: Arc::new(disk.store.reopen()), ..disk };
    let before = disk.log().len();
    let (requests, log) = resumed(&disk);
    assert_eq!((requests.len(), log.len()), (0, before));
}

#[test]
fn c02_an_execution_that_had_only_begun_is_resumed_and_counted() {
    let disk = crashed(
        |_, _| (said("done"), false),
        ONE,
        |_, log| last_is(log, |data| matches!(data, EventData::ExecutionStarted(_))),
    );
    let (requests, log) = resumed(&disk);
    assert_eq!(requests.len(), 1);
    let attempts: Vec<u32> = log
        .iter()
        .filter_map(|data| if let EventData::ExecutionStarted(data) = data { Some(data.attempt) } else { None })
        .collect();
    assert_eq!(attempts, [0, 1]);
}

#[test]
fn c03_the_rest_of_a_batch_is_promoted_in_order() {
    const TWO: &[(&str, Delivery, bool)] = &[("first", Delivery::Steer, false), ("second", Delivery::Steer, true)];
    let disk = crashed(
        |_, _| (said("done"), false),
        TWO,
        |_, log| last_is(log, |data| matches!(data, EventData::Prompted(_))),
    );
    let (_, log) = resumed(&disk);
    let texts: Vec<String> = log
        .iter()
        .filter_map(|data| if let EventData::Prompted(data) = data { Some(data.prompt.text.clone()) } else { None })
        .collect();
    assert_eq!(texts, ["first", "second"]);
}

#[test]
fn c04_a_baseline_that_was_not_used_is_used() {
    let disk = crashed(
        |_, _| (said("done"), false),
        ONE,
        |_, log| last_is(log, |data| matches!(data, EventData::ContextBaselined(_))),
    );
    let (requests, log) = resumed(&disk);
    assert_eq!(requests.len(), 1);
    assert_eq!(log.iter().filter(|data| matches!(data, EventData::ContextBaselined(_))).count(), 1);
}

#[test]
fn c05_a_request_without_output_is_made_again_and_named() {
    let disk = crashed(
        |_, _| (Vec::new(), true),
        ONE,
        |disk, log| {
            futures_util::FutureExt::now_or_never(disk.store.attempts(&disk.id)).unwrap().unwrap().len() == 1
                && !log.iter().any(|data| matches!(data, EventData::StepStarted(_)))
        },
    );
    assert_eq!(settled(&disk, Resolution::unknown()), ["recovered 1 steps, 0 compactions", SUPERSEDED]);
}

#[test]
fn c07_text_is_kept_as_far_as_it_was_drafted() {
    let drafted = |disk: &Disk| {
        let drafts = futures_util::FutureExt::now_or_never(disk.store.drafts(&disk.id)).unwrap().unwrap();
        drafts.first().map(|draft| draft.text.clone())
    };
    let disk = crashed(|_, _| (text_begun(), true), ONE, |disk, _| drafted(disk).is_some_and(|text| text.len() > 8));
    let draft = drafted(&disk).unwrap();
    assert!("half a sentence and more".starts_with(&draft), "{draft}");
    let ended = format!("text.ended {draft:?}");
    let expected = [ended.as_str(), "step.failed aborted", "recovered 1 steps, 0 compactions", SUPERSEDED];
    assert_eq!(settled(&disk, Resolution::unknown()), expected);
    // Without a draft it is empty.
    let disk = crashed(
        |_, _| (text_begun(), true),
        ONE,
        |_, log| last_is(log, |data| matches!(data, EventData::TextStarted(_))),
    );
    assert_eq!(settled(&disk, Resolution::unknown())[0], "text.ended \"\"");
}

#[test]
fn c08_arguments_that_were_not_complete_ran_nothing() {
    fn answer(_: usize, _: &LLMRequest) -> (Events, bool) {
        let (id, name) = ("c".into(), "work".to_owned());
        let start = ev::ToolInputStart { id, name: name.clone(), provider_executed: None, provider_metadata: None };
        let delta = ev::ToolInputDelta { id: "c".into(), name, text: "{\"a".to_owned() };
        (vec![started(), Ok(LLMEvent::ToolInputStart(start)), Ok(LLMEvent::ToolInputDelta(delta))], true)
    }
    let disk = crashed(answer, ONE, |_, log| last_is(log, |data| matches!(data, EventData::ToolInputStarted(_))));
    let expected = [
        "tool.failed c tool.interrupted NotStarted",
        "step.failed aborted",
        "recovered 1 steps, 0 compactions",
        SUPERSEDED,
    ];
    assert_eq!(settled(&disk, Resolution::unknown()), expected);
    assert_eq!(disk.ledger.tool_runs(), 0);
}

fn one_call(_: usize, _: &LLMRequest) -> (Events, bool) {
    (vec![started(), call("c", "work", false)], true)
}

fn is_called(log: &[EventData]) -> bool {
    last_is(log, |data| matches!(data, EventData::ToolCalled(_)))
}

#[test]
fn c09_a_call_whose_effect_had_not_begun_may_be_repeated() {
    let disk = crashed(one_call, ONE, |_, log| is_called(log));
    let events = settled(&disk, Resolution::not_started());
    assert_eq!(events[0], "tool.failed c tool.interrupted NotStarted");
    assert_eq!(events.len(), 4);
}

#[test]
fn c10_the_journal_decides_about_an_effect_that_had_begun() {
    let done = NormalizedResult { content: vec![Content::text("written")], ..NormalizedResult::default() };
    let verdict = |verdict| Resolution { verdict, ..Resolution::unknown() };
    for (resolution, expected) in [
        (Resolution { success: Some(done), ..verdict(Verdict::Applied) }, "tool.success c"),
        (verdict(Verdict::RolledBack), "tool.failed c tool.interrupted RolledBack"),
        (verdict(Verdict::Diverged), "tool.failed c tool.interrupted Diverged"),
        (verdict(Verdict::Killed), "tool.failed c tool.interrupted Killed"),
        (verdict(Verdict::Unknown), "tool.failed c tool.interrupted Unknown"),
    ] {
        let disk = crashed(one_call, ONE, |_, log| is_called(log));
        let events = settled(&disk, resolution);
        assert_eq!(events[0], expected);
        assert_eq!(events[1..], ["step.failed aborted", "recovered 1 steps, 0 compactions", SUPERSEDED]);
    }
}

#[test]
fn c11_a_hosted_call_without_result_is_failed_inline() {
    let disk = crashed(|_, _| (vec![started(), call("h", "search", true)], true), ONE, |_, log| is_called(log));
    let events = settled(&disk, Resolution::unknown());
    assert_eq!(events[0], "tool.failed h tool.interrupted Unknown");
    let executed =
        disk.log().iter().any(|data| matches!(data, EventData::ToolFailed(failed) if failed.provider.executed));
    assert!(executed);
    // Its next request is accepted.
    let id = disk.id.clone();
    let models = Scripted::new(|_, _| said("done"));
    disk.live(models.clone(), Resolution::unknown(), true, async |sessions| {
        sessions.run(&id).await.unwrap();
        sessions.wait(&id).await.unwrap();
    });
    assert_eq!(invariants::complain(&models.requests()[0]), None);
}

#[test]
fn c12_the_calls_that_are_left_are_settled_and_the_others_keep_their_results() {
    fn answer(_: usize, _: &LLMRequest) -> (Events, bool) {
        (vec![started(), call("a", "work", false), call("b", "slow", false)], true)
    }
    let disk = crashed(answer, ONE, |_, log| {
        let called = log.iter().filter(|data| matches!(data, EventData::ToolCalled(_))).count();
        called == 2
            && last_is(log, |data| matches!(data, EventData::ToolCalled(_)))
            && log.iter().any(|data| matches!(data, EventData::ToolSuccess(_)))
    });
    let events = settled(&disk, Resolution::unknown());
    assert_eq!(events[0], "tool.failed b tool.interrupted Unknown");
    assert_eq!(disk.log().iter().filter(|data| matches!(data, EventData::ToolSuccess(_))).count(), 1);
}

#[test]
fn c13_results_without_a_step_terminal_are_kept_and_gone_on_from() {
    let disk = crashed(one_call, ONE, |_, log| last_is(log, |data| matches!(data, EventData::ToolSuccess(_))));
    let (requests, log) = resumed(&disk);
    assert!(log.iter().any(|data| brief(data) == "step.failed aborted"));
    let results = requests[0].messages.iter().filter(|message| message.role == abide_ai::schema::messages::Role::Tool);
    assert_eq!(results.count(), 1);
    assert_eq!(disk.ledger.tool_runs(), 1);
}

#[test]
fn c14_a_continuation_that_was_owed_is_made() {
    fn answer(_: usize, _: &LLMRequest) -> (Events, bool) {
        let mut events = vec![started(), call("c", "work", false)];
        events.extend(finished(ev::FinishKind::ToolCalls, None));
        (events, false)
    }
    let disk = crashed(answer, ONE, |_, log| last_is(log, |data| matches!(data, EventData::StepEnded(_))));
    let (requests, log) = resumed(&disk);
    assert_eq!(requests.len(), 1);
    assert_eq!(log.iter().filter(|data| matches!(data, EventData::StepEnded(_))).count(), 2);
    // A finished answer owes nothing: only the end of the execution was lost.
    let disk = crashed(
        |_, _| (said("done"), false),
        ONE,
        |_, log| last_is(log, |data| matches!(data, EventData::StepEnded(_))),
    );
    let (requests, log) = resumed(&disk);
    assert_eq!(requests.len(), 0);
    assert!(last_is(&log, |data| matches!(data, EventData::ExecutionSucceeded(_) | EventData::Renamed(_))));
}

#[test]
fn c15_a_retry_that_was_announced_is_a_new_step() {
    fn answer(_: usize, _: &LLMRequest) -> (Events, bool) {
        let kind = abide_ai::AIErrorKind::RateLimit { retry_after_ms: None, rate_limit: None };
        (vec![Err(AIError::new(kind, "slow down"))], false)
    }
    let disk = crashed(answer, ONE, |_, log| last_is(log, |data| matches!(data, EventData::Retried(_))));
    let expected = ["step.failed aborted", "recovered 1 steps, 0 compactions", SUPERSEDED];
    assert_eq!(settled(&disk, Resolution::unknown()), expected);
}

/// Answers once; a summary is asked for in the second life.
fn compacting(n: usize, request: &LLMRequest) -> (Events, bool) {
    let summary = request.system.iter().any(|part| part.text == crate::session::compaction::SYSTEM);
    match n {
        _ if summary => (said("## Objective\nx"), false),
        0 => {
            let usage = abide_ai::Usage { input_tokens: Some(90_000), output_tokens: Some(5), ..Default::default() };
            let mut events = said("a long answer");
            events.truncate(4);
            events.extend(finished(ev::FinishKind::Stop, Some(usage)));
            (events, false)
        }
        _ => (said("done"), false),
    }
}

const QUEUED: &[(&str, Delivery, bool)] = &[("one", Delivery::Steer, true), ("two", Delivery::Queue, true)];

#[test]
fn c16_a_compaction_that_was_running_is_failed_and_changes_nothing() {
    let disk =
        crashed(compacting, QUEUED, |_, log| last_is(log, |data| matches!(data, EventData::CompactionStarted(_))));
    let expected = ["compaction.failed compaction.interrupted", "recovered 0 steps, 1 compactions", SUPERSEDED];
    let actual = settled(&disk, Resolution::unknown());
    assert_eq!(actual.iter().filter(|text| !text.starts_with("recovered")).count(), 2, "{actual:?}");
    assert_eq!((actual[0].as_str(), actual[2].as_str()), (expected[0], expected[2]));
    assert!(actual[1].ends_with("1 compactions"), "{actual:?}");
}

#[test]
fn c17_after_a_compaction_the_next_step_has_a_fresh_baseline() {
    let disk = crashed(compacting, QUEUED, |_, log| last_is(log, |data| matches!(data, EventData::CompactionEnded(_))));
    let (requests, log) = resumed(&disk);
    assert_eq!(requests.len(), 1);
    let baselines = log.iter().filter(|data| matches!(data, EventData::ContextBaselined(_))).count();
    assert_eq!(baselines, 2);
    let held = requests[0].messages.iter().any(|message| format!("{message:?}").contains("conversation-checkpoint"));
    assert!(held);
}

#[test]
fn c18_queued_prompts_stay_in_order() {
    const THREE: &[(&str, Delivery, bool)] =
        &[("one", Delivery::Steer, true), ("two", Delivery::Queue, true), ("three", Delivery::Queue, true)];
    let disk = crashed(
        |_, _| (said("done"), false),
        THREE,
        |disk, log| {
            let pending = futures_util::FutureExt::now_or_never(disk.store.pending_inputs(&disk.id)).unwrap().unwrap();
            pending.len() == 2 && log.iter().any(|data| matches!(data, EventData::Prompted(_)))
        },
    );
    let (_, log) = resumed(&disk);
    let texts: Vec<String> = log
        .iter()
        .filter_map(|data| if let EventData::Prompted(data) = data { Some(data.prompt.text.clone()) } else { None })
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[test]
fn c27_a_live_owner_is_left_alone() {
    let disk = crashed(
        |_, _| (Vec::new(), true),
        ONE,
        |_, log| last_is(log, |data| matches!(data, EventData::ExecutionStarted(_))),
    );
    // The lease belongs to a process that lives.
    let other = Arc::new(disk.store.attach());
    let lease = futures_util::FutureExt::now_or_never(disk.store.lease(&disk.id)).unwrap().unwrap().unwrap();
    futures_util::FutureExt::now_or_never(other.take_over(&lease)).unwrap().unwrap().unwrap();
    let before = disk.log().len();
    disk.live(Scripted::new(|_, _| said("unused")), Resolution::unknown(), true, async |sessions| {
        assert!(sessions.recover(None).await.unwrap().is_empty());
    });
    assert_eq!(disk.log().len(), before);
}

/// I14: a recovery that is killed at any commit, and begun again, settles what one recovery settles.
#[test]
fn i14_recovery_is_idempotent() {
    fn answer(_: usize, _: &LLMRequest) -> (Events, bool) {
        let mut events = text_begun();
        events.extend([call("a", "work", false), call("b", "slow", false)]);
        (events, true)
    }
    let crash = || {
        crashed(answer, ONE, |_, log| log.iter().filter(|data| matches!(data, EventData::ToolCalled(_))).count() == 2)
    };
    let settlements = |disk: &Disk, before: usize| -> Vec<String> {
        let log = disk.log();
        let kept = |text: &String| !text.starts_with("recovered") && !text.starts_with("execution");
        log[before..].iter().map(brief).filter(kept).collect()
    };
    let once = crash();
    let before = once.log().len();
    settled(&once, Resolution::unknown());
    let expected = settlements(&once, before);
    assert!(expected.len() >= 3, "{expected:?}");
    for at in 1..8 {
        for fault in [CommitFault::CrashBefore, CommitFault::CrashAfter] {
            let disk = crash();
            let hook = fault.clone();
            disk.store.on_commit(move |n, _| if n == at { hook.clone() } else { CommitFault::None });
            disk.live(Scripted::new(|_, _| said("unused")), Resolution::unknown(), false, async |sessions| {
                let _crashed = sessions.recover(None).await;
            });
            let disk = Disk { store: Arc::new(disk.store.reopen()), ..disk };
            settled(&disk, Resolution::unknown());
            assert_eq!(settlements(&disk, before), expected, "killed at commit {at}, {fault:?}");
        }
    }
}
