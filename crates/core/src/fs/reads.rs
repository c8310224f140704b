//! What each session has last seen of which file, so that a change by somebody else is noticed (spec/tools.md 13.4).

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use abide_schema::SessionId;

/// How many files are remembered, over all sessions; the oldest are forgotten first.
const MAX_REMEMBERED: usize = 8192;

/// How many instructions are remembered, over all sessions.
const MAX_TOLD: usize = 1024;

/// What was seen of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The whole content, by its SHA-256.
    Content(String),
    /// A part of it; its size and its time of change stand for the whole.
    Part {
        /// Bytes.
        length: u64,
        /// Seconds and nanoseconds.
        modified: (i64, i64),
    },
}

/// How a file is to what a session has seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The session has not seen it.
    Unread,
    /// It is as it was.
    Current,
    /// It changed since.
    Changed,
}

/// What the sessions of a process have seen.
#[derive(Debug, Default)]
pub struct Reads {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: BTreeMap<(SessionId, PathBuf), Seen>,
    order: VecDeque<(SessionId, PathBuf)>,
    /// Instructions that were given, the oldest first.
    told: VecDeque<(SessionId, PathBuf)>,
}

impl Reads {
    /// Notes what a session has read or written.
    pub fn note(&self, session: &SessionId, path: &Path, seen: Seen) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session.clone(), path.to_path_buf());
        if state.seen.insert(key.clone(), seen).is_none() {
            state.order.push_back(key);
        }
        while state.order.len() > MAX_REMEMBERED {
            if let Some(oldest) = state.order.pop_front() {
                state.seen.remove(&oldest);
            }
        }
    }

    /// Says whether a session is given these instructions for the first time, and notes that it is.
    pub fn tells(&self, session: &SessionId, path: &Path) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session.clone(), path.to_path_buf());
        if state.told.contains(&key) {
            return false;
        }
        state.told.push_back(key);
        if state.told.len() > MAX_TOLD {
            state.told.pop_front();
        }
        true
    }

    /// Compares a file with what a session has seen of it.
    pub fn compare(&self, session: &SessionId, path: &Path, hash: &str, part: &Seen) -> Known {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.seen.get(&(session.clone(), path.to_path_buf())) {
            None => Known::Unread,
            Some(Seen::Content(seen)) if seen == hash => Known::Current,
            Some(seen) if seen == part => Known::Current,
            Some(_) => Known::Changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_compared_with_what_was_seen() {
        let reads = Reads::default();
        let (one, other) = (SessionId::from_trusted("ses_1"), SessionId::from_trusted("ses_2"));
        let part = |length| Seen::Part { length, modified: (1, 2) };
        let path = Path::new("/a");
        assert_eq!(reads.compare(&one, path, "h1", &part(1)), Known::Unread);
        reads.note(&one, path, Seen::Content("h1".into()));
        assert_eq!(reads.compare(&one, path, "h1", &part(1)), Known::Current);
        assert_eq!(reads.compare(&one, path, "h2", &part(1)), Known::Changed);
        assert_eq!(reads.compare(&other, path, "h1", &part(1)), Known::Unread);
        reads.note(&one, path, part(1));
        assert_eq!(reads.compare(&one, path, "h2", &part(1)), Known::Current);
        assert_eq!(reads.compare(&one, path, "h2", &part(2)), Known::Changed);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let reads = Reads::default();
        let session = SessionId::from_trusted("ses_1");
        for n in 0..=MAX_REMEMBERED {
            reads.note(&session, Path::new(&n.to_string()), Seen::Content("h".into()));
        }
        let part = Seen::Part { length: 0, modified: (0, 0) };
        assert_eq!(reads.compare(&session, Path::new("0"), "h", &part), Known::Unread);
        assert_eq!(reads.compare(&session, Path::new("1"), "h", &part), Known::Current);
    }
}
