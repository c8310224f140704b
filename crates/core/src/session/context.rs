//! Context epochs: what the model has been told of the environment, and when it is told anew
//! (spec/session.md 10.1). Pure.

use std::collections::BTreeMap;

use abide_schema::Seq;
use abide_schema::event::{BaselineReason, ContextDelta};
use abide_schema::json;
use abide_schema::project::ContextRow;

use crate::session::place::{ObservedSource, SourceState};

/// The word of a delta for a source that is gone.
pub const REMOVED: &str = "removed";

/// A content-addressed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 in hex.
    pub hash: String,
    /// The value.
    pub data: Vec<u8>,
}

impl Blob {
    fn of(text: &str) -> Self {
        Self { hash: json::sha256_hex(text.as_bytes()), data: text.as_bytes().to_vec() }
    }
}

/// What a boundary has to do about the context.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing changed.
    Keep,
    /// Begin an epoch.
    Baseline {
        /// The exact system text.
        text: String,
        /// Source key to value hash.
        values: BTreeMap<String, String>,
        /// Values and text to store.
        blobs: Vec<Blob>,
        /// Why.
        reason: BaselineReason,
    },
    /// Tell the model what changed.
    Update {
        /// The text.
        text: String,
        /// Source key to new hash.
        delta: ContextDelta,
        /// Values to store.
        blobs: Vec<Blob>,
    },
    /// The first baseline cannot be made: these sources are unavailable.
    Blocked {
        /// Their keys.
        keys: Vec<String>,
    },
}

/// Decides about an observation. `checkpoint` is the position of the latest completed compaction.
pub fn decide(observed: &[ObservedSource], epoch: Option<&ContextRow>, checkpoint: Option<Seq>) -> Decision {
    let mut sources: Vec<&ObservedSource> = observed.iter().collect();
    sources.sort_by(|a, b| a.key.cmp(&b.key));
    let Some(epoch) = epoch else {
        let blocked: Vec<String> =
            sources.iter().filter(|source| source.state == SourceState::Unavailable).map(|s| s.key.clone()).collect();
        return if blocked.is_empty() {
            render(&sources, BaselineReason::Initial)
        } else {
            Decision::Blocked { keys: blocked }
        };
    };
    let unavailable_known = sources
        .iter()
        .any(|source| source.state == SourceState::Unavailable && epoch.current_values.contains_key(&source.key));
    if checkpoint.is_some_and(|mark| mark > epoch.baseline_seq) && !unavailable_known {
        return render(&sources, BaselineReason::Compaction);
    }
    update(&sources, epoch)
}

fn render(sources: &[&ObservedSource], reason: BaselineReason) -> Decision {
    let mut texts = Vec::new();
    let mut values = BTreeMap::new();
    let mut blobs = Vec::new();
    for source in sources {
        if let SourceState::Available { value, baseline, .. } = &source.state {
            let blob = Blob::of(&json::canonical(value));
            values.insert(source.key.clone(), blob.hash.clone());
            blobs.push(blob);
            texts.push(baseline.as_str());
        }
    }
    let text = texts.join("\n\n");
    blobs.push(Blob::of(&text));
    Decision::Baseline { text, values, blobs, reason }
}

fn update(sources: &[&ObservedSource], epoch: &ContextRow) -> Decision {
    let mut texts = Vec::new();
    let mut delta = ContextDelta::new();
    let mut blobs = Vec::new();
    for source in sources {
        let known = epoch.current_values.get(&source.key);
        match &source.state {
            SourceState::Unavailable => {}
            SourceState::Available { value, baseline, update } => {
                let blob = Blob::of(&json::canonical(value));
                if known == Some(&blob.hash) {
                    continue;
                }
                texts.push(if known.is_some() { update.as_str() } else { baseline.as_str() });
                delta.insert(source.key.clone(), blob.hash.clone());
                blobs.push(blob);
            }
            SourceState::Removed { text: Some(text) } if known.is_some() => {
                texts.push(text.as_str());
                delta.insert(source.key.clone(), REMOVED.to_owned());
            }
            SourceState::Removed { text: None } if known.is_some() => {
                return render(sources, BaselineReason::Incompatible);
            }
            SourceState::Removed { .. } => {}
        }
    }
    // A source that nobody observes any more is gone without words.
    let vanished = epoch.current_values.keys().any(|key| !sources.iter().any(|source| source.key == *key));
    if vanished {
        return render(sources, BaselineReason::Incompatible);
    }
    if delta.is_empty() { Decision::Keep } else { Decision::Update { text: texts.join("\n\n"), delta, blobs } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(key: &str, value: &str) -> ObservedSource {
        ObservedSource {
            key: key.to_owned(),
            state: SourceState::Available {
                value: json!(value),
                baseline: format!("{key} is {value}"),
                update: format!("{key} is now {value}"),
            },
        }
    }

    fn with(key: &str, state: SourceState) -> ObservedSource {
        ObservedSource { key: key.to_owned(), state }
    }

    fn epoch(observed: &[ObservedSource]) -> ContextRow {
        let Decision::Baseline { text, values, .. } = decide(observed, None, None) else { panic!("no baseline") };
        ContextRow {
            baseline_hash: json::sha256_hex(text.as_bytes()),
            baseline_seq: Seq(5),
            epoch_values: values.clone(),
            current_values: values,
        }
    }

    #[track_caller]
    fn check(observed: &[ObservedSource], checkpoint: Option<u64>, expected: &str) {
        let known = epoch(&[source("a/x", "1"), source("b/y", "2")]);
        let actual = match decide(observed, Some(&known), checkpoint.map(Seq)) {
            Decision::Keep => "keep".to_owned(),
            Decision::Baseline { text, reason, .. } => format!("baseline {reason:?}: {text}"),
            Decision::Update { text, delta, .. } => {
                format!("update {:?}: {text}", delta.keys().collect::<Vec<_>>())
            }
            Decision::Blocked { keys } => format!("blocked {keys:?}"),
        };
        assert_eq!(actual, expected);
    }

    #[test]
    fn each_situation_of_the_table() {
        check(&[source("a/x", "1"), source("b/y", "2")], None, "keep");
        check(&[source("b/y", "2"), source("a/x", "1")], Some(4), "keep");
        check(&[source("a/x", "9"), source("b/y", "2")], None, "update [\"a/x\"]: a/x is now 9");
        check(&[source("a/x", "1"), source("b/y", "2"), source("c/z", "3")], None, "update [\"c/z\"]: c/z is 3");
        check(&[source("a/x", "1"), with("b/y", SourceState::Unavailable)], None, "keep");
        check(
            &[source("a/x", "1"), with("b/y", SourceState::Removed { text: Some("gone".to_owned()) })],
            None,
            "update [\"b/y\"]: gone",
        );
        check(&[source("a/x", "1")], None, "baseline Incompatible: a/x is 1");
        check(&[source("a/x", "1"), source("b/y", "2")], Some(6), "baseline Compaction: a/x is 1\n\nb/y is 2");
        check(&[source("a/x", "9"), with("b/y", SourceState::Unavailable)], Some(6), "update [\"a/x\"]: a/x is now 9");
    }

    #[test]
    fn the_first_baseline_waits_for_all_sources() {
        let observed = [source("a/x", "1"), with("b/y", SourceState::Unavailable)];
        assert_eq!(decide(&observed, None, None), Decision::Blocked { keys: vec!["b/y".to_owned()] });
    }
}
