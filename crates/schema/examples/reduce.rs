//! Reduces a small log to the state of its session and prints the transcript.
//!
//! ```sh
//! cargo run -p abide-schema --example reduce
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its output")]

use std::error::Error;

use abide_schema::event::{EventData, StoredEvent};
use abide_schema::message::{AssistantContent, Message};
use abide_schema::project::{MemoryRows, apply};
use abide_schema::{EventId, Seq, SessionId, Timestamp};

/// Stored types and data, as a log holds them.
const LOG: &[(&str, &str)] = &[
    (
        "session.created.1",
        r#"{"timestamp":1,"sessionID":"ses_1","projectID":"global","location":{"directory":"/tmp"},
            "slug":"calm-river","title":"A question","version":"0"}"#,
    ),
    (
        "session.next.prompt.admitted.1",
        r#"{"timestamp":2,"sessionID":"ses_1","messageID":"msg_1","prompt":{"text":"What is 6 x 7?"},
            "delivery":"steer"}"#,
    ),
    (
        "session.next.prompted.1",
        r#"{"timestamp":3,"sessionID":"ses_1","messageID":"msg_1","prompt":{"text":"What is 6 x 7?"},
            "delivery":"steer"}"#,
    ),
    (
        "session.next.step.started.1",
        r#"{"timestamp":4,"sessionID":"ses_1","assistantMessageID":"msg_2","agent":"build",
            "model":{"id":"small","providerID":"example"}}"#,
    ),
    (
        "session.next.text.started.1",
        r#"{"timestamp":5,"sessionID":"ses_1","assistantMessageID":"msg_2","textID":"text-0"}"#,
    ),
    (
        "session.next.text.ended.1",
        r#"{"timestamp":6,"sessionID":"ses_1","assistantMessageID":"msg_2","textID":"text-0","text":"42."}"#,
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut rows = MemoryRows::default();
    for (seq, (stored_type, data)) in (0_u64..).zip(LOG) {
        let event = StoredEvent {
            id: EventId::from_trusted(format!("evt_{seq:06}")),
            seq: Seq(seq),
            contract_seq: None,
            created: Timestamp(0),
            location: None,
            metadata: None,
            data: EventData::decode(stored_type, data)?,
        };
        apply(&mut rows, &event)?;
        println!("{seq} {stored_type}");
    }
    let session = SessionId::from_trusted("ses_1");
    if let Some(info) = rows.get_session(&session) {
        println!("\n# {}", info.title);
    }
    for row in rows.messages(&session) {
        match &row.message {
            Message::User(user) => println!("> {}", user.text),
            Message::Assistant(assistant) => {
                for item in &assistant.content {
                    if let AssistantContent::Text(text) = item {
                        println!("{}", text.text);
                    }
                }
            }
            other => println!("({})", other.id()),
        }
    }
    Ok(())
}
