//! Ephemeral events: live only, without sequence, never stored (spec/session.md section 4.2).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::event::names;
use crate::json::JsonObject;
use crate::location::LocationRef;
use crate::model::Tokens;
use crate::permission::{PermissionRequest, Reply};
use crate::question::{Answer, QuestionRequest};
use crate::todo::Todo;
use crate::{CallId, EventId, MessageId, PermissionId, QuestionId, SessionId, Timestamp};

/// Which stream a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a session does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SessionStatus {
    /// Nothing.
    Idle,
    /// It executes.
    Busy,
    /// It waits for another attempt.
    Retry {
        /// The attempt that follows.
        attempt: u32,
        /// Why.
        message: String,
        /// When, in milliseconds since the epoch.
        next: u64,
    },
}

/// One entry of the registry of ephemeral events.
#[derive(Clone, Copy, Debug)]
pub struct LiveDef {
    /// The name, for example `session.next.text.delta`.
    pub name: &'static str,
    /// Makes the JSON schema of its data.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

macro_rules! live_events {
    ($( $(#[$doc:meta])* $name:ident = $wire:path { $( $(#[$field_meta:meta])* $field:ident: $ty:ty, )* } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            #[allow(missing_docs, reason = "the fields are those of the wire; the event's line says what they mean")]
            pub struct $name { $( $(#[$field_meta])* pub $field: $ty, )* }

            impl From<$name> for LiveData {
                fn from(data: $name) -> Self {
                    Self::$name(data)
                }
            }
        )*

        /// The data of an ephemeral event.
        #[derive(Clone, Debug, PartialEq)]
        pub enum LiveData {
            $( $(#[$doc])* $name($name), )*
            /// An event of another part of the instance (terminals, catalogue), already encoded.
            Other {
                /// The event's name.
                name: &'static str,
                /// Its data.
                data: JsonObject,
            },
        }

        /// Every definition, in the order of the specification.
        pub static LIVE_EVENTS: &[LiveDef] = &[ $( LiveDef { name: $wire, schema: <$name>::json_schema }, )* ];

        impl LiveData {
            /// Decodes the data of an event; `None` when no definition has this name.
            ///
            /// # Errors
            /// When the data does not fit the definition.
            pub fn decode(name: &str, data: serde_json::Value) -> Result<Option<Self>, serde_json::Error> {
                match name {
                    $( $wire => serde_json::from_value(data).map(|data| Some(Self::$name(data))), )*
                    _ => Ok(None),
                }
            }

            /// Returns the event's name.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => $wire, )* Self::Other { name, .. } => name }
            }

            /// Returns the data as a JSON value.
            ///
            /// # Errors
            /// Only when a value cannot be JSON.
            pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
                match self {
                    $( Self::$name(data) => serde_json::to_value(data), )*
                    Self::Other { data, .. } => Ok(serde_json::Value::Object(data.clone())),
                }
            }
        }
    };
}

live_events! {
    /// More text.
    TextDelta = names::TEXT_DELTA {
        timestamp: Timestamp,
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "textID")] text_id: String,
        delta: String,
    }
    /// More reasoning.
    ReasoningDelta = names::REASONING_DELTA {
        timestamp: Timestamp,
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "reasoningID")] reasoning_id: String,
        delta: String,
    }
    /// More raw arguments.
    ToolInputDelta = names::TOOL_INPUT_DELTA {
        timestamp: Timestamp,
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        delta: String,
    }
    /// More output of a running command. Extension.
    ToolOutputDelta = names::TOOL_OUTPUT_DELTA {
        timestamp: Timestamp,
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "assistantMessageID")] assistant_message_id: MessageId,
        #[serde(rename = "callID")] call_id: CallId,
        stream: OutputStream,
        delta: String,
    }
    /// More of a summary.
    CompactionDelta = names::COMPACTION_DELTA {
        timestamp: Timestamp,
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "messageID")] message_id: MessageId,
        text: String,
    }
    /// Session totals after a usage-bearing event. Extension.
    UsageUpdated = names::USAGE_UPDATED {
        timestamp: Timestamp,
        #[serde(rename = "sessionID")] session_id: SessionId,
        cost: f64,
        tokens: Tokens,
    }
    /// What the session does.
    StatusChanged = names::SESSION_STATUS {
        #[serde(rename = "sessionID")] session_id: SessionId,
        status: SessionStatus,
    }
    /// The session became idle.
    BecameIdle = names::SESSION_IDLE { #[serde(rename = "sessionID")] session_id: SessionId, }
    /// A permission is asked for.
    PermissionAsked = names::PERMISSION_ASKED { #[serde(flatten)] request: PermissionRequest, }
    /// A permission request was answered or withdrawn.
    PermissionReplied = names::PERMISSION_REPLIED {
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "requestID")] request_id: PermissionId,
        reply: Reply,
    }
    /// A question is asked.
    QuestionAsked = names::QUESTION_ASKED { #[serde(flatten)] request: QuestionRequest, }
    /// A question was answered.
    QuestionReplied = names::QUESTION_REPLIED {
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "requestID")] request_id: QuestionId,
        answers: Vec<Answer>,
    }
    /// A question was dismissed.
    QuestionRejected = names::QUESTION_REJECTED {
        #[serde(rename = "sessionID")] session_id: SessionId,
        #[serde(rename = "requestID")] request_id: QuestionId,
    }
    /// The list of things to do changed.
    TodoUpdated = names::TODO_UPDATED { #[serde(rename = "sessionID")] session_id: SessionId, todos: Vec<Todo>, }
    /// A tool changed a file.
    FileEdited = names::FILE_EDITED { file: String, }
}

impl LiveData {
    /// Returns the session it belongs to, if any.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::TextDelta(data) => Some(&data.session_id),
            Self::ReasoningDelta(data) => Some(&data.session_id),
            Self::ToolInputDelta(data) => Some(&data.session_id),
            Self::ToolOutputDelta(data) => Some(&data.session_id),
            Self::CompactionDelta(data) => Some(&data.session_id),
            Self::UsageUpdated(data) => Some(&data.session_id),
            Self::StatusChanged(data) => Some(&data.session_id),
            Self::BecameIdle(data) => Some(&data.session_id),
            Self::PermissionAsked(data) => Some(&data.request.session_id),
            Self::PermissionReplied(data) => Some(&data.session_id),
            Self::QuestionAsked(data) => Some(&data.request.session_id),
            Self::QuestionReplied(data) => Some(&data.session_id),
            Self::QuestionRejected(data) => Some(&data.session_id),
            Self::TodoUpdated(data) => Some(&data.session_id),
            Self::FileEdited(_) | Self::Other { .. } => None,
        }
    }

    /// Says whether the HTTP contract knows this event.
    pub const fn in_contract(&self) -> bool {
        !matches!(self, Self::ToolOutputDelta(_) | Self::UsageUpdated(_))
    }
}

/// An ephemeral event with its envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvent {
    /// Its id.
    pub id: EventId,
    /// The publisher's location.
    pub location: Option<LocationRef>,
    /// What happened.
    pub data: LiveData,
}
