//! The simulator: the real engine over the memory store, with a virtual clock and a scripted world.
//!
//! A seed decides everything: what the user does, what the model answers, how long tools take, which commit kills the
//! process. After each life the invariants of spec/session.md 8.2 are checked; a life ends with its runtime, so that
//! nothing of it runs on. `abide-core` must be built with the feature `testing`.

mod invariants;
mod model;
mod world;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_schema::event::StoredEvent;
use abide_schema::location::LocationRef;
use abide_schema::model::ModelRef;
use abide_schema::prompt::Delivery;
use abide_schema::{MessageId, SessionId};

pub use world::{Random, SimPlaces, sim_world};

use self::model::SimModels;
use self::world::Ledger;
use super::recovery::{EffectRecovery, NoJournals};
use super::{CreateSession, EngineOptions, PromptSession, Sessions, SessionsParts};
use crate::store::{CommitFault, MemoryStore, StoreError};
use crate::store::{MessageQuery, Order};

/// How one schedule ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Lives of the process, one more than crashes.
    pub n_lives: u32,
    /// Events in the log at the end.
    pub n_events: usize,
    /// Model requests over all lives.
    pub n_requests: usize,
    /// Tool runs over all lives.
    pub n_tool_runs: usize,
}

/// Crashes of one schedule.
const MAX_CRASHES: u32 = 4;
/// Virtual time that one life may take.
const LIFE: Duration = Duration::from_secs(3600);

/// Runs the schedule of one seed.
///
/// # Errors
/// The invariant that was broken, in words, with the log.
pub fn run(seed: u64) -> Result<Outcome, String> {
    let random = Random::new(seed);
    let ledger = Arc::new(Ledger::default());
    let mut store = Arc::new(MemoryStore::new(sim_world(&random)));
    let session = SessionId::from_trusted("ses_simulated");
    let mut outcome = Outcome::default();
    let n_crashes = random.below(u64::from(MAX_CRASHES) + 1);
    let plan = Arc::new(Mutex::new(Plan::default()));
    for life in 0..=n_crashes {
        let last = life == n_crashes;
        let crash_at = (!last).then(|| 1 + random.below(60));
        let fault = if random.below(2) == 0 { CommitFault::CrashBefore } else { CommitFault::CrashAfter };
        if life > 0 {
            store = Arc::new(store.reopen());
        }
        // In some lives the disk refuses a commit, and the process lives on.
        let refused_at = (!last && random.below(3) == 0).then(|| 1 + random.below(60));
        store.on_commit(move |n, _| match (crash_at, refused_at) {
            (Some(at), _) if n == at => fault.clone(),
            (_, Some(at)) if n == at => CommitFault::Fail(StoreError::Disk("no space left".to_owned())),
            (_, _) => CommitFault::None,
        });
        outcome.n_lives += 1;
        // In some lives two processes work on the disk; the other one is never killed before the life ends.
        let other = (random.below(3) == 0).then(|| Arc::new(store.attach()));
        let stores: Vec<Arc<MemoryStore>> = std::iter::once(store.clone()).chain(other).collect();
        live(&stores, &session, &random, &ledger, &plan, last)?;
        stores.iter().skip(1).for_each(|other| other.crash());
        let log = store.log(&session);
        invariants::check(&store, &session, &log, &ledger, last).map_err(|broken| report(seed, &broken, &log))?;
    }
    outcome.n_events = store.log(&session).len();
    outcome.n_requests = ledger.requests();
    outcome.n_tool_runs = ledger.tool_runs();
    Ok(outcome)
}

/// Checks the invariants that a session's log shows by itself. `quiet` says that nothing may be open any more.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check_log(log: &[Arc<StoredEvent>], quiet: bool) -> Result<(), String> {
    invariants::log_alone(log, quiet)
}

/// What the user has done, over all lives.
#[derive(Default)]
struct Plan {
    acknowledged: Vec<MessageId>,
    interrupts: u32,
}

/// Runs one life: restart, recovery, user actions, and in the last life until everything is done.
fn live(
    stores: &[Arc<MemoryStore>],
    session: &SessionId,
    random: &Random,
    ledger: &Arc<Ledger>,
    plan: &Arc<Mutex<Plan>>,
    last: bool,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let process = |store: &Arc<MemoryStore>| {
        Sessions::new(SessionsParts {
            store: store.clone(),
            world: sim_world(random),
            places: Arc::new(SimPlaces::new(random.clone(), ledger.clone(), store.clone())),
            models: Arc::new(SimModels::new(random.clone(), ledger.clone(), store.clone())),
            effects: Arc::new(NoJournals) as Arc<dyn EffectRecovery>,
            options: EngineOptions::default(),
        })
    };
    let result = runtime.block_on(async {
        let processes: Vec<Sessions> = stores.iter().map(process).collect();
        let work = user(&processes, session, random, plan, last);
        tokio::time::timeout(LIFE, work).await.map_err(|_| "the life did not end: something waits for ever".to_owned())
    });
    // A crash drops every task at its next await, as a kill does.
    drop(runtime);
    result.and_then(|inner| inner)
}

/// The user's side of one life. Errors of a crashed store are the crash.
async fn user(
    processes: &[Sessions],
    session: &SessionId,
    random: &Random,
    plan: &Arc<Mutex<Plan>>,
    last: bool,
) -> Result<(), String> {
    let create = CreateSession {
        id: Some(session.clone()),
        location: Some(LocationRef::new("/sim")),
        model: ModelRef::parse("sim/model"),
        ..CreateSession::default()
    };
    let mut n_ready = 0;
    for sessions in processes {
        // A broken store ends the life; the error itself says nothing new.
        let recovered = sessions.recover(None).await.is_ok();
        n_ready += usize::from(recovered && sessions.create(create.clone()).await.is_ok());
    }
    if n_ready == 0 {
        return Ok(());
    }
    let n_actions = 1 + random.below(7);
    for _ in 0..n_actions {
        let at = usize::try_from(random.below(processes.len() as u64)).unwrap_or(0);
        if let Some(sessions) = processes.get(at) {
            act(sessions, session, random, plan).await;
        }
    }
    if !last {
        tokio::time::sleep(Duration::from_millis(random.below(20_000))).await;
        return Ok(());
    }
    finish(processes, session, plan).await
}

/// One action. Errors of a crashed store are the crash.
async fn act(sessions: &Sessions, session: &SessionId, random: &Random, plan: &Arc<Mutex<Plan>>) {
    match random.below(12) {
        0..=3 => {
            let delivery = if random.below(3) == 0 { Delivery::Queue } else { Delivery::Steer };
            let id = MessageId::from_trusted(format!("msg_p{}", random.next()));
            let input = PromptSession {
                id: Some(id.clone()),
                text: format!("do {}", random.below(1000)),
                delivery,
                resume: (random.below(6) == 0).then_some(false),
                ..PromptSession::default()
            };
            let again = (random.below(4) == 0).then(|| input.clone());
            if sessions.prompt(session, input).await.is_ok() {
                lock(plan).acknowledged.push(id);
            }
            // A client that got no answer asks once more.
            if let Some(again) = again {
                let _repeated = sessions.prompt(session, again).await;
            }
        }
        4 => {
            if sessions.interrupt(session).await.is_ok() {
                lock(plan).interrupts += 1;
            }
        }
        5 => {
            let _crashed = sessions.compact(session).await;
        }
        6 => {
            let model = ModelRef::parse(if random.below(2) == 0 { "sim/model" } else { "sim/other" });
            if let Some(model) = model {
                let _crashed = sessions.switch_model(session, model).await;
            }
        }
        7 => {
            let agent = if random.below(2) == 0 { "build" } else { "plan" };
            let _crashed = sessions.switch_agent(session, agent.into()).await;
        }
        8 => {
            let _crashed = sessions.rename(session, format!("title {}", random.below(10))).await;
        }
        _ => tokio::time::sleep(Duration::from_millis(random.below(4000))).await,
    }
}

/// The end: everything that was admitted must be done, by whichever process lives.
async fn finish(processes: &[Sessions], session: &SessionId, plan: &Arc<Mutex<Plan>>) -> Result<(), String> {
    let Some(first) = processes.first() else { return Ok(()) };
    for _ in 0..40 {
        for sessions in processes {
            sessions.wait(session).await.map_err(|error| error.to_string())?;
        }
        let pending = first.store().pending_inputs(session).await.map_err(|error| error.to_string())?;
        if pending.is_empty() && processes.iter().all(|sessions| !sessions.is_active(session)) {
            break;
        }
        first.wake(session);
    }
    for sessions in processes {
        sessions.wait(session).await.map_err(|error| error.to_string())?;
    }
    let pending = first.store().pending_inputs(session).await.map_err(|error| error.to_string())?;
    if !pending.is_empty() {
        return Err(format!("{} inputs are never promoted", pending.len()));
    }
    let query = MessageQuery { order: Order::Asc, ..MessageQuery::default() };
    let messages = first.store().messages(session, query).await.map_err(|error| error.to_string())?;
    for id in &lock(plan).acknowledged {
        let n = messages.iter().filter(|row| row.message.id() == id).count();
        if n != 1 {
            return Err(format!("the acknowledged prompt {id} is {n} messages"));
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(seed: u64, broken: &str, log: &[Arc<StoredEvent>]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("seed {seed}: {broken}\n");
    for event in log {
        let data = event.data.encode().unwrap_or_default();
        let data: String = data.chars().take(220).collect();
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{:>4} {} {data}", event.seq, event.data.def().name);
    }
    text
}

#[cfg(test)]
mod tests;
