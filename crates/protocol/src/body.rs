//! Bodies of requests. Unknown properties are ignored; an absent body means `{}` where nothing is required.

use std::collections::BTreeMap;

use abide_schema::json::JsonObject;
use abide_schema::location::LocationRef;
use abide_schema::model::ModelRef;
use abide_schema::permission::{Reply as PermissionReply, Source};
use abide_schema::prompt::{AgentAttachment, Delivery, PromptSource};
use abide_schema::{AgentId, MessageId, PermissionId, ProjectId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openapi::Components;
use crate::route::{Body, BodyUse};

/// No body.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct NoBody;

impl Body for NoBody {
    const USE: BodyUse = BodyUse::None;
    fn schema(_: &mut Components) -> Value {
        Value::Null
    }
}

macro_rules! bodies {
    ($( $(#[$doc:meta])* $name:ident, $use:ident { $( $(#[$field_meta:meta])* $field:ident: $ty:ty, )* }
        optional { $( $(#[$opt_meta:meta])* $opt:ident: $opt_ty:ty, )* } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
            $( $(#[$opt_meta])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $opt: Option<$opt_ty>, )*
        }

        impl Body for $name {
            const USE: BodyUse = BodyUse::$use;
            fn schema(components: &mut Components) -> Value {
                components.inline::<Self>()
            }
        }
    )* };
}

bodies! {
    /// A new session.
    CreateSession, Optional {} optional {
        /// Its id, when the client makes it; a known one returns that session.
        id: SessionId,
        /// Its agent.
        agent: AgentId,
        /// Its model.
        model: ModelRef,
        /// Where its tools act.
        location: LocationRef,
    }
    /// The agent of the next steps.
    SwitchAgent, Required {
        /// Its name.
        agent: AgentId,
    } optional {}
    /// The model of the next steps.
    SwitchModel, Required {
        /// The model.
        model: ModelRef,
    } optional {}
    /// A prompt.
    SendPrompt, Required {
        /// What the user says.
        prompt: PromptInput,
    } optional {
        /// The id of the message that it becomes; the same one again is the same prompt.
        id: MessageId,
        /// When it joins; `steer` by default.
        delivery: Delivery,
        /// Whether the session runs; true by default.
        resume: bool,
    }
    /// Where a session is reverted to.
    StageRevert, Required {
        /// The boundary.
        #[serde(rename = "messageID")]
        message_id: MessageId,
    } optional {
        /// Whether files go back too; true by default.
        files: bool,
    }
    /// A copy of a session's history. Without a boundary, all of it.
    ForkSession, Optional {} optional {
        /// The new session's id, when the client makes it; a known one returns that session.
        id: SessionId,
        /// What came before this message is copied.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// What the log held at this log position is copied, also what a revert has removed since.
        at: u64,
        /// Its title; made from the source's by default.
        title: String,
    }
    /// Where a session moves.
    MoveSession, Required {
        /// The new place.
        location: LocationRef,
    } optional {
        /// Its project, when it is not the session's own.
        #[serde(rename = "projectID")]
        project_id: ProjectId,
    }
    /// When a pending input joins.
    ChangeDelivery, Required {
        /// The new delivery; `steer` wakes the session.
        delivery: Delivery,
    } optional {}
    /// A permission request made by a client.
    CreatePermission, Required {
        /// The action.
        action: String,
        /// What the action is on.
        resources: Vec<String>,
    } optional {
        /// The request's id, when the client makes it.
        id: PermissionId,
        /// What `always` would save.
        save: Vec<String>,
        /// Facts for the user interface.
        metadata: JsonObject,
        /// The call that asks.
        source: Source,
        /// The agent whose rules decide; the session's by default.
        agent: AgentId,
    }
    /// The user's answer to a permission request.
    ReplyPermission, Required {
        /// The answer.
        reply: PermissionReply,
    } optional {
        /// Words for the model, with `reject`.
        message: String,
    }
    /// A key for an integration.
    ConnectKey, Required {
        /// The key.
        key: String,
    } optional {
        /// What people see.
        label: String,
    }
    /// The begin of an authorization flow.
    ConnectOauth, Required {
        /// The method.
        #[serde(rename = "methodID")]
        method_id: String,
        /// Answers to its prompts.
        inputs: BTreeMap<String, String>,
    } optional {
        /// What people see.
        label: String,
    }
    /// The end of an authorization flow.
    CompleteAttempt, Optional {} optional {
        /// The code that the user got.
        code: String,
    }
    /// A credential's label.
    UpdateCredential, Required {
        /// What people see.
        label: String,
    } optional {}
    /// A new terminal.
    CreatePty, Optional {} optional {
        /// The program; the user's shell by default.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Where it runs; the location by default.
        cwd: String,
        /// What people see.
        title: String,
        /// Variables beyond the server's own.
        env: BTreeMap<String, String>,
    }
    /// What changes of a terminal.
    UpdatePty, Optional {} optional {
        /// What people see.
        title: String,
        /// The size of the screen.
        size: PtySize,
    }
}

/// The answers to the questions of a request, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QuestionV2Reply")]
pub struct ReplyQuestion {
    /// The labels chosen, one list for each question.
    pub answers: Vec<Vec<String>>,
}

impl Body for ReplyQuestion {
    const USE: BodyUse = BodyUse::Required;
    fn schema(components: &mut Components) -> Value {
        components.add::<Self>()
    }
}

/// The size of a terminal's screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PtySize {
    /// Lines.
    pub rows: std::num::NonZeroU16,
    /// Columns.
    pub cols: std::num::NonZeroU16,
}

/// A prompt as a client sends it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptInput {
    /// The text.
    pub text: String,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<PromptInputFileAttachment>>,
    /// Mentioned agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentAttachment>>,
}

impl PromptInput {
    /// Makes a prompt of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), files: None, agents: None }
    }
}

/// An attached file as a client sends it; the server finds its media type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptInputFileAttachment {
    /// A `file:`, `data:` or `http(s):` URI.
    pub uri: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The place in the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PromptSource>,
}
