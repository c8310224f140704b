//! Scripted streams: a body goes in, events and perhaps an error come out, however the bytes arrive.
//!
//! A fixture is a text file: a sentence that says what is shown, `--- body close|reset`, the body,
//! (see [`body_of`] for binary ones), `--- events`, one event a line, then either `--- error` with the error as JSON, or `--- replay` with
//! what the next request sends back of this answer, one message or item a line.
//! `UPDATE=1` writes what comes out into the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use abide_ai::schema::model::Compatibility;
use abide_ai::testing::scripted::{End, ScriptedBody};
use abide_ai::{AIError, LLMEvent, LLMRequest, LLMResponse};

use crate::support::{ask, body_of, feeds, files, fixtures, is_update, model, replay, run};

#[test]
fn anthropic_messages() {
    check_all("anthropic-messages");
}

#[test]
fn gemini() {
    check_all("gemini");
}

#[test]
fn mistral_chat() {
    check_all("mistral-chat");
}

#[test]
fn openai_chat() {
    check_all("openai-chat");
}

#[test]
fn openai_responses() {
    check_all("openai-responses");
}

fn check_all(protocol: &str) {
    for path in files(&fixtures("streams").join(protocol), "txt") {
        check(protocol, &path);
    }
}

fn check(protocol: &str, path: &Path) {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let (head, expected) = text.split_once("\n--- events\n").expect("a fixture has events");
    let (what, rest) = head.split_once("\n--- body ").expect("a fixture has a body");
    let (end, body) = rest.split_once('\n').expect("a fixture has a body");
    let end = match end {
        "close" => End::Close,
        "reset" => End::Reset,
        other => panic!("{name}: unknown end {other:?}"),
    };
    let request = ask(model(protocol, "m", Compatibility::default()));
    for (feed, script) in feeds(&body_of(protocol, body)) {
        let (events, error) = run(&request, script.ending(end));
        let found = render(&request, &events, error.as_ref());
        if is_update() && feed == "whole" {
            fs::write(path, format!("{what}\n--- body {rest}\n--- events\n{found}")).unwrap();
            return;
        }
        assert_eq!(found, expected, "{protocol}/{name}, fed {feed}");
    }
}

fn render(request: &LLMRequest, events: &[LLMEvent], error: Option<&AIError>) -> String {
    let mut text = String::new();
    for event in events {
        text.push_str(&serde_json::to_string(event).unwrap());
        text.push('\n');
    }
    let Some(error) = error else {
        text.push_str("--- replay\n");
        let answer = LLMResponse::from_events(events.iter().cloned()).expect("a successful stream has an end");
        for message in replay(request, answer) {
            text.push_str(&message.to_string());
            text.push('\n');
        }
        return text;
    };
    let mut value = serde_json::to_value(error).unwrap();
    let object = value.as_object_mut().unwrap();
    object.insert("retry".to_owned(), format!("{:?}", error.retry_class()).into());
    let http = object.remove("http").is_some_and(|http| http["status"] == 200);
    assert!(http, "a failure in a stream carries the observed response");
    text.push_str("--- error\n");
    text.push_str(&serde_json::to_string_pretty(&value).unwrap());
    text.push('\n');
    text
}

/// Damaged streams: whatever comes in, nothing panics, and what comes out keeps its order.
#[test]
fn damaged() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 16).unwrap()
    };
    for protocol in ["anthropic-messages", "gemini", "mistral-chat", "openai-chat", "openai-responses"] {
        let request = ask(model(protocol, "m", Compatibility::default()));
        for path in files(&fixtures("streams").join(protocol), "txt") {
            let text = fs::read_to_string(&path).unwrap();
            let (head, _) = text.split_once("\n--- events\n").expect("a fixture has events");
            let (_, body) = head.split_once("\n--- body ").expect("a fixture has a body");
            for round in 0..12 {
                let mut bytes = body_of(protocol, body).to_vec();
                for _ in 0..=round % 4 {
                    if bytes.len() < 2 {
                        break;
                    }
                    let at = next() % bytes.len();
                    match next() % 4 {
                        0 => bytes.truncate(at.max(1)),
                        1 => bytes[at] = b"{}[]\",:\n\r0\xff"[next() % 11],
                        2 => drop(bytes.remove(at)),
                        _ => {
                            let copied = bytes[at..(at + 40).min(bytes.len())].to_vec();
                            let to = next() % bytes.len();
                            bytes.splice(to..to, copied);
                        }
                    }
                }
                let (events, error) = run(&request, ScriptedBody::bytes(bytes.clone()));
                let shown = format!("{}, round {round}: {}", path.display(), String::from_utf8_lossy(&bytes));
                check_order(&events, error.is_some(), &shown);
            }
        }
    }
}

fn check_order(events: &[LLMEvent], is_failed: bool, shown: &str) {
    let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, event) in events.iter().enumerate() {
        let value = serde_json::to_value(event).unwrap();
        let id = value["id"].as_str().unwrap_or_default().to_owned();
        let kind = event.kind();
        assert_eq!(kind == "step-start", index == 0, "{shown}");
        assert!(!events[..index].iter().any(LLMEvent::is_terminal), "{shown}");
        if kind.ends_with("-start") && index > 0 {
            assert!(seen.insert(id.clone()), "{id} opens twice: {shown}");
            open.push(id);
        } else if kind.ends_with("-delta") {
            assert!(open.contains(&id), "{id} is not open: {shown}");
        } else if kind.ends_with("-end") || kind == "tool-input-error" {
            let at = open.iter().position(|open| *open == id);
            open.remove(at.unwrap_or_else(|| panic!("{id} is not open: {shown}")));
        }
    }
    let ends = events.iter().filter(|event| event.is_terminal()).count();
    assert_eq!(ends, usize::from(!is_failed), "{shown}");
}
