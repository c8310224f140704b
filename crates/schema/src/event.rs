//! Durable events: their data, their registry, and the stored envelope (spec/session.md sections 3.1 and 4.1).

pub mod names;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{RetryError, SessionError};
use crate::json::JsonObject;
use crate::location::LocationRef;
use crate::message::{CallProvider, FileDiff, Finish, Message, Revert};
use crate::model::{ModelRef, ProviderMetadata, Tokens};
use crate::permission::Rule;
use crate::prompt::{Delivery, Prompt};
use crate::session::ForkBoundary;
use crate::tool::{Content, Effects, Verdict};
use crate::{AgentId, CallId, EventId, MessageId, OwnerId, ProjectId, Seq, SessionId, Timestamp};

/// Who may see an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Part of the HTTP contract: in history and in session streams, counted by the contract sequence.
    Contract,
    /// Counted by the contract sequence, but only on the instance-wide stream (`session.created`).
    Counted,
    /// Public addition of abide: in the session's log, not in the contract's history.
    Extension,
    /// Not public.
    Internal,
}

/// One entry of the registry of durable events.
#[derive(Clone, Copy, Debug)]
pub struct EventDef {
    /// The name, for example `session.next.step.ended`.
    pub name: &'static str,
    /// The version.
    pub version: u32,
    /// Who may see it.
    pub visibility: Visibility,
    /// Makes the JSON schema of its data.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl EventDef {
    /// Returns the stored form `name.version`.
    pub fn stored_type(&self) -> String {
        format!("{}.{}", self.name, self.version)
    }
}

/// The reason why stored or foreign data is no event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No definition has this name and version.
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    /// The data does not fit the definition.
    #[error("data of event type {stored_type:?} does not fit its definition: {source}")]
    Data {
        /// The type, as stored.
        stored_type: String,
        /// What does not fit.
        source: serde_json::Error,
    },
}

macro_rules! durable_events {
    ($(
        $(#[$doc:meta])*
        $name:ident = $wire:path, $version:literal, $visibility:ident
        { $( $(#[$field_meta:meta])* $field:ident: $ty:ty, )* }
        optional { $( $(#[$opt_meta:meta])* $opt:ident: $opt_ty:ty, )* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            #[allow(missing_docs, reason = "the fields are those of the wire; the event's line says what they mean")]
            pub struct $name {
                /// Domain time.
                pub timestamp: Timestamp,
                /// The session.
                #[serde(rename = "sessionID")]
                pub session_id: SessionId,
                $( $(#[$field_meta])* pub $field: $ty, )*
                $( $(#[$opt_meta])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $opt: Option<$opt_ty>, )*
            }

            impl From<$name> for EventData {
                fn from(data: $name) -> Self {
                    Self::$name(Box::new(data))
                }
            }
        )*

        /// The data of a durable event: one variant for each name and version.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EventData {
            $( $(#[$doc])* $name(Box<$name>), )*
        }

        impl EventData {
            /// Returns the definition.
            pub fn def(&self) -> &'static EventDef {
                match self { $( Self::$name(_) => {
                    static DEF: EventDef = EventDef {
                        name: $wire, version: $version, visibility: Visibility::$visibility,
                        schema: <$name>::json_schema,
                    };
                    &DEF
                } )* }
            }

            /// Returns the session it belongs to.
            pub fn session_id(&self) -> &SessionId {
                match self { $( Self::$name(data) => &data.session_id, )* }
            }

            /// Returns its domain time.
            pub fn timestamp(&self) -> Timestamp {
                match self { $( Self::$name(data) => data.timestamp, )* }
            }

            /// Decodes data of the stored type `name.version`.
            ///
            /// # Errors
            /// [`DecodeError::UnknownType`] when a newer process wrote it, [`DecodeError::Data`] when it does not fit.
            pub fn decode(stored_type: &str, json: &str) -> Result<Self, DecodeError> {
                let fail = |source| DecodeError::Data { stored_type: stored_type.to_owned(), source };
                let Some((name, version)) = stored_type.rsplit_once('.') else {
                    return Err(DecodeError::UnknownType(stored_type.to_owned()));
                };
                match (name, version.parse::<u32>()) {
                    $( ($wire, Ok($version)) => Ok(Self::$name(Box::new(serde_json::from_str(json).map_err(fail)?))), )*
                    (_, Ok(_) | Err(_)) => Err(DecodeError::UnknownType(stored_type.to_owned())),
                }
            }

            /// Encodes the data as JSON text.
            ///
            /// # Errors
            /// Only when a value cannot be JSON, for example a cost that is not finite.
            pub fn encode(&self) -> Result<String, serde_json::Error> {
                match self { $( Self::$name(data) => serde_json::to_string(data), )* }
            }

            /// Returns the data as a JSON value.
            ///
            /// # Errors
            /// As [`EventData::encode`].
            pub fn to_value(&self) -> Result<Value, serde_json::Error> {
                match self { $( Self::$name(data) => serde_json::to_value(data), )* }
            }
        }

        /// Every definition, in the order of the specification.
        pub static EVENTS: &[EventDef] = &[
            $( EventDef { name: $wire, version: $version, visibility: Visibility::$visibility, schema: <$name>::json_schema }, )*
        ];
    };
}

/// Finds the newest definition of an event name.
pub fn definition(name: &str) -> Option<&'static EventDef> {
    EVENTS.iter().filter(|def| def.name == name).max_by_key(|def| def.version)
}

/// How an execution came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StartReason {
    /// An input or a doorbell.
    Wake,
    /// Somebody asked to run.
    Resume,
    /// A restart after a crash.
    Recovery,
}

/// Why an execution was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterruptReason {
    /// The user.
    User,
    /// The server stops; the lease is kept.
    Shutdown,
    /// Another owner, or a recovery that may not resume.
    Superseded,
}

/// Why a context epoch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BaselineReason {
    /// The first.
    Initial,
    /// After a compaction.
    Compaction,
    /// After a move.
    Move,
    /// After a committed revert.
    Revert,
    /// A stored value can no longer be read.
    Incompatible,
}

/// Why a compaction began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompactionReason {
    /// The context was nearly full, or full.
    Auto,
    /// Somebody asked.
    Manual,
}

/// Where usage outside a step came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageSource {
    /// The title request.
    Title,
    /// A stateless generation.
    Generate,
    /// Anything else.
    Other,
}

/// An inbox item that is not a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxItem {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: InboxKind,
    /// Its content.
    pub payload: JsonObject,
    /// When it joins.
    pub delivery: Delivery,
}

/// Kinds of inbox items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InboxKind {
    /// A prompt.
    User,
    /// Text that the engine adds.
    Synthetic,
    /// A request to compact.
    Compaction,
    /// A request to move.
    Move,
}

/// A call that recovery settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveredTool {
    /// The assistant message.
    #[serde(rename = "assistantMessageID")]
    pub assistant_message_id: MessageId,
    /// The call.
    #[serde(rename = "callID")]
    pub call_id: CallId,
    /// What is known of its effect.
    pub verdict: Verdict,
}

/// A changed value of the context: a hash, or the word `removed`.
pub type ContextDelta = std::collections::BTreeMap<String, String>;

durable_events! {
    /// A session was created.
    SessionCreated = names::SESSION_CREATED, 1, Counted {
        #[serde(rename = "projectID")] project_id: ProjectId,
        location: LocationRef,
        slug: String,
        title: String,
        version: String,
    } optional {
        subpath: String,
        #[serde(rename = "parentID")] parent_id: SessionId,
        agent: AgentId,
        model: ModelRef,
        metadata: JsonObject,
        permissions: Vec<Rule>,
    }
    /// A session was deleted.
    SessionDeleted = names::SESSION_DELETED, 2, Internal {} optional {}
    /// The title changed.
    Renamed = names::RENAMED, 1, Extension { title: String, } optional {}
    /// Facts about the session changed.
    Updated = names::UPDATED, 1, Extension {} optional {
        metadata: JsonObject,
        permissions: Vec<Rule>,
        #[serde(deserialize_with = "crate::json::present")] archived: Option<Timestamp>,
    }
    /// A user saw the session's state at `idle`.
    Viewed = names::VIEWED, 1, Extension { idle: Timestamp, } optional {}
    /// The session moved to another directory.
    Moved = names::MOVED, 1, Contract { location: LocationRef, } optional {
        subdirectory: String,
        #[serde(rename = "projectID")] project_id: ProjectId,
    }
    /// The session began as a copy of another's history.
    Forked = names::FORKED, 1, Extension { from: SessionId, boundary: ForkBoundary, } optional { title: String, }
    /// Messages were taken over.
    HistoryImported = names::HISTORY_IMPORTED, 1, Internal { messages: Vec<Message>, } optional {}
    /// The agent changed.
    AgentSwitched = names::AGENT_SWITCHED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        agent: AgentId,
    } optional { previous: AgentId, }
    /// The model changed.
    ModelSwitched = names::MODEL_SWITCHED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        model: ModelRef,
    } optional { previous: ModelRef, }
    /// A prompt was admitted.
    PromptAdmitted = names::PROMPT_ADMITTED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        prompt: Prompt,
        delivery: Delivery,
    } optional { metadata: JsonObject, }
    /// An admitted prompt became a message.
    Prompted = names::PROMPTED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        prompt: Prompt,
        delivery: Delivery,
    } optional { metadata: JsonObject, }
    /// Another input was admitted.
    InboxEnqueued = names::INBOX_ENQUEUED, 1, Extension {
        #[serde(rename = "inboxID")] inbox_id: MessageId,
        item: InboxItem,
    } optional {}
    /// An admitted input took effect.
    InboxDelivered = names::INBOX_DELIVERED, 1, Extension {
        #[serde(rename = "inboxID")] inbox_id: MessageId,
    } optional {}
    /// An admitted input was withdrawn.
    InboxCancelled = names::INBOX_CANCELLED, 1, Extension {
        #[serde(rename = "inboxID")] inbox_id: MessageId,
    } optional {}
    /// An admitted input changed its delivery.
    InboxDeliveryChanged = names::INBOX_DELIVERY_CHANGED, 1, Extension {
        #[serde(rename = "inboxID")] inbox_id: MessageId,
        delivery: Delivery,
    } optional {}
    /// An owner began to execute the session.
    ExecutionStarted = names::EXECUTION_STARTED, 1, Extension {
        owner: OwnerId,
        fence: u64,
        reason: StartReason,
        attempt: u32,
    } optional {}
    /// The execution ended, idle again.
    ExecutionSucceeded = names::EXECUTION_SUCCEEDED, 1, Extension {} optional {}
    /// The execution failed.
    ExecutionFailed = names::EXECUTION_FAILED, 1, Extension { error: SessionError, } optional {}
    /// The execution was interrupted.
    ExecutionInterrupted = names::EXECUTION_INTERRUPTED, 1, Extension { reason: InterruptReason, } optional {}
    /// What a crash left open was settled.
    Recovered = names::RECOVERED, 1, Extension {
        attempt: u32,
        tools: Vec<RecoveredTool>,
        steps: Vec<MessageId>,
        compactions: Vec<MessageId>,
    } optional { revert: String, }
    /// A context epoch began.
    ContextBaselined = names::CONTEXT_BASELINED, 1, Extension {
        baseline: String,
        values: std::collections::BTreeMap<String, String>,
        reason: BaselineReason,
    } optional {}
    /// Context sources changed.
    ContextUpdated = names::CONTEXT_UPDATED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        text: String,
    } optional { delta: ContextDelta, description: String, }
    /// Old tool outputs are left out of requests from now on.
    ContextPruned = names::CONTEXT_PRUNED, 1, Extension { items: Vec<PrunedItem>, } optional {}
    /// The engine added text.
    Synthetic = names::SYNTHETIC, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        text: String,
    } optional { description: String, metadata: JsonObject, }
    /// A skill was activated.
    SkillActivated = names::SKILL_ACTIVATED, 1, Extension {
        #[serde(rename = "messageID")] message_id: MessageId,
        skill: String,
        name: String,
        text: String,
    } optional {}
    /// A user's own command began.
    ShellStarted = names::SHELL_STARTED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        command: String,
    } optional { shell: String, }
    /// A user's own command ended.
    ShellEnded = names::SHELL_ENDED, 1, Contract {
        #[serde(rename = "callID")] call_id: CallId,
        output: String,
    } optional { exit: i32, status: String, truncated: bool, }
    /// A step began: one model response.
    StepStarted = names::STEP_STARTED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        agent: AgentId,
        model: ModelRef,
    } optional { snapshot: String, attempt: u32, }
    /// The model's stream of a step ended.
    StepStreamed = names::STEP_STREAMED, 1, Extension {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
    } optional {}
    /// A step ended.
    StepEnded = names::STEP_ENDED, 2, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        finish: Finish,
        cost: f64,
        tokens: Tokens,
    } optional {
        raw_finish: String,
        snapshot: String,
        files: Vec<String>,
        metadata: ProviderMetadata,
    }
    /// A step failed.
    StepFailed = names::STEP_FAILED, 2, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        error: SessionError,
    } optional { cost: f64, tokens: Tokens, snapshot: String, files: Vec<String>, }
    /// A text block began.
    TextStarted = names::TEXT_STARTED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "textID")] text_id: String,
    } optional { ordinal: u32, }
    /// A text block ended; carries the whole text.
    TextEnded = names::TEXT_ENDED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "textID")] text_id: String,
        text: String,
    } optional { ordinal: u32, metadata: ProviderMetadata, }
    /// A reasoning block began.
    ReasoningStarted = names::REASONING_STARTED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "reasoningID")] reasoning_id: String,
    } optional { ordinal: u32, provider_metadata: ProviderMetadata, }
    /// A reasoning block ended; carries the whole text.
    ReasoningEnded = names::REASONING_ENDED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "reasoningID")] reasoning_id: String,
        text: String,
    } optional { ordinal: u32, provider_metadata: ProviderMetadata, }
    /// The arguments of a call began.
    ToolInputStarted = names::TOOL_INPUT_STARTED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        name: String,
    } optional { ordinal: u32, }
    /// The arguments of a call are complete, as raw text.
    ToolInputEnded = names::TOOL_INPUT_ENDED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        text: String,
    } optional {}
    /// A call was made; nothing runs before this is durable.
    ToolCalled = names::TOOL_CALLED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        tool: String,
        input: JsonObject,
        provider: CallProvider,
    } optional { effects: Effects, }
    /// A running call reports.
    ToolProgress = names::TOOL_PROGRESS, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        structured: JsonObject,
        content: Vec<Content>,
    } optional {}
    /// A call succeeded.
    ToolSuccess = names::TOOL_SUCCESS, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        structured: JsonObject,
        content: Vec<Content>,
        provider: CallProvider,
    } optional { output_paths: Vec<String>, result: Value, }
    /// A call failed.
    ToolFailed = names::TOOL_FAILED, 1, Contract {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        error: SessionError,
        provider: CallProvider,
    } optional { result: Value, structured: JsonObject, content: Vec<Content>, verdict: Verdict, }
    /// Another attempt follows.
    Retried = names::RETRIED, 1, Contract { attempt: u32, error: RetryError, } optional {
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        at: Timestamp,
    }
    /// A compaction began.
    CompactionStarted = names::COMPACTION_STARTED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        reason: CompactionReason,
    } optional { recent: String, }
    /// A compaction ended.
    CompactionEnded = names::COMPACTION_ENDED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
        reason: CompactionReason,
        text: String,
        recent: String,
    } optional { model: ModelRef, cost: f64, tokens: Tokens, }
    /// A compaction failed; the old boundary stays.
    CompactionFailed = names::COMPACTION_FAILED, 1, Extension {
        #[serde(rename = "messageID")] message_id: MessageId,
        reason: CompactionReason,
        error: SessionError,
    } optional { cost: f64, tokens: Tokens, }
    /// Usage outside a step.
    UsageRecorded = names::USAGE_RECORDED, 1, Internal { source: UsageSource, cost: f64, tokens: Tokens, } optional {}
    /// A revert was staged.
    RevertStaged = names::REVERT_STAGED, 1, Contract { revert: Revert, } optional {}
    /// A staged revert was taken back.
    RevertCleared = names::REVERT_CLEARED, 1, Contract {} optional {}
    /// A staged revert was made final.
    RevertCommitted = names::REVERT_COMMITTED, 1, Contract {
        #[serde(rename = "messageID")] message_id: MessageId,
    } optional { inclusive: bool, }
}

/// A tool item whose output requests leave out from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrunedItem {
    /// The assistant message.
    #[serde(rename = "assistantMessageID")]
    pub assistant_message_id: MessageId,
    /// The call.
    #[serde(rename = "callID")]
    pub call_id: CallId,
}

/// A file that a staged revert restored; re-exported for the registry's readers.
pub type RevertFile = FileDiff;

/// An event in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// Its id; ids sort in commit order.
    pub id: EventId,
    /// Its position in the session's log, dense from 0.
    pub seq: Seq,
    /// Its position in the contract's sequence, for [`Visibility::Contract`] and [`Visibility::Counted`].
    pub contract_seq: Option<Seq>,
    /// The commit's wall clock.
    pub created: Timestamp,
    /// The location of the publisher.
    pub location: Option<LocationRef>,
    /// Free-form facts.
    pub metadata: Option<JsonObject>,
    /// What happened.
    pub data: EventData,
}

impl StoredEvent {
    /// Returns the session, which is the aggregate.
    pub fn session_id(&self) -> &SessionId {
        self.data.session_id()
    }

    /// Returns the whole envelope, extensions included, with log positions.
    ///
    /// # Errors
    /// Only when a value cannot be JSON.
    pub fn to_log_record(&self) -> Result<LogRecord, serde_json::Error> {
        let def = self.data.def();
        Ok(LogRecord {
            id: self.id.clone(),
            kind: def.name.to_owned(),
            created: self.created,
            durable: DurableMark { aggregate_id: self.session_id().clone(), seq: self.seq, version: def.version },
            contract_seq: self.contract_seq,
            location: self.location.clone(),
            metadata: self.metadata.clone(),
            data: RawValue::from_string(self.data.encode()?)?,
        })
    }
}

/// A position in an aggregate's log, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DurableMark {
    /// The aggregate, which is the session.
    #[serde(rename = "aggregateID")]
    pub aggregate_id: SessionId,
    /// The position.
    pub seq: Seq,
    /// The version of the event type.
    pub version: u32,
}

/// The whole envelope of an event: the form of export bundles, replay and the full log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRecord {
    /// The event.
    pub id: EventId,
    /// The name without version.
    #[serde(rename = "type")]
    pub kind: String,
    /// The commit's wall clock.
    pub created: Timestamp,
    /// The position in the log.
    pub durable: DurableMark,
    /// The position in the contract's sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_seq: Option<Seq>,
    /// The location of the publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<LocationRef>,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The data as stored.
    pub data: Box<RawValue>,
}

impl LogRecord {
    /// Decodes the record.
    ///
    /// # Errors
    /// As [`EventData::decode`].
    pub fn decode(&self) -> Result<StoredEvent, DecodeError> {
        Ok(StoredEvent {
            id: self.id.clone(),
            seq: self.durable.seq,
            contract_seq: self.contract_seq,
            created: self.created,
            location: self.location.clone(),
            metadata: self.metadata.clone(),
            data: EventData::decode(&format!("{}.{}", self.kind, self.durable.version), self.data.get())?,
        })
    }
}
