//! Messages: the projected transcript (spec/session.md section 5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{RetryError, SessionError};
use crate::event::CompactionReason;
use crate::json::JsonObject;
use crate::location::LocationRef;
use crate::model::{ModelRef, ProviderMetadata, Tokens};
use crate::prompt::{AgentAttachment, FileAttachment};
use crate::session::Outcome;
use crate::tool::{Content, Verdict};
use crate::{AgentId, CallId, MessageId, ProjectId, SessionId, Timestamp};

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// The model was done.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model wants tools.
    ToolCalls,
    /// The provider's content filter stopped it.
    ContentFilter,
    /// It failed.
    Error,
    /// The provider did not say.
    Unknown,
}

/// A message of the transcript.
#[expect(clippy::large_enum_variant, reason = "most messages are assistant messages: boxing them would cost more")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Message {
    /// The user's words.
    User(UserMessage),
    /// One step of the model.
    Assistant(AssistantMessage),
    /// Text that the engine added.
    Synthetic(SyntheticMessage),
    /// A chronological system update.
    System(SystemMessage),
    /// A user's own command.
    Shell(ShellMessage),
    /// A checkpoint.
    Compaction(CompactionMessage),
    /// The agent changed.
    AgentSwitched(AgentSwitchedMessage),
    /// The model changed.
    ModelSwitched(ModelSwitchedMessage),
    /// A skill was activated. Extension.
    Skill(SkillMessage),
    /// The session moved. Extension.
    LocationSwitched(LocationSwitchedMessage),
    /// The session became idle. Extension.
    Idle(IdleMessage),
}

macro_rules! message_access {
    ($($variant:ident),* $(,)?) => {
        impl Message {
            /// Returns the message's id.
            pub fn id(&self) -> &MessageId {
                match self { $( Self::$variant(message) => &message.id, )* }
            }

            /// Returns when it was made.
            pub fn created(&self) -> Timestamp {
                match self { $( Self::$variant(message) => message.time.created, )* }
            }

            /// Returns its free-form facts.
            pub fn metadata(&self) -> Option<&JsonObject> {
                match self { $( Self::$variant(message) => message.metadata.as_ref(), )* }
            }

            /// Changes the message's id, for copies.
            pub fn set_id(&mut self, id: MessageId) {
                match self { $( Self::$variant(message) => message.id = id, )* }
            }
        }
    };
}
message_access!(
    User,
    Assistant,
    Synthetic,
    System,
    Shell,
    Compaction,
    AgentSwitched,
    ModelSwitched,
    Skill,
    LocationSwitched,
    Idle
);

impl Message {
    /// Returns the `type` word of the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::Synthetic(_) => "synthetic",
            Self::System(_) => "system",
            Self::Shell(_) => "shell",
            Self::Compaction(_) => "compaction",
            Self::AgentSwitched(_) => "agent-switched",
            Self::ModelSwitched(_) => "model-switched",
            Self::Skill(_) => "skill",
            Self::LocationSwitched(_) => "location-switched",
            Self::Idle(_) => "idle",
        }
    }

    /// Returns the assistant message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        if let Self::Assistant(message) = self { Some(message) } else { None }
    }
}

/// When a message was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedTime {
    /// Creation.
    pub created: Timestamp,
}

/// When a message was made and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpanTime {
    /// Creation.
    pub created: Timestamp,
    /// End of the model's stream. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streamed: Option<Timestamp>,
    /// Completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
}

impl SpanTime {
    /// Begins a span.
    pub const fn starting(created: Timestamp) -> Self {
        Self { created, streamed: None, completed: None }
    }
}

/// The user's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The text.
    pub text: String,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileAttachment>>,
    /// Mentioned agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentAttachment>>,
}

/// Snapshots around a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepSnapshot {
    /// Before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// After.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Files changed between, relative to the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
}

/// A scheduled attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryState {
    /// Its number.
    pub attempt: u32,
    /// When it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Why.
    pub error: RetryError,
}

/// One step of the model: what it said, what it called, how that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: SpanTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The agent that was sampled.
    pub agent: AgentId,
    /// The model that was sampled.
    pub model: ModelRef,
    /// What it said and called, in order of begin.
    pub content: Vec<AssistantContent>,
    /// Snapshots around the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<StepSnapshot>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// The provider's own word. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_finish: Option<String>,
    /// What it cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SessionError>,
    /// A scheduled attempt. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryState>,
}

/// One element of an assistant message.
#[expect(clippy::large_enum_variant, reason = "most elements are tool calls: boxing them would cost more")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AssistantContent {
    /// Text.
    Text(TextItem),
    /// Reasoning.
    Reasoning(ReasoningItem),
    /// A tool call.
    Tool(ToolItem),
}

/// The kind of a content item, with which its id is unique in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemKind {
    /// Text.
    Text,
    /// Reasoning.
    Reasoning,
    /// A tool call.
    Tool,
}

impl ItemKind {
    /// Returns the word of the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
            Self::Tool => "tool",
        }
    }
}

impl AssistantContent {
    /// Returns the kind.
    pub const fn kind(&self) -> ItemKind {
        match self {
            Self::Text(_) => ItemKind::Text,
            Self::Reasoning(_) => ItemKind::Reasoning,
            Self::Tool(_) => ItemKind::Tool,
        }
    }

    /// Returns the id within the message.
    pub fn id(&self) -> &str {
        match self {
            Self::Text(item) => &item.id,
            Self::Reasoning(item) => &item.id,
            Self::Tool(item) => item.id.as_str(),
        }
    }
}

/// Text that the model wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextItem {
    /// The block within the step.
    pub id: String,
    /// The text.
    pub text: String,
    /// What the provider wants back. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ProviderMetadata>,
    /// Whether the block has ended; stored, not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// Reasoning of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningItem {
    /// The block within the step.
    pub id: String,
    /// The text.
    pub text: String,
    /// What the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_metadata: Option<ProviderMetadata>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<ReasoningTime>,
}

/// When a reasoning block began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReasoningTime {
    /// Begin.
    pub created: Timestamp,
    /// End.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolItem {
    /// The call.
    pub id: CallId,
    /// The tool's name as the model used it.
    pub name: String,
    /// Who runs it, and what the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ToolProvider>,
    /// Where it stands.
    pub state: ToolState,
    /// When.
    pub time: ToolTime,
}

/// Who runs a call, and what the provider wants back, as a message stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolProvider {
    /// Whether the provider runs it itself.
    pub executed: bool,
    /// What came with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ProviderMetadata>,
    /// What came with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_metadata: Option<ProviderMetadata>,
}

/// Who runs a call, and what the provider wants back, as an event says it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallProvider {
    /// Whether the provider runs it itself.
    pub executed: bool,
    /// What the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ProviderMetadata>,
}

/// When things happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolTime {
    /// The arguments began.
    pub created: Timestamp,
    /// It began to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Timestamp>,
    /// It was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
    /// Its output was pruned from requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Timestamp>,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// Its arguments arrive.
    Pending {
        /// The raw text so far.
        input: String,
    },
    /// It runs.
    Running {
        /// The arguments.
        input: JsonObject,
        /// Facts so far.
        structured: JsonObject,
        /// Content so far.
        content: Vec<Content>,
    },
    /// It succeeded.
    Completed {
        /// The arguments.
        input: JsonObject,
        /// Facts.
        structured: JsonObject,
        /// What the model is told.
        content: Vec<Content>,
        /// Files with the complete output.
        #[serde(rename = "outputPaths", default, skip_serializing_if = "Option::is_none")]
        output_paths: Option<Vec<String>>,
        /// The native result of a hosted call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// It failed.
    Error {
        /// The arguments; `{}` when they never arrived.
        input: JsonObject,
        /// Facts.
        structured: JsonObject,
        /// Content so far.
        content: Vec<Content>,
        /// Why.
        error: SessionError,
        /// The native result of a hosted call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// What is known of its effect after a crash. Extension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<Verdict>,
    },
}

impl ToolState {
    /// Says whether the call is settled.
    pub const fn is_settled(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Running { .. } => false,
            Self::Completed { .. } | Self::Error { .. } => true,
        }
    }
}

/// Text that the engine added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyntheticMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The text.
    pub text: String,
    /// What it is, for people. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A chronological system update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The text, replayed word for word.
    pub text: String,
    /// What it is, for people. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A user's own command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: SpanTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The call.
    #[serde(rename = "callID")]
    pub call_id: CallId,
    /// The command.
    pub command: String,
    /// Its output.
    pub output: String,
    /// Its exit status. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// How it ended. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// Where a compaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompactionStatus {
    /// The summary is being made.
    Running,
    /// The checkpoint is in force.
    Completed,
    /// The old boundary stays.
    Failed,
}

/// A checkpoint: a summary of what came before, and the recent tail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// Why it was made.
    pub reason: CompactionReason,
    /// The summary.
    pub summary: String,
    /// The serialized recent tail.
    pub recent: String,
    /// Where it stands. Extension.
    pub status: CompactionStatus,
    /// Why it failed. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SessionError>,
    /// What it cost. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What it used. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// The agent changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSwitchedMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The new agent.
    pub agent: AgentId,
    /// The one before. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<AgentId>,
}

/// The model changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSwitchedMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The new model.
    pub model: ModelRef,
    /// The one before. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<ModelRef>,
}

/// A skill was activated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkillMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The skill.
    pub skill: String,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The session moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LocationSwitchedMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// The new place.
    pub location: LocationRef,
    /// Its project.
    #[serde(rename = "projectID", default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The place below the project's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subpath: Option<String>,
    /// The place before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<LocationRef>,
}

/// The session became idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleMessage {
    /// The message.
    pub id: MessageId,
    /// When.
    pub time: CreatedTime,
    /// Free-form facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// How the execution ended.
    pub outcome: Outcome,
}

/// How a file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// It is new.
    Added,
    /// Its content changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Its path.
    pub path: String,
    /// How it changed.
    pub status: FileStatus,
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// A unified diff.
    pub patch: String,
}

/// What a staged revert brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RevertCoverage {
    /// Everything that changed in the directory.
    Full,
    /// What the tools edited; what commands changed stays.
    EditsOnly,
}

/// A staged revert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revert {
    /// The boundary.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// Whether the boundary message goes too; absent means true. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusive: Option<bool>,
    /// The state before staging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// A unified diff from the state before staging to the restored one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileDiff>>,
    /// What was brought back; absent when files were left alone. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<RevertCoverage>,
    /// Files that could not be brought back, with the reason. Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Vec<String>>,
}
