//! Every event name, in one place: a rename is a change of this file.

/// `session.created`
pub const SESSION_CREATED: &str = "session.created";
/// `session.deleted`
pub const SESSION_DELETED: &str = "session.deleted";
/// `session.next.renamed`
pub const RENAMED: &str = "session.next.renamed";
/// `session.next.updated`
pub const UPDATED: &str = "session.next.updated";
/// `session.next.viewed`
pub const VIEWED: &str = "session.next.viewed";
/// `session.next.moved`
pub const MOVED: &str = "session.next.moved";
/// `session.next.forked`
pub const FORKED: &str = "session.next.forked";
/// `session.next.history.imported`
pub const HISTORY_IMPORTED: &str = "session.next.history.imported";
/// `session.next.agent.switched`
pub const AGENT_SWITCHED: &str = "session.next.agent.switched";
/// `session.next.model.switched`
pub const MODEL_SWITCHED: &str = "session.next.model.switched";
/// `session.next.prompt.admitted`
pub const PROMPT_ADMITTED: &str = "session.next.prompt.admitted";
/// `session.next.prompted`
pub const PROMPTED: &str = "session.next.prompted";
/// `session.next.inbox.enqueued`
pub const INBOX_ENQUEUED: &str = "session.next.inbox.enqueued";
/// `session.next.inbox.delivered`
pub const INBOX_DELIVERED: &str = "session.next.inbox.delivered";
/// `session.next.inbox.cancelled`
pub const INBOX_CANCELLED: &str = "session.next.inbox.cancelled";
/// `session.next.inbox.delivery.changed`
pub const INBOX_DELIVERY_CHANGED: &str = "session.next.inbox.delivery.changed";
/// `session.next.execution.started`
pub const EXECUTION_STARTED: &str = "session.next.execution.started";
/// `session.next.execution.succeeded`
pub const EXECUTION_SUCCEEDED: &str = "session.next.execution.succeeded";
/// `session.next.execution.failed`
pub const EXECUTION_FAILED: &str = "session.next.execution.failed";
/// `session.next.execution.interrupted`
pub const EXECUTION_INTERRUPTED: &str = "session.next.execution.interrupted";
/// `session.next.recovered`
pub const RECOVERED: &str = "session.next.recovered";
/// `session.next.context.baselined`
pub const CONTEXT_BASELINED: &str = "session.next.context.baselined";
/// `session.next.context.updated`
pub const CONTEXT_UPDATED: &str = "session.next.context.updated";
/// `session.next.context.pruned`
pub const CONTEXT_PRUNED: &str = "session.next.context.pruned";
/// `session.next.synthetic`
pub const SYNTHETIC: &str = "session.next.synthetic";
/// `session.next.skill.activated`
pub const SKILL_ACTIVATED: &str = "session.next.skill.activated";
/// `session.next.shell.started`
pub const SHELL_STARTED: &str = "session.next.shell.started";
/// `session.next.shell.ended`
pub const SHELL_ENDED: &str = "session.next.shell.ended";
/// `session.next.step.started`
pub const STEP_STARTED: &str = "session.next.step.started";
/// `session.next.step.streamed`
pub const STEP_STREAMED: &str = "session.next.step.streamed";
/// `session.next.step.ended`
pub const STEP_ENDED: &str = "session.next.step.ended";
/// `session.next.step.failed`
pub const STEP_FAILED: &str = "session.next.step.failed";
/// `session.next.text.started`
pub const TEXT_STARTED: &str = "session.next.text.started";
/// `session.next.text.ended`
pub const TEXT_ENDED: &str = "session.next.text.ended";
/// `session.next.reasoning.started`
pub const REASONING_STARTED: &str = "session.next.reasoning.started";
/// `session.next.reasoning.ended`
pub const REASONING_ENDED: &str = "session.next.reasoning.ended";
/// `session.next.tool.input.started`
pub const TOOL_INPUT_STARTED: &str = "session.next.tool.input.started";
/// `session.next.tool.input.ended`
pub const TOOL_INPUT_ENDED: &str = "session.next.tool.input.ended";
/// `session.next.tool.called`
pub const TOOL_CALLED: &str = "session.next.tool.called";
/// `session.next.tool.progress`
pub const TOOL_PROGRESS: &str = "session.next.tool.progress";
/// `session.next.tool.success`
pub const TOOL_SUCCESS: &str = "session.next.tool.success";
/// `session.next.tool.failed`
pub const TOOL_FAILED: &str = "session.next.tool.failed";
/// `session.next.retried`
pub const RETRIED: &str = "session.next.retried";
/// `session.next.compaction.started`
pub const COMPACTION_STARTED: &str = "session.next.compaction.started";
/// `session.next.compaction.ended`
pub const COMPACTION_ENDED: &str = "session.next.compaction.ended";
/// `session.next.compaction.failed`
pub const COMPACTION_FAILED: &str = "session.next.compaction.failed";
/// `session.next.usage.recorded`
pub const USAGE_RECORDED: &str = "session.next.usage.recorded";
/// `session.next.revert.staged`
pub const REVERT_STAGED: &str = "session.next.revert.staged";
/// `session.next.revert.cleared`
pub const REVERT_CLEARED: &str = "session.next.revert.cleared";
/// `session.next.revert.committed`
pub const REVERT_COMMITTED: &str = "session.next.revert.committed";
/// `session.next.text.delta`
pub const TEXT_DELTA: &str = "session.next.text.delta";
/// `session.next.reasoning.delta`
pub const REASONING_DELTA: &str = "session.next.reasoning.delta";
/// `session.next.tool.input.delta`
pub const TOOL_INPUT_DELTA: &str = "session.next.tool.input.delta";
/// `session.next.tool.output.delta`
pub const TOOL_OUTPUT_DELTA: &str = "session.next.tool.output.delta";
/// `session.next.compaction.delta`
pub const COMPACTION_DELTA: &str = "session.next.compaction.delta";
/// `session.next.usage.updated`
pub const USAGE_UPDATED: &str = "session.next.usage.updated";
/// `session.status`
pub const SESSION_STATUS: &str = "session.status";
/// `session.idle`
pub const SESSION_IDLE: &str = "session.idle";
/// `permission.v2.asked`
pub const PERMISSION_ASKED: &str = "permission.v2.asked";
/// `permission.v2.replied`
pub const PERMISSION_REPLIED: &str = "permission.v2.replied";
/// `question.v2.asked`
pub const QUESTION_ASKED: &str = "question.v2.asked";
/// `question.v2.replied`
pub const QUESTION_REPLIED: &str = "question.v2.replied";
/// `question.v2.rejected`
pub const QUESTION_REJECTED: &str = "question.v2.rejected";
/// `todo.updated`
pub const TODO_UPDATED: &str = "todo.updated";
/// `file.edited`
pub const FILE_EDITED: &str = "file.edited";
/// `server.connected`
pub const SERVER_CONNECTED: &str = "server.connected";
/// `catalog.updated`
pub const CATALOG_UPDATED: &str = "catalog.updated";
/// `integration.updated`
pub const INTEGRATION_UPDATED: &str = "integration.updated";
/// `integration.connection.updated`
pub const INTEGRATION_CONNECTION_UPDATED: &str = "integration.connection.updated";
/// `pty.created`
pub const PTY_CREATED: &str = "pty.created";
/// `pty.updated`
pub const PTY_UPDATED: &str = "pty.updated";
/// `pty.exited`
pub const PTY_EXITED: &str = "pty.exited";
/// `pty.deleted`
pub const PTY_DELETED: &str = "pty.deleted";
