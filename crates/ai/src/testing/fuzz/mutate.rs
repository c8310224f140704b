//! Changes of inputs: bytes, lines and JSON values.

use serde_json::{Value, json};

/// Random numbers from a seed (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below a limit; 0 for a limit of 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let wide = usize::try_from(self.0 >> 16).unwrap_or_default();
        wide.checked_rem(limit).unwrap_or_default()
    }

    /// One of some.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let index = self.below(items.len());
        items.get(index)
    }
}

const BYTES: &[u8] = b"{}[]\",:\\\n\r 0-9.eEtfnu:\xff\xef\xbb\xbf\x00\xc3\xa9";
const TEXTS: &[&str] = &[
    "",
    "text",
    "message",
    "error",
    "null",
    "assistant",
    "tool_use",
    "thinking",
    "function_call",
    "reasoning",
    "stop",
    "length",
    "tool_calls",
    "end_turn",
    "response.created",
    "response.completed",
    "call_1",
    "\u{0}",
    "\u{1F600}\u{301}",
    "{\"q\":1}",
    "{",
    "data: x",
    "resp_1",
];
const LINES: &[&str] = &[
    "data: [DONE]",
    "data: {}",
    "data:",
    ": comment",
    "event: error",
    "event: ping",
    "id: 1",
    "retry: 5",
    "\u{feff}data: {}",
];

/// Changes an input in one to four ways.
pub(super) fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        match random.below(10) {
            0 => bytes(input, random),
            1 => cut(input, random),
            2 => splice(input, other, random),
            3 | 4 => lines(input, other, random),
            _ => json_line(input, random),
        }
    }
}

fn bytes(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len());
    let byte = random.pick(BYTES).copied().unwrap_or_default();
    match (random.below(3), input.get_mut(at)) {
        (0, Some(place)) => *place = byte,
        (1, Some(place)) => *place ^= 1 << random.below(8),
        (_, _) => input.insert(at.min(input.len()), byte),
    }
}

fn cut(input: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(input.len() + 1);
    let to = (from + random.below(64)).min(input.len());
    if random.below(4) == 0 {
        input.truncate(from);
    } else {
        drop(input.drain(from..to));
    }
}

fn splice(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let from = random.below(other.len() + 1);
    let to = (from + random.below(200)).min(other.len());
    let at = random.below(input.len() + 1);
    let piece = other.get(from..to).unwrap_or_default().to_vec();
    input.splice(at..at, piece);
}

fn lines(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(6) {
        0 => drop(lines.remove(a)),
        1 => lines.swap(a, b),
        2 => {
            let copy = lines.get(a).cloned().unwrap_or_default();
            lines.insert(b, copy);
        }
        3 => {
            let others: Vec<&[u8]> = other.split(|byte| *byte == b'\n').collect();
            let line = random.pick(&others).map(|line| line.to_vec()).unwrap_or_default();
            lines.insert(b, line);
        }
        4 => {
            let line = random.pick(LINES).copied().unwrap_or_default();
            lines.insert(b, line.into());
        }
        _ => {
            if let Some(line) = lines.get_mut(a) {
                line.push(b'\r');
            }
        }
    }
    *input = lines.join(&b'\n');
}

/// Changes a value of one of the lines that hold JSON.
fn json_line(input: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let places: Vec<(usize, usize)> = lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| Some((index, line.iter().position(|byte| matches!(byte, b'{' | b'['))?)))
        .collect();
    let Some((index, from)) = random.pick(&places).copied() else { return };
    let Some(line) = lines.get_mut(index) else { return };
    let Ok(mut value) = serde_json::from_slice::<Value>(line.get(from..).unwrap_or_default()) else { return };
    change_value(&mut value, random, 0);
    line.truncate(from);
    line.extend_from_slice(value.to_string().as_bytes());
    *input = lines.join(&b'\n');
}

fn change_value(value: &mut Value, random: &mut Random, depth: usize) {
    let goes_deeper = depth < 8 && random.below(4) != 0;
    match value {
        Value::Object(object) if goes_deeper && !object.is_empty() => {
            let index = random.below(object.len());
            match random.below(8) {
                0 => {
                    let key = object.keys().nth(index).cloned().unwrap_or_default();
                    object.shift_remove(&key);
                }
                1 => {
                    let key = random.pick(TEXTS).copied().unwrap_or_default();
                    let value = fresh(random);
                    object.insert(key.to_owned(), value);
                }
                _ => {
                    if let Some(inner) = object.values_mut().nth(index) {
                        change_value(inner, random, depth + 1);
                    }
                }
            }
        }
        Value::Array(items) if goes_deeper && !items.is_empty() => {
            let index = random.below(items.len());
            match random.below(6) {
                0 => drop(items.remove(index)),
                1 => {
                    let copy = items.get(index).cloned().unwrap_or_default();
                    items.push(copy);
                }
                _ => {
                    if let Some(inner) = items.get_mut(index) {
                        change_value(inner, random, depth + 1);
                    }
                }
            }
        }
        Value::String(text) if random.below(2) == 0 => {
            let at = random.below(text.chars().count() + 1);
            let head: String = text.chars().take(at).collect();
            let more = random.pick(TEXTS).copied().unwrap_or_default();
            *text = if random.below(2) == 0 { head } else { head + more };
        }
        other => *other = fresh(random),
    }
}

fn fresh(random: &mut Random) -> Value {
    match random.below(14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(random.below(4)),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(1.5e300),
        6 => json!([]),
        7 => json!({}),
        8 => json!([{ "type": "text", "text": "x" }]),
        9 => json!({ "type": "thinking", "thinking": [{ "type": "text", "text": "x" }] }),
        10 => json!({ "message": "m", "code": 429 }),
        _ => json!(random.pick(TEXTS)),
    }
}
