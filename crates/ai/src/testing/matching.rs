//! Equality of requests: canonical JSON, keys sorted, numbers by value, strings byte for byte.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cassette::RecordedRequest;

/// The most lines of differences for one part of a request.
const MAX_LINES: usize = 8;
/// The most letters of a value in a difference.
const MAX_VALUE: usize = 160;

pub use crate::protocols::shared::same_json;

/// Whether two bodies are equal: as JSON when both are, else byte for byte.
pub fn same_body(a: &str, b: &str) -> bool {
    match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
        (Ok(a), Ok(b)) => same_json(&a, &b),
        (_, _) => a == b,
    }
}

/// Whether a request equals a recorded one.
pub fn same_request(request: &RecordedRequest, recorded: &RecordedRequest) -> bool {
    request.method == recorded.method
        && request.url == recorded.url
        && request.headers.len() == recorded.headers.len()
        && request.headers.iter().all(|(name, value)| recorded.headers.get(name) == Some(value))
        && same_body(&request.body, &recorded.body)
}

/// The differences of a request to a recorded one, in lines; empty when equal.
pub fn differences(request: &RecordedRequest, recorded: &RecordedRequest) -> Vec<String> {
    let mut lines = Vec::new();
    if request.method != recorded.method {
        lines.push(format!("method: recorded {}, got {}", recorded.method, request.method));
    }
    if request.url != recorded.url {
        lines.push(format!("url: recorded {}, got {}", recorded.url, request.url));
    }
    let names: BTreeSet<&String> = request.headers.keys().chain(recorded.headers.keys()).collect();
    for name in names {
        let (old, new) = (recorded.headers.get(name), request.headers.get(name));
        if old != new {
            lines.push(format!("header {name}: recorded {old:?}, got {new:?}"));
        }
    }
    let bodies = (serde_json::from_str::<Value>(&request.body), serde_json::from_str::<Value>(&recorded.body));
    if let (Ok(new), Ok(old)) = bodies {
        let mut body = Vec::new();
        json_differences("body", &new, &old, &mut body);
        let more = body.len().saturating_sub(MAX_LINES);
        body.truncate(MAX_LINES);
        lines.extend(body);
        if more > 0 {
            lines.push(format!("body: {more} more differences"));
        }
    } else if request.body != recorded.body {
        lines.push(format!("body: recorded {} bytes, got {} other bytes", recorded.body.len(), request.body.len()));
    }
    lines
}

fn json_differences(at: &str, new: &Value, old: &Value, lines: &mut Vec<String>) {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
            for key in keys {
                let at = format!("{at}.{key}");
                match (new.get(key), old.get(key)) {
                    (Some(new), Some(old)) => json_differences(&at, new, old, lines),
                    (Some(new), None) => lines.push(format!("{at}: not recorded, got {}", brief(new))),
                    (None, Some(old)) => lines.push(format!("{at}: recorded {}, missing", brief(old))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
            for (index, (new, old)) in new.iter().zip(old).enumerate() {
                json_differences(&format!("{at}[{index}]"), new, old, lines);
            }
        }
        (new, old) => {
            if !same_json(new, old) {
                lines.push(format!("{at}: recorded {}, got {}", brief(old), brief(new)));
            }
        }
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_VALUE {
        return text;
    }
    let head: String = text.chars().take(MAX_VALUE).collect();
    format!("{head}… ({} bytes)", text.len())
}
