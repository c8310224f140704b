//! Shapes of events, by name. An event that has none is no part of the contract.

use abide_schema::event::names;

use super::Shape::{Object, Tagged};
use super::tables::{CALL_PROVIDER, CONTENT, ERROR, QUESTION_TOOL, QUESTIONS, REVERT, SOURCE, TOKENS};
use super::{ObjectShape, objects};

// The first two of each are those of every event; `am` and `call` of the contract's table are spelled out.
objects! {
    PROMPT { "timestamp", "sessionID", "messageID", "prompt", "delivery" }
    AGENT { "timestamp", "sessionID", "messageID", "agent" }
    MODEL { "timestamp", "sessionID", "messageID", "model" }
    MOVED { "timestamp", "sessionID", "location", "subdirectory" }
    TEXT_MESSAGE { "timestamp", "sessionID", "messageID", "text" }
    SHELL_STARTED { "timestamp", "sessionID", "messageID", "callID", "command" }
    SHELL_ENDED { "timestamp", "sessionID", "callID", "output" }
    STEP_STARTED { "timestamp", "sessionID", "assistantMessageID", "agent", "model", "snapshot" }
    STEP_ENDED {
        "timestamp", "sessionID", "assistantMessageID", "finish", "cost", "tokens": Object(&TOKENS), "snapshot", "files",
    }
    STEP_FAILED { "timestamp", "sessionID", "assistantMessageID", "error": Object(&ERROR) }
    TEXT_STARTED { "timestamp", "sessionID", "assistantMessageID", "textID" }
    TEXT_ENDED { "timestamp", "sessionID", "assistantMessageID", "textID", "text" }
    REASONING_STARTED { "timestamp", "sessionID", "assistantMessageID", "reasoningID", "providerMetadata" }
    REASONING_ENDED { "timestamp", "sessionID", "assistantMessageID", "reasoningID", "text", "providerMetadata" }
    INPUT_STARTED { "timestamp", "sessionID", "assistantMessageID", "callID", "name" }
    INPUT_ENDED { "timestamp", "sessionID", "assistantMessageID", "callID", "text" }
    CALLED { "timestamp", "sessionID", "assistantMessageID", "callID", "tool", "input", "provider": Object(&CALL_PROVIDER) }
    PROGRESS { "timestamp", "sessionID", "assistantMessageID", "callID", "structured", "content": CONTENT }
    SUCCESS {
        "timestamp", "sessionID", "assistantMessageID", "callID", "structured", "content": CONTENT, "outputPaths",
        "result", "provider": Object(&CALL_PROVIDER),
    }
    FAILED {
        "timestamp", "sessionID", "assistantMessageID", "callID", "error": Object(&ERROR), "result",
        "provider": Object(&CALL_PROVIDER),
    }
    RETRY_ERROR = "SessionNextRetry_error" {
        "message", "statusCode", "isRetryable", "responseHeaders", "responseBody", "metadata",
    }
    RETRIED { "timestamp", "sessionID", "attempt", "error": Object(&RETRY_ERROR) }
    COMPACTION_STARTED { "timestamp", "sessionID", "messageID", "reason" }
    COMPACTION_ENDED { "timestamp", "sessionID", "messageID", "reason", "text", "recent" }
    STAGED { "timestamp", "sessionID", "revert": REVERT }
    BARE { "timestamp", "sessionID" }
    COMMITTED { "timestamp", "sessionID", "messageID" }
    TEXT_DELTA { "timestamp", "sessionID", "assistantMessageID", "textID", "delta" }
    REASONING_DELTA { "timestamp", "sessionID", "assistantMessageID", "reasoningID", "delta" }
    INPUT_DELTA { "timestamp", "sessionID", "assistantMessageID", "callID", "delta" }
    STATUS { "sessionID", "status" }
    IDLE { "sessionID" }
    PERMISSION_ASKED { "id", "sessionID", "action", "resources", "save", "metadata", "source": Tagged(&SOURCE) }
    PERMISSION_REPLIED { "sessionID", "requestID", "reply" }
    QUESTION_ASKED { "id", "sessionID", "questions": QUESTIONS, "tool": Object(&QUESTION_TOOL) }
    QUESTION_REPLIED { "sessionID", "requestID", "answers" }
    QUESTION_REJECTED { "sessionID", "requestID" }
    TODO { "sessionID", "todos" }
    FILE { "file" }
    EMPTY {}
    INFO { "info" }
    PTY_EXITED { "id", "exitCode" }
    ID { "id" }
    INTEGRATION { "integrationID" }
}

static DURABLE: &[(&str, &ObjectShape)] = &[
    (names::AGENT_SWITCHED, &AGENT),
    (names::MODEL_SWITCHED, &MODEL),
    (names::MOVED, &MOVED),
    (names::PROMPTED, &PROMPT),
    (names::PROMPT_ADMITTED, &PROMPT),
    (names::CONTEXT_UPDATED, &TEXT_MESSAGE),
    (names::SYNTHETIC, &TEXT_MESSAGE),
    (names::SHELL_STARTED, &SHELL_STARTED),
    (names::SHELL_ENDED, &SHELL_ENDED),
    (names::STEP_STARTED, &STEP_STARTED),
    (names::STEP_ENDED, &STEP_ENDED),
    (names::STEP_FAILED, &STEP_FAILED),
    (names::TEXT_STARTED, &TEXT_STARTED),
    (names::TEXT_ENDED, &TEXT_ENDED),
    (names::TOOL_INPUT_STARTED, &INPUT_STARTED),
    (names::TOOL_INPUT_ENDED, &INPUT_ENDED),
    (names::TOOL_CALLED, &CALLED),
    (names::TOOL_PROGRESS, &PROGRESS),
    (names::TOOL_SUCCESS, &SUCCESS),
    (names::TOOL_FAILED, &FAILED),
    (names::REASONING_STARTED, &REASONING_STARTED),
    (names::REASONING_ENDED, &REASONING_ENDED),
    (names::RETRIED, &RETRIED),
    (names::COMPACTION_STARTED, &COMPACTION_STARTED),
    (names::COMPACTION_ENDED, &COMPACTION_ENDED),
    (names::REVERT_STAGED, &STAGED),
    (names::REVERT_CLEARED, &BARE),
    (names::REVERT_COMMITTED, &COMMITTED),
];

static LIVE: &[(&str, &ObjectShape)] = &[
    (names::TEXT_DELTA, &TEXT_DELTA),
    (names::REASONING_DELTA, &REASONING_DELTA),
    (names::TOOL_INPUT_DELTA, &INPUT_DELTA),
    (names::COMPACTION_DELTA, &TEXT_MESSAGE),
    (names::SESSION_STATUS, &STATUS),
    (names::SESSION_IDLE, &IDLE),
    (names::PERMISSION_ASKED, &PERMISSION_ASKED),
    (names::PERMISSION_REPLIED, &PERMISSION_REPLIED),
    (names::QUESTION_ASKED, &QUESTION_ASKED),
    (names::QUESTION_REPLIED, &QUESTION_REPLIED),
    (names::QUESTION_REJECTED, &QUESTION_REJECTED),
    (names::TODO_UPDATED, &TODO),
    (names::FILE_EDITED, &FILE),
    (names::SERVER_CONNECTED, &EMPTY),
    (names::CATALOG_UPDATED, &EMPTY),
    (names::INTEGRATION_UPDATED, &EMPTY),
    (names::INTEGRATION_CONNECTION_UPDATED, &INTEGRATION),
    (names::PTY_CREATED, &INFO),
    (names::PTY_UPDATED, &INFO),
    (names::PTY_EXITED, &PTY_EXITED),
    (names::PTY_DELETED, &ID),
];

fn find(table: &'static [(&'static str, &'static ObjectShape)], name: &str) -> Option<&'static ObjectShape> {
    table.iter().find(|(event, _)| *event == name).map(|(_, shape)| *shape)
}

/// Returns the shape of a durable event's data.
pub fn event_shape(name: &str) -> Option<&'static ObjectShape> {
    find(DURABLE, name)
}

/// Returns the shape of an ephemeral event's data.
pub fn live_shape(name: &str) -> Option<&'static ObjectShape> {
    find(LIVE, name)
}

/// Returns the names of the ephemeral events of the contract, in the order of the document.
pub(crate) fn live_names() -> impl Iterator<Item = &'static str> {
    LIVE.iter().map(|(name, _)| *name)
}
