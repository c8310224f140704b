//! Call ids in the form a server takes. The same id always becomes the same text, and two ids never
//! become one.

use std::collections::{BTreeMap, BTreeSet};

use super::quirks::CallIds;

/// The longest id OpenAI takes.
const MAX_SHORT: usize = 40;
/// The length of a Mistral id.
const MISTRAL_LEN: usize = 9;

#[derive(Debug)]
pub(super) struct ToolIds {
    rule: CallIds,
    wire: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl ToolIds {
    pub(super) const fn new(rule: CallIds) -> Self {
        Self { rule, wire: BTreeMap::new(), taken: BTreeSet::new() }
    }

    pub(super) fn wire(&mut self, id: &str) -> String {
        if self.rule == CallIds::Unchanged {
            return id.to_owned();
        }
        if let Some(known) = self.wire.get(id) {
            return known.clone();
        }
        let mut wire = plain(self.rule, id);
        let mut salt = 0_u64;
        while self.taken.contains(&wire) {
            salt += 1;
            wire = hashed(self.rule, id, salt);
        }
        self.taken.insert(wire.clone());
        self.wire.insert(id.to_owned(), wire.clone());
        wire
    }
}

fn plain(rule: CallIds, id: &str) -> String {
    match rule {
        CallIds::Unchanged => id.to_owned(),
        CallIds::Claude => id.chars().map(|letter| if is_word(letter) { letter } else { '_' }).collect(),
        CallIds::Short => id.chars().take(MAX_SHORT).collect(),
        CallIds::Mistral => {
            let mut wire: String = id.chars().filter(char::is_ascii_alphanumeric).take(MISTRAL_LEN).collect();
            while wire.len() < MISTRAL_LEN {
                wire.push('0');
            }
            wire
        }
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// A text of nine letters and digits that depends on the whole id.
fn hashed(rule: CallIds, id: &str, salt: u64) -> String {
    const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    // FNV-1a: stable between processes and versions, and nobody attacks their own history.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ salt;
    for byte in id.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut digest = String::with_capacity(MISTRAL_LEN);
    for _ in 0..MISTRAL_LEN {
        let index = usize::try_from(hash % 36).unwrap_or_default();
        digest.push(ALPHABET.get(index).copied().map_or('0', char::from));
        hash /= 36;
    }
    match rule {
        CallIds::Mistral | CallIds::Unchanged => digest,
        CallIds::Claude => format!("{}_{digest}", plain(rule, id)),
        CallIds::Short => {
            let head: String = id.chars().take(MAX_SHORT - MISTRAL_LEN - 1).collect();
            format!("{head}_{digest}")
        }
    }
}
