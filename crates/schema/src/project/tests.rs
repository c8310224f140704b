use super::*;
use crate::error::{ErrorCode, SessionError};
use crate::event::{
    EventData, ExecutionSucceeded, PromptAdmitted, Prompted, RevertCommitted, SessionCreated, StepStarted, StoredEvent,
    TextEnded, TextStarted, ToolCalled, ToolFailed, ToolInputStarted, ToolSuccess,
};
use crate::location::LocationRef;
use crate::message::{AssistantContent, CallProvider, ToolState};
use crate::model::ModelRef;
use crate::prompt::{Delivery, Prompt};
use crate::{EventId, Seq, SessionId, Timestamp};

struct Log {
    session: SessionId,
    rows: MemoryRows,
    next: u64,
}

impl Log {
    fn new() -> Self {
        let session = SessionId::from_trusted("ses_one");
        let mut log = Self { session: session.clone(), rows: MemoryRows::default(), next: 0 };
        log.ok(SessionCreated {
            timestamp: Timestamp(1),
            session_id: session,
            project_id: "global".into(),
            location: LocationRef::new("/w"),
            slug: "one".to_owned(),
            title: "t".to_owned(),
            version: "0".to_owned(),
            subpath: None,
            parent_id: None,
            agent: None,
            model: None,
            metadata: None,
            permissions: None,
        });
        log
    }

    fn push(&mut self, data: impl Into<EventData>) -> Result<(), ProjectError<std::convert::Infallible>> {
        let event = StoredEvent {
            id: EventId::from_trusted(format!("evt_{:06}", self.next)),
            seq: Seq(self.next),
            contract_seq: None,
            created: Timestamp(i64::try_from(self.next).unwrap()),
            location: None,
            metadata: None,
            data: data.into(),
        };
        apply(&mut self.rows, &event)?;
        self.next += 1;
        Ok(())
    }

    fn ok(&mut self, data: impl Into<EventData>) {
        self.push(data).unwrap();
    }

    fn admit(&mut self, id: &str) {
        self.ok(PromptAdmitted {
            timestamp: Timestamp(5),
            session_id: self.session.clone(),
            message_id: MessageId::from_trusted(id),
            prompt: Prompt::text("hi"),
            delivery: Delivery::Steer,
            metadata: None,
        });
    }

    fn promote(&mut self, id: &str) -> Result<(), ProjectError<std::convert::Infallible>> {
        self.push(Prompted {
            timestamp: Timestamp(5),
            session_id: self.session.clone(),
            message_id: MessageId::from_trusted(id),
            prompt: Prompt::text("hi"),
            delivery: Delivery::Steer,
            metadata: None,
        })
    }

    fn step(&mut self, id: &str) {
        self.ok(StepStarted {
            timestamp: Timestamp(6),
            session_id: self.session.clone(),
            assistant_message_id: MessageId::from_trusted(id),
            agent: "build".into(),
            model: ModelRef::parse("mock/m").unwrap(),
            snapshot: None,
            attempt: None,
        });
    }

    fn call(&mut self, message: &str, call: &str) {
        self.ok(ToolInputStarted {
            timestamp: Timestamp(7),
            session_id: self.session.clone(),
            assistant_message_id: MessageId::from_trusted(message),
            call_id: call.into(),
            name: "read".to_owned(),
            ordinal: None,
        });
        self.ok(ToolCalled {
            timestamp: Timestamp(8),
            session_id: self.session.clone(),
            assistant_message_id: MessageId::from_trusted(message),
            call_id: call.into(),
            tool: "read".to_owned(),
            input: serde_json::Map::new(),
            provider: CallProvider::default(),
            effects: None,
        });
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.rows.messages(&self.session).map(|row| row.message.kind()).collect()
    }

    fn tool_status(&self, message: &str) -> Vec<bool> {
        let row = self.rows.get_message(&MessageId::from_trusted(message)).unwrap();
        row.message
            .as_assistant()
            .unwrap()
            .content
            .iter()
            .map(|item| match item {
                AssistantContent::Tool(tool) => matches!(tool.state, ToolState::Completed { .. }),
                AssistantContent::Text(_) | AssistantContent::Reasoning(_) => false,
            })
            .collect()
    }
}

#[test]
fn an_input_is_promoted_once_and_becomes_one_message() {
    let mut log = Log::new();
    log.admit("msg_a");
    assert_eq!(log.kinds(), Vec::<&str>::new());
    log.promote("msg_a").unwrap();
    assert!(matches!(log.promote("msg_a"), Err(ProjectError::InputLifecycleConflict { .. })));
    assert_eq!(log.kinds(), ["user"]);
    assert!(!log.rows.get_input(&MessageId::from_trusted("msg_a")).unwrap().is_pending());
}

#[test]
fn a_second_terminal_of_a_call_changes_nothing() {
    let mut log = Log::new();
    log.step("msg_s");
    log.call("msg_s", "c1");
    let success = ToolSuccess {
        timestamp: Timestamp(9),
        session_id: log.session.clone(),
        assistant_message_id: MessageId::from_trusted("msg_s"),
        call_id: "c1".into(),
        structured: serde_json::Map::new(),
        content: Vec::new(),
        provider: CallProvider::default(),
        output_paths: None,
        result: None,
    };
    log.ok(success);
    let before = log.rows.clone();
    log.ok(ToolFailed {
        timestamp: Timestamp(10),
        session_id: log.session.clone(),
        assistant_message_id: MessageId::from_trusted("msg_s"),
        call_id: "c1".into(),
        error: SessionError::new(ErrorCode::ToolInterrupted, "x"),
        provider: CallProvider::default(),
        result: None,
        structured: None,
        content: None,
        verdict: None,
    });
    assert_eq!(log.rows, before);
    assert_eq!(log.tool_status("msg_s"), [true]);
}

#[test]
fn events_for_unknown_items_are_no_errors() {
    let mut log = Log::new();
    log.step("msg_s");
    let before = log.rows.clone();
    for message in ["msg_s", "msg_other"] {
        log.ok(TextEnded {
            timestamp: Timestamp(9),
            session_id: log.session.clone(),
            assistant_message_id: MessageId::from_trusted(message),
            text_id: "none".to_owned(),
            text: "x".to_owned(),
            ordinal: None,
            metadata: None,
        });
    }
    log.ok(TextStarted {
        timestamp: Timestamp(9),
        session_id: log.session.clone(),
        assistant_message_id: MessageId::from_trusted("msg_other"),
        text_id: "t".to_owned(),
        ordinal: None,
    });
    assert_eq!(log.rows, before);
}

#[test]
fn a_newer_step_completes_an_older_one() {
    let mut log = Log::new();
    log.step("msg_s");
    log.step("msg_t");
    let time = |id: &str| {
        let row = log.rows.get_message(&MessageId::from_trusted(id)).unwrap();
        row.message.as_assistant().unwrap().time.completed
    };
    assert_eq!((time("msg_s"), time("msg_t")), (Some(Timestamp(6)), None));
}

#[test]
fn a_committed_revert_removes_the_boundary_and_what_follows() {
    let mut log = Log::new();
    log.admit("msg_a");
    log.promote("msg_a").unwrap();
    log.step("msg_s");
    log.admit("msg_b");
    log.promote("msg_b").unwrap();
    log.step("msg_t");
    log.ok(ExecutionSucceeded { timestamp: Timestamp(20), session_id: log.session.clone() });
    assert_eq!(log.kinds(), ["user", "assistant", "user", "assistant", "idle"]);
    log.ok(RevertCommitted {
        timestamp: Timestamp(21),
        session_id: log.session.clone(),
        message_id: MessageId::from_trusted("msg_b"),
        inclusive: None,
    });
    assert_eq!(log.kinds(), ["user", "assistant"]);
    assert!(log.rows.get_input(&MessageId::from_trusted("msg_b")).is_none());
    assert!(log.rows.get_input(&MessageId::from_trusted("msg_a")).is_some());
}
