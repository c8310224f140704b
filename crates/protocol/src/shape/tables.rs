//! Shapes of sessions, messages, requests, agents.

use super::Shape::{List, Object, Tagged};
use super::{Shape, TaggedShape, objects};

objects! {
    TOKENS { "input", "output", "reasoning", "cache" }
    CREATED { "created" }
    SPAN { "created", "completed" }
    SESSION_TIME { "created", "updated", "archived" }
    FILE_DIFF = "FileDiff" { "path", "status", "additions", "deletions", "patch" }
    REVERT_STATE = "RevertState" { "messageID", "snapshot", "diff", "files": List(&Object(&FILE_DIFF)) }
    SESSION_INFO = "SessionV2Info" {
        "id", "parentID", "projectID", "agent", "model", "cost", "tokens": Object(&TOKENS),
        "time": Object(&SESSION_TIME), "title", "location", "subpath", "revert": REVERT,
    }
    ERROR = "SessionErrorUnknown" { "type", "message" }
    PROVIDER { "executed", "metadata", "resultMetadata" }
    CALL_PROVIDER { "executed", "metadata" }
    TOOL_TIME { "created", "ran", "completed", "pruned" }
    TEXT_CONTENT = "ToolTextContent" { "type", "text" }
    FILE_CONTENT = "ToolFileContent" { "type", "uri", "mime", "name" }
    PENDING = "SessionMessageToolStatePending" { "status", "input" }
    RUNNING = "SessionMessageToolStateRunning" { "status", "input", "structured", "content": CONTENT }
    COMPLETED = "SessionMessageToolStateCompleted" {
        "status", "input", "content": CONTENT, "outputPaths", "structured", "result",
    }
    FAILED = "SessionMessageToolStateError" {
        "status", "input", "content": CONTENT, "structured", "error": Object(&ERROR), "result",
    }
    TEXT = "SessionMessageAssistantText" { "type", "id", "text" }
    REASONING = "SessionMessageAssistantReasoning" { "type", "id", "text", "providerMetadata", "time": Object(&SPAN) }
    TOOL = "SessionMessageAssistantTool" {
        "type", "id", "name", "provider": Object(&PROVIDER), "state": Tagged(&TOOL_STATE), "time": Object(&TOOL_TIME),
    }
    SNAPSHOT { "start", "end", "files" }
    USER = "SessionMessageUser" { "id", "metadata", "time": Object(&CREATED), "text", "files", "agents", "type" }
    ASSISTANT = "SessionMessageAssistant" {
        "id", "metadata", "time": Object(&SPAN), "type", "agent", "model", "content": List(&Tagged(&ASSISTANT_CONTENT)),
        "snapshot": Object(&SNAPSHOT), "finish", "cost", "tokens": Object(&TOKENS), "error": Object(&ERROR),
    }
    SYNTHETIC = "SessionMessageSynthetic" { "id", "metadata", "time": Object(&CREATED), "sessionID", "text", "type" }
    SYSTEM = "SessionMessageSystem" { "id", "metadata", "time": Object(&CREATED), "type", "text" }
    SHELL = "SessionMessageShell" { "id", "metadata", "time": Object(&SPAN), "type", "callID", "command", "output" }
    COMPACTION = "SessionMessageCompaction" {
        "type", "reason", "summary", "recent", "id", "metadata", "time": Object(&CREATED),
    }
    AGENT_SWITCHED = "SessionMessageAgentSwitched" { "id", "metadata", "time": Object(&CREATED), "type", "agent" }
    MODEL_SWITCHED = "SessionMessageModelSwitched" { "id", "metadata", "time": Object(&CREATED), "type", "model" }
    INPUT = "SessionInputAdmitted" {
        "admittedSeq", "id", "sessionID", "prompt", "delivery", "timeCreated", "promotedSeq",
    }
    PERMISSION = "PermissionV2Request" {
        "id", "sessionID", "action", "resources", "save", "metadata", "source": Tagged(&SOURCE),
    }
    SOURCE_TOOL { "type", "messageID", "callID" }
    QUESTION_OPTION = "QuestionV2Option" { "label", "description" }
    QUESTION_INFO = "QuestionV2Info" {
        "question", "header", "options": List(&Object(&QUESTION_OPTION)), "multiple", "custom",
    }
    QUESTION_TOOL = "QuestionV2Tool" { "messageID", "callID" }
    QUESTION = "QuestionV2Request" {
        "id", "sessionID", "questions": QUESTIONS, "tool": Object(&QUESTION_TOOL),
    }
    AGENT_INFO = "AgentV2Info" {
        "id", "model", "request", "system", "description", "mode", "hidden", "color", "steps", "permissions",
    }
}

pub(super) static TOOL_STATE: TaggedShape = TaggedShape {
    component: None,
    tag: "status",
    variants: &[("pending", &PENDING), ("running", &RUNNING), ("completed", &COMPLETED), ("error", &FAILED)],
};

pub(super) static ASSISTANT_CONTENT: TaggedShape = TaggedShape {
    component: None,
    tag: "type",
    variants: &[("text", &TEXT), ("reasoning", &REASONING), ("tool", &TOOL)],
};

pub(super) static SOURCE: TaggedShape =
    TaggedShape { component: Some("PermissionV2Source"), tag: "type", variants: &[("tool", &SOURCE_TOOL)] };

static TOOL_CONTENT: TaggedShape = TaggedShape {
    component: Some("LLMToolContent"),
    tag: "type",
    variants: &[("text", &TEXT_CONTENT), ("file", &FILE_CONTENT)],
};

static MESSAGES: TaggedShape = TaggedShape {
    component: Some("SessionMessage"),
    tag: "type",
    variants: &[
        ("agent-switched", &AGENT_SWITCHED),
        ("model-switched", &MODEL_SWITCHED),
        ("user", &USER),
        ("synthetic", &SYNTHETIC),
        ("system", &SYSTEM),
        ("shell", &SHELL),
        ("assistant", &ASSISTANT),
        ("compaction", &COMPACTION),
    ],
};

/// A list of what a tool tells the model.
pub(super) static CONTENT_ITEM: Shape = Tagged(&TOOL_CONTENT);
pub(super) const CONTENT: Shape = List(&CONTENT_ITEM);
pub(super) const QUESTIONS: Shape = List(&Object(&QUESTION_INFO));

/// A session.
pub static SESSION: Shape = Object(&SESSION_INFO);
/// A message.
pub static MESSAGE: Shape = Tagged(&MESSAGES);
/// A staged revert.
pub const REVERT: Shape = Object(&REVERT_STATE);
/// The receipt of a prompt.
pub static ADMITTED: Shape = Object(&INPUT);
/// A permission request.
pub static PERMISSION_REQUEST: Shape = Object(&PERMISSION);
/// A question request.
pub static QUESTION_REQUEST: Shape = Object(&QUESTION);
/// An agent.
pub static AGENT: Shape = Object(&AGENT_INFO);
