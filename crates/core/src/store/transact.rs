//! What one transaction does, written once for every storage: append, replay, leases and journals.
//!
//! A storage implements [`Tx`], the handful of row operations of one transaction; the rules of spec/session.md 3.3,
//! 3.7 and 12.1 are here. An error means that nothing of the transaction may be kept.

use std::collections::HashSet;
use std::sync::Arc;

use abide_schema::event::{EventData, InboxKind, StoredEvent, Visibility};
use abide_schema::id::IdGenerator;
use abide_schema::message::{AssistantContent, CompactionStatus, ItemKind, Message};
use abide_schema::project::ProjectError;
use abide_schema::session::SessionInfo;
use abide_schema::{EventId, MessageId, MutationId, OwnerId, SessionId, Timestamp};

use super::{
    AppendError, Batch, BusEvent, CallKey, Expect, Guard, Head, Hook, Item, Lease, Mutation, MutationState, Replay,
    ReplayClaim, ReplayError, ReplayOutcome, Signal, StoreError, next_seq,
};
use crate::world::World;

/// The row operations of one transaction.
pub(crate) trait Tx {
    fn head(&mut self, session: &SessionId) -> Result<Option<Head>, StoreError>;
    fn replay_owner(&mut self, session: &SessionId) -> Result<Option<String>, StoreError>;
    fn set_replay_owner(&mut self, session: &SessionId, owner: &str) -> Result<(), StoreError>;
    fn event_by_id(&mut self, id: &EventId) -> Result<Option<StoredEvent>, StoreError>;
    fn event_at(&mut self, session: &SessionId, seq: abide_schema::Seq) -> Result<Option<StoredEvent>, StoreError>;
    /// Inserts an event that makes `head` the head.
    fn insert_event(&mut self, event: &StoredEvent, head: Head, data: &str) -> Result<(), StoreError>;
    fn project(&mut self, event: &StoredEvent) -> Result<(), ProjectError<StoreError>>;

    fn session_info(&mut self, session: &SessionId) -> Result<Option<SessionInfo>, StoreError>;
    fn has_session(&mut self, session: &SessionId) -> Result<bool, StoreError>;
    fn has_pending_compaction(&mut self, session: &SessionId) -> Result<bool, StoreError>;

    fn lease(&mut self, session: &SessionId) -> Result<Option<Lease>, StoreError>;
    fn put_lease(&mut self, lease: &Lease) -> Result<(), StoreError>;
    fn put_blob(&mut self, hash: &str, data: &[u8]) -> Result<(), StoreError>;
    fn drop_draft(&mut self, message: &MessageId, kind: ItemKind, item_id: &str) -> Result<(), StoreError>;
    fn drop_step(&mut self, message: &MessageId) -> Result<(), StoreError>;
    fn mutation_by_call(&mut self, key: &CallKey) -> Result<Option<MutationId>, StoreError>;
    fn mutation_session(&mut self, id: &MutationId) -> Result<Option<SessionId>, StoreError>;
    fn mutation_state(&mut self, id: &MutationId) -> Result<Option<MutationState>, StoreError>;
    fn insert_mutation(&mut self, mutation: &Mutation) -> Result<(), StoreError>;
    fn set_mutation_state(&mut self, id: &MutationId, state: MutationState) -> Result<(), StoreError>;
    fn drop_process(&mut self, key: &CallKey) -> Result<(), StoreError>;
    fn drop_job(&mut self, notification: &MessageId) -> Result<(), StoreError>;
    /// Deletes settled mutations of calls that are older.
    fn forget_mutations(&mut self, before: Timestamp) -> Result<(), StoreError>;
    /// Deletes settled mutations without a call.
    fn drop_reverts(&mut self, session: &SessionId) -> Result<(), StoreError>;
    /// Deletes drafts and attempts.
    fn drop_operational(&mut self, session: &SessionId) -> Result<(), StoreError>;
    /// Deletes every operational row of a session that is gone, its lease too.
    fn forget_session(&mut self, session: &SessionId) -> Result<(), StoreError>;
}

/// Makes event ids that sort in commit order, also after a restart with the clock set back.
#[derive(Debug, Default)]
pub(crate) struct EventIds {
    generator: IdGenerator,
    floor: i64,
}

impl EventIds {
    /// Makes later ids sort after this one, if it has the form that the store gives.
    pub(crate) fn sort_after(&mut self, id: &str) {
        let time = id.strip_prefix(EventId::NEW_PREFIX).filter(|tail| tail.len() == 26).and_then(|tail| tail.get(..12));
        if let Some(ms) = time.and_then(|hex| i64::from_str_radix(hex, 16).ok()) {
            self.floor = self.floor.max(ms.saturating_add(1));
        }
    }

    fn next(&mut self, now: Timestamp, random: u64) -> EventId {
        let now = Timestamp::from_millis(now.as_millis().max(self.floor));
        EventId::from_trusted(format!("{}{}", EventId::NEW_PREFIX, self.generator.tail(now, random, false)))
    }
}

/// What an append made.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    /// An event for each item: new, or stored before under the same id.
    pub(crate) events: Vec<Arc<StoredEvent>>,
    /// What subscribers are told: the new ones, each behind its ephemeral events.
    pub(crate) fresh: Vec<BusEvent>,
    /// The head afterwards, when it moved.
    pub(crate) head: Option<Head>,
}

/// Appends a batch (spec/session.md 3.3).
pub(crate) fn append(
    tx: &mut impl Tx,
    batch: Batch,
    world: &World,
    ids: &mut EventIds,
) -> Result<Appended, AppendError> {
    let Batch { session, items, expect, fence, guard, hooks, durability: _ } = batch;
    if items.is_empty() {
        return Err(StoreError::Conflict("an append needs at least one event".to_owned()).into());
    }
    let mut head = tx.head(&session)?;
    check_fence(tx, &session, fence)?;
    check_head(&session, expect, head)?;
    if let Some(guard) = &guard {
        check_guard(tx, &session, guard)?;
    }
    let created = world.now();
    let mut seen = HashSet::new();
    let mut out = Appended::default();
    let mut exists = None;
    for item in items {
        let Item { data, id, metadata, location, live } = item;
        if *data.session_id() != session {
            return Err(AppendError::AggregateMismatch { expected: session, actual: data.session_id().clone() });
        }
        if let Some(id) = &id {
            if !seen.insert(id.clone()) {
                return Err(AppendError::EventIdConflict { id: id.clone() });
            }
            if let Some(stored) = tx.event_by_id(id)? {
                if stored.data != data {
                    return Err(AppendError::EventIdConflict { id: id.clone() });
                }
                out.events.push(Arc::new(stored));
                continue;
            }
        }
        let event = StoredEvent {
            id: id.unwrap_or_else(|| ids.next(created, world.random())),
            seq: next_seq(head.map(|head| head.seq)),
            contract_seq: next_contract_seq(head, data.def().visibility),
            created,
            location,
            metadata,
            data,
        };
        let now = advanced(head, &event);
        store_event(tx, &event, now, &mut exists)?;
        head = Some(now);
        out.head = head;
        let event = Arc::new(event);
        out.events.push(Arc::clone(&event));
        out.fresh.extend(live.into_iter().map(|event| BusEvent::Live(Arc::new(event))));
        out.fresh.push(BusEvent::Stored(event));
    }
    for hook in hooks {
        run_hook(tx, &session, hook, &out)?;
    }
    Ok(out)
}

/// Takes over one record of a serialized log (spec/session.md 3.7).
pub(crate) fn replay(tx: &mut impl Tx, replay: Replay) -> Result<(ReplayOutcome, Appended), ReplayError> {
    let Replay { record, publish: _, claim } = replay;
    let session = record.durable.aggregate_id.clone();
    let mut event = record.decode()?;
    if *event.session_id() != session {
        return Err(ReplayError::AggregateMismatch { envelope: session, data: event.session_id().clone() });
    }
    let nothing = Appended::default();
    let owner = tx.replay_owner(&session)?;
    if let (Some(owner), Some(claim)) = (&owner, &claim)
        && *owner != claim.owner
    {
        if claim.strict {
            return Err(ReplayError::OwnedElsewhere { session, owner: owner.clone() });
        }
        return Ok((ReplayOutcome::Ignored, nothing));
    }
    let head = tx.head(&session)?;
    let next = next_seq(head.map(|head| head.seq));
    if event.seq > next {
        return Err(ReplayError::SequenceGap { session, seq: event.seq, head: head.map(|head| head.seq) });
    }
    event.contract_seq = match event.seq.cmp(&next) {
        std::cmp::Ordering::Less => event.contract_seq,
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => next_contract_seq(head, event.data.def().visibility),
    };
    if event.seq < next {
        let same = tx.event_at(&session, event.seq)?.is_some_and(|stored| {
            stored.id == event.id && stored.created == event.created && stored.data == event.data
        });
        if !same {
            return Err(ReplayError::Diverged { session, seq: event.seq });
        }
        claim_log(tx, &session, owner.as_deref(), claim.as_ref())?;
        return Ok((ReplayOutcome::Known, nothing));
    }
    if record.contract_seq.is_some() && record.contract_seq != event.contract_seq {
        return Err(ReplayError::Diverged { session, seq: event.seq });
    }
    if tx.event_by_id(&event.id)?.is_some() {
        return Err(AppendError::EventIdConflict { id: event.id }.into());
    }
    let head = advanced(head, &event);
    store_event(tx, &event, head, &mut None)?;
    claim_log(tx, &session, owner.as_deref(), claim.as_ref())?;
    let event = Arc::new(event);
    let appended =
        Appended { events: vec![Arc::clone(&event)], fresh: vec![BusEvent::Stored(event)], head: Some(head) };
    Ok((ReplayOutcome::Accepted, appended))
}

fn claim_log(
    tx: &mut impl Tx,
    session: &SessionId,
    owner: Option<&str>,
    claim: Option<&ReplayClaim>,
) -> Result<(), StoreError> {
    match (owner, claim) {
        (None, Some(claim)) => tx.set_replay_owner(session, &claim.owner),
        (Some(_), _) | (None, None) => Ok(()),
    }
}

/// Projects and inserts one event; `exists` remembers whether the session has a row.
fn store_event(
    tx: &mut impl Tx,
    event: &StoredEvent,
    head: Head,
    exists: &mut Option<bool>,
) -> Result<(), AppendError> {
    let session = event.session_id();
    if matches!(event.data, EventData::SessionCreated(_)) {
        // An id of a deleted session must not begin again.
        if event.seq.0 > 0 {
            return Err(AppendError::SessionAlreadyProjected(session.clone()));
        }
    } else {
        let known = match *exists {
            Some(known) => known,
            None => tx.has_session(session)?,
        };
        if !known {
            return Err(AppendError::SessionMissing(session.clone()));
        }
    }
    if let Some(cost) = costs(&event.data).into_iter().find(|cost| !cost.is_finite()) {
        return Err(AppendError::Projection(format!("{}: the cost {cost} is no number", event.data.def().name)));
    }
    if let EventData::InboxEnqueued(data) = &event.data
        && data.item.kind == InboxKind::Compaction
        && tx.has_pending_compaction(session)?
    {
        return Err(AppendError::InputLifecycleConflict { id: data.inbox_id.clone() });
    }
    let data = event.data.encode().map_err(|error| AppendError::Projection(error.to_string()))?;
    tx.project(event).map_err(|error| project_error(session, error))?;
    tx.insert_event(event, head, &data)?;
    let deleted = matches!(event.data, EventData::SessionDeleted(_));
    if deleted {
        tx.forget_session(session)?;
    }
    *exists = Some(!deleted);
    Ok(())
}

/// The costs in an event's data: JSON has no word for infinite ones, so the log could not give them back.
fn costs(data: &EventData) -> Vec<f64> {
    let of_message = |message: &Message| match message {
        Message::Assistant(message) => message.cost,
        Message::Compaction(message) => message.cost,
        Message::User(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::Shell(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_)
        | Message::Skill(_)
        | Message::LocationSwitched(_)
        | Message::Idle(_) => None,
    };
    #[expect(clippy::wildcard_enum_match_arm, reason = "most events have no cost; the property test covers new ones")]
    match data {
        EventData::StepEnded(data) => vec![data.cost],
        EventData::StepFailed(data) => data.cost.into_iter().collect(),
        EventData::CompactionEnded(data) => data.cost.into_iter().collect(),
        EventData::CompactionFailed(data) => data.cost.into_iter().collect(),
        EventData::UsageRecorded(data) => vec![data.cost],
        EventData::HistoryImported(data) => data.messages.iter().filter_map(of_message).collect(),
        _ => Vec::new(),
    }
}

fn project_error(session: &SessionId, error: ProjectError<StoreError>) -> AppendError {
    match error {
        ProjectError::SessionAlreadyProjected => AppendError::SessionAlreadyProjected(session.clone()),
        ProjectError::SessionMissing => AppendError::SessionMissing(session.clone()),
        ProjectError::InputLifecycleConflict { id } => AppendError::InputLifecycleConflict { id },
        error @ (ProjectError::MessageExists { .. } | ProjectError::UnknownBoundary { .. }) => {
            AppendError::Projection(error.to_string())
        }
        ProjectError::Rows(error) => AppendError::Storage(error),
    }
}

fn counts(visibility: Visibility) -> bool {
    match visibility {
        Visibility::Contract | Visibility::Counted => true,
        Visibility::Extension | Visibility::Internal => false,
    }
}

/// The contract position that the next event gets.
pub(crate) fn next_contract_seq(head: Option<Head>, visibility: Visibility) -> Option<abide_schema::Seq> {
    counts(visibility).then(|| next_seq(head.and_then(|head| head.contract_seq)))
}

fn advanced(head: Option<Head>, event: &StoredEvent) -> Head {
    let contract_seq = event.contract_seq.or_else(|| head.and_then(|head| head.contract_seq));
    Head { seq: event.seq, contract_seq }
}

fn check_fence(tx: &mut impl Tx, session: &SessionId, fence: Option<u64>) -> Result<(), AppendError> {
    let Some(expected) = fence else { return Ok(()) };
    let actual = tx.lease(session)?.map_or(0, |lease| lease.fence);
    if actual == expected { Ok(()) } else { Err(AppendError::Fenced { session: session.clone(), expected, actual }) }
}

fn check_head(session: &SessionId, expect: Expect, head: Option<Head>) -> Result<(), AppendError> {
    let actual = head.map(|head| head.seq);
    let fits = match expect {
        Expect::Any => true,
        Expect::Head(seq) => actual == Some(seq),
        Expect::Empty => actual.is_none(),
    };
    if fits {
        Ok(())
    } else {
        Err(AppendError::SequenceConflict { session: session.clone(), expected: expect, actual })
    }
}

fn check_guard(tx: &mut impl Tx, session: &SessionId, guard: &Guard) -> Result<(), AppendError> {
    let info = tx.session_info(session)?;
    let holds = match guard {
        Guard::TitleIs(title) => info.is_some_and(|info| info.title == *title),
        Guard::RevertIs(staged) => {
            info.is_some_and(|info| info.revert.as_ref().map(|revert| &revert.message_id) == staged.as_ref())
        }
    };
    if holds { Ok(()) } else { Err(AppendError::GuardFailed) }
}

fn run_hook(tx: &mut impl Tx, session: &SessionId, hook: Hook, done: &Appended) -> Result<(), AppendError> {
    match hook {
        Hook::AcquireLease { owner, fence, dead_owner } => {
            let mut lease = lease_or_new(tx, session)?;
            if let Some(holder) = &lease.owner
                && *holder != owner
                && dead_owner.as_ref() != Some(holder)
            {
                return Err(AppendError::Busy { session: session.clone(), owner: holder.clone() });
            }
            if lease.fence.checked_add(1) != Some(fence) {
                return Err(AppendError::Fenced {
                    session: session.clone(),
                    expected: fence.saturating_sub(1),
                    actual: lease.fence,
                });
            }
            lease.owner = Some(owner);
            lease.fence = fence;
            // An interruption belongs to the busy period that it reached.
            lease.interrupt_seq = None;
            tx.put_lease(&lease)?;
        }
        Hook::ReleaseLease { done: position } => {
            let mut lease = lease_or_new(tx, session)?;
            lease.owner = None;
            lease.attempts = 0;
            lease.interrupt_seq = None;
            lease.done_seq = lease.done_seq.max(position.or_else(|| done.events.last().map(|event| event.seq)));
            tx.put_lease(&lease)?;
        }
        Hook::ResetAttempts => {
            let mut lease = lease_or_new(tx, session)?;
            lease.attempts = 0;
            tx.put_lease(&lease)?;
        }
        Hook::SetWake => {
            let mut lease = lease_or_new(tx, session)?;
            lease.wake_seq = lease.wake_seq.max(done.events.first().map(|event| event.seq));
            tx.put_lease(&lease)?;
        }
        Hook::PutBlob { hash, data } => tx.put_blob(&hash, &data)?,
        Hook::DropDraft { message, kind, item_id } => tx.drop_draft(&message, kind, &item_id)?,
        Hook::DropStep { message } => tx.drop_step(&message)?,
        Hook::SettleMutation(key) => {
            if let Some(id) = tx.mutation_by_call(&key)? {
                tx.set_mutation_state(&id, MutationState::Settled)?;
            }
        }
        Hook::SettleBatch(id) => match tx.mutation_state(&id)? {
            Some(MutationState::Settled) | None => return Err(AppendError::GuardFailed),
            Some(_) => tx.set_mutation_state(&id, MutationState::Settled)?,
        },
        Hook::DropReverts => tx.drop_reverts(session)?,
        Hook::DropProcess(key) => tx.drop_process(&key)?,
        Hook::DropJob(notification) => tx.drop_job(&notification)?,
        Hook::DropOperational => tx.drop_operational(session)?,
    }
    Ok(())
}

fn lease_or_new(tx: &mut impl Tx, session: &SessionId) -> Result<Lease, StoreError> {
    Ok(tx.lease(session)?.unwrap_or_else(|| Lease {
        session: session.clone(),
        owner: None,
        fence: 0,
        attempts: 0,
        wake_seq: None,
        done_seq: None,
        interrupt_seq: None,
    }))
}

/// Takes an orphaned lease over by compare-and-swap.
pub(crate) fn take_over(tx: &mut impl Tx, lease: &Lease, owner: &OwnerId) -> Result<Option<Lease>, StoreError> {
    match tx.lease(&lease.session)? {
        Some(mut current) if current.owner == lease.owner && current.fence == lease.fence => {
            current.owner = Some(owner.clone());
            current.fence = current.fence.saturating_add(1);
            current.attempts = current.attempts.saturating_add(1);
            tx.put_lease(&current)?;
            Ok(Some(current))
        }
        Some(_) | None => Ok(None),
    }
}

/// Leaves a signal for the owner of a session.
pub(crate) fn signal(tx: &mut impl Tx, session: &SessionId, signal: Signal) -> Result<(), StoreError> {
    let Some(head) = tx.head(session)? else { return Ok(()) };
    let mut lease = lease_or_new(tx, session)?;
    match signal {
        Signal::Wake => lease.wake_seq = lease.wake_seq.max(Some(head.seq)),
        Signal::Interrupt => lease.interrupt_seq = lease.interrupt_seq.max(Some(head.seq)),
    }
    tx.put_lease(&lease)
}

/// Inserts a planned mutation; a call has one at most.
pub(crate) fn plan_mutation(tx: &mut impl Tx, mutation: &Mutation) -> Result<(), StoreError> {
    if let Some(key) = &mutation.call
        && let Some(id) = tx.mutation_by_call(key)?
    {
        return Err(StoreError::Conflict(format!(
            "call {} of {} has the mutation {id} already",
            key.call, key.message
        )));
    }
    if tx.mutation_session(&mutation.id)?.is_some() {
        return Err(StoreError::Conflict(format!("mutation {} exists already", mutation.id)));
    }
    tx.insert_mutation(mutation)
}

/// Moves a mutation to another state; with `fence`, only while it is the session's.
pub(crate) fn mark_mutation(
    tx: &mut impl Tx,
    id: &MutationId,
    state: MutationState,
    fence: Option<u64>,
) -> Result<(), StoreError> {
    let Some(session) = tx.mutation_session(id)? else {
        return Err(StoreError::Conflict(format!("there is no mutation {id}")));
    };
    if tx.mutation_state(id)? == Some(MutationState::Settled) {
        return Err(StoreError::Conflict(format!("mutation {id} is settled")));
    }
    if let Some(expected) = fence {
        let actual = tx.lease(&session)?.map_or(0, |lease| lease.fence);
        if actual != expected {
            return Err(StoreError::Fenced { session, expected, actual });
        }
    }
    tx.set_mutation_state(id, state)
}

/// Says whether a message is unfinished in itself; open items of an assistant message count apart.
pub(crate) fn is_open(message: &Message) -> bool {
    match message {
        Message::Assistant(message) => message.time.completed.is_none(),
        Message::Shell(message) => message.time.completed.is_none(),
        Message::Compaction(message) => message.status == CompactionStatus::Running,
        Message::User(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_)
        | Message::Skill(_)
        | Message::LocationSwitched(_)
        | Message::Idle(_) => false,
    }
}

/// Says whether an item is unfinished.
pub(crate) fn is_open_item(item: &AssistantContent) -> bool {
    match item {
        AssistantContent::Text(text) => text.open,
        AssistantContent::Reasoning(reasoning) => reasoning.time.is_some_and(|time| time.completed.is_none()),
        AssistantContent::Tool(tool) => !tool.state.is_settled(),
    }
}

/// Says whether a message is part of the HTTP contract.
pub(crate) fn in_contract(message: &Message) -> bool {
    match message {
        Message::User(_)
        | Message::Assistant(_)
        | Message::Synthetic(_)
        | Message::System(_)
        | Message::Shell(_)
        | Message::AgentSwitched(_)
        | Message::ModelSwitched(_) => true,
        Message::Compaction(message) => message.status == CompactionStatus::Completed,
        Message::Skill(_) | Message::LocationSwitched(_) | Message::Idle(_) => false,
    }
}
