//! What a crash left open, and how it is settled: one pure plan, appended as one batch (spec/session.md 8.4).

use std::collections::HashMap;

use abide_schema::error::{ErrorCode, SessionError, text};
use abide_schema::event::{
    CompactionFailed, EventData, ReasoningEnded, Recovered, RecoveredTool, ShellEnded, StepFailed, TextEnded,
    ToolFailed, ToolInputEnded, ToolSuccess,
};
use abide_schema::message::{
    AssistantContent, AssistantMessage, CallProvider, CompactionStatus, ItemKind, Message, ToolItem, ToolState,
};
use abide_schema::project::MessageRow;
use abide_schema::tool::{Content, Verdict};
use abide_schema::{CallId, MessageId, SessionId, Timestamp};

use crate::store::{CallKey, Draft, StepAttempt};
use crate::tool::outcome::NormalizedResult;

/// What the journals say about one interrupted call.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// What is known of its effect.
    pub verdict: Verdict,
    /// The result to publish when it is known to have been carried out.
    pub success: Option<NormalizedResult>,
    /// Output so far.
    pub partial: Vec<Content>,
    /// More words for the model, for example the files that diverged.
    pub detail: Option<String>,
}

impl Resolution {
    /// A call of which nothing happened.
    pub const fn not_started() -> Self {
        Self { verdict: Verdict::NotStarted, success: None, partial: Vec::new(), detail: None }
    }

    /// A call of which nothing is known.
    pub const fn unknown() -> Self {
        Self { verdict: Verdict::Unknown, success: None, partial: Vec::new(), detail: None }
    }
}

/// The words for the model about an interrupted call.
pub fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Applied => "It had been carried out completely.",
        Verdict::NotStarted => "It did not run; it is safe to repeat.",
        Verdict::RolledBack => "It was rolled back completely; nothing is changed.",
        Verdict::Diverged => "Some files are neither as before nor as planned; inspect them before going on.",
        Verdict::Finished => "The command had finished.",
        Verdict::Killed => "The command was killed while it ran; what it did until then stays.",
        Verdict::Unknown => "It may have taken effect; inspect before repeating.",
        Verdict::ChildInterrupted => "The child session was interrupted; it can be continued.",
    }
}

/// The plan of a settlement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The events, in order.
    pub events: Vec<EventData>,
    /// The calls whose journal rows are obsolete.
    pub calls: Vec<CallKey>,
}

/// What settling needs to know.
pub struct Settle<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// Messages with open state, in order.
    pub open: &'a [MessageRow],
    /// Drafts of open fragments.
    pub drafts: &'a [Draft],
    /// Model requests in flight.
    pub attempts: &'a [StepAttempt],
    /// What the journals say, by call.
    pub resolutions: &'a HashMap<CallKey, Resolution>,
    /// The attempt number of the recovery.
    pub attempt: u32,
    /// When.
    pub now: Timestamp,
}

/// Lists the local calls of the open messages that were announced and not settled.
pub fn unresolved_calls(session: &SessionId, open: &[MessageRow]) -> Vec<(CallKey, String)> {
    let mut found = Vec::new();
    for row in open {
        let Message::Assistant(assistant) = &row.message else { continue };
        for item in &assistant.content {
            if let AssistantContent::Tool(tool) = item
                && matches!(tool.state, ToolState::Running { .. })
                && !tool.provider.as_ref().is_some_and(|provider| provider.executed)
            {
                let key = CallKey { session: session.clone(), message: assistant.id.clone(), call: tool.id.clone() };
                found.push((key, tool.name.clone()));
            }
        }
    }
    found
}

impl Settle<'_> {
    /// Makes the plan; it is empty when nothing is open.
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        let mut tools = Vec::new();
        let mut steps = Vec::new();
        let mut compactions = Vec::new();
        for row in self.open.iter().rev() {
            if let Message::Compaction(compaction) = &row.message
                && compaction.status == CompactionStatus::Running
            {
                compactions.push(compaction.id.clone());
                plan.events.push(
                    CompactionFailed {
                        timestamp: self.now,
                        session_id: self.session.clone(),
                        message_id: compaction.id.clone(),
                        reason: compaction.reason,
                        error: SessionError::new(ErrorCode::CompactionInterrupted, "Compaction interrupted"),
                        cost: None,
                        tokens: None,
                    }
                    .into(),
                );
            }
        }
        for row in self.open {
            if let Message::Assistant(assistant) = &row.message {
                self.assistant(assistant, &mut plan, &mut tools, &mut steps);
            }
        }
        for row in self.open {
            if let Message::Shell(shell) = &row.message
                && shell.time.completed.is_none()
            {
                let output = self.draft(&shell.id, ItemKind::Tool, shell.call_id.as_str()).unwrap_or_default();
                plan.events.push(
                    ShellEnded {
                        timestamp: self.now,
                        session_id: self.session.clone(),
                        call_id: shell.call_id.clone(),
                        output,
                        exit: None,
                        status: Some("killed".to_owned()),
                        truncated: None,
                    }
                    .into(),
                );
            }
        }
        // A request that was sent and had brought nothing yet leaves no message: it is named here only.
        for attempt in self.attempts {
            let known = self.open.iter().any(|row| row.message.id() == &attempt.message);
            if !known && !steps.contains(&attempt.message) {
                steps.push(attempt.message.clone());
            }
        }
        if !plan.events.is_empty() || !steps.is_empty() {
            plan.events.push(
                Recovered {
                    timestamp: self.now,
                    session_id: self.session.clone(),
                    attempt: self.attempt,
                    tools,
                    steps,
                    compactions,
                    revert: None,
                }
                .into(),
            );
        }
        plan
    }

    fn draft(&self, message: &MessageId, kind: ItemKind, id: &str) -> Option<String> {
        self.drafts
            .iter()
            .find(|draft| draft.message == *message && draft.kind == kind && draft.item_id == id)
            .map(|draft| draft.text.clone())
    }

    fn assistant(
        &self,
        assistant: &AssistantMessage,
        plan: &mut Plan,
        tools: &mut Vec<RecoveredTool>,
        steps: &mut Vec<MessageId>,
    ) {
        let (timestamp, session_id, id) = (self.now, self.session, &assistant.id);
        for item in &assistant.content {
            match item {
                AssistantContent::Text(item) if item.open => plan.events.push(
                    TextEnded {
                        timestamp,
                        session_id: session_id.clone(),
                        assistant_message_id: id.clone(),
                        text_id: item.id.clone(),
                        text: self.draft(id, ItemKind::Text, &item.id).unwrap_or_default(),
                        ordinal: None,
                        metadata: None,
                    }
                    .into(),
                ),
                AssistantContent::Text(_) => {}
                AssistantContent::Reasoning(item) => {
                    if item.time.is_some_and(|time| time.completed.is_none()) {
                        plan.events.push(
                            ReasoningEnded {
                                timestamp,
                                session_id: session_id.clone(),
                                assistant_message_id: id.clone(),
                                reasoning_id: item.id.clone(),
                                text: self.draft(id, ItemKind::Reasoning, &item.id).unwrap_or_default(),
                                ordinal: None,
                                provider_metadata: None,
                            }
                            .into(),
                        );
                    }
                }
                AssistantContent::Tool(item) => self.tool(id, item, plan, tools),
            }
        }
        if assistant.time.completed.is_none() {
            steps.push(id.clone());
            plan.events.push(
                StepFailed {
                    timestamp,
                    session_id: session_id.clone(),
                    assistant_message_id: id.clone(),
                    error: SessionError::new(ErrorCode::Aborted, text::STEP_INTERRUPTED),
                    cost: None,
                    tokens: None,
                    snapshot: None,
                    files: None,
                }
                .into(),
            );
        }
    }

    fn tool(&self, message: &MessageId, item: &ToolItem, plan: &mut Plan, tools: &mut Vec<RecoveredTool>) {
        let hosted = item.provider.as_ref().is_some_and(|provider| provider.executed);
        match &item.state {
            ToolState::Completed { .. } | ToolState::Error { .. } => {}
            ToolState::Pending { input } => {
                if input.is_empty()
                    && let Some(text) = self.draft(message, ItemKind::Tool, item.id.as_str())
                {
                    plan.events.push(
                        ToolInputEnded {
                            timestamp: self.now,
                            session_id: self.session.clone(),
                            assistant_message_id: message.clone(),
                            call_id: item.id.clone(),
                            text,
                        }
                        .into(),
                    );
                }
                tools.push(recovered(message, &item.id, Verdict::NotStarted));
                plan.events.push(self.failed(
                    message,
                    &item.id,
                    CallProvider { executed: hosted, metadata: None },
                    &Resolution::not_started(),
                ));
            }
            ToolState::Running { .. } if hosted => {
                tools.push(recovered(message, &item.id, Verdict::Unknown));
                plan.events.push(self.failed(
                    message,
                    &item.id,
                    CallProvider { executed: true, metadata: None },
                    &Resolution::unknown(),
                ));
            }
            ToolState::Running { .. } => {
                let key = CallKey { session: self.session.clone(), message: message.clone(), call: item.id.clone() };
                let unknown = Resolution::unknown();
                let resolution = self.resolutions.get(&key).unwrap_or(&unknown);
                tools.push(recovered(message, &item.id, resolution.verdict));
                plan.events.push(match &resolution.success {
                    Some(result) => ToolSuccess {
                        timestamp: self.now,
                        session_id: self.session.clone(),
                        assistant_message_id: message.clone(),
                        call_id: item.id.clone(),
                        structured: result.structured.clone(),
                        content: result.content.clone(),
                        provider: CallProvider::default(),
                        output_paths: Some(result.output_paths.clone()),
                        result: None,
                    }
                    .into(),
                    None => self.failed(message, &item.id, CallProvider::default(), resolution),
                });
                plan.calls.push(key);
            }
        }
    }

    fn failed(&self, message: &MessageId, call: &CallId, provider: CallProvider, resolution: &Resolution) -> EventData {
        let mut words = format!("{}. {}", text::TOOL_INTERRUPTED, verdict_text(resolution.verdict));
        if let Some(detail) = &resolution.detail {
            words.push('\n');
            words.push_str(detail);
        }
        ToolFailed {
            timestamp: self.now,
            session_id: self.session.clone(),
            assistant_message_id: message.clone(),
            call_id: call.clone(),
            error: SessionError::new(ErrorCode::ToolInterrupted, words),
            provider,
            result: None,
            structured: None,
            content: (!resolution.partial.is_empty()).then(|| resolution.partial.clone()),
            verdict: Some(resolution.verdict),
        }
        .into()
    }
}

fn recovered(message: &MessageId, call: &CallId, verdict: Verdict) -> RecoveredTool {
    RecoveredTool { assistant_message_id: message.clone(), call_id: call.clone(), verdict }
}

#[cfg(test)]
mod tests {
    use abide_schema::project::Position;
    use abide_schema::{Seq, Timestamp};

    use super::*;

    fn row(seq: u64, message: serde_json::Value) -> MessageRow {
        MessageRow {
            session_id: SessionId::from_trusted("ses_a"),
            position: Position { seq: Seq(seq), sub: 0 },
            message: serde_json::from_value(message).unwrap(),
        }
    }

    #[track_caller]
    fn check(open: &[MessageRow], drafts: &[Draft], expected: &[&str]) {
        let session = SessionId::from_trusted("ses_a");
        let settle = Settle {
            session: &session,
            open,
            drafts,
            attempts: &[],
            resolutions: &HashMap::new(),
            attempt: 1,
            now: Timestamp(9),
        };
        let names: Vec<&str> =
            settle.plan().events.iter().map(|data| data.def().name.trim_start_matches("session.next.")).collect();
        assert_eq!(names, expected);
    }

    fn draft(message: &str, kind: ItemKind, item: &str, text: &str) -> Draft {
        Draft {
            session: SessionId::from_trusted("ses_a"),
            message: MessageId::from_trusted(message),
            kind,
            item_id: item.to_owned(),
            text: text.to_owned(),
            updated: Timestamp(1),
        }
    }

    #[test]
    fn nothing_open_needs_no_event() {
        check(&[], &[], &[]);
    }

    #[test]
    fn c06_a_step_without_content_is_failed() {
        let step = row(
            4,
            serde_json::json!({
                "type": "assistant", "id": "msg_a", "time": { "created": 1 }, "agent": "build",
                "model": { "id": "m", "providerID": "p" }, "content": [],
            }),
        );
        check(&[step], &[], &["step.failed", "recovered"]);
    }

    #[test]
    fn c24_a_users_command_that_ran_ends_as_killed_with_its_output() {
        let shell = row(
            3,
            serde_json::json!({
                "type": "shell", "id": "msg_s", "time": { "created": 1 }, "callID": "c", "command": "make", "output": "",
            }),
        );
        let drafts = [draft("msg_s", ItemKind::Tool, "c", "half of it")];
        check(std::slice::from_ref(&shell), &drafts, &["shell.ended", "recovered"]);
        let session = SessionId::from_trusted("ses_a");
        let settle = Settle {
            session: &session,
            open: &[shell],
            drafts: &drafts,
            attempts: &[],
            resolutions: &HashMap::new(),
            attempt: 1,
            now: Timestamp(9),
        };
        let plan = settle.plan();
        let Some(EventData::ShellEnded(ended)) = plan.events.first() else { panic!("{plan:?}") };
        assert_eq!((ended.output.as_str(), ended.status.as_deref()), ("half of it", Some("killed")));
    }

    #[test]
    fn items_are_settled_in_the_order_of_the_spec() {
        // Compactions newest first, then messages in order with text, reasoning and calls as they stand, shells last.
        let compaction = |seq: u64| {
            row(
                seq,
                serde_json::json!({
                    "type": "compaction", "id": format!("msg_k{seq}"), "time": { "created": 1 }, "reason": "auto",
                    "status": "running", "summary": "", "recent": "",
                }),
            )
        };
        let assistant = row(
            5,
            serde_json::json!({
                "type": "assistant", "id": "msg_a", "time": { "created": 1 }, "agent": "build",
                "model": { "id": "m", "providerID": "p" },
                "content": [
                    { "type": "reasoning", "id": "r", "text": "", "time": { "created": 1 } },
                    { "type": "tool", "id": "p", "name": "work", "time": { "created": 1 },
                      "state": { "status": "pending", "input": "" } },
                    { "type": "tool", "id": "q", "name": "work", "time": { "created": 1 },
                      "state": { "status": "running", "input": {}, "structured": {}, "content": [] } },
                    { "type": "tool", "id": "d", "name": "work", "time": { "created": 1, "completed": 2 },
                      "state": { "status": "completed", "input": {}, "structured": {}, "content": [] } },
                ],
            }),
        );
        let open = [compaction(1), compaction(2), assistant];
        let drafts = [draft("msg_a", ItemKind::Tool, "p", "{\"x\"")];
        check(
            &open,
            &drafts,
            &[
                "compaction.failed",
                "compaction.failed",
                "reasoning.ended",
                "tool.input.ended",
                "tool.failed",
                "tool.failed",
                "step.failed",
                "recovered",
            ],
        );
    }
}
