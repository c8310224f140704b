//! Call ids in the one form Mistral takes: nine letters or digits.

use std::collections::BTreeMap;

use crate::schema::messages::Part;
use crate::schema::request::LLMRequest;

/// The length of an id.
const LEN: usize = 9;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The ids of one request and its answer, both ways. An id of the right form stays; any other is replaced
/// by a hash of it, the same in every request, and moved on when another id has that text already.
#[derive(Clone, Debug, Default)]
pub struct CallIds {
    wire: BTreeMap<String, String>,
    original: BTreeMap<String, String>,
}

impl CallIds {
    /// The ids in the history of a request.
    pub fn of(request: &LLMRequest) -> Self {
        let parts = || request.messages.iter().flat_map(|message| &message.content);
        let ids = || {
            parts().filter_map(|part| match part {
                Part::ToolCall(call) => Some(call.id.as_str()),
                Part::ToolResult(result) => Some(result.id.as_str()),
                Part::Text(_) | Part::Media(_) | Part::Reasoning(_) => None,
            })
        };
        let mut known = Self::default();
        // Ids that stay come first, so that no hash takes their place.
        for id in ids().filter(|id| is_wire(id)) {
            known.add(id);
        }
        for id in ids() {
            known.add(id);
        }
        known
    }

    /// The text on the wire of an id; a new one is remembered.
    pub fn add(&mut self, id: &str) -> String {
        if let Some(known) = self.wire.get(id) {
            return known.clone();
        }
        let mut wire = if is_wire(id) { id.to_owned() } else { hashed(id, 0) };
        let mut salt = 0;
        while self.original.contains_key(&wire) {
            salt += 1;
            wire = hashed(id, salt);
        }
        self.wire.insert(id.to_owned(), wire.clone());
        self.original.insert(wire.clone(), id.to_owned());
        wire
    }

    /// The id behind a text on the wire.
    pub fn original(&self, wire: &str) -> Option<&str> {
        self.original.get(wire).map(String::as_str)
    }
}

/// Whether an id is sent as it is.
fn is_wire(id: &str) -> bool {
    id.len() == LEN && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn hashed(id: &str, salt: u64) -> String {
    // FNV-1a: the same in every process and version; nobody attacks their own history.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in id.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (0..LEN)
        .map(|_| {
            let index = usize::try_from(hash % 62).unwrap_or_default();
            hash /= 62;
            ALPHABET.get(index).copied().map_or('0', char::from)
        })
        .collect()
}
